"""The codes the agent leaves with; the batch script hands them to the scheduler."""

COMPLETED = 0

INTERRUPTED = 75
"""An interruption notice was pending when the command ended (EX_TEMPFAIL of sysexits.h): Slurm's `RequeueExit=75`."""

STORE_FAILED = 74
"""EX_IOERR of sysexits.h: the checkpoints could not be looked through before the start, or the command completed and
its last checkpoint could not be brought into the store. Never used while an older state of affairs would do: a failed
upload in the middle of a run is retried and reported, no more."""

BAD_JOB = 78
"""EX_CONFIG of sysexits.h: job.json cannot be used."""

INTERNAL = 70
"""EX_SOFTWARE of sysexits.h: the agent itself cannot go on (a scratch folder it may not use, a disk that is full)."""

HUNG = 124
"""No new step for `hung_minutes`: the command was ended, as timeout(1) says it. It counts as a failure."""

STOPPED = 79
"""The guard in the account said that the budget is used up: saved, and not to be requeued. The first code behind those
of sysexits.h."""

CANCELLED = 143
"""128 + SIGTERM: somebody cancelled the job; it must not come back. Slurm ignores the code of a cancelled job."""

NOT_FOUND = 127
"""As a shell has it: the command does not exist."""

NOT_EXECUTABLE = 126
"""As a shell has it: the command may not be executed."""


NEVER_AGAIN = frozenset({BAD_JOB, NOT_FOUND, NOT_EXECUTABLE})
"""What another try would only fail with again, whatever `run.retries` allows."""

NO_FAILURES = frozenset({COMPLETED, INTERRUPTED, STOPPED, CANCELLED})
"""Endings of an attempt that `run.retries` does not count."""


LAST_WORD = "SLIPWAY_LAST_WORD"
"""The variable that names the file from which Kubernetes takes a container's termination message."""
GAVE_UP = "slipway gave up: "
"""How that message begins where a pod ended for good and could not record in the store that the job has failed."""


def exit_code_of(returncode: int) -> int:
    """The code for a command that ended by itself: 128 + n for signal n, and never 75.

    A command that chose 75 for its own purposes must not be requeued for ever: that code says "interrupted" here.

    >>> exit_code_of(0), exit_code_of(3), exit_code_of(-9), exit_code_of(75)
    (0, 3, 137, 1)
    """
    code = 128 - returncode if returncode < 0 else returncode
    return 1 if code == INTERRUPTED else code
