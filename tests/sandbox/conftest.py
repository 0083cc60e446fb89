"""A host without Slurm: two nodes, and the local scheduler behind Slurm's commands."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from launcher.cdk.toolchain import cdk_command
from launcher.sandbox.aws import buckets
from launcher.sandbox.cluster.nodes import NodeState
from launcher.sandbox.environment import machine_environment
from launcher.sandbox.sandbox import Sandbox
from launcher.sandbox.slurm.local_slurm import LocalSlurm
from tests import warm_launcher
from tests.emulators.moto_server import moto_server
from tests.plans import EXAMPLES
from tests.sandbox.example_plans import TRAINER_WORDS

collect_ignore = ["trainers"]  # scripts of frameworks, which are not installed here
SETTINGS = {"RequeueExit": "75", "JobRequeue": "1"}


class Nodes:
    """Two nodes of one partition, each with a new folder after every replacement."""

    def __init__(self, folder):
        self.folder = folder
        self.lives = {"gpu-dy-p5-1": 1, "gpu-dy-p5-2": 1}
        for name in self.lives:
            self.scratch(name).mkdir()

    def scratch(self, name):
        return self.folder / f"{name}.{self.lives[name]}"

    def replace(self, name):
        self.lives[name] += 1
        self.scratch(name).mkdir()

    def __call__(self):
        return [
            NodeState(
                name=name,
                partition="gpu",
                instance_type="p5.48xlarge",
                capacity_type="SPOT",
                instance_id=f"i-{life}",
                generation=life,
                life=f"{self.folder.name}-{name}-{life}",
                scratch=str(self.scratch(name)),
                metadata="http://127.0.0.1:1",
                cpus=4,
            )
            for name, life in self.lives.items()
        ]


@pytest.fixture(scope="module", autouse=True)
def warm(request):
    """Synthesise every plan with one start of jsii; a test that starts a program uses the real way.

    In a module with STARTS_SERVERS servers are programs too, not forks of one that stays.
    """
    if not getattr(request.module, "STARTS_SERVERS", False):
        request.getfixturevalue("warm_launches")


@pytest.fixture(scope="session")
def warm_program(warm_app, warm_cli):
    """The words that start `slipway` as a program whose launches use the persistent processes."""
    return warm_launcher.words(warm_app.command(), warm_cli.command())


@pytest.fixture(scope="session")
def warm_app_program(warm_app):
    """The same with a CDK CLI of its own, for a test that kills the launch while the CLI runs."""
    return warm_launcher.words(warm_app.command(), cdk_command(os.environ))


@pytest.fixture(scope="session")
def make_once(tmp_path_factory, worker_id):
    """Makes a folder by its name, once for all workers of a run: the first caller fills it."""

    def folder_of(name, fill):
        base = tmp_path_factory.getbasetemp()
        folder = (base if worker_id == "master" else base.parent) / name
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                partial = folder.with_suffix(".partial")
                partial.mkdir(exist_ok=True)
                fill(partial)
                partial.rename(folder)
        return folder

    return folder_of


@pytest.fixture(scope="session")
def undisturbed(make_once):
    """The output of an uninterrupted run of the examples' trainer.

    It runs in the environment of an emulated machine: a setting of the shell for BLAS changes its rounding.
    """

    def train(folder):
        command = [sys.executable, str(EXAMPLES / "tiny_gpt" / "train.py"), *TRAINER_WORDS]
        environment = machine_environment(os.environ)
        output = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout
        (folder / "output").write_text(output)

    output = (make_once("undisturbed", train) / "output").read_text()
    return next(line for line in output.splitlines() if line.startswith("weights sha256"))


SAVE = """
import sys
import torch
import torch.distributed.checkpoint as dcp

state = {"weight": torch.arange(4096.0), "bias": torch.ones(16), "step": 7}
writer = dcp.FileSystemWriter(sys.argv[1], single_file_per_rank=False)
dcp.save(state, storage_writer=writer, no_dist=True)
"""


@pytest.fixture(scope="session")
def sample(make_once):
    """A distributed checkpoint as torch writes it."""

    def save(folder):
        subprocess.run([sys.executable, "-W", "ignore", "-c", SAVE, str(folder)], check=True, timeout=300)

    return make_once("sample", save)


@pytest.fixture
def nodes(tmp_path):
    (tmp_path / "nodes").mkdir()
    return Nodes(tmp_path / "nodes")


@pytest.fixture
def local_slurm(nodes):
    # Sockets need a short path.
    folder = Path(tempfile.mkdtemp(prefix="slt-", dir="/tmp"))
    slurm = LocalSlurm(folder / "runner", nodes, f"mark-{os.getpid()}-{time.monotonic_ns()}", SETTINGS)
    yield slurm
    slurm.stop()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def sandbox(request):
    """A sandbox in the test module's REGION (default us-east-2), with the local scheduler and no cluster."""
    with Sandbox(region=getattr(request.module, "REGION", "us-east-2"), scheduler="local") as started:
        yield started


@pytest.fixture(scope="session")
def endpoint():
    """The address of an S3 server with the sandbox's rules."""
    buckets.install()
    with moto_server() as address:
        yield address
