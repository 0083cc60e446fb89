"""Announced ends: the day from which a model, an instance type or a version is no longer sold or supported."""

from datetime import date

from launcher.model.enums import Basis
from launcher.model.record import record
from launcher.model.units import number_of

ANNOUNCED_DAYS = 365
"""Days before an announced end from which Slipway reports it: a policy of this project."""


@record
class AnnouncedEnd:
    """One announced end of a version or a service."""

    # The kind and the name, as "kubernetes/1.35".
    key: str
    # The same in words.
    what: str
    # The day from which `then` applies.
    ends: date
    then: str
    # Whether the item cannot be bought after that day; else it only loses support or costs more.
    withdrawn: bool
    # The plan file key that selects the item.
    path: str
    # The remedy.
    hint: str
    basis: Basis
    source: str
    as_of: date

    def near(self, today: date) -> bool:
        """Whether the end has passed or is less than a year away; later ends change no plan."""
        return (self.ends - today).days <= ANNOUNCED_DAYS

    def sentence(self, today: date) -> str:
        """The item, its end date, and the consequence, as a sentence.

        >>> end = AnnouncedEnd(
        ...     key="os/a",
        ...     what="A 1",
        ...     ends=date(2027, 1, 2),
        ...     then="AWS patches it no more",
        ...     withdrawn=False,
        ...     path="target.os",
        ...     hint="",
        ...     basis=Basis.LISTED,
        ...     source="",
        ...     as_of=date(2026, 1, 1),
        ... )
        >>> end.sentence(date(2026, 12, 31))
        'A 1 ends on 2027-01-02, in 2 days: AWS patches it no more'
        >>> end.sentence(date(2027, 1, 3))
        'A 1 ended on 2027-01-02: AWS patches it no more'
        """
        days = (self.ends - today).days
        when = f"ends on {self.ends}, in {number_of(days, 'day')}" if days > 0 else f"ended on {self.ends}"
        return f"{self.what} {when}: {self.then}"
