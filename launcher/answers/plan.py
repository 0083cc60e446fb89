"""All candidates of a plan, for training and for serving: `slipway plan`, slipway.plan/1."""

from collections.abc import Iterable, Iterator

from launcher.answers import plan_screen
from launcher.model.money import Price, Unpriced
from launcher.model.quote import Quote
from launcher.pricing.alternatives import Alternative
from launcher.pricing.priced import Priced
from launcher.records.codec import Json, Keys, picked, plain
from launcher.workflow.quote.commands import next_command


def document(priced: Priced, rows: Iterable[Quote] | None = None) -> Json:
    """slipway.plan/1, with all candidates or with some rows, best first; `alternatives` are not deployed."""
    from launcher.records.documents import FORMS, candidate

    types = priced.catalog.instance_types
    shown = enumerate(priced.rows if rows is None else rows, start=1)
    return {
        "schema": "slipway.plan/1",
        "name": priced.request.name,
        "as_of": plain(priced.now),
        "considered": priced.considered,
        "candidates": [candidate(quoted, rank, types) for rank, quoted in shown],
        "findings": plain(priced.findings),
        "next": next_command(priced),
        "alternatives": [_alternative(alternative, FORMS) for alternative in priced.alternatives],
    }


def candidates(priced: Priced) -> Iterator[Json]:
    """The candidates of the same document, each created on request."""
    from launcher.records.documents import candidate

    types = priced.catalog.instance_types
    return (candidate(quoted, rank, types) for rank, quoted in enumerate(priced.rows, start=1))


def _alternative(alternative: Alternative, forms: Keys) -> Json:
    price = alternative.price
    return {
        **picked(alternative, "service instance_type accelerator nodes region purchase_option=option hours usd"),
        "unpriced": price.reason if isinstance(price, Unpriced) else None,
        "price": plain(price, forms) if isinstance(price, Price) else None,
        "deployed": False,
    }


def page(priced: Priced, width: int, *, everything: bool, called: bool = False, verbose: bool = False) -> list[str]:
    """The page for a terminal of `width` columns: the first screen, or with every row or note.

    `called`: prices were just read from AWS.
    """
    if priced.request.workload.serve is not None:
        # Loaded for serving alone: a plan for training pays nothing for it.
        from launcher.answers import serving_screen, serving_table

        if everything or verbose:
            return serving_table.page(priced, width, everything=everything, called=called)
        return serving_screen.page(priced, width)
    if everything or verbose:
        from launcher.answers import plan_table

        return plan_table.page(priced, width, everything=everything, called=called)
    return plan_screen.page(priced, width, called=called)
