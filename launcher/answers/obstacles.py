"""What a launch needs beside the gate: the trainer's file, capacity that was bought, weights that an endpoint reads."""

from collections.abc import Iterator

from launcher.model.finding import Finding
from launcher.model.quote import Quote
from launcher.model.serving import UNTIL_DEPLOYED
from launcher.pricing.priced import Priced
from launcher.rendering.cluster import unnamed_capacity


def obstacle(quoted: Quote, priced: Priced) -> Finding | None:
    """Why a launch is refused that the gate allows; None if nothing is missing."""
    return next(iter((*priced.blocking, *missing(quoted))), None)


def missing(quoted: Quote) -> Iterator[Finding]:
    """What the row's own capacity or deployment needs before a launch, and the plan does not name."""
    if quoted.serving is None:
        yield from unnamed_capacity(quoted.plan)
        return
    yield from (finding for finding in quoted.findings if finding.code in UNTIL_DEPLOYED)
