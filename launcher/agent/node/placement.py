"""The attempt, and the number of this node among all nodes: read from the scheduler's variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.agent.errors import JobSpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The place of this agent in its job.

    An announcement of one attempt must not count as a part of a later attempt's checkpoint, hence the session.

    Attributes:
        run: The job's run.
        attempt: Attempt number, from 1.
        part: Number of this node, from 0.
        parts: Number of nodes with an agent each.
        node: The node's name.
        session: Identifies this attempt of the job. It is the same on all nodes and never used again.
    """

    run: str
    attempt: int
    part: int
    parts: int
    node: str
    session: str


def placement(run: str, environment: Mapping[str, str]) -> Placement:
    """Read the placement.

    In a pod SLIPWAY_PART (of SLIPWAY_PARTS) is the number of this pod, and the pods determine the attempt together
    (`rendezvous`). Under Slurm the attempt is `SLURM_RESTART_COUNT` + 1; elsewhere it is `SLIPWAY_ATTEMPT`, or 1. An
    agent that `srun` started on every node is one of many; one that the batch script started is alone, for any number
    of nodes: only in a step does Slurm set `SLURM_STEP_ID`.

    Raises:
        JobSpecError: a variable is not a number.

    >>> placement(
    ...     "r1", {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "2", "SLURM_NNODES": "4", "SLURM_NODEID": "0"}
    ... ).attempt
    3
    """

    def number(name: str, default: int) -> int:
        text = environment.get(name, "")
        if text and not text.isdigit():
            raise JobSpecError([f"{name}: got {text!r} from the environment; it must be a number"])
        return int(text or default)

    if "SLURM_JOB_ID" in environment:
        attempt = number("SLURM_RESTART_COUNT", 0) + 1
    else:
        attempt = max(1, number("SLIPWAY_ATTEMPT", 1))
    session = f"{run}.a{attempt}"
    parts, part = 1, 0
    if "SLURM_STEP_ID" in environment:
        parts = max(1, number("SLURM_STEP_NUM_NODES", number("SLURM_NNODES", 1)))
        part = number("SLURM_NODEID", 0)
        session = f"{session}.{number('SLURM_JOB_ID', 0)}.{number('SLURM_STEP_ID', 0)}"
    elif "SLIPWAY_POD" in environment:
        parts, part = max(1, number("SLIPWAY_PARTS", 1)), number("SLIPWAY_PART", 0)
    return Placement(
        run=run,
        attempt=attempt,
        part=part,
        parts=parts,
        node=environment.get("SLURMD_NODENAME") or environment.get("SLIPWAY_POD") or os.uname().nodename,
        session=session,
    )
