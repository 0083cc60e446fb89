"""The exit codes of the agent; the batch script passes them to the scheduler."""

COMPLETED = 0

INTERRUPTED = 75
"""An interruption notice was pending when the command ended (EX_TEMPFAIL of sysexits.h): Slurm's `RequeueExit=75`."""

STORE_FAILED = 74
"""EX_IOERR of sysexits.h: the agent could not inspect the checkpoints before the start, or the command completed and
its last checkpoint could not be stored. Never used if an older state is sufficient: a failed upload in the middle of a
run is only retried and reported."""

BAD_JOB = 78
"""EX_CONFIG of sysexits.h: job.json cannot be used."""

INTERNAL = 70
"""EX_SOFTWARE of sysexits.h: the agent itself cannot continue (a scratch folder it may not use, a full disk)."""

HUNG = 124
"""No new step for `hung_minutes`: the command was ended, with the code of timeout(1). It counts as a failure."""

STOPPED = 79
"""The guard in the account reported that the budget is used up: the job saved and must not be requeued. The first
code after those of sysexits.h."""

OUT_OF_TIME = 80
"""The time limit (`run.time_limit_h`) is over, and no other attempt follows. Not 75: with it Slurm requeues a job even
after `scontrol update requeue=0`."""

CANCELLED = 143
"""128 + SIGTERM: a user cancelled the job; it must not restart. Slurm ignores the code of a cancelled job."""

NOT_FOUND = 127
"""As in a shell: the command does not exist."""

NOT_EXECUTABLE = 126
"""As in a shell: the command may not be executed."""


NEVER_AGAIN = frozenset({BAD_JOB, OUT_OF_TIME, NOT_FOUND, NOT_EXECUTABLE})
"""Failures after which no other attempt follows, even if `run.retries` allows one."""

NO_FAILURES = frozenset({COMPLETED, INTERRUPTED, STOPPED, CANCELLED})
"""Endings of an attempt that `run.retries` does not count."""


LAST_WORD = "SLIPWAY_LAST_WORD"
"""The variable that names the file from which Kubernetes reads a container's termination message."""
GAVE_UP = "slipway gave up: "
"""The start of that message if a pod ended for good and could not record in the store that the job has failed."""


def exit_code_of(returncode: int) -> int:
    """The code for a command that the agent did not end: 128 + n for signal n, and never 75.

    A command that uses 75 for its own purposes must not be requeued forever: here that code means "interrupted".

    >>> exit_code_of(0), exit_code_of(3), exit_code_of(-9), exit_code_of(75)
    (0, 3, 137, 1)
    """
    code = 128 - returncode if returncode < 0 else returncode
    return 1 if code == INTERRUPTED else code
