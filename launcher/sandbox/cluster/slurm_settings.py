"""The Slurm settings that a ParallelCluster configuration may contain, and those that it may not contain."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.sandbox.cluster.schema import Problem

_DENIED = {
    "cluster": frozenset(
        {
            "epilog",
            "grestypes",
            "launchparameters",
            "prolog",
            "reconfigflags",
            "resumefailprogram",
            "resumeprogram",
            "resumetimeout",
            "slurmctldhost",
            "slurmctldlogfile",
            "slurmctldparameters",
            "slurmdlogfile",
            "slurmuser",
            "suspendexcnodes",
            "suspendprogram",
            "suspendtime",
            "taskplugin",
            "treewidth",
        }
    ),
    "queue": frozenset(
        {
            "nodes",
            "oversubscribe",
            "partitionname",
            "resumetimeout",
            "state",
            "suspendtime",
        }
    ),
    "compute resource": frozenset(
        {
            "cpus",
            "gres",
            "nodeaddr",
            "nodehostname",
            "nodename",
            "state",
            "weight",
        }
    ),
}
"""ParallelCluster's own deny list, by level (validators/slurm_settings_validator.py of 3.16.1, read 2026-11-20)."""


def denied_settings(settings: Mapping[str, Any], level: str, path: str) -> Iterator[Problem]:
    """The settings that only ParallelCluster may set.

    `level` is "cluster", "queue" or "compute resource".

    >>> [str(problem) for problem in denied_settings({"TaskPlugin": "task/none"}, "cluster", "Settings")]
    ['Settings.TaskPlugin: ParallelCluster sets it itself']
    """
    if level == "cluster" and len(settings) > 1:
        # A node or a partition of the user's own; ParallelCluster does not look at it either.
        return
    for name in settings:
        if name.lower() in _DENIED[level]:
            yield Problem(path=f"{path}.{name}", message="ParallelCluster sets it itself")


def requeue_codes(settings: Mapping[str, str]) -> frozenset[int]:
    """The exit codes after which Slurm requeues a job: RequeueExit, a list of numbers and ranges.

    >>> sorted(requeue_codes({"RequeueExit": "75,80-82"}))
    [75, 80, 81, 82]
    """
    codes: set[int] = set()
    for name, value in settings.items():
        for part in value.split(",") if name.lower() == "requeueexit" else ():
            first, _, last = part.partition("-")
            codes.update(range(int(first), int(last or first) + 1))
    return frozenset(codes)
