#!/bin/bash
# Sets up a HyperPod instance (lifecycle script OnInitComplete, run as root when the instance is created).
#
# HyperPod itself writes Slurm's configuration, mounts the file system and starts the daemons. This script starts daemons
# that do not run yet, checks the chips, interfaces and disks, and starts the reports of the controller and the workers to
# CloudWatch. HyperPod does not create an instance that fails a check.
# SLIPWAY_DRY_RUN=1 prints commands without running them, and reads and writes files below SLIPWAY_ROOT.
set -euo pipefail

cluster=p5-plan
region=us-east-2
type=p5.48xlarge
shared=/fsx
user=ubuntu
root="${SLIPWAY_ROOT:-}"
dry="${SLIPWAY_DRY_RUN:-0}"
tries="${SLIPWAY_TRIES:-60}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
units="$root/etc/systemd/system"
if [[ "$dry" == 1 && -z "$root" ]]; then
    echo "on_create.sh: SLIPWAY_DRY_RUN=1 needs SLIPWAY_ROOT, the folder to work below" >&2
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

is_active() {
    [[ "$dry" != 1 ]] && systemctl is-active --quiet "$1"
}

fail() {
    echo "on_create.sh: $(hostname): $*" >&2
    exit 1
}

# Retries a command every five seconds until it succeeds.
patiently() {
    local attempt
    for ((attempt = 1; attempt <= tries; attempt++)); do
        if "$@"; then
            return 0
        fi
        if ((attempt < tries)); then
            sleep 5
        fi
    done
    return 1
}

# Prints the group of this instance and the addresses of the controllers; HyperPod lists instances by address.
who_am_i() {
    local addresses=()
    read -r -a addresses <<<"$(hostname -I)"
    python3 - "${SAGEMAKER_RESOURCE_CONFIG_PATH:-$root/opt/ml/config/resource_config.json}" "${addresses[@]}" <<'PYTHON'
import json
import sys

path, own = sys.argv[1], set(sys.argv[2:])
with open(path, encoding="utf-8") as file:
    groups = json.load(file)["InstanceGroups"]
listed = [(group["Name"], each.get("CustomerIpAddress")) for group in groups for each in group.get("Instances") or ()]
mine = [name for name, address in listed if address in own]
heads = [address for name, address in listed if address and name == "controller"]
if not mine or not heads:
    sys.exit(f"on_create.sh: {path} has no controller, or none of {sorted(own)}")
print(mine[0], ",".join(heads))
PYTHON
}

is_mounted() {
    grep -qE "^[^ ]+ $1 ${2:-[^ ]+} " "$root/proc/mounts"
}

# An automount point is mounted when it is read.
has_shared() {
    ls "$root$shared" >/dev/null 2>&1 || true
    is_mounted "$shared" lustre
}

# The home folder of the jobs: the only folder that all instances share.
check_shared() {
    patiently has_shared || fail "$shared is not mounted: see the security groups (988, 1018-1023)"
    mkdir -p "$root$shared/$user"
    run chown "$user:$user" "$root$shared/$user"
    echo "slipway: $shared is mounted"
}

# Lines of slurm.conf for the exit codes of the batch script; HyperPod retains them (strategy Merge).
add_setting() {
    if ! grep -q "^$1=" "$slurm_conf"; then
        echo "$1=$2" >>"$slurm_conf"
    fi
}

# In some images the name of Slurm's folder contains the release.
names_controller() {
    for slurm_conf in "$root"/opt/slurm*/etc/slurm.conf; do
        if [[ -f "$slurm_conf" ]] && grep -qF "${1%%,*}" "$slurm_conf"; then
            return 0
        fi
    done
    return 1
}

start_controller() {
    local slurm_conf
    patiently names_controller "$1" || fail "no slurm.conf below /opt/slurm* names the controller $1"
    add_setting JobRequeue 1
    # 75 is the agent's exit code for "interrupted, a checkpoint is safe": Slurm requeues the job.
    add_setting RequeueExit 75
    if is_active slurmctld; then
        run systemctl restart slurmctld
    fi
    run systemctl enable --now slurmctld
    run systemctl disable --now slurmd || echo "slipway: slurmd does not run on a controller anyway"
    report_jobs
}

# The unit in HyperPod's image reads options from a file; workers fetch the configuration from the controller.
start_node() {
    local unit="$units/slurmd.service"
    if is_active slurmd; then
        echo "slipway: slurmd runs already"
        return 0
    fi
    if [[ -f "$unit" ]]; then
        python3 - "$unit" "--conf-server $1" <<'PYTHON'
import sys
from pathlib import Path

unit, options = Path(sys.argv[1]), sys.argv[2]
unit.write_text(unit.read_text().replace("${SLURMD_OPTIONS}", options).replace("$SLURMD_OPTIONS", options))
PYTHON
    fi
    run systemctl disable --now slurmctld || echo "slipway: slurmctld does not run here anyway"
    run systemctl daemon-reload
    run systemctl enable --now slurmd
}

# Reports the number of jobs: the guard stops workers when the queue has been empty for the idle timeout.
report_jobs() {
    mkdir -p "$root/opt/slipway" "$units"
    cat >"$root/opt/slipway/jobs.sh" <<JOBS
#!/bin/bash
export PATH="$(dirname "$(dirname "${slurm_conf#"$root"}")")/bin:\$PATH"
while true; do
    if queue="\$(squeue --noheader --format=%i)"; then
        aws cloudwatch put-metric-data --region $region --namespace Slipway/Nodes/$cluster --metric-name QueuedJobs \\
            --dimensions Cluster=$cluster --unit Count --value "\$(grep -c . <<<"\$queue" || true)"
    fi
    sleep 60
done
JOBS
    cat >"$units/slipway-jobs.service" <<'UNIT'
[Unit]
Description=Slipway: number of jobs to CloudWatch
After=network-online.target slurmctld.service

[Service]
ExecStart=/bin/bash /opt/slipway/jobs.sh
Restart=always
RestartSec=60
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
UNIT
    run systemctl daemon-reload
    run systemctl enable --now slipway-jobs.service
}

# expect NUMBER WHAT PATH...: checks how many of the paths exist.
expect() {
    local wanted="$1" what="$2" found=0 path
    shift 2
    for path in "$@"; do
        if [[ -e "$path" ]]; then
            found=$((found + 1))
        fi
    done
    if ((found != wanted)); then
        echo "slipway: $type has $wanted $what, found $found"
        return 1
    fi
    echo "slipway: $found $what"
}

shows_chips() {
    expect 8 "NVIDIA devices" "$root"/dev/nvidia[0-9]*
}

# A missing interface makes collectives slow without an error: fail here instead.
#   check_efa EXPECTED TYPE
# Only devices of the driver "efa" count: HGX boards with NVLink 5 also have other InfiniBand devices. If
# libfabric's fi_info is installed, it must list them too.
# shellcheck shell=bash
# shellcheck disable=SC2329 # called by name on the nodes
check_efa() {
    local device found=0 fi_info
    for device in "${SLIPWAY_SYSFS:-/sys}"/class/infiniband/*; do
        if [[ "$(readlink "$device/device/driver")" == */efa ]]; then
            found=$((found + 1))
        fi
    done
    if ((found < $1)); then
        echo "slipway: $(hostname): $2 has $1 EFA interfaces, found $found; it stops here" >&2
        return 1
    fi
    fi_info="$(PATH="$PATH:/opt/amazon/efa/bin" type -P fi_info)"
    if [[ -n "$fi_info" ]] && ! "$fi_info" --provider efa >/dev/null 2>&1; then
        echo "slipway: $(hostname): libfabric offers none of its $found EFA interfaces ($fi_info --provider efa)" >&2
        return 1
    fi
    echo "slipway: $(hostname): $found EFA interfaces"
}

shows_efa() {
    SLIPWAY_SYSFS="$root/sys" check_efa 32 "$type"
}

# HyperPod's images mount the disks at one of these two; jobs use /scratch.
link_scratch() {
    local path
    for path in /opt/dlami/nvme /opt/sagemaker; do
        if is_mounted "$path"; then
            mkdir -p "$root$path/scratch"
            chmod 1777 "$root$path/scratch"
            ln -sfn "$root$path/scratch" "$root/scratch"
            echo "slipway: /scratch is on $path"
            return 0
        fi
    done
    echo "slipway: warning: no NVMe disk of $type is mounted; /scratch is on the root volume" >&2
    mkdir -p "$root/scratch"
    chmod 1777 "$root/scratch"
}

check_worker() {
    patiently shows_chips || fail "an accelerator is missing"
    patiently shows_efa || fail "an EFA interface is missing"
    link_scratch
    bash "$here/node.sh" --cluster=p5-plan --chips=nvidia --python=python3 --metrics="$here/metrics.py"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "Python 3.10 or later is needed"
}

main() {
    local facts group heads
    facts="$(who_am_i)"
    group="${facts%% *}" heads="${facts##* }"
    echo "slipway: $cluster: $(hostname) is of group $group"
    check_shared
    case "$group" in
        controller) start_controller "$heads" ;;
        login) start_node "$heads" ;;
        workers)
            check_worker
            start_node "$heads"
            ;;
        *) fail "no group of the plan: $group" ;;
    esac
    echo "slipway: $cluster: $group is ready"
}

mkdir -p "$root/var/log/provision"
# A pipe: the shell waits for tee, so the last lines of a script that fails are written before it ends.
main 2>&1 | tee -a "$root/var/log/provision/provisioning.log"
