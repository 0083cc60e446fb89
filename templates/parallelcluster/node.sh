#!/bin/bash
# Sets up a compute node of ParallelCluster (OnNodeConfigured) or HyperPod (called by on_create.sh). Run as root.
#
#   node.sh [--metrics=s3://bucket/metrics.py|FILE --cluster=NAME [--chips=nvidia|neuron] --python=python3]
#       [--reports=S3-URI] [PACKAGE[=VERSION] ...]
#
# Installs the packages, and first adds Neuron's package repository for aws-neuronx-... packages. With --metrics, services
# report the jobs of this node and, with --chips, its accelerators to CloudWatch. SLIPWAY_BAKE=1 (for building an image)
# installs drivers without loading them. --reports saves the last lines of a failed boot, after which the node is replaced.
# SLIPWAY_DRY_RUN=1 prints commands without running them, and writes files below SLIPWAY_ROOT.
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

# included: templates/slurm/report_boot.sh

# Prints one value of os-release.
release() {
    (
        # shellcheck source=/dev/null
        . "$root/etc/os-release"
        printf '%s' "${!1:-}"
    )
}

# The fingerprint of Neuron's key, from AWS's Bottlerocket, which packages the driver (bottlerocket-kernel-kit). AWS's
# Neuron documentation (setup troubleshooting) has its last 16 digits. Both read 2026-11-22.
neuron_key=00FA2C1079260870A76D2C285749CAD8646D9185

# Downloads the keys of a repository and keeps only the key with this fingerprint.
fetch_key() {
    local url="$1" key="$2" fetched
    fetched="$(mktemp -d)"
    mkdir -p "${key%/*}"
    run curl --fail --silent --show-error --location --retry 5 --output "$fetched/key" "$url"
    run gpg --homedir "$fetched" --batch --quiet --import "$fetched/key"
    run gpg --homedir "$fetched" --batch --quiet --yes --armor --output "$key" --export "$neuron_key"
    rm -rf "$fetched"
    if [[ "$dry" != 1 && ! -s "$key" ]]; then
        echo "node.sh: the key at $url is not Neuron's: its fingerprint is not $neuron_key; nothing is installed" >&2
        exit 1
    fi
}

apt_repository() {
    mkdir -p "$root/etc/apt/sources.list.d"
    fetch_key https://apt.repos.neuron.amazonaws.com/GPG-PUB-KEY-AMAZON-AWS-NEURON.PUB "$root/etc/apt/keyrings/neuron.asc"
    printf 'deb [signed-by=/etc/apt/keyrings/neuron.asc] https://apt.repos.neuron.amazonaws.com %s main\n' \
        "$(release VERSION_CODENAME)" >"$root/etc/apt/sources.list.d/neuron.list"
}

yum_repository() {
    mkdir -p "$root/etc/yum.repos.d"
    fetch_key https://yum.repos.neuron.amazonaws.com/GPG-PUB-KEY-AMAZON-AWS-NEURON.PUB "$root/etc/pki/rpm-gpg/neuron.asc"
    cat >"$root/etc/yum.repos.d/neuron.repo" <<'REPOSITORY'
[neuron]
name=Neuron YUM Repository
baseurl=https://yum.repos.neuron.amazonaws.com
enabled=1
gpgcheck=1
gpgkey=file:///etc/pki/rpm-gpg/neuron.asc
metadata_expire=0
REPOSITORY
}

# The version is the release's; versions of packages have a build suffix.
install_packages() {
    local neuron="$1" package packages=()
    shift
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
            run apt-get -o DPkg::Lock::Timeout=600 install --yes --no-install-recommends --allow-downgrades \
                "${packages[@]}"
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
}

load_neuron() {
    if [[ "${SLIPWAY_BAKE:-0}" != 1 ]]; then
        run modprobe neuron
    fi
    mkdir -p "$root/etc/profile.d"
    # shellcheck disable=SC2016 # expanded at login
    printf 'export PATH="/opt/aws/neuron/bin:$PATH"\n' >"$root/etc/profile.d/neuron.sh"
}

report_metrics() {
    mkdir -p "$root/opt/slipway" "$root/etc/systemd/system" || return 1
    if [[ "$1" == s3://* ]]; then
        run aws s3 cp --only-show-errors "$1" "$root/opt/slipway/metrics.py" || return 1
    else
        cp "$1" "$root/opt/slipway/metrics.py" || return 1
    fi
    run_always slipway-node-jobs "jobs of Slurm to CloudWatch" "$4 /opt/slipway/metrics.py --cluster $2 --jobs" || return 1
    if [[ -n "$3" ]]; then
        run_always slipway-metrics "accelerator metrics to CloudWatch" \
            "$4 /opt/slipway/metrics.py --cluster $2 --chips $3" || return 1
    fi
}

# run_always NAME DESCRIPTION COMMAND: creates a systemd service and starts it.
run_always() {
    cat >"$root/etc/systemd/system/$1.service" <<UNIT || return 1
[Unit]
Description=Slipway: $2
Wants=network-online.target
After=network-online.target

[Service]
Environment=PATH=/opt/aws/neuron/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=/usr/bin/env $3
Restart=always
RestartSec=60
Nice=10
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
UNIT
    run systemctl daemon-reload || return 1
    run systemctl enable --now "$1.service"
}

metrics="" cluster="" chips="" python=python3 reports="" neuron=0 wanted=()
for argument in "$@"; do
    case "$argument" in
        --metrics=*) metrics="${argument#*=}" ;;
        --cluster=*) cluster="${argument#*=}" ;;
        --chips=*) chips="${argument#*=}" ;;
        --python=*) python="${argument#*=}" ;;
        --reports=*) reports="${argument#*=}" ;;
        --*)
            echo "node.sh: unknown option $argument" >&2
            exit 2
            ;;
        aws-neuronx-*)
            neuron=1
            wanted+=("$argument")
            ;;
        *) wanted+=("$argument") ;;
    esac
done

if [[ -n "$reports" && -z "${SLIPWAY_REPORTED:-}" ]]; then
    report_boot "$reports" "${BASH_SOURCE[0]}" "$@"
    exit
fi

if [[ -n "${wanted[*]}" ]]; then
    install_packages "$neuron" "${wanted[@]}"
fi
if ((neuron)); then
    load_neuron
fi
# A failure to report metrics must not stop the node.
if [[ -n "$metrics" ]] && ! report_metrics "$metrics" "$cluster" "$chips" "$python"; then
    echo "node.sh: accelerators and jobs are not reported" >&2
fi
