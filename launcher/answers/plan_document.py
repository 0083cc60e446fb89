"""All candidates of a plan as JSON: `slipway plan --json`, slipway.plan/1."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal

from launcher.model.enums import PurchaseOption
from launcher.model.finding import Finding
from launcher.model.money import Price, Range, Unpriced, UsdRange
from launcher.model.quote import Quote
from launcher.pricing.priced import Alternative, Priced
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object, record_values
from launcher.records.json_text import values_text
from launcher.records.quote_document import CandidateObject, UnverifiedPrice, candidate_values
from launcher.workflow.quote.commands import next_command


@json_object
class AlternativeObject:
    """A way to buy the work that Slipway prices and does not deploy."""

    service: str
    instance_type: str
    accelerator: str
    nodes: int
    region: str
    purchase_option: PurchaseOption
    hours: Range
    usd: UsdRange | None
    unpriced: str | None
    price: UnverifiedPrice | None
    deployed: bool

    @classmethod
    def of(cls, alternative: Alternative) -> "AlternativeObject":
        """The object of an alternative."""
        price = alternative.price
        return fill_record(
            cls,
            alternative,
            purchase_option=alternative.option,
            unpriced=price.reason if isinstance(price, Unpriced) else None,
            price=fill_record(UnverifiedPrice, price, usd_per_hour=price.usd) if isinstance(price, Price) else None,
            deployed=False,
        )


@json_object
class PlanDocument:
    """The candidates of a plan, best first; `alternatives` are not deployed."""

    schema: Literal["slipway.plan/1"] = "slipway.plan/1"
    name: str
    as_of: datetime
    considered: int
    candidates: tuple[CandidateObject, ...]
    findings: tuple[Finding, ...]
    next: str
    alternatives: tuple[AlternativeObject, ...]


def document(priced: Priced, rows: Iterable[Quote] | None = None) -> Json:
    """slipway.plan/1, with all candidates or with some rows."""
    types = priced.catalog.instance_types
    shown = enumerate(priced.rows if rows is None else rows, start=1)
    return as_json(
        PlanDocument(
            name=priced.request.name,
            as_of=priced.now,
            considered=priced.considered,
            candidates=tuple(CandidateObject.of(quoted, rank, types) for rank, quoted in shown),
            findings=priced.findings,
            next=next_command(priced),
            alternatives=tuple(AlternativeObject.of(alternative) for alternative in priced.alternatives),
        )
    )


def candidates(priced: Priced) -> Iterator[str]:
    """The candidates of the same document as JSON text, each created on request."""
    types = priced.catalog.instance_types
    for rank, quoted in enumerate(priced.rows, start=1):
        values = record_values(CandidateObject, quoted, candidate_values(quoted, rank, types))
        yield values_text(CandidateObject, values)
