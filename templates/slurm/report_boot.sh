# Reports to the cluster's guard how the boot of this node ended: one object with the last lines of the boot script.
#   report_boot URI SCRIPT ARGUMENT...
# A node whose boot fails is terminated and replaced, and its disk goes with it (templates/guard/boots.py).
# shellcheck shell=bash
report_boot() {
    local uri="$1" code=0 outcome=ready folder id name
    shift
    # In memory: a boot that fails because its disk is full reports that.
    folder="$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)"
    # Of the script alone: tee also fails where its own output is a file on the full disk.
    SLIPWAY_REPORTED=1 bash "$@" 2>&1 | tee "$folder/log" || code="${PIPESTATUS[0]}"
    if ((code)); then
        outcome=failed
    fi
    # Nitro instances have their id there (EC2 user guide, "Identify EC2 instances").
    id="$(cat "${SLIPWAY_ROOT:-}/sys/devices/virtual/dmi/id/board_asset_tag" 2>/dev/null || true)"
    if [[ "$id" != i-* ]]; then
        # cloud-init keeps it on instances of older types. The guard counts no boot without the instance's id.
        id="$(cat "${SLIPWAY_ROOT:-}/var/lib/cloud/data/instance-id" 2>/dev/null || hostname)"
    fi
    name="$(date -u +%Y%m%dT%H%M%SZ)-$id-$outcome.txt"
    tail -n 20 "$folder/log" | tail -c 3000 >"$folder/end"
    if ! run timeout 60 aws s3 cp --only-show-errors "$folder/end" "$uri/$name"; then
        echo "slipway: $(hostname): the end of this boot ($outcome) was not reported to $uri" >&2
    fi
    rm -rf "$folder"
    return "$code"
}
