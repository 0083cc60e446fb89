"""The nodes of Slurm from what scontrol and squeue print, and the scripts that change one."""

from datetime import UTC, datetime

import pytest

from launcher.model.cluster_nodes import NodeInstance, NodeUse
from launcher.submit import slurm_nodes
from launcher.submit.jobs import SchedulerError, UnreachableError
from launcher.submit.shell import LocalShell
from launcher.submit.slurm_nodes import parse_nodes, use_of
from launcher.workflow.cluster.cluster_access import with_instances

LINE = (
    "NodeName={name} Arch=x86_64 CPUAlloc=0 AvailableFeatures=dynamic,p5.48xlarge,nodes ActiveFeatures=dynamic,"
    "p5.48xlarge,nodes Gres=gpu:8 NodeAddr={address} NodeHostName={host} Version=24.05.7 State={state} ThreadsPerCore=2"
    " Weight=1 Owner=N/A Partitions=p5-48xlarge  BootTime=1795839841 SlurmdStartTime=1795879970"
    " LastBusyTime=1795879971 CfgTRES=cpu=192 AllocTRES= ExtSensorsTemp=n/s{more}"
)
BUSY_AT = datetime.fromtimestamp(1795879971, UTC)


def print_lines(*lines, queue="", addresses=""):
    return "\n".join([*lines, "--jobs", *filter(None, [queue]), "--addresses", addresses, ""])


def line(name="n1", address="10.0.0.5", host="ip-10-0-0-5", state="IDLE", more=""):
    return LINE.format(name=name, address=address, host=host, state=state, more=more)


def test_node_reason_is_read_without_user_and_time():
    more = " Reason=slipway nodes: fan 3 failed [root@2026-11-28T15:00:00] Comment=rack 7"
    (listed,) = parse_nodes(print_lines(line(state="IDLE+CLOUD+DRAIN", more=more)))
    node = listed.node
    assert (node.use, node.state, node.reason) == (NodeUse.DRAINED, "IDLE+CLOUD+DRAIN", "slipway nodes: fan 3 failed")
    assert (node.instance_type, node.group, node.idle_since) == ("p5.48xlarge", "p5-48xlarge", BUSY_AT)
    assert listed.addresses == {"10.0.0.5", "ip-10-0-0-5"}


def test_jobs_are_found_on_the_nodes_of_a_hostlist_expression():
    lines = [line(name=f"a-{number}", state="ALLOCATED+CLOUD") for number in (1, 2, 3)]
    nodes = parse_nodes(print_lines(*lines, queue="7|RUNNING|a-[1-2]\n9|PENDING|"))
    assert [(each.node.job, each.node.use, each.node.idle_since) for each in nodes][:2] == [
        ("7", NodeUse.BUSY, None)
    ] * 2
    assert nodes[2].node.job is None


@pytest.mark.parametrize(
    "state, use",
    [
        ("IDLE+CLOUD+POWERED_DOWN", NodeUse.OFF),
        ("IDLE+CLOUD+POWERING_DOWN", NodeUse.OFF),
        ("ALLOCATED+CLOUD+POWERING_UP", NodeUse.STARTING),
        ("IDLE+DRAIN+REBOOT_ISSUED", NodeUse.STARTING),
        ("MIXED+CLOUD+DRAIN", NodeUse.DRAINING),
        ("COMPLETING+DRAIN", NodeUse.DRAINING),
        ("DOWN+CLOUD+NOT_RESPONDING", NodeUse.DOWN),
        ("IDLE*+CLOUD", NodeUse.STARTING),
        ("IDLE+CLOUD+NOT_RESPONDING", NodeUse.STARTING),
        ("DOWN*+CLOUD", NodeUse.DOWN),
        ("FAIL", NodeUse.DOWN),
        ("RESERVED", NodeUse.IDLE),
        ("COMPLETING", NodeUse.BUSY),
    ],
)
def test_state_with_flags_has_one_use(state, use):
    assert use_of(state) is use


def instance(id_, *names):
    at = datetime(2026, 11, 28, 20, 0, tzinfo=UTC)
    return NodeInstance(id=id_, names=frozenset(names), group="", instance_type="p5.48xlarge", launched_at=at)


def test_instances_are_found_by_address_host_name_and_slurm_name():
    nodes = parse_nodes(
        print_lines(
            line(name="by-address", address="10.0.0.5", host="x"),
            line(name="by-host", address="10.9.9.9", host="ip-10-0-0-6"),
            line(name="compute-1", address="compute-1", host="compute-1"),
            line(name="by-id", address="y", host="y", more=" InstanceId=i-0d InstanceType=p5"),
            line(name="off", address="10.0.0.5", host="off", state="IDLE+CLOUD+POWERED_DOWN"),
            addresses="compute-1 10.0.0.7",
        )
    )
    known = [instance("i-0a", "10.0.0.5"), instance("i-0b", "ip-10-0-0-6"), instance("i-0c", "10.0.0.7")]
    described = with_instances(nodes, [*known, instance("i-0d", "i-0d")], {})
    assert [node.instance for node in described] == ["i-0a", "i-0b", "i-0c", "i-0d", None]
    assert {node.up_since for node in described[:4]} == {known[0].launched_at}
    # A node that was never busy is idle since its instance began.
    assert described[0].idle_since == max(BUSY_AT, known[0].launched_at)


@pytest.fixture
def slurm(tmp_path):
    """A shell whose scontrol writes its words down and answers as told; there is no sudo."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "scontrol"
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$*" >>{tmp_path}/asked\ncat {tmp_path}/answer >&2\nexit $(cat {tmp_path}/code)\n'
    )
    program.chmod(0o755)
    (tmp_path / "bin" / "squeue").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "squeue").chmod(0o755)
    (tmp_path / "bin" / "sudo").write_text(f'#!/bin/sh\necho "sudo $*" >>{tmp_path}/asked\nexit 1\n')
    (tmp_path / "bin" / "sudo").chmod(0o755)

    return Slurm(tmp_path)


class Slurm:
    """What the shell's scontrol answers, and what it was asked."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, answer="", code=0):
        (self.folder / "answer").write_text(answer)
        (self.folder / "code").write_text(str(code))
        return LocalShell({"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin"}, name="head")

    def asked(self):
        return (self.folder / "asked").read_text().splitlines()


def test_actions_are_the_words_of_scontrol(slurm):
    shell = slurm()
    slurm_nodes.drain(shell, "n1", "slipway nodes")
    slurm_nodes.mark_down(shell, "n1", "it's hot")
    slurm_nodes.reboot(shell, "n1", "slipway nodes")
    slurm_nodes.resume(shell, "n1")
    assert slurm.asked() == [
        "update nodename=n1 state=drain reason=slipway nodes",
        "update nodename=n1 state=down reason=it's hot",
        "reboot ASAP nextstate=RESUME reason=slipway nodes n1",
        "update nodename=n1 state=resume",
    ]


def test_refusal_is_named_with_slurms_words(slurm):
    shell = slurm("slurm_update error: Invalid node name specified", 1)
    with pytest.raises(SchedulerError, match=r"Slurm does not resume n9: .*Invalid node name") as refused:
        slurm_nodes.resume(shell, "n9")
    assert "sudo" not in refused.value.hint
    with pytest.raises(SchedulerError) as refused:
        slurm_nodes.drain(slurm("Access/permission denied", 1), "n1", "x")
    assert "needs sudo" in refused.value.hint


def test_silent_slurm_controller_is_unreachable(slurm):
    with pytest.raises(UnreachableError, match=r"Slurm does not answer: .*Unable to contact"):
        slurm_nodes.read_nodes(slurm("Unable to contact slurm controller", 1))
