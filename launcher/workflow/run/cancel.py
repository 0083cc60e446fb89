"""Ending a run's job for good, and waiting until it has ended."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace

from launcher.model.errors import DeploymentFailedError, ImpossibleError
from launcher.records.run_folder import RunFolder
from launcher.records.run_state import RunState
from launcher.records.submission import recorded
from launcher.workflow.run.reach import reached
from launcher.workflow.run.status import run_state
from launcher.workflow.run.submission import look_again

PATIENCE_S, LOOK_S = 300.0, 1.0
"""Slurm waits KillWait (30 s by default) from SIGTERM to SIGKILL, then for the nodes' epilogs."""


def cancel_run(
    name: str,
    folder: RunFolder,
    environment: Mapping[str, str],
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> RunState:
    """Cancel the job of a run; its state then.

    Raises:
        ImpossibleError: nothing was submitted from this folder.
        DeploymentFailedError: the job has not ended in time.
        SchedulerError: the cluster cannot be asked.
    """
    submission = recorded(folder)
    if submission is None:
        raise ImpossibleError(
            f"{name} has no job on a cluster", hint="a launch in a sandbox of its own ends with its command (Ctrl-C)"
        )
    with closing(reached(submission, environment)) as way:
        source = way.source
        found = look_again(folder, source)
        if found is None:
            raise ImpossibleError(f"the cluster never took a job of {name}", hint=f"slipway status {name}")
        # What is cancelled on Kubernetes is deleted, and nothing there remembers it.
        replace(found, cancelled=True).write(folder)
        source.cancel(found.submitted)
        end = clock() + PATIENCE_S
        while (facts := source.facts(found.submitted)) is not None and not facts.state.final:
            if clock() > end:
                raise DeploymentFailedError(
                    f"job {found.job} is cancelled and has not ended after {PATIENCE_S:.0f} s: {facts.word}",
                    hint=f"slipway status {name} looks again",
                )
            sleep(LOOK_S)
    return run_state(name, folder, environment)
