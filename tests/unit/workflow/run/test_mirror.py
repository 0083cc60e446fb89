"""Copies of a job's files that `launch` and `status` update at the same time, through the real Slurm's shell."""

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launcher.model.job import Submitted
from launcher.records.run_folder import EVENTS, METRICS
from launcher.submit.jobs import UnreachableError
from launcher.submit.shell import LocalShell, ScriptResult
from launcher.submit.slurm import Slurm, log_name
from launcher.workflow.run.meter import last_points
from launcher.workflow.run.submission_watch import Mirror

LOOKERS = 2


class Meeting:
    """A shell that gives each answer only once everybody has one: all have read before anybody writes."""

    def __init__(self, shell: LocalShell, then: Callable[[], object]) -> None:
        self.shell, self.then = shell, then

    def run(self, script: str, **more: float) -> ScriptResult:
        answer = self.shell.run(script, **more)
        self.then()
        return answer

    def __getattr__(self, name: str) -> object:
        return getattr(self.shell, name)


@pytest.fixture
def submit(tmp_path: Path) -> Submitted:
    (tmp_path / "far").mkdir()
    return Submitted(job="7", key="tiny", folder=str(tmp_path / "far"))


@pytest.fixture
def mirror(submit: Submitted, tmp_path: Path) -> Callable[..., Mirror]:
    def make_mirror(then: Callable[[], object] = lambda: None) -> Mirror:
        shell = Meeting(LocalShell({"PATH": os.environ["PATH"]}), then)
        return Mirror(source=Slurm(shell=shell), job=submit, folder=tmp_path / "near")

    return make_mirror


def steps(first: int, last: int) -> str:
    return "".join(f"{json.dumps({'step': step, 'steps': 99, 'seconds': step})}\n" for step in range(first, last))


def at_once(mirrors: list[Mirror]) -> None:
    with ThreadPoolExecutor(len(mirrors)) as pool:
        for ended in [pool.submit(reader.sync) for reader in mirrors]:
            ended.result()


def test_simultaneous_syncs_copy_each_line_once(mirror, submit, tmp_path):
    metrics, copy = Path(submit.folder, METRICS), tmp_path / "near" / METRICS
    together = threading.Barrier(LOOKERS)
    lookers = [mirror(together.wait) for _ in range(LOOKERS)]
    for first in (0, 20, 40):
        with metrics.open("a") as file:
            file.write(steps(first, first + 20))
        at_once(lookers)
        assert copy.read_bytes() == metrics.read_bytes()
        assert [point.step for point in last_points(copy)[0]] == list(range(first + 20))


def test_copy_of_growing_file_is_always_a_prefix(mirror, submit, tmp_path):
    names = (METRICS, EVENTS, log_name(submit))
    copies, done = [], threading.Event()

    def write() -> None:
        for number in range(60):
            for name in names:
                with Path(submit.folder, name).open("a") as file:
                    file.write(steps(number, number + 1))
        done.set()

    def sync_copies() -> None:
        reader = mirror()
        while not done.is_set():
            reader.sync()
            copies.extend((name, path.read_bytes()) for name in names if (path := tmp_path / "near" / name).is_file())
        reader.sync()

    with ThreadPoolExecutor(LOOKERS + 1) as pool:
        for ended in [pool.submit(task) for task in (write, *[sync_copies] * LOOKERS)]:
            ended.result()
    whole = {name: Path(submit.folder, name).read_bytes() for name in names}
    assert all(whole[name].startswith(content) for name, content in copies)
    assert {name: (tmp_path / "near" / name).read_bytes() for name in names} == whole


def test_restarted_copy_is_never_missing_and_failed_sync_leaves_no_file(mirror, submit, tmp_path):
    metrics, copy = Path(submit.folder, METRICS), tmp_path / "near" / METRICS
    metrics.write_text(steps(0, 50))
    mirror().sync()
    metrics.write_text(steps(70, 90))
    requests = []

    def again() -> None:
        requests.append(copy.read_text())
        if len(requests) == LOOKERS:
            raise UnreachableError("the head node went")

    with pytest.raises(UnreachableError):
        mirror(again).sync()
    assert requests == [steps(0, 50)] * LOOKERS
    assert [path.name for path in copy.parent.iterdir()] == [METRICS]
    at_once([mirror(), mirror()])
    assert copy.read_text() == steps(70, 90)
    assert [path.name for path in copy.parent.iterdir()] == [METRICS]
