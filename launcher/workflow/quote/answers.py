"""What the pricing stories found, as the JSON of the contract: for the command line and from Python alike."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from launcher.model.quote import Quote
from launcher.pricing.priced import Priced
from launcher.records.comparison import compare_document
from launcher.records.documents import Json, candidate, plan_document
from launcher.records.sweep_document import SweptPoint, sweep_document
from launcher.workflow.quote.compare import Comparison

if TYPE_CHECKING:
    from launcher.workflow.quote.compare_serving import ServingComparison
    from launcher.workflow.quote.sweep import Sweep


def plan_answer(priced: Priced, rows: Iterable[Quote] | None = None) -> Json:
    """slipway.plan/1, with all candidates or with some rows."""
    return plan_document(
        name=priced.request.name,
        now=priced.now,
        considered=priced.considered,
        quotes=priced.rows if rows is None else rows,
        findings=priced.findings,
        types=priced.catalog.instance_types,
        next_command=priced.next_command,
        alternatives=priced.alternatives,
    )


def candidate_answers(priced: Priced) -> Iterator[Json]:
    """The candidates of the same, each made when it is asked for."""
    types = priced.catalog.instance_types
    return (candidate(each, rank, types) for rank, each in enumerate(priced.rows, start=1))


def compare_answer(found: "Comparison | ServingComparison") -> Json:
    """slipway.compare/1, of training or of serving."""
    if isinstance(found, Comparison):
        return compare_document(
            name=found.request.name,
            now=found.priced.now,
            verdict=found.verdict,
            quotes=found.priced.quotes,
            sides=(found.gpu, found.trainium),
            port=found.port,
            findings=found.findings,
            types=found.priced.catalog.instance_types,
        )
    # Loaded for serving plans alone.
    from launcher.pricing.serving.crossover import usd_per_request
    from launcher.records.serving_comparison import serving_comparison_document

    return serving_comparison_document(
        name=found.request.name,
        now=found.priced.now,
        verdict=found.verdict,
        quotes=found.priced.quotes,
        found=found.sides,
        crossovers=found.crossovers,
        usd_per_request=usd_per_request(found.hosted),
        findings=found.findings,
        types=found.priced.catalog.instance_types,
    )


def sweep_answer(found: "Sweep") -> Json:
    """slipway.sweep/1."""
    return sweep_document(
        name=found.request.name,
        now=found.now,
        keys=[each.key for each in found.axes],
        points=[SweptPoint(each.values, each.best, each.reason) for each in found.points],
        types=next((each.priced.catalog.instance_types for each in found.points if each.priced is not None), {}),
    )
