"""What a submitting shell has from another job, or for another job's commands: it is no part of a job.

Slurm's commands read their options from such variables, above those of a batch script (sbatch(1), INPUT ENVIRONMENT
VARIABLES), and sbatch passes all variables on to the job: ranks, meeting points, chips, threads, Python's paths (the
agent's own modules come first in no folder of the caller's), and the runs of trackers (a job with another one's
WANDB_RUN_ID writes into its run). `run.env` gives a job such variables.
"""

OF_OTHER_JOBS = (
    *("SLURM*_*", "SBATCH_*", "SALLOC_*", "SRUN_*", "SQUEUE_*", "SINFO_*", "SACCT_*", "SCANCEL_*", "SCONTROL_*"),
    *("PMI*", "PRTE_*", "OMPI_*", "MV2_COMM_*", "HYDI_*", "HYDRA_*", "I_MPI_*", "MPI_LOCAL*", "UCX_*", "HOROVOD_*"),
    *("MASTER_*", "PET_*", "TORCHELASTIC_*", "TORCH_NCCL_*", "TORCH_DISTRIBUTED_DEBUG", "ACCELERATE_*", "RAY_*"),
    *("JAX_*", "XLA_*", "PYTORCH_*", "DS_ACCELERATOR", "TF_CONFIG"),
    *("SM_*", "SAGEMAKER_*", "KUBERNETES_*", "JOB_COMPLETION_INDEX"),
    *("PALS_*", "ALPS_*", "FLUX_*", "JSM_*", "PBS_*", "LSB_*", "LSF_*", "CROSS_RANK", "CROSS_SIZE"),
    *("RANK", "WORLD_SIZE", "NODE_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "NNODES", "NPROC_PER_NODE", "GPUS_PER_NODE", "NUM_PROCESSES"),
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES"),
    *("NEURON_RT_ROOT_COMM_ID", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    *("ZE_AFFINITY_MASK", "CUDA_MPS_*", "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"),
    *("KMP_AFFINITY", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_ORDER", "CUDA_DEVICE_MAX_CONNECTIONS"),
    *("PYTHON[A-Z]*", "LD_PRELOAD", "LD_AUDIT", "VIRTUAL_ENV*", "CONDA_*"),
    *("PIP_TARGET", "PIP_PREFIX", "PIP_USER", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"),
    *("NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS*", "WATCHDOG_*", "INVOCATION_ID", "JOURNAL_STREAM"),
    *("WANDB_RUN_ID", "WANDB_SWEEP_ID", "WANDB_SERVICE", "MLFLOW_RUN_ID"),
)
"""Patterns of names for a shell's `case`; PYTHONPATH has its own below, and matches no later one."""
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
