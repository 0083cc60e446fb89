"""The devices of a step of a Slurm job, for the job's own steps and for those that enter a running job."""

STEP_DEVICES = r"""
# Prints the option with which a step gets the devices of its nodes, where Slurm counts devices. A step gets the devices
# that the job requested, but not those that only --exclusive gave the job (srun(1), --gres): without the option, a
# cluster that confines steps to their devices (ConstrainDevices) shows the step none. More than the job has is refused.
#   step_devices NODELIST SRUN [OPTION ...]
step_devices() {
    local devices where="$1"
    shift
    devices="$(
        scontrol show node --oneliner "$where" |
            sed -n '1s/.* Gres=\([^ ]*\).*/\1/p' | sed 's/([^)]*)//g' | tr , '\n' | grep '^gpu:' | paste -sd ,
    )"
    if [ -n "$devices" ] && timeout 60 "$@" "--gres=$devices" true >/dev/null 2>&1 </dev/null; then
        echo "--gres=$devices"
    fi
}
""".strip()
