"""The nodes of a Slurm cluster: their states, and how to drain, reboot, mark as down and resume one.

Only Slurm's own user and root may change a node (man scontrol): if the user of the head node's shell is neither, the
script uses sudo, as the default users of ParallelCluster's and HyperPod's images may without a password.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.model.cluster_nodes import ClusterNode, NodeUse
from launcher.submit.jobs import SchedulerError, UnreachableError
from launcher.submit.shell import ScriptResult, Shell
from launcher.submit.slurm_output import TIME_FORMAT, field, hosts, moment_of

_NO_CONTROLLER = 70
_JOBS, _ADDRESSES = "--jobs", "--addresses"
_LIST = f"""export SLURM_TIME_FORMAT={TIME_FORMAT}
nodes="$(scontrol --oneliner show node)" || exit {_NO_CONTROLLER}
printf '%s\\n{_JOBS}\\n' "$nodes"
squeue --noheader --format='%i|%T|%N' || exit {_NO_CONTROLLER}
echo {_ADDRESSES}
# A node's address may be a name that only the cluster resolves.
printf '%s\\n' "$nodes" | sed -n 's/.* NodeAddr=\\([^ ]*\\).*/\\1/p' | sort -u | while read -r address; do
    printf '%s %s\\n' "$address" "$(getent ahostsv4 "$address" | sed -n '1s/ .*//p')"
done
"""
_CHANGE = """change() {{ scontrol "$@" 2>&1; }}
printed="$(change {arguments})" && exit 0
if [ "$(id -u)" != 0 ] && command -v sudo >/dev/null; then
    # sudo starts with an empty environment.
    set -- sudo -n env ${{SLURM_CONF:+"SLURM_CONF=$SLURM_CONF"}} "$(command -v scontrol)"
    printed="$("$@" {arguments} 2>&1)" && exit 0
fi
printf '%s\\n' "$printed" >&2
exit 1
"""
_REASON = re.compile(r" Reason=(.*?)(?= (?:Comment|Extra|InstanceId)=|\s*$)")
_WHO = re.compile(r"\s*\[[^\]]*\]$")
_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
_OFF = frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN"})
_STARTING = frozenset({"POWERING_UP", "POWER_UP", "REBOOT_ISSUED", "FUTURE"})
_DOWN = frozenset({"DOWN", "FAIL", "ERROR", "INVAL", "UNKNOWN"})
"""Slurm's states and their flags (man scontrol, sinfo: NODE STATE CODES of Slurm 22.05 to 25.11)."""
_ASKED = {
    "nodes.txt": "scontrol show node",
    "reasons.txt": "sinfo --list-reasons --long",
    "partitions.txt": "sinfo --long",
    "queue.txt": "squeue --states=all --long",
    "jobs.txt": "scontrol show job",
    "controller.txt": "scontrol ping; sdiag",
    "configuration.txt": "scontrol show config",
    "accounting.txt": "sacct --starttime=now-7days --format=JobID,JobName,State,ExitCode,Start,End,NodeList",
    "log.txt": (
        'for log in "$(scontrol show config | sed -n "s/^SlurmctldLogFile *= //p")"'
        " /var/log/parallelcluster/clustermgtd /var/log/parallelcluster/slurm_resume.log; do"
        ' [ -r "$log" ] && echo "== $log" && tail -n 300 "$log"; done'
    ),
}
"""The commands whose output describes a cluster, by the name of the file that holds it."""
_MOST_BYTES = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """A node, and the addresses by which its instance is found: Slurm's own, resolved, and its host name."""

    node: ClusterNode
    addresses: frozenset[str]


def read_nodes(shell: Shell) -> tuple[SlurmNode, ...]:
    """Every node that Slurm knows.

    Raises:
        UnreachableError: Slurm does not answer.
    """
    answer = shell.run(_LIST)
    if answer.code == _NO_CONTROLLER:
        raise UnreachableError(f"{shell.name}: Slurm does not answer: {_reason(answer)}")
    if answer.code != 0:
        raise SchedulerError(f"{shell.name}: the nodes could not be listed: {_reason(answer)}")
    return parse_nodes(answer.out)


def parse_nodes(printed: str) -> tuple[SlurmNode, ...]:
    """The nodes that the script printed: `scontrol --oneliner show node`, then `squeue`, then resolved addresses."""
    described, _, rest = printed.partition(f"{_JOBS}\n")
    queue, _, resolved = rest.partition(f"{_ADDRESSES}\n")
    jobs: dict[str, str] = {}
    for line in queue.splitlines():
        job, _, place = line.partition("|")
        state, _, expression = place.partition("|")
        if state not in ("PENDING", "") and expression:
            jobs.update(dict.fromkeys(hosts(expression), job))
    by_name = dict(line.split(" ", 1) for line in resolved.splitlines() if " " in line)
    lines = [line for line in described.splitlines() if line.startswith("NodeName=")]
    return tuple(_node(line, jobs, by_name) for line in lines)


def _node(line: str, jobs: Mapping[str, str], resolved: Mapping[str, str]) -> SlurmNode:
    name, state = field(line, "NodeName") or "", field(line, "State") or "UNKNOWN"
    use, reason = use_of(state), _REASON.search(line)
    address, host = field(line, "NodeAddr") or "", field(line, "NodeHostName") or ""
    booted, busy_at = moment_of(field(line, "BootTime") or ""), moment_of(field(line, "LastBusyTime") or "")
    idle = use in (NodeUse.IDLE, NodeUse.DRAINED, NodeUse.DOWN) and name not in jobs
    features = (field(line, "ActiveFeatures") or field(line, "AvailableFeatures") or "").split(",")
    node = ClusterNode(
        name=name,
        instance=field(line, "InstanceId"),
        # ParallelCluster, PCS and HyperPod give each node its type as a feature.
        instance_type=next((feature for feature in features if "." in feature), ""),
        group=(field(line, "Partitions") or "").partition(",")[0],
        use=use,
        state=state,
        reason=_WHO.sub("", reason[1]) if reason is not None else "",
        job=jobs.get(name),
        up_since=None if use is NodeUse.OFF else booted,
        idle_since=busy_at if idle else None,
    )
    return SlurmNode(node=node, addresses=frozenset(filter(None, (address, resolved.get(address, "").strip(), host))))


def use_of(state: str) -> NodeUse:
    """What a node does, by Slurm's words for its state.

    >>> [
    ...     use_of(each).value
    ...     for each in ("IDLE+CLOUD+POWERED_DOWN", "MIXED+DRAIN", "IDLE+DRAIN", "DOWN*", "IDLE*+CLOUD")
    ... ]
    ['off', 'draining', 'drained', 'down', 'starting']
    """
    words = {word.strip("*~#!%$@^-") for word in state.upper().split("+")}
    if words & _OFF:
        return NodeUse.OFF
    if words & _STARTING:
        return NodeUse.STARTING
    if words & _DOWN:
        return NodeUse.DOWN
    if "*" in state or "NOT_RESPONDING" in words:
        # It was just resumed, or its slurmd has been silent for less than SlurmdTimeout: it comes back, or goes down.
        return NodeUse.STARTING
    if words & {"DRAIN", "DRAINING", "DRAINED"}:
        return NodeUse.DRAINING if words & _BUSY else NodeUse.DRAINED
    return NodeUse.BUSY if words & _BUSY else NodeUse.IDLE


def drain(shell: Shell, node: str, reason: str) -> None:
    """Let a node accept no more jobs; a running job continues to its end."""
    _change(shell, node, "drain", "update", f"nodename={node}", "state=drain", f"reason={reason}")


def resume(shell: Shell, node: str) -> None:
    """Let a drained or down node accept jobs again."""
    _change(shell, node, "resume", "update", f"nodename={node}", "state=resume")


def mark_down(shell: Shell, node: str, reason: str) -> None:
    """Mark a node as down: Slurm ends its jobs and requeues them."""
    _change(shell, node, "mark as down", "update", f"nodename={node}", "state=down", f"reason={reason}")


def reboot(shell: Shell, node: str, reason: str) -> None:
    """Reboot a node by Slurm's RebootProgram once its job has ended; it accepts no other job before."""
    _change(shell, node, "reboot", "reboot", "ASAP", "nextstate=RESUME", f"reason={reason}", node)


def diagnostics(shell: Shell) -> dict[str, str]:
    """What Slurm says of a cluster, by file name; a command that fails leaves its error in its file.

    One command after the other: what a head node answers through Systems Manager has at most 24,000 characters.
    """
    texts = {}
    for name, command in _ASKED.items():
        most = min(_MOST_BYTES, shell.chunk_bytes)
        answer = shell.run(f"({command}) 2>&1 | tail -c {most}")
        texts[name] = f"$ {command}\n{answer.out.lstrip()}"
    return texts


def _change(shell: Shell, node: str, verb: str, *arguments: str) -> None:
    answer = shell.run(_CHANGE.format(arguments=shlex.join(arguments)))
    if answer.code != 0:
        reason = _reason(answer)
        hint = "only root and Slurm's own user may change a node: the user of the head node needs sudo"
        refused = any(word in reason.lower() for word in ("permission", "sudo", "denied"))
        raise SchedulerError(f"{shell.name}: Slurm does not {verb} {node}: {reason}", hint=hint if refused else "")


def _reason(answer: ScriptResult) -> str:
    return " | ".join(answer.err.strip().splitlines()[-3:]) or f"exit {answer.code}"
