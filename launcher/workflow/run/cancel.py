"""Ending a run's job for good, and waiting until it has ended."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing

from launcher.model.errors import DeploymentFailedError, ImpossibleError
from launcher.records.run_folder import RunFolder
from launcher.records.submission import recorded
from launcher.submit.slurm import Slurm
from launcher.workflow.run.status import Standing, reached, standing
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
) -> Standing:
    """Cancel the job of a run; how it stands then.

    Raises:
        ImpossibleError: nothing was submitted from this folder.
        DeploymentFailedError: the job has not ended in time.
        SchedulerError: the cluster cannot be asked.
    """
    submission = recorded(folder)
    if submission is None:
        raise ImpossibleError(
            f"{name} has no job on a cluster", hint="a launch in the sandbox ends with its command (Ctrl-C)"
        )
    with closing(reached(submission, environment)) as shell:
        slurm = Slurm(shell=shell)
        found = look_again(folder, slurm)
        if found is None:
            raise ImpossibleError(f"the cluster never took a job of {name}", hint=f"slipway status {name}")
        slurm.cancel(found.submitted)
        end = clock() + PATIENCE_S
        while (facts := slurm.facts(found.submitted)) is not None and not facts.state.final:
            if clock() > end:
                raise DeploymentFailedError(
                    f"job {found.job} is cancelled and has not ended after {PATIENCE_S:.0f} s: {facts.word}",
                    hint=f"slipway status {name} looks again",
                )
            sleep(LOOK_S)
    return standing(name, folder, environment)
