"""A quote for a deployment: gated on local prices, refreshed if there are credentials, then quoted and gated again."""

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from launcher.catalog import load as catalog_load
from launcher.catalog.load import Catalog
from launcher.model.enums import Level, NatMode, PurchaseOption
from launcher.model.errors import ImpossibleError, OverBudgetError, SlipwayError, UnpricedError
from launcher.model.plan import Place, Plan
from launcher.model.quote import Quote
from launcher.model.request import PlanRequest
from launcher.model.stages import Notify
from launcher.model.units import number_of
from launcher.planning.egress_choice import MODES
from launcher.planning.nat import egress, obstacle
from launcher.pricing.priced import Priced
from launcher.targets.registry import billed_name, target_of
from launcher.workflow.quote.commands import command
from launcher.workflow.quote.fallback import fallback_quotes, with_types
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price, price_request, rank_note

REFUSALS: dict[int, type[SlipwayError]] = {3: OverBudgetError, 4: UnpricedError, 5: ImpossibleError}


class Kept(NamedTuple):
    """What a plan's existing cluster keeps (existing_head.py); None for what it does not have."""

    # The type of the head node.
    head: str | None = None
    # The way to the internet.
    nat: NatMode | None = None
    # The stacks of other clusters that use its shared network, and pay for its NAT.
    shared_by: tuple[str, ...] = ()


Deployed: TypeAlias = Callable[[Plan], Kept]
"""Returns what a plan's cluster keeps."""


def refuse_unless_allowed(
    priced: Priced, quoted: Quote, options: PriceOptions, notify: Notify = lambda _: None
) -> None:
    """Continue only with a quote that the gate allows; for an endpoint, the comparison's verdict must allow it too.

    Raises:
        OverBudgetError, UnpricedError, ImpossibleError: the gate refuses; the hint is the smallest fix.
    """
    _refuse_by_estimates(priced, quoted, options, notify)
    _refuse_by_plugins(priced, quoted, notify)


def _refuse_by_estimates(priced: Priced, quoted: Quote, options: PriceOptions, notify: Notify) -> None:
    if priced.request.workload.serve is None:
        _refuse_by_gate(quoted, REFUSALS)
        return
    # Loaded for serving plans alone.
    from launcher.workflow.quote.serving_gate import refuse_by_verdict, refuse_undeployable

    refuse_undeployable(priced, quoted)
    _refuse_by_gate(quoted, [ImpossibleError.exit_code])
    refuse_by_verdict(priced, options, notify)
    _refuse_by_gate(quoted, REFUSALS)


def _refuse_by_plugins(priced: Priced, quoted: Quote, notify: Notify) -> None:
    """Continue only if no plugin of the organisation has an error; its other findings are printed."""
    from launcher.workflow.quote.plugins import names, plugin_findings

    if not names():
        return
    from launcher.records.quote_document import quote_document

    found = plugin_findings(quote_document(quoted, _rank_of(quoted, priced), priced.catalog.instance_types))
    errors = tuple(finding for finding in found if finding.level is Level.ERROR)
    for finding in found:
        if finding not in errors:
            notify(f"{finding.level.value}: {finding.message}" + (f" ({finding.hint})" if finding.hint else ""))
    if errors:
        message = f"{number_of(len(errors), 'finding')} of your organisation's plugins"
        raise ImpossibleError(f"a launch is refused: {message}", findings=errors)


def _rank_of(quoted: Quote, priced: Priced) -> int:
    places = [candidate.place for candidate in priced.candidates]
    return places.index(quoted.plan.place) + 1 if quoted.plan.place in places else 1


def _refuse_by_gate(quoted: Quote, codes: Container[int]) -> None:
    if not quoted.gate.allows_launch and quoted.gate.exit_code in codes:
        errors = tuple(finding for finding in quoted.findings if finding.level == "error")
        raise REFUSALS[quoted.gate.exit_code](quoted.gate.reason, hint=quoted.gate.hint, findings=errors)


def _with_fallbacks(path: Path, priced: Priced, quoted: Quote, now: datetime, options: PriceOptions) -> Quote:
    """The quote, once the gate allows the job on each type that EC2 may choose for it.

    Raises:
        OverBudgetError, UnpricedError, ImpossibleError: the gate refuses the job on a fallback type.
    """
    quoted = with_types(quoted, fallback_quotes(path, priced, quoted, now, options))
    _refuse_by_gate(quoted, REFUSALS)
    return quoted


def nothing_deployed(_plan: Plan) -> Kept:
    """No deployed cluster is looked up."""
    return Kept()


def _with_deployed(
    request: PlanRequest, plan: Plan, deployed: Deployed, catalog: Catalog, notify: Notify
) -> PlanRequest:
    """The request with what its existing cluster keeps."""
    kept = deployed(plan)
    new = target_of(plan.place.target).head_instance(plan.place.nodes, request.storage.head_node)
    if kept.head is not None and kept.head != new:
        notify(
            f"cluster {plan.cluster_name} keeps its head node, {kept.head}; a new cluster of this size would get {new}"
        )
        request = replace(request, storage=replace(request.storage, head_node=kept.head))
    if kept.shared_by:
        users, name = ", ".join(kept.shared_by), request.network.name
        notify(f"network {name} exists for {users}: the NAT and endpoints that they pay for are not in this quote")
        request = replace(request, network=replace(request.network, shared_by=kept.shared_by))
    egress_mode = egress(plan.request, plan.place, catalog.instance_types)
    if request.network.nat is None and egress_mode is not None and kept.nat not in (None, MODES[egress_mode]):
        if kept.nat is NatMode.NONE and obstacle(request, plan.place, catalog.instance_types):
            return request
        name = request.network.name
        whose = f"cluster {plan.cluster_name}" if name is None else f"network {name}"
        new_one = "a new cluster" if name is None else "a new network"
        notify(f"{whose} keeps network.nat: {kept.nat}; {new_one} would get: {MODES[egress_mode]}")
        request = replace(request, network=replace(request.network, nat=kept.nat))
    elif request.network.name is not None and request.network.nat not in (None, kept.nat) and kept.nat is not None:
        changed = f"network.nat: {kept.nat} to {request.network.nat}"
        notify(
            f"warning: this changes the shared network {request.network.name} from {changed}, for each of its clusters"
        )
    return request


def _at(priced: Priced, place: Place) -> tuple[int, Quote]:
    rank = next(rank for rank, candidate in enumerate(priced.candidates, start=1) if candidate.place == place)
    return rank, priced.quote(rank)


class Picked(NamedTuple):
    """A candidate that the gate allows: its pricing, its rank in the pricing, and its quote."""

    priced: Priced
    rank: int
    quoted: Quote


class LaunchConsole(Protocol):
    """The user, who sees what would be done and confirms it."""

    def say(self, text: str) -> None:
        """Print a remark."""

    def show(self, priced: Priced, *, called: bool) -> None:
        """Show the candidates; `called` says whether AWS was called for their prices."""

    def quote(self, picked: Picked) -> None:
        """Show a quote."""

    def refuse_unless_answerable(self, action: str) -> None:
        """Refuse before any work if the user could not confirm `action` later."""

    def approve(self, action: str) -> None:
        """Ask the user to confirm `action`; raises if the user declines."""


def gated_quote(
    path: Path,
    now: datetime,
    options: PriceOptions,
    *,
    selection: str | None,
    notify: Notify,
    deployed: Deployed = nothing_deployed,
) -> Picked:
    """The picked candidate at the known prices.

    Raises:
        SlipwayError: the gate refused, or no such candidate exists.
    """
    options = replace(options, picked=selection)
    priced = price(path, now, options)
    rank, quoted = pick(priced, selection)
    for note in rank_note(priced, selection):
        notify(note)
    kept = _with_deployed(priced.request, quoted.plan, deployed, priced.catalog, notify)
    if kept != priced.request:
        priced = price_request(path, kept, priced.catalog, now, options)
        rank, quoted = _at(priced, quoted.plan.place)
    refuse_unless_allowed(priced, quoted, options, notify)
    return Picked(priced=priced, rank=rank, quoted=_with_fallbacks(path, priced, quoted, now, options))


def fresh_quote(
    path: Path,
    now: datetime,
    options: PriceOptions,
    *,
    selection: str | None,
    environment: Mapping[str, str],
    notify: Notify,
    deployed: Deployed = nothing_deployed,
) -> Picked:
    """The picked candidate at prices that allow a deployment.

    The subnets of an existing network are read with the prices, and the quote's plan has the result. If the gate
    refuses for another reason than age, that happens before AWS is called. Without credentials nothing is refreshed,
    and the same prices are gated again, by their age.

    Raises:
        SlipwayError: the gate refused, or the picked price no longer exists.
    """
    from launcher.aws.session import CredentialsError, Session
    from launcher.workflow.quote.existing_network import describe_network
    from launcher.workflow.quote.refresh import refresh_for

    priced = price(path, now, replace(options, picked=selection))
    rank, first = pick(priced, selection)
    for note in rank_note(priced, selection):
        notify(note)
    options = replace(options, picked=first.digest)
    refuse_unless_allowed(priced, priced.quote_at_any_age(rank), options)
    request, place = priced.request, first.plan.place
    try:
        notify("reading current prices from AWS")
        report = refresh_for(
            request, catalog=priced.catalog, environment=environment, now=now, notify=notify, place=place
        )
    except CredentialsError as problem:
        notify(f"prices are not refreshed: {problem.message}")
    else:
        # Instances that SageMaker bills by the hour have their own name there.
        by_hour = place.option is PurchaseOption.ON_DEMAND
        name = billed_name(place) if by_hour else place.instance_type
        if report.price_ended(name, place.option.value, place.region, place.az_id):
            message = f"AWS no longer publishes a {place.option.value} price of {name} in {place.region}"
            raise UnpricedError(message, hint=f"{command(priced, 'plan')} shows the other candidates")
        catalog = catalog_load.load(prices_as_of=options.prices_as_of, overlay=options.cache, today=now.date())
        request = describe_network(request, Session(environment=environment, region=place.region))
        kept = _with_deployed(request, first.plan, deployed, catalog, notify)
        priced = price_request(path, kept, catalog, now, options)
        if kept != request:
            first = _at(priced, place)[1]
    rank, quoted = pick(priced, first.digest)
    refuse_unless_allowed(priced, quoted, options, notify)
    return Picked(priced=priced, rank=rank, quoted=_with_fallbacks(path, priced, quoted, now, options))
