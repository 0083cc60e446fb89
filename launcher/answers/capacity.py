"""Available capacity, its start, the total to finish, and the purchase commands: `slipway capacity`."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from launcher.answers import words
from launcher.answers.lines import fold
from launcher.answers.table import Column, dollars, render
from launcher.model.administrator import ADMINISTRATOR
from launcher.model.capacity import BOUGHT, JudgedOffer, OfferKind
from launcher.model.money import UsdRange
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object
from launcher.workflow.doctor.offers import CapacityOffers

HOURS_A_DAY = 24
SHOWN = 20


@json_object
class OfferObject:
    """Capacity that AWS offers: its start, its fee, the total to finish with it, and the command that buys it."""

    kind: OfferKind
    id: str | None
    region: str
    az_id: str | None
    instance_type: str
    count: int
    starts_at: datetime | None
    ends_at: datetime | None
    lead_time_h: float
    usd_fee: Decimal | None
    usd_total: UsdRange | None
    spot_placement_score: int | None
    purchase_command: str | None
    note: str

    @classmethod
    def of(cls, judged: JudgedOffer) -> "OfferObject":
        """The object of an offer."""
        offer = judged.offer
        return fill_record(
            cls,
            offer,
            lead_time_h=round(judged.lead_time_h, 2),
            usd_fee=offer.fee_usd,
            usd_total=judged.usd,
            spot_placement_score=offer.score,
            purchase_command=judged.purchase_command,
            note=judged.note,
        )


@json_object
class Unanswered:
    """A request that AWS did not answer, with the reason."""

    asked: str
    reason: str


@json_object
class CapacityDocument:
    """The capacity that AWS offers for a plan."""

    schema: Literal["slipway.capacity/1"] = "slipway.capacity/1"
    name: str
    offers: tuple[OfferObject, ...]
    unanswered: tuple[Unanswered, ...]


def document(result: CapacityOffers) -> Json:
    """slipway.capacity/1."""
    return as_json(
        CapacityDocument(
            name=result.priced.request.name,
            offers=tuple(OfferObject.of(offer) for offer in result.offers),
            unanswered=tuple(Unanswered(asked=asked, reason=reason) for asked, reason in result.unanswered),
        )
    )


def page(result: CapacityOffers, width: int, *, everything: bool) -> list[str]:
    """The complete page; the best few unless `everything` is requested."""
    shown = result.offers if everything else result.offers[:SHOWN]
    lines = ["", f"  {result.priced.request.name}: capacity offers", ""]
    if not result.offers and result.unanswered:
        lines += fold("  AWS named no offer, and did not answer these requests:", width)
    elif not result.offers:
        lines += fold("  AWS offers none of these instances in these places.", width)
    else:
        lines += [*_answer(result, width), "", *_table(result, shown, width)]
    hidden = len(result.offers) - len(shown)
    if hidden:
        lines.append(f"  {hidden} more; --all shows them.")
    lines += _reasons(shown, width)
    lines += _commands(shown)
    for question, reason in result.unanswered:
        lines += fold(f"  ? {question}: {reason.removeprefix(f'{question}: ')}", width)
    return [*lines, "", *fold("  Nothing was bought. Purchased capacity is not refunded.", width)]


def _answer(result: CapacityOffers, width: int) -> list[str]:
    lines = []
    if result.cheapest is not None and result.cheapest.usd is not None:
        total = words.dollars(result.cheapest.usd.mid)
        lines += fold(f"  Cheapest: {_offer_text(result, result.cheapest)}, ${total} to finish.", width)
    if result.soonest is not None:
        when = lead(result.soonest.lead_time_h)
        lines += fold(f"  Soonest that is for sale or held: {_offer_text(result, result.soonest)}, {when}.", width)
    return lines


def _offer_text(result: CapacityOffers, judged: JudgedOffer) -> str:
    number = next(number for number, offer in enumerate(result.offers, start=1) if offer is judged)
    return f"row {number}, {judged.offer.kind.value.replace('-', ' ')}"


def _table(result: CapacityOffers, shown: tuple[JudgedOffer, ...], width: int) -> list[str]:
    columns: list[Column[JudgedOffer]] = [
        Column("what", lambda judged: judged.offer.kind.value.replace("-", " ")),
        Column("instances", lambda judged: f"{judged.offer.count} × {judged.offer.instance_type}"),
        Column("where", lambda judged: judged.offer.az_id or judged.offer.region),
        Column("begins", lambda judged: lead(judged.lead_time_h)),
        Column("hours", lambda judged: "" if judged.offer.hours is None else f"{judged.offer.hours:,.0f}", "right", 2),
        dollars("fee $", lambda judged: judged.offer.fee_usd or None, "", yields=1),
        Column("total $", lambda judged: words.middle(judged.usd), "point"),
        Column("", lambda judged: words.usd_bounds(judged.usd)),
        Column("", lambda judged: _marks(result, judged), yields=3),
    ]
    return render(columns, shown, width, number="#")


def _marks(result: CapacityOffers, judged: JudgedOffer) -> str:
    marks = [text for text, best in (("cheapest", result.cheapest), ("soonest", result.soonest)) if best is judged]
    score = judged.offer.score
    return ", ".join(marks if score is None else [*marks, f"score {score} of 10"])


def lead(hours: float) -> str:
    """The time until a capacity offer begins.

    >>> lead(0), lead(7.2), lead(72.0)
    ('now', 'in 7 h', 'in 3 days')
    """
    if not hours:
        return "now"
    return f"in {hours:.0f} h" if hours < 2 * HOURS_A_DAY else f"in {hours / HOURS_A_DAY:.0f} days"


def _reasons(shown: tuple[JudgedOffer, ...], width: int) -> list[str]:
    lines = []
    for number, judged in enumerate(shown, start=1):
        if judged.usd is None and judged.note:
            lines += fold(f"  {number}: {judged.note}", width)
    pools = dict.fromkeys(offer.offer.pool for offer in shown if offer.offer.pool)
    for pool in pools:
        lines += fold(f"  score: how likely spot requests for any of {', '.join(pool)} are to succeed", width)
    return lines


def _commands(shown: tuple[JudgedOffer, ...]) -> list[str]:
    bought = [(number, offer) for number, offer in enumerate(shown, start=1) if offer.offer.kind in BOUGHT]
    lines = ["", f"  to buy one (paid upfront, not refunded), {ADMINISTRATOR}"] if bought else []
    return [*lines, *(f"    {number}: {offer.purchase_command}" for number, offer in bought)]
