"""The #SBATCH lines of a batch script, as far as a machine without Slurm can follow them."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.submit.jobs import SchedulerError

_LETTERS = {
    "-J": "job-name",
    "-N": "nodes",
    "-n": "ntasks",
    "-c": "cpus-per-task",
    "-p": "partition",
    "-o": "output",
    "-e": "error",
    "-t": "time",
    "-D": "chdir",
}
_FLAGS = frozenset({"exclusive", "requeue", "no-requeue", "overcommit", "spread-job"})
_FOLLOWED = frozenset(
    {"job-name", "nodes", "ntasks", "ntasks-per-node", "partition", "output", "error", "time", "chdir", "open-mode"}
)
_WITHOUT_EFFECT = frozenset(
    {"cpus-per-task", "gres", "gpus-per-node", "constraint", "mem", "signal", "exclusive", "comment"}
)
"""What has no meaning on one machine, where nothing is shared and nothing is bounded."""
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """What a script asks for. `time_limit_s` is None without a limit; `partition` and `chdir` may be empty."""

    job_name: str
    partition: str
    nodes: int
    tasks_per_node: int
    output: str
    error: str
    append: bool
    chdir: str
    time_limit_s: int | None
    requeue: bool | None


def batch_options(text: str, name: str, given: Sequence[str] = ()) -> BatchOptions:
    """What a script asks for.

    Args:
        text: the script.
        name: its file's name, the job's unless it has one.
        given: options of sbatch's command line, which go before those of the script.

    Raises:
        SchedulerError: an option that is not known, or makes no sense.

    >>> batch_options("#SBATCH --nodes=2 --requeue -t 1-00:30", "x.sh").time_limit_s
    88200
    """
    found = _found(text) | _read(list(given))
    unknown = sorted(set(found) - _FLAGS - _FOLLOWED - _WITHOUT_EFFECT)
    if unknown:
        raise SchedulerError(f"the local runner does not know --{', --'.join(unknown)}")
    nodes = found.get("nodes", "1").partition("-")[0]
    tasks = int(found.get("ntasks-per-node") or -(-int(found.get("ntasks", nodes)) // int(nodes)))
    return BatchOptions(
        job_name=found.get("job-name", name),
        partition=found.get("partition", "").partition(",")[0],
        nodes=int(nodes),
        tasks_per_node=tasks,
        output=found.get("output", "slurm-%j.out"),
        error=found.get("error", ""),
        append=found.get("open-mode", "truncate") == "append",
        chdir=found.get("chdir", ""),
        time_limit_s=_seconds(found["time"]) if "time" in found else None,
        requeue=True if "requeue" in found else False if "no-requeue" in found else None,
    )


def file_name(pattern: str, values: Mapping[str, str], folder: Path) -> Path:
    """The file that a pattern such as `slurm-%j.out` names.

    >>> file_name("logs/%x-%j.out", {"j": "7", "x": "gpt"}, Path("/runs")).as_posix()
    '/runs/logs/gpt-7.out'
    """
    return folder / re.sub(r"%(.)", lambda match: values.get(match[1], match[0]), pattern)


def _found(text: str) -> dict[str, str]:
    """The options by their long name. sbatch stops reading at the first line that is not a comment."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or not line.startswith("#SBATCH"):
            if line.strip() and not line.startswith("#"):
                break
            continue
        found |= _read(shlex.split(line.removeprefix("#SBATCH"), comments=True))
    return found


def _read(words: list[str]) -> dict[str, str]:
    """The options that some words are, by their long name."""
    found: dict[str, str] = {}
    while words:
        word = words.pop(0)
        name, given, value = word.partition("=")
        letter = word[:2]
        if letter in _LETTERS:
            name, value = _LETTERS[letter], word[2:].lstrip("=") or words.pop(0)
        elif not word.startswith("--"):
            raise SchedulerError(f"the local runner does not know {word}")
        elif not given and name.removeprefix("--") not in _FLAGS:
            value = words.pop(0)
        found[name.removeprefix("--")] = value
    return found


def _seconds(text: str) -> int | None:
    """A time limit of sbatch: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]."""
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise SchedulerError(f"--time={text} is no time limit")
    days, *rest = (int(part) if part else 0 for part in match.groups())
    first, second, third = rest
    if match[1] is not None or match[4] is not None:
        return days * 86400 + first * 3600 + second * 60 + third
    return first * 60 + second
