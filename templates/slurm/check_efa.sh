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
