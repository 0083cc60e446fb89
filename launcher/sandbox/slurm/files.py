"""The files of a private Slurm: its configuration, and its prolog and epilog scripts.

The scripts make a node of the sandbox look like an EC2 instance. TaskProlog gives every task the node's own metadata
endpoint, disk and mark. PrologSlurmctld and EpilogSlurmctld record the start and the end of each attempt of a job,
which Slurm without an accounting database forgets at the next attempt.
"""

import os
import pwd
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.sandbox import namespaces
from launcher.sandbox.cluster.specification import ClusterSpec
from launcher.sandbox.processes import NODE_MARK

_RULES = """
AuthType=auth/munge
CryptoType=crypto/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=1
EnforcePartLimits=ALL
GresTypes=gpu
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=5,requeue_delay=0
DebugFlags=NO_CONF_HASH
SlurmctldTimeout=10
SlurmdTimeout=10
MessageTimeout=10
KillWait=5
InactiveLimit=0
MinJobAge=86400
"""
"""Settings that do not depend on the cluster. Nodes claim the processors and memory of their instance type
(config_overrides); the configuration of each differs by one line (NO_CONF_HASH). Nodes are written as ParallelCluster
writes them, without settings that its configuration does not contain (aws-parallelcluster-cookbook@f75d84c, 3.12:
slurm.conf.erb and config_renderer.py)."""

_ATTEMPT = """#!/bin/sh
# One line for the {event} of an attempt.
printf '{{"event":"{event}","time":%s,"job":"%s","restart":%s,"nodes":"%s","code":"%s"}}\\n' \\
    "$(date +%s.%N)" "$SLURM_JOB_ID" "$SLURM_JOB_RESTART_COUNT" "$SLURM_JOB_NODELIST" "$SLURM_JOB_EXIT_CODE2" \\
    >>'{attempts}'
"""

_REBOOT = """#!/bin/sh
# What reboots an instance: the sandbox watches for the file, and starts the node's slurmd again.
: >'{request}'
"""

_SRUN = """#!/bin/sh
# In place of srun on each node. srun listens on the address of the host's name, but the kernel sends from 127.0.0.1,
# and slurmd answers there: srun runs under the name of that address, and its tasks under the names of their nodes.
exec unshare --uts sh -c 'echo localhost >/proc/sys/kernel/hostname && exec "$0" "$@"' '{program}' "$@"
"""

_TASK = """#!/bin/sh
# What a node of EC2 has of its own: Slurm puts the lines that begin with "export" into the task's environment.
sed 's/^/export /' '{folder}'/"$SLURMD_NODENAME"/environment
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmPlaces:
    """The files of a private Slurm. `folder` is a short path: the path of a socket has at most 108 bytes.

    `nodes` contains a folder for each node.
    """

    folder: Path
    nodes: Path

    @property
    def configuration(self) -> Path:
        """slurm.conf, as clients read it."""
        return self.folder / "slurm.conf"

    @property
    def attempts(self) -> Path:
        """The record of the attempts of all jobs."""
        return self.folder / "attempts.jsonl"

    @property
    def munge_socket(self) -> Path:
        """The socket of munged."""
        return self.folder / "munge.socket"

    def log(self, name: str) -> Path:
        """The log of a daemon."""
        return self.folder / "log" / f"{name}.log"

    def node_configuration(self, index: int) -> Path:
        """slurm.conf of one node, with its own spool folder."""
        return self.folder / f"node-{index}.conf"

    def reboot_program(self, index: int) -> Path:
        """RebootProgram of one node."""
        return self.folder / f"reboot-{index}"

    def reboot_request(self, index: int) -> Path:
        """The file that a node's RebootProgram makes."""
        return self.folder / f"reboot-{index}.requested"

    @property
    def node_srun(self) -> Path:
        """The srun of nodes with addresses of their own."""
        return self.folder / "node-srun"

    def spool(self, index: int) -> Path:
        """The spool folder of one node, with the sockets of its job steps."""
        return self.folder / f"s{index}"


def write(places: SlurmPlaces, spec: ClusterSpec, ports: Sequence[int], srun: str) -> None:
    """Write every file of a cluster's Slurm, over the files of an earlier attempt to start it.

    `ports` are the controller's, then one per node in the order of `spec.groups`. `srun` is the path of the program.
    """
    for name in ("log", "state"):
        (places.folder / name).mkdir(mode=0o700, exist_ok=True)
    names = node_names(spec)
    places.configuration.write_text(slurm_conf(places, spec, ports), encoding="utf-8")
    for index, _ in enumerate(names):
        places.spool(index).mkdir(mode=0o700, exist_ok=True)
        text = f"include {places.configuration}\nSlurmdSpoolDir={places.spool(index)}\n"
        text += f"RebootProgram={places.reboot_program(index)}\n"
        _script(places.reboot_program(index), _REBOOT.format(request=places.reboot_request(index)))
        places.node_configuration(index).write_text(text, encoding="utf-8")
    (places.folder / "gres.conf").write_text(_gres(places, spec), encoding="utf-8")
    (places.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n", encoding="utf-8")
    (places.folder / "plugstack.conf").touch()
    for event in ("start", "end"):
        _script(places.folder / event, _ATTEMPT.format(event=event, attempts=places.attempts))
    _script(places.folder / "task", _TASK.format(folder=places.nodes))
    # A copy: each node's mount hides the program itself.
    shutil.copy2(srun, places.folder / "srun")
    _script(places.node_srun, _SRUN.format(program=places.folder / "srun"))
    key = places.folder / "munge.key"
    key.unlink(missing_ok=True)
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))


def write_node_environment(places: SlurmPlaces, name: str, environment: Mapping[str, str]) -> None:
    """Write the environment variables of tasks on a node."""
    text = "".join(f"{key}={value}\n" for key, value in environment.items())
    (places.nodes / name / "environment").write_text(text, encoding="utf-8")


def node_environment(*, metadata: str, scratch: str, life: str) -> dict[str, str]:
    """The variables that differ by node: its metadata service, its disk, and the mark of its processes."""
    return {
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata,
        "SLIPWAY_SCRATCH": scratch,
        "TMPDIR": scratch,
        NODE_MARK: life,
    }


def node_names(spec: ClusterSpec) -> tuple[str, ...]:
    """The names of all nodes, in the order of their ports."""
    return tuple(name for group in spec.groups for name in group.node_names())


def slurm_conf(places: SlurmPlaces, spec: ClusterSpec, ports: Sequence[int]) -> str:
    """The text of slurm.conf."""
    host, user = socket.gethostname().partition(".")[0], _user()
    bound = loopback_address(host)
    head = {
        "ClusterName": "parallelcluster",
        "SlurmctldHost": f"{host}({bound or '127.0.0.1'})",
        "SlurmctldPort": str(ports[0]),
        "SlurmUser": user,
        "SlurmdUser": user,
        "AuthInfo": f"socket={places.munge_socket}",
        "StateSaveLocation": f"{places.folder}/state",
        "SlurmctldPidFile": f"{places.folder}/slurmctld.pid",
        "SlurmdPidFile": f"{places.folder}/%n.pid",
        "SlurmctldLogFile": str(places.log("slurmctld")),
        "SlurmdLogFile": str(places.log("%n")),
        "PlugStackConfig": f"{places.folder}/plugstack.conf",
        "TaskProlog": f"{places.folder}/task",
        "PrologSlurmctld": f"{places.folder}/start",
        "EpilogSlurmctld": f"{places.folder}/end",
        # Each node's own configuration names its own.
        "RebootProgram": str(places.reboot_program(0)),
    }
    if bound:
        head["CommunicationParameters"] = "NoCtldInAddrAny,NoInAddrAny"
    lines = [f"{key}={value}" for key, value in head.items()]
    lines += _RULES.strip().splitlines()
    lines += _node_lines(spec, ports[1:], host, bound or "127.0.0.1")
    lines += _partition_lines(spec)
    # The configuration's own settings come last: the last word on a name counts.
    lines += [f"{key}={value}" for key, value in spec.settings]
    return "\n".join(lines) + "\n"


def _node_lines(spec: ClusterSpec, ports: Sequence[int], host: str, address: str) -> list[str]:
    lines = []
    remaining = iter(ports)
    for group in spec.groups:
        settings = {"CPUs": str(group.cpus), "RealMemory": str(group.memory_mib), **group.settings}
        if group.gpus:
            settings["Gres"] = f"gpu:{group.gpus}"
        for number, name in enumerate(group.node_names()):
            kind = "static" if number < group.min_count else "dynamic"
            features = [
                kind,
                group.instance_type,
                group.name,
                *(["efa"] if group.efa else []),
                *(["gpu"] if group.gpus else []),
            ]
            fields = {
                "NodeName": name,
                "NodeHostname": host,
                "NodeAddr": namespaces.node_address(name) if namespaces.can_name_hosts() else address,
                "Port": str(next(remaining)),
                **settings,
                "Feature": ",".join(features),
                "State": "UNKNOWN",
            }
            lines.append(" ".join(f"{key}={value}" for key, value in fields.items()))
    return lines


def _partition_lines(spec: ClusterSpec) -> list[str]:
    lines = []
    for index, queue in enumerate(spec.queues):
        names = [name for group in spec.groups if group.queue == queue.name for name in group.node_names()]
        fields = {
            "PartitionName": queue.name,
            "Nodes": ",".join(names),
            "MaxTime": "INFINITE",
            "State": "UP",
            "Default": "NO" if index else "YES",
            "OverSubscribe": "EXCLUSIVE" if queue.exclusive else "NO",
            **queue.settings,
        }
        lines.append(" ".join(f"{key}={value}" for key, value in fields.items()))
    return lines


def _gres(places: SlurmPlaces, spec: ClusterSpec) -> str:
    """gres.conf, with files in place of the devices: Slurm counts them, and warns that they are not devices."""
    devices = places.folder / "devices"
    devices.mkdir(mode=0o700, exist_ok=True)
    lines = []
    for group in [group for group in spec.groups if group.gpus]:
        for number in range(group.gpus):
            (devices / f"gpu{number}").touch()
        names = ",".join(group.node_names())
        lines.append(f"NodeName={names} Name=gpu File={devices}/gpu[0-{group.gpus - 1}]\n")
    return "".join(lines)


def _script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o700)


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def loopback_address(host: str) -> str:
    """The loopback address of the host's name; empty if the name resolves to another address or to none.

    Slurm can listen only on all addresses or on the address of the host's name.
    """
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return ""
    return address if address.startswith("127.") else ""
