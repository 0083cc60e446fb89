#!/bin/bash
# Sets up a compute node of ParallelCluster (OnNodeConfigured, run as root): installs the packages named as arguments.
#
#   node.sh [python3.11] [aws-neuronx-dkms=2.31.7.0 aws-neuronx-tools=2.33.38.0 ...]
#
# Where one is aws-neuronx-..., Neuron's package repository is added first. With SLIPWAY_DRY_RUN=1 commands are printed and
# not run, and files are written below SLIPWAY_ROOT.
set -euo pipefail

root="${SLIPWAY_ROOT:-}"
dry="${SLIPWAY_DRY_RUN:-0}"
if [[ "$dry" == 1 && -z "$root" ]]; then
    echo "node.sh: SLIPWAY_DRY_RUN=1 needs SLIPWAY_ROOT, the folder to write below" >&2
    exit 2
fi

run() {
    if [[ "$dry" == 1 ]]; then
        printf '+'
        printf ' %q' "$@"
        printf '\n'
    else
        "$@"
    fi
}

# Prints one value of os-release.
release() {
    (
        # shellcheck source=/dev/null
        . "$root/etc/os-release"
        printf '%s' "${!1:-}"
    )
}

apt_repository() {
    local key="$root/etc/apt/keyrings/neuron.asc"
    mkdir -p "$root/etc/apt/keyrings" "$root/etc/apt/sources.list.d"
    run curl --fail --silent --show-error --location --retry 5 --output "$key" \
        https://apt.repos.neuron.amazonaws.com/GPG-PUB-KEY-AMAZON-AWS-NEURON.PUB
    printf 'deb [signed-by=/etc/apt/keyrings/neuron.asc] https://apt.repos.neuron.amazonaws.com %s main\n' \
        "$(release VERSION_CODENAME)" >"$root/etc/apt/sources.list.d/neuron.list"
}

yum_repository() {
    mkdir -p "$root/etc/yum.repos.d"
    cat >"$root/etc/yum.repos.d/neuron.repo" <<'REPOSITORY'
[neuron]
name=Neuron YUM Repository
baseurl=https://yum.repos.neuron.amazonaws.com
enabled=1
gpgcheck=1
gpgkey=https://yum.repos.neuron.amazonaws.com/GPG-PUB-KEY-AMAZON-AWS-NEURON.PUB
metadata_expire=0
REPOSITORY
}

neuron=0
for package in "$@"; do
    if [[ "$package" == aws-neuronx-* ]]; then
        neuron=1
    fi
done

# The version given is the release's; packages carry a build suffix after it.
packages=()
case "$(release ID)" in
    ubuntu)
        for package in "$@"; do
            packages+=("${package}$([[ "$package" == *=* ]] && printf '*' || true)")
        done
        if ((neuron)); then
            apt_repository
            packages=("linux-headers-$(uname -r)" "${packages[@]}")
        fi
        export DEBIAN_FRONTEND=noninteractive
        # Unattended upgrades hold the lock for a while after boot.
        run apt-get -o DPkg::Lock::Timeout=600 update
        run apt-get -o DPkg::Lock::Timeout=600 install --yes --no-install-recommends --allow-downgrades "${packages[@]}"
        ;;
    amzn | rhel | rocky)
        for package in "$@"; do
            if [[ "$package" == *=* ]]; then
                packages+=("${package%%=*}-${package#*=}*")
            else
                packages+=("$package")
            fi
        done
        if ((neuron)); then
            yum_repository
            packages=("kernel-devel-$(uname -r)" "kernel-headers-$(uname -r)" "${packages[@]}")
        fi
        run dnf install --assumeyes "${packages[@]}"
        ;;
    *)
        echo "node.sh: no packages are known for $(release ID)" >&2
        exit 1
        ;;
esac

if ((neuron)); then
    run modprobe neuron
    mkdir -p "$root/etc/profile.d"
    # shellcheck disable=SC2016 # expanded at login
    printf 'export PATH="/opt/aws/neuron/bin:$PATH"\n' >"$root/etc/profile.d/neuron.sh"
fi
