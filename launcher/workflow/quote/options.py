"""Options of the command line in addition to the plan file, and their effect on pricing."""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

from launcher import plan_file
from launcher.catalog.load import Catalog
from launcher.model.enums import Level
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding
from launcher.model.plan import SHORT_ID
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.units import number_of
from launcher.pricing.context import PricingContext
from launcher.pricing.gate import GateRules
from launcher.workflow.quote.commands import ALL, CHANGES, FLAGS, SET


@record
class PriceOptions:
    """Pricing options of the command line."""

    region: str | None = None
    everything: bool = False
    # The rows of a screen for which the candidates that it can show are enough; None for the best of each kind.
    first_rows: int | None = None
    prices_as_of: date | None = None
    max_price_age: int | None = None
    max_usd: Decimal | None = None
    # Prices of any age: in the sandbox, and for commands that buy nothing.
    any_age: bool = False
    # The folder of refreshed prices, if one exists.
    cache: Path | None = None
    # The folder of runs whose load tests a serving plan uses; None uses none.
    runs: Path | None = None
    # Deploys an endpoint that the comparison advises against.
    despite_verdict: bool = False
    # Selects a candidate: a short id, or a rank.
    picked: str | None = None
    # Values over those of the plan file, each KEY=VALUE.
    settings: tuple[str, ...] = ()

    @property
    def picked_id(self) -> str:
        """The beginning of the digest that `picked` gives; "" for a rank, or without one."""
        selection = self.picked or ""
        return "" if is_rank(selection) or len(selection) < SHORT_ID else selection.lower()


def is_rank(selection: str) -> bool:
    """Whether a selection is a rank: fewer digits than a short id has letters.

    >>> is_rank("12"), is_rank("123456"), is_rank("5dd042")
    (True, False, False)
    """
    return selection.isdecimal() and selection.isascii() and len(selection) < SHORT_ID


def refuse_errors(path: Path, findings: Sequence[Finding], settings: tuple[str, ...]) -> None:
    """Continue only if the findings contain no error.

    Raises:
        ImpossibleError: a finding is an error; with every finding.
    """
    count = sum(finding.level is Level.ERROR for finding in findings)
    if count:
        message = f"{path} has {number_of(count, 'problem')}"
        raise ImpossibleError(message, findings=plan_file.place_findings(path, findings, settings))


def context_for(request: PlanRequest, catalog: Catalog, now: datetime, options: PriceOptions) -> PricingContext:
    """The pricing context that all quotes of one command share."""
    rules = GateRules(
        today=now.date(),
        changes=CHANGES,
        max_usd=options.max_usd,
        max_age_days=options.max_price_age,
        any_age=options.any_age,
    )
    typed = (options.region, options.prices_as_of, options.max_price_age, options.max_usd)
    flags = [(flag, str(value)) for flag, value in zip(FLAGS, typed, strict=False) if value is not None]
    flags += [(SET, setting) for setting in options.settings]
    every = ((ALL,),) if options.everything else ()
    return PricingContext(request=request, catalog=catalog, now=now, rules=rules, flags=(*flags, *every))
