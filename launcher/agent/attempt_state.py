"""The newest attempt of a job of pods (`life.json` in the run's prefix of the store), and whether others may follow."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.agent.shape import read

STATE_FILE = "life.json"
CANCEL_FILE = "cancelled"
"""The object beside it that exists once a person has cancelled the job: a pod's signal does not say why it ends."""
CLAIM = "claim.json"
"""The owner of a checkpoint prefix (launcher/agent/checkpoint/claim.py), renewed every minute."""

HEARTBEAT_FOLDER = "running"
"""Below the location of the messages (launcher/agent/store/guard_messages.py), where nodes already may write."""
HEARTBEAT_S = 300.0
"""Seconds between two objects: 12 requests an hour and node, as often as the guard polls."""
NO_PROGRESS = "two failures in a row without a newer checkpoint between them: the job is not retried"
COMMAND_ENDED = "the command ended with"
"""How the reason of a failure begins if the exit code of the command is all that is known."""
IF_CHECKPOINTS = "; if they are, "
"""Between the names of unrecognised files and the fix for files that are checkpoints."""
_TELLING = ("checkpoint-uploaded", "restored", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptState:
    """The content of `life.json`."""

    # The number of the newest attempt.
    number: int
    # The job ended with it.
    completed: bool = False
    # The job ended because its budget was used up.
    stopped: bool = False
    # An attempt ended with this exit code, and no other attempt may follow.
    failed: int | None = None
    # No other attempt may follow because of NO_PROGRESS, although run.retries allows one.
    stuck: bool = False
    # Failed attempts, of which `counted` is the last.
    failures: int = 0
    counted: int = 0
    # The newest complete checkpoint when attempt `step_of` failed, -1 for none; None if no attempt has failed.
    step: int | None = None
    step_of: int = 0

    def to_json(self) -> str:
        """The text of `life.json`."""
        more: dict[str, bool | int] = {"stopped": True} if self.stopped else {}
        more |= {"failures": self.failures, "counted": self.counted} if self.failures else {}
        more |= {} if self.failed is None else {"failed": self.failed}
        more |= {"stuck": True} if self.stuck else {}
        more |= {} if self.step is None else {"step": self.step, "step_of": self.step_of}
        return json.dumps({"life": self.number, "completed": self.completed, **more}) + "\n"


def parse_attempt_state(text: str) -> AttemptState | None:
    """The newest attempt; None if the text is unreadable, which counts as no earlier attempt."""
    try:
        document = safe_json.loads(text)
        return read(AttemptState, {**document, "number": document["life"], "completed": document["completed"]})
    except (KeyError, TypeError, ValueError):
        return None


def newest_step(events: Iterable[Mapping[str, Any]]) -> int:
    """The step of the newest complete checkpoint in a job's events; -1 for none.

    >>> newest_step([{"event": "restored", "step": 40}, {"event": "checkpoint-uploaded", "step": 60}])
    60
    """
    return max((_step(event) for event in events), default=-1)


def fails_in_place(events: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a job's last two failures have no newer checkpoint between them: a third would fail at the same point.

    >>> failed, saved = {"event": "failed"}, {"event": "checkpoint-uploaded", "step": 60}
    >>> fails_in_place([saved, failed, failed]), fails_in_place([failed, saved, failed]), fails_in_place([failed])
    (True, False, False)
    """
    newest, before, stuck = -1, None, False
    for event in events:
        newest = max(newest, _step(event))
        if event.get("event") == "failed":
            stuck = before is not None and newest <= before
            before = newest
    return stuck


def telling_events(path: Path) -> Iterable[Mapping[str, Any]]:
    """The stored checkpoints, restores and failures in a job's events file; empty if the file is unreadable."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if not any(name in line for name in _TELLING):
                    continue
                try:
                    event = safe_json.loads(line)
                except ValueError:  # a line that a killed agent left half
                    continue
                if isinstance(event, dict) and event.get("event") in _TELLING:
                    yield event
    except OSError:
        return


def _step(event: Mapping[str, Any]) -> int:
    step = event.get("step")
    return step if isinstance(step, int) and event.get("event") != "failed" else -1
