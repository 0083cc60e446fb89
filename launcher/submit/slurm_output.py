"""The output of Slurm's commands as values: job ids, states, times, node names."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from launcher.model.job import JobFacts, JobState, SchedulerAttempt
from launcher.submit.jobs import SchedulerError

STATES = {
    "PENDING": JobState.PENDING,
    "CONFIGURING": JobState.PENDING,
    "REQUEUED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
    "COMPLETED": JobState.COMPLETED,
    "CANCELLED": JobState.CANCELLED,
    "FAILED": JobState.FAILED,
    "NODE_FAIL": JobState.FAILED,
    "BOOT_FAIL": JobState.FAILED,
    "DEADLINE": JobState.FAILED,
    "OUT_OF_MEMORY": JobState.FAILED,
    "PREEMPTED": JobState.FAILED,
    "TIMEOUT": JobState.FAILED,
}
"""Slurm's states (man squeue, job state codes). Every other state lies between two of these and counts as running: only
states that Slurm itself defines as final are final."""
TIME_FORMAT = "%s"
"""SLURM_TIME_FORMAT for every command whose output Slipway reads: seconds since 1970, independent of time zones."""
ACCOUNTED = ("State", "Start", "End", "ExitCode", "NodeList", "JobName")
"""The columns of `sacct --parsable2` that `parse_sacct` reads."""

_SUBMITTED = re.compile(r"(\d+)(?:;\S+)?\s*\Z")

LAST_S = 253_402_300_800
"""The end of the year 9999."""
MAX_HOSTS = 65_536
"""Of one expression: Slurm itself expands no more (MAX_SLURM_NODES in slurm.h.in of Slurm 24.05)."""


def state_of(word: str) -> JobState:
    """The state for Slurm's state word; sacct appends the user who cancelled the job.

    >>> state_of("CANCELLED by 1000").value, state_of("COMPLETING").value
    ('cancelled', 'running')
    """
    return STATES.get(word.partition(" ")[0], JobState.RUNNING)


def parse_sbatch(printed: str) -> str:
    r"""The job id that `sbatch --parsable` printed.

    Raises:
        SchedulerError: sbatch printed no job id.

    >>> parse_sbatch("31\n"), parse_sbatch("31;cluster\n")
    ('31', '31')
    """
    match = _SUBMITTED.search(printed)
    if match is None:
        raise SchedulerError(f"sbatch printed no job id but {printed.strip()!r}")
    return match[1]


def field(printed: str, name: str) -> str | None:
    """One field of `scontrol --oneliner show job`; None if the field is missing.

    >>> field("JobId=7 JobState=RUNNING Reason=None", "JobState")
    'RUNNING'
    """
    match = re.search(rf"(?:^|\s){name}=(\S*)", printed)
    return match[1] if match else None


def parse_scontrol(printed: str) -> JobFacts:
    """The job that `scontrol --oneliner show job` printed, with times in `TIME_FORMAT`.

    Raises:
        SchedulerError: the output contains no job.
    """
    word = field(printed, "JobState")
    if word is None:
        raise SchedulerError(f"scontrol printed no job but {printed.strip()[:200]!r}")
    state, restarts = state_of(word), _number(field(printed, "Restarts") or "") or 0
    reason = field(printed, "Reason") or ""
    nodes = hosts(field(printed, "NodeList") or "")
    attempt = None
    if state is not JobState.PENDING:
        attempt = _attempt(
            number=restarts + 1,
            began=field(printed, "StartTime") or "",
            ended=(field(printed, "EndTime") or "") if state.final else "",
            code=field(printed, "ExitCode") or "",
            nodes=nodes,
            word=word,
        )
    return JobFacts(
        state=state,
        word=word,
        reason="" if reason == "None" else reason,
        restarts=restarts,
        nodes=nodes if state is JobState.RUNNING else (),
        attempt=attempt,
    )


def parse_sacct(printed: str) -> tuple[JobFacts, tuple[SchedulerAttempt, ...]] | None:
    """A job from `sacct --duplicates --parsable2 --noheader`, one line per attempt; None if it printed no line.

    The columns are `ACCOUNTED`, times in `TIME_FORMAT`.
    """
    rows = [line.split("|") for line in printed.splitlines() if line.count("|") == len(ACCOUNTED) - 1]
    if not rows:
        return None
    rows.sort(key=lambda row: -1 if (began := _number(row[1])) is None else began)
    attempts: list[SchedulerAttempt] = []
    for word, began, ended, code, nodes, _ in rows:
        over = state_of(word) is not JobState.RUNNING
        attempt = _attempt(
            number=len(attempts) + 1,
            began=began,
            ended=ended if over else "",
            code=code,
            nodes=hosts(nodes),
            word=word.partition(" ")[0],
        )
        if attempt is not None:
            attempts.append(attempt)
    word = rows[-1][0]
    last = attempts[-1] if attempts else None
    facts = JobFacts(
        state=state_of(word),
        word=word.partition(" ")[0],
        reason="",
        restarts=len(rows) - 1,
        nodes=last.nodes if last is not None and state_of(word) is JobState.RUNNING else (),
        attempt=last,
    )
    return facts, tuple(attempts)


def _attempt(
    *, number: int, began: str, ended: str, code: str, nodes: tuple[str, ...], word: str
) -> SchedulerAttempt | None:
    """An attempt from Slurm's texts; None for an attempt that never began."""
    started_at, ended_at = moment_of(began), moment_of(ended)
    if started_at is None:
        return None
    status, _, signal = code.partition(":")
    # Slurm has no exit code for an attempt whose node is gone, and says 0.
    lost, over = word in ("NODE_FAIL", "BOOT_FAIL"), ended_at is not None
    return SchedulerAttempt(
        number=number,
        started_at=started_at,
        ended_at=ended_at,
        exit_code=_number(status) if over and not lost else None,
        signal=(_number(signal) or 0) if over else 0,
        nodes=nodes,
        node_lost=lost,
    )


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else None


def moment_of(text: str) -> datetime | None:
    """Seconds since 1970 as a datetime; None for any other text, and for seconds beyond the year 9999."""
    seconds = _number(text)
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None and seconds < LAST_S else None


def partition_of(printed: str, default: str, feature: str) -> str | None:
    r"""The partition for a job, from the lines of `sinfo --noheader --format="%R %f"`.

    Args:
        printed: one line for each partition and set of node features.
        default: the preferred partition, if one has this name.
        feature: else the first partition whose nodes have this feature; ParallelCluster sets each node's instance type.

    >>> partition_of("gpu dynamic,p5.48xlarge\ncpu (null)\n", "p5-48xlarge", "p5.48xlarge")
    'gpu'
    """
    rows = [(name, features.split(",")) for name, _, features in (line.partition(" ") for line in printed.splitlines())]
    if any(name == default for name, _ in rows):
        return default
    return next((name for name, features in rows if feature in features), None)


def hosts(expression: str) -> tuple[str, ...]:
    """The host names of a Slurm host list expression.

    >>> hosts("p5-dy-x-[1-3,7]")
    ('p5-dy-x-1', 'p5-dy-x-2', 'p5-dy-x-3', 'p5-dy-x-7')
    >>> hosts("a-1,b-2"), hosts("(null)"), hosts("None assigned")
    (('a-1', 'b-2'), (), ())

    Raises:
        SchedulerError: the expression names no hosts, or more than any cluster has.
    """
    if expression in ("(null)", "None assigned", "None"):
        return ()
    names: list[str] = []
    for prefix, ranges in re.findall(r"([^,\[]+)(?:\[([^\]]*)\])?", expression):
        for part in ranges.split(",") if ranges else ():
            names.extend(_numbered_nodes(prefix, part))
            if len(names) > MAX_HOSTS:
                raise SchedulerError(f"Slurm names more than {MAX_HOSTS:,} nodes: {expression[:200]!r}")
        if not ranges:
            names.append(prefix)
    return tuple(names)


def _numbered_nodes(prefix: str, part: str) -> Iterable[str]:
    first, dash, last = part.partition("-")
    low = _number(first)
    high = _number(last) if dash else low
    if low is None or high is None or high - low >= MAX_HOSTS:
        raise SchedulerError(f"Slurm lists node names that cannot be parsed: {prefix[:100]!r} with {part[:100]!r}")
    return (f"{prefix}{number:0{len(first)}}" for number in range(low, high + 1))
