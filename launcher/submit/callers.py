"""What a submitting shell has from another job, or for another job's commands: it is no part of a job.

Slurm's commands read their options from such variables, above those of a batch script (sbatch(1), INPUT ENVIRONMENT
VARIABLES), and sbatch passes all variables on to the job: ranks, meeting points, chips, threads, Python's paths (the
agent's own modules come first in no folder of the caller's), and the runs of trackers (a job with another one's
WANDB_RUN_ID writes into its run). `run.env` gives a job such variables.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase

OF_OTHER_JOBS = (
    *("SLURM*_*", "SBATCH_*", "SALLOC_*", "SRUN_*", "SQUEUE_*", "SINFO_*", "SACCT_*", "SCANCEL_*", "SCONTROL_*"),
    *("PMI*", "PRTE_*", "OMPI_*", "MV2_COMM_*", "HYDI_*", "HYDRA_*", "I_MPI_*", "MPI_LOCAL*", "UCX_*", "HOROVOD_*"),
    *("MASTER_*", "PET_*", "TORCHELASTIC_*", "TORCH_NCCL_*", "TORCH_DISTRIBUTED_DEBUG", "ACCELERATE_*", "RAY_*"),
    *("JAX_COORDINATOR_*", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "TF_CONFIG"),
    *("SM_*", "SAGEMAKER_*", "KUBERNETES_*", "JOB_COMPLETION_INDEX"),
    *("PALS_*", "ALPS_*", "FLUX_*", "JSM_*", "PBS_*", "LSB_*", "LSF_*", "CROSS_RANK", "CROSS_SIZE"),
    *("RANK", "WORLD_SIZE", "NODE_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME"),
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES"),
    *("NEURON_RT_ROOT_COMM_ID", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    *("ZE_AFFINITY_MASK", "CUDA_MPS_*", "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"),
    "KMP_AFFINITY",
    *("PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "LD_PRELOAD", "LD_AUDIT", "VIRTUAL_ENV*", "CONDA_*"),
    *("NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS*", "WATCHDOG_*", "INVOCATION_ID", "JOURNAL_STREAM"),
    *("WANDB_RUN_ID", "WANDB_SWEEP_ID", "WANDB_SERVICE", "MLFLOW_RUN_ID"),
)
"""Patterns of names, in the form that a shell's `case` and fnmatch share."""
OF_NETWORKS = ("FI_*", "NCCL_*", "GLOO_*", "NEURON_*")
"""Patterns of the variables that a node or its job's script sets itself."""
WITHOUT_CALLERS_JOB = """for each in $(compgen -A function); do
    if type -P "$each" >/dev/null; then unset -f "$each"; fi # it would run in place of the program
done
for each in $(compgen -e); do
    case "$each" in
        SLURM_CONF) ;;
        PYTHONPATH) [ "${SLIPWAY_SANDBOX:-}" = 1 ] || unset PYTHONPATH ;; # the sandbox's programs may be there
        OF_OTHER_JOBS) unset "$each" 2>/dev/null ;;
    esac
done
""".replace("OF_OTHER_JOBS", " | ".join(OF_OTHER_JOBS))
"""Removes these variables from a shell: one inside salloc or srun, or one with a profile."""


def without_callers_job(base: Mapping[str, str]) -> dict[str, str]:
    """An environment without these variables.

    >>> without_callers_job({"RANK": "3", "NCCL_DEBUG": "INFO", "SBATCH_PARTITION": "x", "HOME": "/home/ada"})
    {'HOME': '/home/ada'}
    """
    patterns = (*OF_OTHER_JOBS, *OF_NETWORKS)
    return {name: value for name, value in base.items() if not any(fnmatchcase(name, pattern) for pattern in patterns)}
