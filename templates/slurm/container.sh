# Runs a command in a container with the job's folder, the scratch folder, FSx, the folders of SLIPWAY_MOUNTS and the
# job's environment variables.
#   RUNTIME IMAGE COUNT NAME... COMMAND...     NAMEs: COUNT variables that override those of the image
# Variables are passed on standard input, so that secrets are in no file and in no process list.
# shellcheck shell=bash
set -euo pipefail
runtime="$1" image="$2"
own=("${@:4:$3}")
shift "$((3 + $3))"
name="slipway-$(id -u)"
private="$SLIPWAY_SCRATCH/slipway-$(id -u)" # which the agent makes, and shares with nobody
folder="$private/$runtime"
registry="${image%%/*}"

fail() {
    echo "slipway: $(hostname): $1" >&2
    exit "$2"
}

# Variables of the node or the image are not passed on.
variables() {
    local each
    compgen -e | while IFS= read -r each; do
        case " ${own[*]} " in
            *" $each "*) ;;
            *)
                case "$each" in
                    PATH | HOME | HOSTNAME | LD_LIBRARY_PATH | LD_PRELOAD | TMPDIR | SHELL | USER | LOGNAME | MAIL) continue ;;
                    PWD | OLDPWD | SHLVL | _ | PYTHONHOME | PYTHONPATH | VIRTUAL_ENV | BASH_ENV | ENV) continue ;;
                    CONDA_* | DOCKER_* | ENROOT_* | XDG_* | SHELLOPTS | BASHOPTS) continue ;;
                esac
                ;;
        esac
        LC_ALL=C printf 'export %s=%q\n' "$each" "${!each}"
    done
}
# shellcheck disable=SC2016 # expanded in the container
inside='eval "$(cat)" && cd "$1" && shift && exec "$@" </dev/null'

type -P "$runtime" >/dev/null || fail "run.container: $runtime is not on this node" 127
(umask 077 && mkdir -p "$folder")
if [[ -L "$private" || ! -O "$private" || "$(stat -c %a "$private")" != 700 ]]; then
    fail "$private is not a folder of this user alone, mode 700; have it removed, or set SLIPWAY_SCRATCH" 78
fi
mounts=("${SLIPWAY_FOLDER:-$SLURM_SUBMIT_DIR}" "$SLIPWAY_SCRATCH")
if [[ -d /fsx ]]; then
    mounts+=(/fsx)
fi
IFS=: read -r -a further <<<"${SLIPWAY_MOUNTS:-}" # the trainer's own checkpoints, and data
for each in "${further[@]}"; do
    if [[ "$each/" != /fsx/* ]]; then
        mounts+=("$each")
    fi
done
for each in "${mounts[@]}"; do
    if [[ "$each" == *[:[:space:]]* ]]; then
        fail "$each cannot be mounted in a container: its name has a colon or a blank" 78
    fi
done
ecr_region=''
if [[ "$registry" =~ ^[0-9]+\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$ ]]; then
    ecr_region="${BASH_REMATCH[1]}"
fi

if [[ "$runtime" == docker ]]; then
    if [[ -n "$ecr_region" ]]; then
        export DOCKER_CONFIG="$folder"
        aws ecr get-login-password --region "$ecr_region" |
            docker login --username AWS --password-stdin "$registry" >/dev/null
    fi
    docker rm --force "$name" >/dev/null 2>&1 || : # of a job whose client was killed
    words=(docker run --rm --interactive --init --name "$name" --network host --ipc host --ulimit memlock=-1)
    words+=(--user "$(id -u):$(id -g)" --env HOME=/tmp --entrypoint bash)
    for each in "${mounts[@]}"; do
        words+=(--volume "$each:$each")
    done
    if [[ -e /dev/nvidiactl ]]; then
        words+=(--gpus all)
    fi
    for each in /dev/infiniband/* /dev/neuron*; do
        if [[ -e "$each" ]]; then
            words+=(--device "$each")
        fi
    done
    exec "${words[@]}" "$image" -c "$inside" container "$PWD" "$@" < <(variables)
fi

export ENROOT_DATA_PATH="$folder/data" ENROOT_CACHE_PATH="$folder/cache" ENROOT_RUNTIME_PATH="$folder/run"
export ENROOT_TEMP_PATH="$folder"
if [[ -n "$ecr_region" ]]; then
    export ENROOT_CONFIG_PATH="$folder/config"
    mkdir -p "$ENROOT_CONFIG_PATH"
    # enroot runs this command when it needs the password.
    # shellcheck disable=SC2016
    printf 'machine %s login AWS password $(aws ecr get-login-password --region %s)\n' "$registry" "$ecr_region" \
        >"$ENROOT_CONFIG_PATH/.credentials"
fi
if [[ "$image" == *.sqsh ]]; then
    file="$image"
else
    file="$folder/$(printf '%s' "$image" | sha256sum | cut -c 1-16).sqsh"
    uri="docker://${image/@/:}"
    if [[ "$image" == */* && "$registry" == *[.:]* ]]; then
        uri="docker://$registry#${uri#"docker://$registry/"}"
    fi
    if [[ ! -f "$file" ]]; then
        rm -f "$file.part"
        enroot import --output "$file.part" "$uri"
        mv "$file.part" "$file"
    fi
fi
enroot remove --force "$name" >/dev/null 2>&1 || : # of the attempt before
enroot create --name "$name" "$file"
# shellcheck disable=SC2016 # expanded in the container
printf 'exec "$@"\n' >"$folder/rc" # in place of the image's own entry point
words=(enroot start --rw --rc "$folder/rc")
for each in "${mounts[@]}"; do
    words+=(--mount "$each:$each:none:x-create=dir,rbind,rw")
done
if [[ -e /dev/nvidiactl ]]; then
    words+=(--env NVIDIA_VISIBLE_DEVICES=all --env NVIDIA_DRIVER_CAPABILITIES=all)
fi
exec "${words[@]}" "$name" bash -c "$inside" container "$PWD" "$@" < <(variables)
