"""The story of a price: plan file to ranked quotes. Nothing is called and nothing is spent."""

from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

from launcher import plan_file
from launcher.catalog import load as catalog_load
from launcher.catalog.load import Catalog
from launcher.catalog.training import load_training
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.finding import Finding
from launcher.model.quote import Quote
from launcher.model.request import PlanRequest
from launcher.model.workload import ModelDimensions
from launcher.planning.resolve import Resolution, resolve
from launcher.planning.work import cluster_hours
from launcher.pricing.gate import GateRules
from launcher.pricing.quoting import Desk, outline, quote
from launcher.pricing.ranking import fold, rank

LEAST_DIGEST = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceOptions:
    """What the command line adds to a plan file."""

    region: str | None = None
    everything: bool = False
    prices_as_of: date | None = None
    max_price_age: int | None = None
    max_usd: Decimal | None = None
    sandbox: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """A request with its quotes, best first."""

    path: Path
    request: PlanRequest
    catalog: Catalog
    resolution: Resolution
    quotes: tuple[Quote, ...]
    folded: int
    now: datetime

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the whole plan."""
        return self.resolution.findings

    @property
    def cluster_hours(self) -> float:
        """Hours a cluster without a job is priced for."""
        return cluster_hours(self.request)

    @property
    def params_b(self) -> float | None:
        """Billions of parameters of the model, where there is one."""
        train = self.request.workload.train
        if train is None or train.model is None:
            return None
        if isinstance(train.model, ModelDimensions):
            return train.model.params_b
        found = self.catalog.find_model(train.model)
        return found.params_b if found else None

    @property
    def next_command(self) -> str:
        """What to type next."""
        return f"slipway quote {self.path} --pick 1"


def price(path: Path, now: datetime, options: PriceOptions) -> Priced:
    """The quotes of a plan file.

    Raises:
        UnreadableInputError: the file cannot be understood.
        ImpossibleError: it is understood and no candidate is left, with every finding.
    """
    request = plan_file.load(path)
    if options.region is not None:
        request = replace(request, target=replace(request.target, region=(options.region,)))
    catalog = catalog_load.load(prices_as_of=options.prices_as_of)
    resolution = resolve(request, catalog, load_training())
    if resolution.errors:
        count = len(resolution.errors)
        message = f"{path} asks for something that cannot be done: {count} problem{'s' if count > 1 else ''}"
        raise ImpossibleError(message, findings=resolution.findings)
    rules = GateRules(
        today=now.date(), max_usd=options.max_usd, max_age_days=options.max_price_age, sandbox=options.sandbox
    )
    desk = Desk(request=request, catalog=catalog, now=now, rules=rules)
    outlines = [outline(each.place, each.work, desk) for each in resolution.candidates]
    kept = outlines if options.everything else fold(outlines)
    told = (replace(each, work=resolution.estimator.explained(each.work)) for each in kept)
    quotes = rank((quote(each, desk) for each in told), desk)
    return Priced(
        path=path, request=request, catalog=catalog, resolution=resolution, quotes=quotes, folded=len(outlines), now=now
    )


def pick(priced: Priced, wanted: str | None) -> tuple[int, Quote]:
    """The quote a person picked by rank or digest, with its rank; the first without a wish.

    Raises:
        UnreadableInputError: there is no such rank or digest.
    """
    ranked = list(enumerate(priced.quotes, start=1))
    if wanted is None:
        return ranked[0]
    if wanted.isdigit() and 1 <= int(wanted) <= len(ranked):
        return ranked[int(wanted) - 1]
    matching = [row for row in ranked if len(wanted) >= LEAST_DIGEST and row[1].digest.startswith(wanted.lower())]
    if len(matching) == 1:
        return matching[0]
    raise UnreadableInputError(
        f"--pick {wanted}: no candidate with that rank or digest",
        hint=f"ranks 1 to {len(ranked)}, or the first {LEAST_DIGEST} letters of a digest or more",
    )
