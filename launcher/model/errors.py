"""The errors that end a command, each with its exit code and, if there is one, a fix."""

import re
from collections.abc import Sequence
from typing import ClassVar

from launcher.model.finding import Finding

_OF_SUBJECT = re.compile(r"\b(slipway (?:[a-z]+ )+)NAME\b")


class SlipwayError(Exception):
    """A refusal or failure that is shown to the user; `exit_code` is the process's, `hint` the smallest fix."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "", findings: Sequence[Finding] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.findings = tuple(findings)

    def name_subject(self, name: str) -> None:
        """Write the plan's name into the commands of the hint: code that does not know the name writes NAME.

        >>> gone = SlipwayError("the cluster is removed", hint="slipway report NAME shows the run")
        >>> gone.name_subject("tiny")
        >>> gone.hint
        'slipway report tiny shows the run'
        """
        self.hint = _OF_SUBJECT.sub(lambda command: f"{command[1]}{name}", self.hint)


class AwsError(SlipwayError):
    """An AWS call failed, or an internal error occurred (exit 1)."""


class UnreadableInputError(SlipwayError):
    """The input cannot be understood: syntax, unknown key, wrong type, no answer to a question (exit 2)."""

    exit_code = 2


class OverBudgetError(SlipwayError):
    """The high estimate is above the budget (exit 3)."""

    exit_code = 3


class UnpricedError(SlipwayError):
    """The compute has no price, or a price that is too old (exit 4)."""

    exit_code = 4


class ImpossibleError(SlipwayError):
    """The input is well formed but impossible, or a check failed (exit 5)."""

    exit_code = 5


class DeploymentFailedError(SlipwayError):
    """A deployment or a job failed (exit 6)."""

    exit_code = 6


class SecondJobError(DeploymentFailedError):
    """A job of the plan runs, and its target runs one at a time; nothing was done."""


class DeclinedError(SlipwayError):
    """The user declined a confirmation; nothing was done (exit 7)."""

    exit_code = 7


class InterruptedAtQuestionError(KeyboardInterrupt):
    """The user interrupted instead of answering (exit 130): nothing was done."""


def reason_of(problem: Exception) -> str:
    """Why something failed, without the number and the path of a system's message.

    >>> reason_of(FileNotFoundError(2, "No such file or directory", "job.sh")), reason_of(ValueError("it is a device"))
    ('No such file or directory', 'it is a device')
    """
    return (isinstance(problem, OSError) and problem.strerror) or str(problem)
