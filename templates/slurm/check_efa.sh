# A missing interface does not fail a collective, it makes it slow: stop here instead, on whichever node it is.
#   check_efa EXPECTED TYPE
# Only devices of the driver "efa" count: HGX boards with NVLink 5 show other InfiniBand devices beside them. Where
# libfabric's fi_info is installed, it must offer them too.
# shellcheck shell=bash
# shellcheck disable=SC2329 # it is called on the nodes, by name
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
