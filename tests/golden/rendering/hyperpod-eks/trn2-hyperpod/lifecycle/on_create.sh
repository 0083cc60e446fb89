#!/bin/bash
# Runs as root on each HyperPod node when it is created (lifecycle script OnCreate). HyperPod joins the node to the EKS
# cluster, and pods (device plugins) expose its chips and interfaces. This script moves images and the folders of pods to
# the NVMe disks, as AWS's script does (awsome-distributed-ai@95b939c, 7.sagemaker-hyperpod-eks, on_create_main.sh): the
# root volume has 100 GB. A reboot may empty the disks and runs no lifecycle script, so a systemd unit repeats this at
# every start.
# SLIPWAY_DRY_RUN=1 prints commands without running them, and reads and writes files below SLIPWAY_ROOT.
set -euo pipefail

root="${SLIPWAY_ROOT:-}"
dry="${SLIPWAY_DRY_RUN:-0}"
units="$root/etc/systemd/system"

run() {
    if [[ "$dry" == 1 ]]; then
        printf '+'
        printf ' %q' "$@"
        printf '\n'
    else
        "$@"
    fi
}

# Files that an earlier image left on the disks cannot be used: its releases of containerd and kubelet may differ.
move_to_nvme() {
    local unit running=()
    for unit in kubelet containerd; do
        if [[ "$dry" == 1 ]] || systemctl is-active --quiet "$unit"; then
            run systemctl stop "$unit"
            running=("$unit" "${running[@]}")
        fi
    done
    rm -rf "$root/opt/dlami/nvme/slipway" "$root/opt/sagemaker/slipway"
    run bash "$root/opt/slipway/node-disks.sh"
    run systemctl daemon-reload
    run systemctl enable slipway-node-disks.service
    for unit in "${running[@]}"; do
        run systemctl start "$unit"
    done
}

mkdir -p "$root/var/log/provision" "$root/opt/slipway" "$units"
cat >"$root/opt/slipway/node-disks.sh" <<'DISKS'
#!/bin/bash
# Moves the folders of containerd and kubelet to the NVMe disks. HyperPod's images mount them at /opt/sagemaker (SageMaker
# developer guide, EBS CSI driver on HyperPod EKS clusters, considerations; read 2026-11-29), other images at
# /opt/dlami/nvme; where both are mounted, the first may be a volume of EBS.
set -euo pipefail

root="${SLIPWAY_ROOT:-}"

is_mounted() {
    grep -qE "^[^ ]+ $1 " "$root/proc/mounts"
}

mounted_disk() {
    local path
    for path in /opt/dlami/nvme /opt/sagemaker; do
        if is_mounted "$path"; then
            echo "$path"
            return
        fi
    done
}

for ((attempt = 1; attempt < ${SLIPWAY_TRIES:-24}; attempt++)); do
    if [[ -n "$(mounted_disk)" ]]; then
        break
    fi
    sleep 5
done
disk="$(mounted_disk)"
if [[ -z "$disk" ]]; then
    echo "slipway: warning: no NVMe disk is mounted at /opt/dlami/nvme or /opt/sagemaker;" \
        "images and checkpoints are on the root volume" >&2
    exit 0
fi
for name in containerd kubelet; do
    if ! is_mounted "/var/lib/$name"; then
        mkdir -p "$root$disk/slipway/$name" "$root/var/lib/$name"
        # The root volume keeps a copy: after a reboot that empties the disks, the node can still join the cluster.
        cp -au "$root/var/lib/$name/." "$root$disk/slipway/$name/"
        mount --bind "$root$disk/slipway/$name" "$root/var/lib/$name"
        echo "slipway: /var/lib/$name is on $disk"
    fi
done
DISKS
cat >"$units/slipway-node-disks.service" <<'UNIT'
[Unit]
Description=Slipway: images and the folders of pods on the NVMe disks
After=dlami-nvme.service
Before=containerd.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/bash /opt/slipway/node-disks.sh

[Install]
WantedBy=multi-user.target
UNIT

main() {
    local disks=("$root"/dev/disk/by-id/*NVMe_Instance_Storage_*)
    if [[ -e "${disks[0]}" ]]; then
        move_to_nvme
    fi
    echo "slipway: $(hostname) is a node of "trn2-hyperpod
}

# A pipe: the shell waits for tee, so the last lines of a script that fails are written before it ends.
main 2>&1 | tee -a "$root/var/log/provision/provisioning.log"
