"""The errors that end a command, each with its exit code and, if there is one, a fix."""

from collections.abc import Sequence
from typing import ClassVar

from launcher.model.finding import Finding


class SlipwayError(Exception):
    """A refusal or failure a person is told about; `exit_code` is the process's, `hint` the smallest way out."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "", findings: Sequence[Finding] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.findings = tuple(findings)


class AwsError(SlipwayError):
    """An AWS call failed, or something inside did (exit 1)."""


class UnreadableInputError(SlipwayError):
    """The input cannot be understood: syntax, unknown key, wrong type, no answer to a question (exit 2)."""

    exit_code = 2


class OverBudgetError(SlipwayError):
    """The high estimate is above the budget (exit 3)."""

    exit_code = 3


class UnpricedError(SlipwayError):
    """The compute has no price, or one too old to trust (exit 4)."""

    exit_code = 4


class ImpossibleError(SlipwayError):
    """The input is well formed and cannot be done, or a check failed (exit 5)."""

    exit_code = 5


class DeploymentFailedError(SlipwayError):
    """A deployment or a job ended badly (exit 6)."""

    exit_code = 6


class NothingMeasuredError(DeploymentFailedError):
    """A run that was to be measured said too little of its rate."""


class DeclinedError(SlipwayError):
    """Somebody was asked and said no; nothing was done (exit 7)."""

    exit_code = 7


class InterruptedAtQuestionError(KeyboardInterrupt):
    """Somebody interrupted instead of answering (exit 130): nothing was done."""


class QuoteMismatchError(ImpossibleError):
    """A quote was made for another plan than the one about to be deployed."""


class QuoteExpiredError(UnpricedError):
    """The prices behind a quote are too old to deploy on."""
