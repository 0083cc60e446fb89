# A missing interface does not fail a collective, it makes it slow: stop here instead, on whichever node it is.
#   check_efa EXPECTED TYPE
# shellcheck shell=bash
# shellcheck disable=SC2329 # it is called on the nodes, by name
check_efa() {
    local found
    found="$(find /sys/class/infiniband -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)"
    if ((found != $1)); then
        echo "slipway: $(hostname): $2 has $1 EFA interfaces, found $found; the job stops here" >&2
        return 1
    fi
    echo "slipway: $(hostname): $found EFA interfaces"
}
