"""What Slurm's commands print, as values: job ids, states, times, node names."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from launcher.submit.jobs import Attempt, JobFacts, JobState, SchedulerError

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
"""Slurm's states (man squeue, job state codes). Every other lies between two of these and is called running: only what
Slurm itself calls an end is final."""
TIME_FORMAT = "%s"
"""SLURM_TIME_FORMAT for every command that is read here: seconds since 1970, so that no time zone is guessed."""
ACCOUNTED = ("State", "Start", "End", "ExitCode", "NodeList", "JobName")
"""The columns of `sacct --parsable2` that `accounted` reads."""

_SUBMITTED = re.compile(r"(\d+)(?:;\S+)?\s*\Z")


def state_of(word: str) -> JobState:
    """The state that Slurm's word stands for; sacct adds who cancelled.

    >>> state_of("CANCELLED by 1000").value, state_of("COMPLETING").value
    ('cancelled', 'running')
    """
    return STATES.get(word.partition(" ")[0], JobState.RUNNING)


def submitted(printed: str) -> str:
    r"""The job id that `sbatch --parsable` printed.

    Raises:
        SchedulerError: it printed none.

    >>> submitted("31\n"), submitted("31;cluster\n")
    ('31', '31')
    """
    match = _SUBMITTED.search(printed)
    if match is None:
        raise SchedulerError(f"sbatch printed no job id but {printed.strip()!r}")
    return match[1]


def field(printed: str, name: str) -> str | None:
    """One field of `scontrol --oneliner show job`, None where it is not there.

    >>> field("JobId=7 JobState=RUNNING Reason=None", "JobState")
    'RUNNING'
    """
    match = re.search(rf"(?:^|\s){name}=(\S*)", printed)
    return match[1] if match else None


def described(printed: str) -> JobFacts:
    """The job that `scontrol --oneliner show job` printed, with times in `TIME_FORMAT`.

    Raises:
        SchedulerError: it printed no job.
    """
    word = field(printed, "JobState")
    if word is None:
        raise SchedulerError(f"scontrol printed no job but {printed.strip()[:200]!r}")
    state, restarts = state_of(word), int(field(printed, "Restarts") or 0)
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


def accounted(printed: str) -> tuple[JobFacts, tuple[Attempt, ...]] | None:
    """A job from `sacct --duplicates --parsable2 --noheader`, one line an attempt; None where there is no line.

    The columns are `ACCOUNTED`, times in `TIME_FORMAT`.
    """
    rows = [line.split("|") for line in printed.splitlines() if line.count("|") == len(ACCOUNTED) - 1]
    if not rows:
        return None
    rows.sort(key=lambda row: (row[1].isdigit(), int(row[1]) if row[1].isdigit() else 0))
    found: list[Attempt] = []
    for word, began, ended, code, nodes, _ in rows:
        over = state_of(word) is not JobState.RUNNING
        attempt = _attempt(
            number=len(found) + 1,
            began=began,
            ended=ended if over else "",
            code=code,
            nodes=hosts(nodes),
            word=word.partition(" ")[0],
        )
        if attempt is not None:
            found.append(attempt)
    word = rows[-1][0]
    last = found[-1] if found else None
    facts = JobFacts(
        state=state_of(word),
        word=word.partition(" ")[0],
        reason="",
        restarts=len(rows) - 1,
        nodes=last.nodes if last is not None and state_of(word) is JobState.RUNNING else (),
        attempt=last,
    )
    return facts, tuple(found)


def _attempt(*, number: int, began: str, ended: str, code: str, nodes: tuple[str, ...], word: str) -> Attempt | None:
    """An attempt from Slurm's texts; None for one that never began."""
    if not began.isdigit():
        return None
    status, _, signal = code.partition(":")
    # Slurm has no exit code for an attempt whose node is gone, and says 0.
    lost, over = word in ("NODE_FAIL", "BOOT_FAIL"), ended.isdigit()
    return Attempt(
        number=number,
        started_at=datetime.fromtimestamp(int(began), UTC),
        ended_at=datetime.fromtimestamp(int(ended), UTC) if over else None,
        exit_code=int(status) if over and status.isdigit() and not lost else None,
        signal=int(signal) if over and signal.isdigit() else 0,
        nodes=nodes,
        node_lost=lost,
    )


def partition_of(printed: str, wanted: str, feature: str) -> str | None:
    r"""The partition for a job, from the lines of `sinfo --noheader --format="%R %f"`.

    Args:
        printed: a partition and the features of some of its nodes, one line each.
        wanted: the partition of that name is taken where there is one.
        feature: else the first whose nodes have this feature; ParallelCluster gives every node its instance type.

    >>> partition_of("gpu dynamic,p5.48xlarge\ncpu (null)\n", "p5-48xlarge", "p5.48xlarge")
    'gpu'
    """
    rows = [(name, features.split(",")) for name, _, features in (line.partition(" ") for line in printed.splitlines())]
    if any(name == wanted for name, _ in rows):
        return wanted
    return next((name for name, features in rows if feature in features), None)


def hosts(expression: str) -> tuple[str, ...]:
    """The names in Slurm's short form of several.

    >>> hosts("p5-dy-x-[1-3,7]")
    ('p5-dy-x-1', 'p5-dy-x-2', 'p5-dy-x-3', 'p5-dy-x-7')
    >>> hosts("a-1,b-2"), hosts("(null)"), hosts("None assigned")
    (('a-1', 'b-2'), (), ())
    """
    if expression in ("(null)", "None assigned", "None"):
        return ()
    names: list[str] = []
    for prefix, ranges in re.findall(r"([^,\[]+)(?:\[([^\]]*)\])?", expression):
        names.extend(_numbered(prefix, ranges.split(",") if ranges else ()))
        if not ranges:
            names.append(prefix)
    return tuple(names)


def _numbered(prefix: str, ranges: Iterable[str]) -> Iterable[str]:
    """The names that a prefix and its ranges stand for."""
    for part in ranges:
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield f"{prefix}{number:0{len(first)}}"
