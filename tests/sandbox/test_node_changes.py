"""The nodes of a cluster with Slurm, changed by Slurm's own commands and by a service: with both schedulers."""

import itertools
import os
import secrets
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from launcher.model.cluster_nodes import NodeUse
from launcher.sandbox.cluster.registry import Cluster
from launcher.sandbox.keys import KeyRing
from launcher.submit import slurm_nodes
from launcher.submit.nodes import FreeSlurmNodes
from launcher.submit.shell import LocalShell
from tests.sandbox.slurm_cluster import SPEC

SCHEDULERS = [
    pytest.param(True, marks=[pytest.mark.slurm, pytest.mark.xdist_group("slurm-nodes")], id="slurm"),
    pytest.param(False, marks=pytest.mark.xdist_group("local-nodes"), id="local"),
]
FIRST, SECOND = SPEC.groups[0].node_names()
PATIENCE_S = 60.0


class Instances:
    """EC2 as far as a cluster needs it: ids in order, and those that have ended."""

    region, replaces_down = "us-east-1", True

    def __init__(self):
        self.numbers, self.ended = itertools.count(1), []

    def subnet(self, subnet_id):
        return None

    def run_head_node(self, spec):
        return self.run_node(spec, None, "head")

    def run_node(self, spec, group, name):
        return f"i-{next(self.numbers):017x}"

    def terminate(self, instance_id, reason):
        self.ended.append(instance_id)


@pytest.fixture(scope="module", params=SCHEDULERS)
def started(request):
    folder = Path(tempfile.mkdtemp(prefix="slwn-", dir="/tmp"))
    fleet = Instances()
    cluster = Cluster(SPEC, fleet, folder / "c", with_slurm=request.param, mark=secrets.token_hex(8), keys=KeyRing())
    (folder / "c").mkdir(mode=0o700)
    cluster.start()
    try:
        environment = {**os.environ, **cluster.scheduler.environment(os.environ["PATH"])}
        yield cluster, fleet, LocalShell(environment, name="head")
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def running(started):
    """The cluster whose nodes are idle, the fleet of its instances and its head node's shell."""
    until(lambda: set(uses(started[2]).values()) == {NodeUse.IDLE})
    return started


def uses(shell):
    return {listed.node.name: listed.node.use for listed in slurm_nodes.read_nodes(shell)}


def until(so):
    deadline = time.monotonic() + PATIENCE_S
    while not (value := so()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return value


def test_drained_node_resumed_and_down_node_replaced(running):
    cluster, fleet, shell = running
    before = {node.name: node.instance_id for node in cluster.nodes()}
    assert uses(shell) == {FIRST: NodeUse.IDLE, SECOND: NodeUse.IDLE}
    slurm_nodes.drain(shell, FIRST, "slipway nodes")
    assert uses(shell) == {FIRST: NodeUse.DRAINED, SECOND: NodeUse.IDLE}
    slurm_nodes.resume(shell, FIRST)
    until(lambda: uses(shell)[FIRST] is NodeUse.IDLE)
    slurm_nodes.mark_down(shell, FIRST, "slipway nodes")
    until(lambda: before[FIRST] in fleet.ended)
    until(lambda: uses(shell)[FIRST] is NodeUse.IDLE)
    after = {node.name: node.instance_id for node in cluster.nodes()}
    assert after[FIRST] != before[FIRST]
    assert after[SECOND] == before[SECOND]


def test_rebooted_nodes_keep_instances(running):
    cluster, fleet, shell = running
    before, ended = {node.name: node.instance_id for node in cluster.nodes()}, list(fleet.ended)
    slurm_nodes.reboot(shell, FIRST, "slipway nodes")
    until(lambda: uses(shell)[FIRST] is NodeUse.IDLE)
    # As BatchRebootClusterNodes and BatchReplaceClusterNodes do.
    cluster.restart([before[SECOND]])
    until(lambda: uses(shell)[SECOND] is NodeUse.IDLE)
    assert {node.name: node.instance_id for node in cluster.nodes()} == before
    cluster.renew([before[SECOND]])
    until(lambda: uses(shell)[SECOND] is NodeUse.IDLE)
    assert fleet.ended == [*ended, before[SECOND]]


def test_command_without_job_runs_on_idle_node(running):
    _, _, shell = running
    nodes = FreeSlurmNodes(
        head=shell, job="", folder="", names=(FIRST, SECOND), partitions=dict.fromkeys((FIRST, SECOND), "gpu")
    )
    assert nodes.read(SECOND, ["sh", "-c", "echo on $SLURMD_NODENAME"]) == f"on {SECOND}\n"
    assert nodes.run(FIRST, ["sh", "-c", "exit 3"]) == 3
    until(lambda: set(uses(shell).values()) == {NodeUse.IDLE})
    slurm_nodes.drain(shell, FIRST, "slipway nodes")
    slurm_nodes.resume(shell, FIRST)
    assert nodes.read(FIRST, ["echo", "again"]) == "again\n"
    assert FIRST in slurm_nodes.diagnostics(shell)["nodes.txt"]
