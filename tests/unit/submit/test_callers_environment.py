"""What the submitting shell and the head node's profile have from other jobs reaches neither sbatch nor the job."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from launcher.submit.nodes import SlurmNodes
from launcher.submit.shell import Frame, LocalShell
from launcher.submit.slurm import Slurm

KEPT = {
    "GREETING": "hello",
    "SLURM_CONF": "/etc/own.conf",
    "SLIPWAY_SCRATCH": "/nvme",
    "SLIPWAY_PYTHON": "/venv/python",
}
OTHERS = {
    "salloc": {
        "SLURM_JOB_ID": "7",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x1",
        "SLURM_TRES_PER_TASK": "cpu:2",
        "SLURM_MEM_PER_CPU": "1",
        "SLURMD_NODENAME": "n1",
        "SLURM_CLUSTERS": "other",
    },
    "options": {
        "SBATCH_TIMELIMIT": "1:00",
        "SBATCH_NO_REQUEUE": "1",
        "SBATCH_PARTITION": "batch",
        "SQUEUE_PARTITION": "batch",
        "SCANCEL_INTERACTIVE": "1",
        "SALLOC_ACCOUNT": "x",
        "SRUN_CPUS_PER_TASK": "1",
    },
    "ranks": {
        "RANK": "3",
        "LOCAL_RANK": "3",
        "WORLD_SIZE": "8",
        "MASTER_ADDR": "10.0.0.9",
        "MASTER_PORT": "1",
        "PET_NNODES": "2",
        "PMI_RANK": "1",
        "PMIX_NAMESPACE": "x",
        "OMPI_COMM_WORLD_RANK": "1",
        "TORCHELASTIC_RUN_ID": "x",
        "CUDA_VISIBLE_DEVICES": "3",
        "NEURON_RT_VISIBLE_CORES": "0",
    },
    "other launchers": {
        "I_MPI_HYDRA_BOOTSTRAP": "slurm",
        "MPI_LOCALRANKID": "3",
        "PALS_RANKID": "3",
        "ALPS_APP_PE": "3",
        "FLUX_TASK_RANK": "3",
        "JSM_NAMESPACE_RANK": "3",
        "PBS_JOBID": "7",
        "LSB_JOBID": "7",
        "CROSS_RANK": "1",
        "ACCELERATE_MIXED_PRECISION": "no",
        "RAY_ADDRESS": "10.0.0.9:6379",
    },
    "Python and libraries": {
        "PYTHONPATH": "/home/me/src",
        "PYTHONHOME": "/other",
        "PYTHONOPTIMIZE": "2",
        "PYTHONSAFEPATH": "1",
        "PIP_TARGET": "/other",
        "GIT_DIR": "/other/.git",
        "LD_PRELOAD": "",
        "VIRTUAL_ENV": "/home/me/venv",
        "VIRTUAL_ENV_PROMPT": "venv",
        "CONDA_PREFIX": "/opt/conda",
        "CONDA_DEFAULT_ENV": "base",
    },
    "services and pods": {
        "NOTIFY_SOCKET": "/run/systemd/notify",
        "LISTEN_FDS": "1",
        "INVOCATION_ID": "0",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "JOB_COMPLETION_INDEX": "3",
        "SM_HOSTS": "[]",
        "SAGEMAKER_REGION": "eu-west-1",
        "TF_CONFIG": "{}",
    },
    "frameworks": {
        "OMPI_MCA_btl": "tcp",
        "UCX_NET_DEVICES": "lo",
        "HOROVOD_RANK": "1",
        "JAX_COORDINATOR_ADDRESS": "10.0.0.9:1",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_dump_to=/other",
        "DS_ACCELERATOR": "cpu",
        "PYTORCH_CUDA_ALLOC_CONF": "backend:native",
        "NNODES": "2",
        "NPROC_PER_NODE": "1",
        "GPUS_PER_NODE": "1",
        "TORCH_NCCL_BLOCKING_WAIT": "1",
    },
    "chips and threads": {
        "GPU_DEVICE_ORDINAL": "3",
        "ROCR_VISIBLE_DEVICES": "3",
        "ZE_AFFINITY_MASK": "3",
        "CUDA_MPS_PIPE_DIRECTORY": "/other",
        "CUDA_LAUNCH_BLOCKING": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "OMP_NUM_THREADS": "1",
        "OMP_PROC_BIND": "close",
        "GOMP_CPU_AFFINITY": "0",
        "KMP_AFFINITY": "compact",
    },
    "trackers": {
        "WANDB_RUN_ID": "other",
        "WANDB_SWEEP_ID": "other",
        "WANDB_SERVICE": "2-7-tcp-127.0.0.1-1",
        "MLFLOW_RUN_ID": "other",
    },
    "AWS": {
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_PROFILE": "mine",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SESSION_TOKEN": "x",
    },
    "network": {"NCCL_SOCKET_IFNAME": "wlan0", "FI_PROVIDER": "tcp", "NEURON_RT_LOG_LEVEL": "DEBUG"},
    "another job of Slipway": {
        "SLIPWAY_JOB": "/other/job.json",
        "SLIPWAY_RUN": "other",
        "SLIPWAY_ATTEMPT": "9",
        "SLIPWAY_MASTER_ADDR": "10.0.0.9",
        "SLIPWAY_CHECKPOINT_DIR": "/other",
    },
}
SQUEUE = "env -0 >seen-by-squeue"
SBATCH = "env -0 >seen-by-sbatch; echo 12"


@pytest.fixture
def submit(tmp_path):
    """Submit with stand-ins for Slurm's commands; the environment that each of them saw."""
    programs, job = tmp_path / "bin", tmp_path / "job"
    for folder in (programs, job):
        folder.mkdir()
    for name, text in {"squeue": SQUEUE, "sbatch": SBATCH, "sacct": "exit 1", "srun": "env -0 >seen-by-srun"}.items():
        (programs / name).write_text(f"#!/bin/bash\n{text}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"

    def seen(shell):
        assert Slurm(shell=shell).submit("key", str(job), "job.sbatch").job == "12"
        return {name: environment_of(job / f"seen-by-{name}") for name in ("squeue", "sbatch")}

    seen.path, seen.job = path, job  # type: ignore[attr-defined]
    return seen


def environment_of(file):
    return dict(pair.split("=", 1) for pair in file.read_text().split("\0") if pair)


class ProfileShell(LocalShell):
    """A shell whose login profile sets variables, as over ssh and Systems Manager."""

    def __init__(self, environment, profile):
        super().__init__(environment)
        self._profile = "".join(f"export {name}={value!r}\n" for name, value in profile.items())

    def run(self, script, *, timeout_s=60.0):
        frame = Frame.fresh()
        text = self._profile + frame.wrap(script)
        done = subprocess.run(
            ["bash", "-s"], input=text, env=self.environment, capture_output=True, text=True, check=False
        )
        return frame.answer(done.stdout, done.stderr, "profile")


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("how", ["shell", "profile"])
def test_submission_with_variables_of_another_job_passes_none_on(submit, others, how):
    base = {"PATH": submit.path, "HOME": "/root", **KEPT}
    shell = LocalShell(base | others) if how == "shell" else ProfileShell(base, others)
    seen = submit(shell)
    assert not others.keys() & seen["sbatch"].keys()
    assert KEPT.items() <= seen["sbatch"].items()
    assert not {name for name in others if name.startswith(("S", "R", "M", "P"))} & seen["squeue"].keys() - {
        name for name in others if name.startswith("SLIPWAY")
    }


def test_submission_in_the_sandbox_keeps_access_to_aws(submit):
    sandbox = {"SLIPWAY_SANDBOX": "1", "AWS_ENDPOINT_URL": "http://127.0.0.1:5000", "SLIPWAY_SANDBOX_PORT": "20001"}
    seen = submit(LocalShell({"PATH": submit.path, "HOME": "/root", **sandbox}))
    assert sandbox.items() <= seen["sbatch"].items()


@pytest.mark.parametrize("name, stays", [("ls", False), ("sbatch", False), ("module", True)])
def test_exported_function_that_hides_a_program_reaches_no_job(submit, name, stays):
    """`module` of Lmod and Environment Modules is such a function, and no program."""
    function = {f"BASH_FUNC_{name}%%": "() {  echo poisoned; }"}
    seen = submit(LocalShell({"PATH": submit.path, "HOME": "/root", **function}))
    assert (function.keys() <= seen["sbatch"].keys()) == stays


def test_submission_with_a_read_only_variable_succeeds(submit):
    shell = ProfileShell({"PATH": submit.path, "HOME": "/root"}, {})
    shell._profile = "declare -rx SBATCH_ACCOUNT=x\n"
    assert submit(shell)["sbatch"]["SBATCH_ACCOUNT"] == "x"


def test_step_beside_the_job_has_no_variables_of_another_one(submit):
    nodes = SlurmNodes(head=LocalShell({}), job="12", folder=str(submit.job), names=("n1",))
    (bash, *words) = nodes.head.direct(nodes.step_script("n1", ["true"]))
    environment = {"PATH": submit.path, **KEPT, **OTHERS["salloc"], **OTHERS["options"]}
    subprocess.run([shutil.which(bash), *words], env=environment, check=True)
    seen = environment_of(Path(submit.job, "seen-by-srun"))
    assert not (OTHERS["salloc"].keys() | OTHERS["options"].keys()) & seen.keys()
    assert KEPT.items() <= seen.items()
