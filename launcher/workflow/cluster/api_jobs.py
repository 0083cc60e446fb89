"""What jobs share whose service has an API of its own: calls that fail, and how a job is stopped."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from launcher.aws.session import CredentialsError
from launcher.model.errors import AwsError
from launcher.model.job import JobFacts, JobState
from launcher.submit.jobs import UnreachableError

STOPPED_WITHIN_S = 180.0


def nothing_open() -> None:
    """Close nothing: an API keeps no connection open."""


@contextmanager
def reachable() -> Iterator[None]:
    """A block of calls to AWS.

    Raises:
        UnreachableError: a call fails, and not for lack of credentials.
    """
    try:
        yield
    except CredentialsError:
        raise
    except AwsError as problem:
        raise UnreachableError(problem.message, hint=problem.hint) from problem


def stop_job(
    facts: Callable[[], JobFacts | None],
    stop: Callable[[], bool],
    *,
    only_pending: bool,
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> bool:
    """Stop a job by `stop`; with `only_pending` only while it waits for capacity, and return after it has stopped.

    Returns:
        What `stop` returns: whether it stopped the job; False for a job that was not to be stopped.

    Raises:
        UnreachableError: AWS does not answer.
    """
    before = facts()
    if before is None or before.state.final or (only_pending and before.state is not JobState.PENDING):
        return False
    with reachable():
        stopped = stop()
    end = clock() + STOPPED_WITHIN_S
    while only_pending and clock() < end:
        now = facts()
        if now is None or now.state.final:
            break
        sleep(1.0)
    return stopped
