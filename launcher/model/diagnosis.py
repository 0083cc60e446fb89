"""The checks of an account before a launch."""

from enum import StrEnum

from launcher.model.record import record


class Outcome(StrEnum):
    """How a check ended; only FAILED stops a launch."""

    OK = "ok"
    ADVICE = "advice"
    FAILED = "failed"
    UNKNOWN = "unknown"


@record
class Check:
    """One thing that was looked at.

    `asked` is the question, `got` what came back, both in words; `fix` a command or a change that mends it, empty where
    there is nothing to mend or nobody knows how.
    """

    name: str
    result: Outcome
    asked: str
    got: str
    fix: str = ""


@record
class Diagnosis:
    """All checks of a plan, or of an account alone where `name` is None, in the order they are shown."""

    name: str | None
    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        """What would go wrong."""
        return tuple(check for check in self.checks if check.result is Outcome.FAILED)

    @property
    def verdict(self) -> str:
        """Whether a launch may begin: "ready" or "refused"."""
        return "refused" if self.failed else "ready"


def ok(name: str, asked: str, got: str) -> Check:
    """A check that found nothing wrong."""
    return Check(name=name, result=Outcome.OK, asked=asked, got=got)


def advice(name: str, asked: str, got: str, fix: str) -> Check:
    """A check that found something to consider."""
    return Check(name=name, result=Outcome.ADVICE, asked=asked, got=got, fix=fix)


def failed(name: str, asked: str, got: str, fix: str = "") -> Check:
    """A check that found what a launch would fail on."""
    return Check(name=name, result=Outcome.FAILED, asked=asked, got=got, fix=fix)


def unknown(name: str, asked: str, got: str, fix: str = "") -> Check:
    """A check that could not be made; it never counts as passed."""
    return Check(name=name, result=Outcome.UNKNOWN, asked=asked, got=got, fix=fix)
