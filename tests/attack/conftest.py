"""Shared by the attack tests: a seed that is printed and can be set (`SLIPWAY_ATTACK_SEED`), and agents."""

import os
import random

import pytest

from tests.attack import commands
from tests.attack.disks import DISK, mounted
from tests.sandbox.agent.conftest import bucket, front, node, nursery  # noqa: F401  fixtures
from tests.sandbox.agent.slurm_job import agent, job, slurm_cluster  # noqa: F401  fixtures
from tests.sandbox.conftest import endpoint, make_once, sample  # noqa: F401  fixtures


@pytest.fixture
def seed(request, capsys):
    """The seed of one attack, printed at its start."""
    chosen = int(os.environ.get("SLIPWAY_ATTACK_SEED") or random.randrange(1 << 32))
    with capsys.disabled():
        print(f"\n{request.node.name}: SLIPWAY_ATTACK_SEED={chosen}")  # noqa: T201
    return chosen


@pytest.fixture
def own_disk(node, full):  # noqa: F811  a fixture
    """At full size, a disk of its own for the node."""
    if not full:
        yield
        return
    with mounted(node.folder / "disk", DISK) as node.place:
        yield
        node.end_commands()


@pytest.fixture(scope="session")
def run_folder_files(tmp_path_factory):
    """The files of a run, as a launch over ssh leaves them."""
    return commands.run_folder_files(tmp_path_factory.mktemp("quoted"))
