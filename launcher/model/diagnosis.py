"""The checks of an account before a launch."""

from enum import StrEnum

from launcher.model.record import record


class Outcome(StrEnum):
    """The result of a check; only FAILED stops a launch."""

    OK = "ok"
    ADVICE = "advice"
    FAILED = "failed"
    UNKNOWN = "unknown"


@record
class Check:
    """One checked item.

    `asked` is the question and `got` the answer, both in words; `fix` is a command or a change that solves the problem,
    empty without a problem or a known fix.
    """

    name: str
    result: Outcome
    asked: str
    got: str
    fix: str = ""


@record
class Diagnosis:
    """All checks of a plan, or of an account alone if `name` is None, in display order."""

    name: str | None
    checks: tuple[Check, ...]

    @property
    def failures(self) -> tuple[Check, ...]:
        """The failed checks."""
        return tuple(check for check in self.checks if check.result is Outcome.FAILED)

    @property
    def verdict(self) -> str:
        """Whether a launch may begin: "ready" or "refused"."""
        return "refused" if self.failures else "ready"


def ok(name: str, asked: str, got: str) -> Check:
    """A check that found nothing wrong."""
    return Check(name=name, result=Outcome.OK, asked=asked, got=got)


def advice(name: str, asked: str, got: str, fix: str) -> Check:
    """A check that found something to consider."""
    return Check(name=name, result=Outcome.ADVICE, asked=asked, got=got, fix=fix)


def failed_check(name: str, asked: str, got: str, fix: str = "") -> Check:
    """A check that found a reason why a launch would fail."""
    return Check(name=name, result=Outcome.FAILED, asked=asked, got=got, fix=fix)


def unknown(name: str, asked: str, got: str, fix: str = "") -> Check:
    """A check that could not run; it never counts as passed."""
    return Check(name=name, result=Outcome.UNKNOWN, asked=asked, got=got, fix=fix)
