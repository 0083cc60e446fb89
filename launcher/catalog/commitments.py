"""Reserved Instances, and Savings Plans derived from them."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Literal, NamedTuple

from launcher.catalog.selection import newest, price_of
from launcher.catalog.store import Store, TermRow
from launcher.model.enums import Basis, Payment, PlanKind
from launcher.model.money import Price, Unpriced

OfferingClass = Literal["standard", "convertible"]

PARITY: dict[PlanKind, OfferingClass] = {PlanKind.EC2_INSTANCE: "standard", PlanKind.COMPUTE: "convertible"}
"""Which class of Reserved Instance a Savings Plan costs as much as: an assumption, not read from a price file."""


class Term(NamedTuple):
    """What is committed to: a type in a region, for 1 or 3 years, paid in one of three ways."""

    instance_type: str
    region: str
    years: int
    payment: Payment


def reserved_price(store: Store, until: str, term: Term, offering_class: OfferingClass) -> Price | Unpriced:
    """The effective hourly rate of a Reserved Instance."""
    row = _newest(
        store.reserved.get((term.instance_type, term.region, offering_class, str(term.years)), ()), term, until
    )
    if row is None:
        return Unpriced(reason=f"no {offering_class} reserved price of {_words(term)} is known")
    return price_of(row, rate_of(term.payment)(row), store)


def savings_plan_price(store: Store, until: str, term: Term, kind: PlanKind) -> Price | Unpriced:
    """The hourly rate under a Savings Plan: the newest read from AWS, else the Reserved Instance's it should equal."""
    rows = store.savings_plans.get((term.instance_type, term.region, kind.value, str(term.years)), ())
    read = _newest(rows, term, until)
    offering_class = PARITY.get(kind)
    equal = None
    if offering_class is not None:
        rows = store.reserved.get((term.instance_type, term.region, offering_class, str(term.years)), ())
        equal = _newest(rows, term, until)
    if read is not None and (equal is None or read.as_of >= equal.as_of):
        return price_of(read, rate_of(term.payment)(read), store)
    if equal is None:
        return Unpriced(reason=f"no {kind.value} Savings Plan rate of {_words(term)} is known")
    derived = equal._replace(basis=Basis.DERIVED.value)
    note = f"assumed equal to the {offering_class} Reserved Instance"
    return price_of(derived, rate_of(term.payment)(derived), store, note=note)


def _newest(rows: Sequence[TermRow], term: Term, until: str) -> TermRow | None:
    return newest(rows, rate_of(term.payment), until)


def _words(term: Term) -> str:
    return f"{term.instance_type} in {term.region} for {term.years} year{'s' if term.years > 1 else ''}"


def rate_of(payment: Payment) -> Callable[[TermRow], str]:
    """What reads the rate of one way of payment off a row."""
    return attrgetter(payment.value.replace("-", "_"))
