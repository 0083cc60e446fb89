"""Following a job: new output is read as it grows, and reported once."""

import json
from pathlib import Path
from typing import Any

from launcher.model.report import RunStatus
from launcher.records.run_folder import RunFolder
from launcher.workflow.history.attempts import attempts, read_events
from launcher.workflow.run.follow import Follower, Progress


class Script:
    """A job that writes one piece of its story at every look, and has then ended."""

    def __init__(self, job: Path, log: Path, story: list[dict[str, list[Any]]]) -> None:
        self.job, self.log, self.story = job, log, story

    def ended(self) -> bool:
        if not self.story:
            return True
        for name, lines in self.story.pop(0).items():
            path = self.log if name == "log" else self.job / f"{name}.jsonl"
            with path.open("a", encoding="utf-8") as stream:
                stream.writelines(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
        return False


def event(kind: str, attempt: int, **facts: Any) -> dict[str, Any]:
    return {"time": f"2026-11-20T12:0{attempt}:00.000Z", "event": kind, "attempt": attempt, **facts}


STORY = [
    {
        "log": ["slipway: job 7, start 1", "starting"],
        "events": [event("attempt-started", 1)],
        "metrics": [{"step": 10, "loss": 3.0}],
    },
    {"events": [event("checkpoint-uploaded", 1, step=10)], "metrics": [{"step": 14, "loss": 2.5}]},
    {"events": [event("interrupted", 1, ended_by="spot-interruption", exit_code=75)], "log": ["saved"]},
    {"log": ["slipway: job 7, start 2"], "events": [event("attempt-started", 2), event("restored", 2, step=14)]},
    {"metrics": [{"step": 20, "loss": 2.0}, "not json"], "events": [event("checkpoint-uploaded", 2, step=20)]},
    {"events": [event("completed", 2, ended_by="completed", exit_code=0)], "log": ["done"]},
]


def test_requeued_job_is_followed_to_end(tmp_path: Path) -> None:
    job, run = tmp_path / "job", tmp_path / "run"
    (run / "logs").mkdir(parents=True)
    job.mkdir()
    messages: list[str] = []
    shown: list[Progress] = []
    first: list[int] = []
    follower = Follower(
        job=job,
        folder=RunFolder(path=run),
        log=tmp_path / "slurm-7.out",
        on_event=lambda job_event: messages.append(job_event["event"]),
        on_progress=shown.append,
        on_first_checkpoint=lambda: first.append(1),
    )
    status = follower.follow(Script(job, tmp_path / "slurm-7.out", [*map(dict, STORY)]).ended, tick=lambda: None)
    assert status is RunStatus.SUCCEEDED
    assert messages.count("attempt-started") == 2
    assert first == [1]
    assert (shown[-1].attempt, shown[-1].step, shown[-1].saved_step) == (2, 20, 20)
    assert (run / "logs" / "attempt-1.log").read_text() == "slipway: job 7, start 1\nstarting\nsaved\n"
    assert (run / "logs" / "attempt-2.log").read_text() == "slipway: job 7, start 2\ndone\n"
    one, two = attempts(read_events(run / "events.jsonl"))
    assert (one.last_step, two.resumed_from_step, two.last_step) == (14, 14, 20)


def test_job_without_end_event_has_failed(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    follower = Follower(
        job=tmp_path,
        folder=RunFolder(path=tmp_path),
        log=tmp_path / "log",
        on_event=lambda job_event: None,
        on_progress=lambda progress: None,
        on_first_checkpoint=lambda: None,
    )
    assert follower.follow(Script(tmp_path, tmp_path / "log", []).ended, tick=lambda: None) is RunStatus.FAILED
