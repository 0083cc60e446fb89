"""A run over time, from its run folder: losses, rates, checkpoints, interruptions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from launcher.agent.metrics import figures_in
from launcher.agent.shape import moment
from launcher.model.report import Attempt
from launcher.records.run_folder import EVENTS, JOB_FOLDER, METRICS, RunFolder
from launcher.workflow.history.attempts import interrupted_attempts, read_events


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeline:
    """Reports by seconds since the first attempt; `rates` are tokens per second."""

    losses: tuple[tuple[float, float], ...]
    rates: tuple[tuple[float, float], ...]
    saved: tuple[float, ...]
    broken: tuple[float, ...]
    ends_at: float


def timeline(folder: RunFolder, attempts: Sequence[Attempt]) -> RunTimeline:
    """The timeline of a run folder; empty without reports."""
    if not attempts:
        return RunTimeline(losses=(), rates=(), saved=(), broken=(), ends_at=0.0)
    first = attempts[0].started_at
    figures = list(_figures(folder, [(attempt.started_at - first).total_seconds() for attempt in attempts]))
    stored = [
        event for event in read_events(folder.path / JOB_FOLDER / EVENTS) if event["event"] == "checkpoint-uploaded"
    ]
    saved = tuple((when - first).total_seconds() for line in stored if (when := _when(line)) is not None)
    over = [(attempt.ended_at - first).total_seconds() for attempt in attempts if attempt.ended_at is not None]
    gone = interrupted_attempts(attempts)
    broken = tuple(
        (attempt.ended_at - first).total_seconds()
        for attempt in attempts
        if attempt.ended_at is not None and (attempt.ended_by == "failure" or attempt in gone)
    )
    return RunTimeline(
        losses=tuple((at, float(row["loss"])) for at, row in figures if "loss" in row),
        rates=tuple(_rates(figures)),
        saved=saved,
        broken=broken,
        ends_at=max([*over, *(at for at, _ in figures)], default=0.0),
    )


def _figures(folder: RunFolder, starts: Sequence[float]) -> Iterator[tuple[float, Mapping[str, int | float]]]:
    """The trainer's metrics by seconds since the first attempt; the trainer's clock restarts with each attempt."""
    path = folder.path / JOB_FOLDER / METRICS
    attempt, before = 0, 0.0
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        figures, _ = figures_in(line)
        if "seconds" not in figures or "step" not in figures:
            continue
        if figures["seconds"] < before and attempt + 1 < len(starts):
            attempt += 1
        before = float(figures["seconds"])
        yield starts[attempt] + before, figures


def _rates(figures: Sequence[tuple[float, Mapping[str, int | float]]]) -> Iterator[tuple[float, float]]:
    """Tokens per second between consecutive reports of the same attempt."""
    for (earlier, old), (later, new) in pairwise(figures):
        tokens = new.get("tokens", 0) - old.get("tokens", 0)
        if tokens > 0 and new["seconds"] > old["seconds"] and later > earlier:
            yield later, tokens / float(new["seconds"] - old["seconds"])


def _when(event: Mapping[str, Any]) -> datetime | None:
    stated = event.get("time")
    try:
        return moment(stated) if isinstance(stated, str) else None
    except ValueError:
        return None
