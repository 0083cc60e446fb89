"""Cancels a run's job and waits until it has ended."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TypeVar

from launcher import plan_file
from launcher.model.errors import DeploymentFailedError, ImpossibleError, SlipwayError
from launcher.model.job import JobFacts
from launcher.model.stages import Notify, stage
from launcher.records.run_folder import RunFolder
from launcher.records.run_state import RunState
from launcher.records.submission import read_submission
from launcher.workflow.cluster.job_connection import connect_job
from launcher.workflow.cluster.run_environment import environment_of_run
from launcher.workflow.run.status import run_state
from launcher.workflow.run.submission import find_submission

PATIENCE_S, POLL_S, SHORT_S = 300.0, 1.0, 3.0
"""Slurm waits KillWait (30 s by default) from SIGTERM to SIGKILL, then for the nodes' epilogs; after SHORT_S the
wait is said."""

Still = TypeVar("Still")


def cancel_run(
    name: str,
    folder: RunFolder,
    environment: Mapping[str, str],
    notify: Notify,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> RunState:
    """Cancel the job of a run, and return its state afterwards; if the job has already ended, report that to `notify`.

    Raises:
        ImpossibleError: this folder submitted no job.
        DeploymentFailedError: the job has not ended in time.
    """
    submission = read_submission(folder)
    if submission is None and _serves(folder):
        raise ImpossibleError(
            f"{name} is an endpoint without a job: nothing is cancelled", hint=f"slipway down {name} removes it"
        )
    if submission is None:
        environment_of_run(folder, environment)  # raises where the run's sandbox is out of reach
        raise ImpossibleError(f"{name} has no job on a cluster", hint=f"slipway status {name}")
    with closing(connect_job(submission, environment)) as connection:
        source = connection.source
        record = find_submission(folder, source)
        if record is None:
            raise ImpossibleError(f"the cluster never accepted a job of {name}", hint=f"slipway status {name}")
        before = source.facts(record.submitted_job)
        # What is cancelled on Kubernetes is deleted, and nothing there remembers it.
        if before is not None and not before.state.final:
            replace(record, cancelled=True).write(folder)
        ended = before is not None and before.state.final
        if ended or not source.cancel(record.submitted_job):
            record.write(folder)
            notify(f"job {record.job} has ended already: nothing is cancelled")

        def facts_at_end() -> JobFacts | None:
            facts = source.facts(record.submitted_job)
            return None if facts is None or facts.state.final else facts

        if (facts := wait_until_none(facts_at_end, str(record.job), notify, sleep=sleep, clock=clock)) is not None:
            raise DeploymentFailedError(
                f"job {record.job} was cancelled but has not ended after {PATIENCE_S:.0f} s: {facts.word}",
                hint=f"run slipway status {name} to check again",
            )
    return run_state(name, folder, environment)


def wait_until_none(
    facts: Callable[[], Still | None],
    job: str,
    notify: Notify,
    *,
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> Still | None:
    """Wait until a cancelled job has ended, and return what it still is after PATIENCE_S; after SHORT_S say so."""
    begun, notified = clock(), False
    with ExitStack() as waiting:
        while (still := facts()) is not None and (waited := clock() - begun) <= PATIENCE_S:
            if waited > SHORT_S and not notified:
                notified = True
                waiting.enter_context(stage(notify, f"job {job} is cancelled, and may save until it ends"))
            sleep(POLL_S)
    return still


def _serves(folder: RunFolder) -> bool:
    try:
        return plan_file.load(folder.path / "plan.json").workload.serve is not None
    except SlipwayError:
        return False
