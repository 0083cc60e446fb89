"""`--approval ID`: a command that a person approved before (slipway approve), in place of --yes."""

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from launcher.cli import options
from launcher.cli.console import Console
from launcher.model.errors import ImpossibleError
from launcher.model.plan import SHORT_ID
from launcher.records.approval import AGAIN, Action, Approval, claim, find_approval
from launcher.workflow.quote.approval import limit_options, refuse_other_quote, refuse_second, usable
from launcher.workflow.quote.fresh import Picked
from launcher.workflow.quote.price import NoSuchCandidateError

if TYPE_CHECKING:
    from launcher.workflow.quote.options import PriceOptions


class ApprovedConsole(Console):
    """A console whose questions one approval answers, once, and for the approved quote only."""

    def __init__(self, approval: Approval) -> None:
        super().__init__(yes=True)
        self.approval = approval

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Print the job's last state; an approved candidate that the plan no longer has is another quote."""
        super().__exit__(kind, error, trace)
        if isinstance(error, NoSuchCandidateError):
            quote = f"quote {str(self.approval.digest)[:SHORT_ID]}, which the plan no longer has"
            message = f"approval {self.approval.id} is for {quote}: the plan or its defaults have changed"
            raise ImpossibleError(message, hint=AGAIN) from error

    def quote(self, picked: Picked) -> None:
        """Print the quote, and refuse another one than the approved."""
        super().quote(picked)
        usd = picked.quoted.usd
        refuse_other_quote(self.approval, picked.quoted.digest, None if usd is None else usd.high)

    def approve(self, action: str) -> None:  # noqa: ARG002 - the approval is for the action
        """Use the approval up, unless it has expired in the meantime."""
        find_approval(self.approval.id, os.environ, options.now())
        claim(self.approval, os.environ)

    def approve_second(self, action: str) -> None:  # noqa: ARG002 - whatever the job
        """Refuse a job beside a running one."""
        refuse_second(self.approval)


class Answers(NamedTuple):
    """Who answers the questions of a launch or deployment, and the candidate and the dollars that this allows.

    `second` is asked before a job is submitted while another job of its plan runs. `exact`: no other candidate takes
    the place of one that gets no instances.
    """

    console: Console
    second: Callable[[str], None]
    price_options: "PriceOptions"
    selection: str | None
    exact: bool = False


def answers(
    given: str | None,
    action: Action,
    file: Path,
    asked: "PriceOptions",
    selection: str | None,
    *,
    yes: bool,
    sandbox: bool,
) -> Answers:
    """The answers of an approval, or without one those of the user in the terminal.

    Raises:
        SlipwayError: the approval cannot be used for this.
    """
    if given is None:
        console = Console(yes=yes)
        return Answers(console=console, second=console.approve, price_options=asked, selection=selection)
    approval = usable(given, action, file=str(file), sandbox=sandbox, environment=os.environ, now=options.now())
    if asked.settings not in ((), approval.settings):
        raise ImpossibleError(f"approval {given} is for other settings", hint=AGAIN)
    if asked.region not in (None, approval.region):
        message = f"approval {given} is for region {approval.region or 'of the plan file'}, not {asked.region}"
        raise ImpossibleError(message, hint="leave out --region")
    if selection is not None and not str(approval.digest).startswith(selection):
        message = f"--pick {selection} is another candidate than the approved {str(approval.digest)[:6]}"
        raise ImpossibleError(message, hint="leave out --pick")
    approved = ApprovedConsole(approval)
    return Answers(
        console=approved,
        second=approved.approve_second,
        price_options=limit_options(asked, approval),
        selection=approval.digest,
        exact=True,
    )
