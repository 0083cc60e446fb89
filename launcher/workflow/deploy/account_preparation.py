"""The CDK's bootstrap of an account's region, which several first launches may begin at the same time."""

import time
from collections.abc import Callable

from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.cdk.commands import Assembly, Cdk, toolkit_stack
from launcher.model.errors import DeploymentFailedError
from launcher.model.stages import Notify, stage

TRIES = 3
PATIENCE_S = 600.0
"""A bootstrap takes two minutes; a longer one was given up, and its stack is tried again."""
_IN_PROGRESS, _COMPLETE = "_IN_PROGRESS", "_COMPLETE"


def prepare_account(
    cdk: Cdk,
    assembly: Assembly,
    session: Session,
    *,
    account: str,
    qualifier: str | None,
    notify: Notify,
    pause: Callable[[float], None] = stacks.wait,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Bootstrap the region of an account; wait for a bootstrap that another launch has begun.

    Raises:
        DeploymentFailedError: the bootstrap failed, and no other launch was at work on it.
    """
    name = toolkit_stack(qualifier)
    with stage(notify, "preparing the account (cdk bootstrap)"):
        for trial in range(1, TRIES + 1):
            _wait_for_another(session, name, notify, pause, clock)
            try:
                cdk.bootstrap(assembly, account, session.region, qualifier)
            except DeploymentFailedError:
                state = stacks.find(session, name)
                other = state is not None and state.status.endswith((_IN_PROGRESS, _COMPLETE))
                if trial == TRIES or not other:
                    raise
            else:
                return


def _wait_for_another(
    session: Session, name: str, notify: Notify, pause: Callable[[float], None], clock: Callable[[], float]
) -> None:
    patience, reported = clock() + PATIENCE_S, False
    while (state := stacks.find(session, name)) is not None and state.status.endswith(_IN_PROGRESS):
        if clock() >= patience:
            return
        if not reported:
            notify(f"another launch is preparing the account ({name} is {state.status}): waiting for it")
        reported = True
        pause(stacks.POLL_S)
