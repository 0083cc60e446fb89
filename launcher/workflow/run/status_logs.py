"""The output of a job, downloaded once or continuously."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from launcher.model.errors import ImpossibleError
from launcher.model.meter import Meter
from launcher.model.stages import Notify
from launcher.records.command_record import goes_on
from launcher.records.run_folder import JOB_FOLDER, RunFolder
from launcher.records.submission import Submission, read_submission
from launcher.submit.jobs import UnreachableError
from launcher.workflow.cluster.job_connection import connect_job
from launcher.workflow.cluster.reach import gone_if_removed, removal_of
from launcher.workflow.cluster.run_environment import environment_of
from launcher.workflow.run.meter import MeterReader
from launcher.workflow.run.status import run_state, split_log
from launcher.workflow.run.submission import find_submission
from launcher.workflow.run.submission_watch import Mirror, RemoteWatch

POLL_S = 1.0
_BLOCK = 1 << 20


def refresh_logs(name: str, folder: RunFolder, environment: Mapping[str, str], notify: Notify) -> None:
    """Update a run's logs, if its job's cluster can be reached."""
    submission = read_submission(folder)
    if submission is None:
        return
    try:
        run_state(name, folder, environment, notify)
    except UnreachableError as problem:
        notify(f"{problem.message}; these are the last known logs")


def follow_logs(
    name: str,
    folder: RunFolder,
    environment: Mapping[str, str],
    *,
    write: Callable[[bytes], None],
    notify: Notify,
    sleep: Callable[[float], None] = time.sleep,
    on_meter: Callable[[Meter], None] = lambda _: None,
) -> None:
    """Print the output of a run's job until the job has left the queue for good.

    A launch that is running on this computer copies output into the folder; print that until the job can be followed on
    its cluster, or the launch has ended.

    Raises:
        ImpossibleError: the run has no job on a cluster.
    """
    submission = read_submission(folder)
    if submission is None:
        if not goes_on(folder):
            raise ImpossibleError(f"{name} has no job on a cluster to follow", hint=f"slipway logs {name}")
        submission = _followed_here(folder, write, sleep, on_meter)
    if submission is None:
        notify(f"{name}: {run_state(name, folder, environment).status}")
        return
    with gone_if_removed(submission, environment), closing(connect_job(submission, environment)) as connection:
        recorded_submission = find_submission(folder, connection.source)
        if recorded_submission is None:
            raise ImpossibleError(f"the cluster never accepted a job of {name}", hint=f"slipway status {name}")
        mirror = Mirror(
            source=connection.source, job=recorded_submission.submitted_job, folder=folder.path / JOB_FOLDER
        )
        removed = partial(removal_of, submission, environment)
        watch = RemoteWatch(mirror=mirror, poll_s=connection.poll_s, notify=notify, removed=removed)
        log, offset, over = mirror.folder / connection.source.log_name(recorded_submission.submitted_job), 0, False
        meters = MeterReader(folder=folder, on_reading=on_meter, environment=environment_of(submission, environment))
        while not over:
            over = watch.ended()
            meters.check()
            if log.is_file():
                offset = _write_from(log, offset, write)
            if not over:
                sleep(min(POLL_S, connection.poll_s))
    split_log(folder, log.name)
    notify(f"{name}: {run_state(name, folder, environment).status}")


def _followed_here(
    folder: RunFolder, write: Callable[[bytes], None], sleep: Callable[[float], None], on_meter: Callable[[Meter], None]
) -> Submission | None:
    meters, offsets = MeterReader(folder=folder, on_reading=on_meter), dict[int, int]()
    while True:
        over = not goes_on(folder)
        submission = read_submission(folder)
        if submission is not None:
            return submission
        for number, path in folder.attempt_logs:
            offsets[number] = _write_from(path, offsets.get(number, 0), write)
        if over:
            return None
        meters.check()
        sleep(POLL_S)


def _write_from(path: Path, offset: int, write: Callable[[bytes], None]) -> int:
    """Write a file from an offset on, block by block; return the offset after it."""
    with path.open("rb") as stream:
        stream.seek(offset)
        while block := stream.read(_BLOCK):
            offset += len(block)
            write(block)
    return offset
