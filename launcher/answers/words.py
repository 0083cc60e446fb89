"""Numbers in a readable form."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal

from launcher.model.enums import Basis, PurchaseOption
from launcher.model.money import Price, UsdRange
from launcher.model.plan import Place
from launcher.model.quote import Quote
from launcher.model.units import number_of
from launcher.targets.registry import billed_name, target_of

WHOLE_DOLLARS = 100
CENT = Decimal("0.01")
SHORT_HOURS, LONG_HOURS = 0.05, 1000.0
MAX_DIGITS = 12
"""Maximum digits of a listed price."""
SHORT = {
    PurchaseOption.CAPACITY_BLOCK: "block",
    PurchaseOption.TRAINING_PLAN: "train plan",
    PurchaseOption.SAVINGS_PLAN: "plan",
    PurchaseOption.RESERVED: "RI",
}


def dollars(amount: Decimal | None, without: str = "–") -> str:
    """Money without cents from $100, with cents below, or the words for no amount.

    >>> dollars(Decimal("37.604")), dollars(Decimal("1234.5")), dollars(Decimal("0.0004")), dollars(None)
    ('37.60', '1,234', '0.0004', '–')
    """
    if amount is None:
        return without
    if 0 < amount < CENT:
        return f"{amount:.2g}" if amount >= Decimal("0.0001") else "<0.0001"
    return f"{amount:,.0f}" if amount >= WHOLE_DOLLARS else f"{amount:,.2f}"


def usd(amount: Decimal | None) -> str:
    """Money with its sign, which stands before the number also where that is only known to be small.

    >>> usd(Decimal("37.604")), usd(Decimal("0.00002")), usd(None)
    ('$37.60', '<$0.0001', '$–')
    """
    text = dollars(amount)
    return f"<${text[1:]}" if text.startswith("<") else f"${text}"


def total(quoted: Quote, without: str = "") -> str:
    """The dollars of a quote, with `~` before them if they rest on derived prices; or the words for no total."""
    sign = "~" if quoted.is_derived else ""
    return without if quoted.usd is None else f"{sign}{usd(quoted.usd.mid)}"


def cents(usd: Decimal | None, without: str = "") -> str:
    """Money to the cent.

    >>> cents(Decimal("249.9459")), cents(Decimal("0.0004")), cents(Decimal(0))
    ('249.95', '<0.01', '0.00')
    """
    if usd is None:
        return without
    return "<0.01" if 0 < usd < CENT / 2 else f"{usd:,.2f}"


def first_of(names: Sequence[str]) -> str:
    """The first of some names, and the number of others.

    >>> first_of(["a"]), first_of(["a", "b", "c"])
    ('a', 'a +2')
    """
    return names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"


def shorten(text: str, most: int | None) -> str:
    """A text cut to `most` characters; None leaves it complete."""
    return text if most is None or len(text) <= most else f"{text[: most - 1]}…"


def exact(usd: Decimal) -> str:
    """A price as listed; a quotient, which may have endless digits, to eight digits.

    >>> exact(Decimal("0.0000166667")), exact(Decimal("63.296")), exact(Decimal(18000) / 336)
    ('0.0000166667', '63.296', '53.571429')
    """
    return f"{usd:f}" if len(usd.as_tuple().digits) <= MAX_DIGITS else f"{usd:.8g}"


def hours(value: float) -> str:
    """Hours to a tenth, from 1,000 on whole ones; less than three minutes is shown as "<0.1".

    >>> hours(1.94), hours(0.01), hours(1234.5)
    ('1.9', '<0.1', '1,234')
    """
    if 0 < value < SHORT_HOURS:
        return "<0.1"
    return f"{value:,.0f}" if value >= LONG_HOURS else f"{value:,.1f}"


def between(low: str, high: str) -> str:
    """A range, or nothing if both ends are equal.

    >>> between("31", "84"), between("5", "5")
    ('31–84', '')
    """
    return "" if low == high else f"{low}–{high}"


def usd_bounds(usd: UsdRange | None) -> str:
    """The low and high dollars of an estimate, or nothing if they are equal or missing."""
    return "" if usd is None else between(dollars(usd.low), dollars(usd.high))


def middle(usd: UsdRange | None, without: str = "–") -> str:
    """The middle dollars of an estimate, or the words for no amount."""
    return without if usd is None else dollars(usd.mid)


def place_instances(place: Place) -> str:
    """The instances of a place, by the name under which they are billed, or Bedrock, which has none."""
    if place.option is PurchaseOption.BEDROCK:
        return "Bedrock"
    return f"{place.nodes} × {billed_name(place)}"


def saved_text(step: int, *, counted: bool) -> str:
    """The newest stored checkpoint; `counted`: nothing tells its step, and `step` counts saves.

    >>> saved_text(1200, counted=False), saved_text(41, counted=True)
    ('saved at step 1,200', 'save 41 is stored')
    """
    return f"save {step:,} is stored" if counted else f"saved at step {step:,}"


def interruptions(expected: float) -> str:
    """A number of expected interruptions.

    >>> interruptions(7.7e-05), interruptions(140.4)
    ('fewer than 0.01 interruptions expected', '140 interruptions expected')
    """
    few = 0.01
    number = "fewer than 0.01" if expected < few else f"{expected:.2f}" if expected < 1 else f"{expected:,.3g}"
    return f"{number} interruptions expected"


def option(place: Place, *, short: bool = False) -> str:
    """The purchase option of a place."""
    text = place.option.value.replace("-", " ")
    if place.option is PurchaseOption.SPOT and target_of(place.target).managed_spot:
        text = "managed" if short else "managed spot"
    elif short:
        text = SHORT.get(place.option, text)
    elif place.plan_kind is not None:
        text = f"{place.plan_kind.value.removesuffix('-instance')} {text}"
    return f"{text} {place.term_years}y" if place.term_years else text


def purchase(place: Place) -> str:
    """What is bought, by which option and where."""
    purchase = "" if place.option is PurchaseOption.BEDROCK else f", {option(place)}"
    return f"{place_instances(place)}{purchase} in {place.region}"


def cost(usd: UsdRange, unit: str = "") -> str:
    """Dollars with their range, per run or month if `unit` names it."""
    ends = usd_bounds(usd)
    return f"${dollars(usd.mid)}{unit and f' {unit}'}" + (f" ({ends})" if ends else "")


def quoted_cost(quoted: Quote, unit: str = "") -> str:
    """The cost of a quote, with `~` before it if it rests on derived prices; "" without a total."""
    return "" if quoted.usd is None else f"{'~' if quoted.is_derived else ''}{cost(quoted.usd, unit)}"


def origin(source: str, basis: str, as_of: date | None) -> str:
    """The source of a number, its basis, and its day.

    >>> origin("AWS Price List", "listed", date(2026, 7, 20)), origin("user", "user", date(2026, 7, 20))
    ('AWS Price List, listed, 2026-07-20', 'user, 2026-07-20')
    """
    return f"{source}, {as_of}" if source == basis else f"{source}, {basis}, {as_of}"


def basis_and_day(price: Price) -> str:
    """The basis of a price and its day.

    >>> read = Price(usd=Decimal(2), source="AWS Price List", basis=Basis.LISTED, as_of=date(2026, 7, 20))
    >>> (
    ...     basis_and_day(read),
    ...     basis_and_day(Price(usd=Decimal(2), source="user", basis=Basis.USER, as_of=date(2026, 7, 20))),
    ... )
    ('price listed 2026-07-20', 'your price of 2026-07-20')
    """
    return f"your price of {price.as_of}" if price.basis is Basis.USER else f"price {price.basis.value} {price.as_of}"


def age(as_of: date, today: date) -> str:
    """How long ago a price was read.

    >>> age(date(2026, 7, 20), date(2026, 11, 20)), age(date(2026, 11, 19), date(2026, 11, 20))
    ('4 months old', '1 day old')
    """
    days = (today - as_of).days
    if days >= 60:  # noqa: PLR2004 - from two months on, months
        return f"{round(days / 30.4)} months old"
    if days <= 0:
        return "of today"
    return f"{number_of(days, 'day')} old"
