#!/bin/bash
# Waits until the kubelet of this EKS node has registered it, and reports to the cluster's guard how its boot ended.
#   joined.sh FILE     FILE: the place of the reports, an S3 URI
# A node that cannot join its cluster stays up and is billed: EKS checks only that EC2 calls it healthy.
# SLIPWAY_DRY_RUN=1 prints commands without running them; SLIPWAY_TRIES and SLIPWAY_PAUSE_S set how long it waits.
set -euo pipefail

run() {
    if [[ "${SLIPWAY_DRY_RUN:-0}" == 1 ]]; then
        printf '+'
        printf ' %q' "$@"
        printf '\n'
    else
        "$@"
    fi
}

# included: templates/slurm/report_boot.sh

# The words of the kubelet (kubernetes, pkg/kubelet/kubelet_node_status.go).
is_registered() {
    # Read to the end: with grep -q, journalctl would end by a broken pipe.
    journalctl -u kubelet -o cat --no-pager | grep -E 'Successfully registered node|Node was previously registered' >/dev/null
}

if [[ -z "${SLIPWAY_REPORTED:-}" ]]; then
    report_boot "$(<"$1")" "${BASH_SOURCE[0]}" "$@"
    exit
fi

for ((attempt = 1; attempt <= ${SLIPWAY_TRIES:-60}; attempt++)); do
    if is_registered; then
        echo "slipway: $(hostname) has joined its cluster"
        exit 0
    fi
    sleep "${SLIPWAY_PAUSE_S:-10}"
done
journalctl -u nodeadm-config -u nodeadm-run -u kubelet -o cat --no-pager -n 15
echo "slipway: $(hostname) has not joined its cluster in time: the lines above are nodeadm's and the kubelet's"
exit 1
