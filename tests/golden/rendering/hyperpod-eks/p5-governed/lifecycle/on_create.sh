#!/bin/bash
# Runs as root on each node of HyperPod when it is made (lifecycle script OnCreate). HyperPod itself has it join the EKS
# cluster, and what shows its chips and interfaces are pods. This moves images and the folders of pods to the node's NVMe
# disks, as AWS's own script does (awsome-distributed-ai@95b939c, 7.sagemaker-hyperpod-eks, on_create_main.sh): the root
# volume has 100 GB. A reboot may empty the disks and runs no lifecycle script; so a unit does it at every start.
# With SLIPWAY_DRY_RUN=1 commands are printed and not run, and files are read and written below SLIPWAY_ROOT.
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

# The disks of another image's time on this machine are of no use: containerd's and kubelet's releases may differ.
move_to_nvme() {
    local unit running=()
    for unit in kubelet containerd; do
        if [[ "$dry" == 1 ]] || systemctl is-active --quiet "$unit"; then
            run systemctl stop "$unit"
            running=("$unit" "${running[@]}")
        fi
    done
    rm -rf "$root/opt/dlami/nvme/slipway"
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
# Puts the folders of containerd and kubelet on the NVMe disks, which HyperPod's images mount at /opt/dlami/nvme.
set -euo pipefail

root="${SLIPWAY_ROOT:-}"
disk=/opt/dlami/nvme

is_mounted() {
    grep -qE "^[^ ]+ $1 " "$root/proc/mounts"
}

for ((attempt = 1; attempt < ${SLIPWAY_TRIES:-24}; attempt++)); do
    if is_mounted "$disk"; then
        break
    fi
    sleep 5
done
if ! is_mounted "$disk"; then
    echo "slipway: warning: no NVMe disk is mounted at $disk; images and checkpoints are on the root volume" >&2
    exit 0
fi
for name in containerd kubelet; do
    if ! is_mounted "/var/lib/$name"; then
        mkdir -p "$root$disk/slipway/$name" "$root/var/lib/$name"
        # The root volume keeps its copy: what the node needs to join is there when a reboot has emptied the disks.
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
    echo "slipway: $(hostname) is a node of "p5-governed
}

main > >(tee -a "$root/var/log/provision/provisioning.log") 2>&1
