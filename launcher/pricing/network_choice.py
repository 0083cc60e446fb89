"""What `network.nat: auto` took for a quote, with the dollars of each way that works."""

from collections.abc import Iterator, Mapping
from decimal import Decimal

from launcher.model.enums import Egress, NatMode, PurchaseOption
from launcher.model.finding import Finding, info
from launcher.model.money import cents
from launcher.model.units import HOUR_S, duration_text
from launcher.planning.fetching import NATS
from launcher.planning.nat import AUTO_CODE, OWN_NAT_CODE
from launcher.pricing.bill import SHARED
from launcher.pricing.training_candidate import TrainingCandidate


def choice_findings(candidate: TrainingCandidate) -> Iterator[Finding]:
    """An info with the chosen way and its dollars beside those of the others; none where the plan or one way decides.

    The dollars are those of the network, and of nodes that wait for their downloads.
    """
    place, choice = candidate.place, candidate.work.egress_choice
    able = () if choice is None or candidate.context.request.network.nat is not None else choice.able(place.target)
    chosen = candidate.work.egress(place)
    if chosen is None or not candidate.has_price:
        return
    if len(able) < 2:  # noqa: PLR2004
        if own := _own_nat(candidate, chosen):
            yield info(OWN_NAT_CODE, "network.name", own)
        return
    known, spot = candidate.context.choices, place.option is PurchaseOption.SPOT
    key = (place.target, place.instance_type, place.nodes, place.region, place.az_id, spot, chosen, candidate.size)
    if key not in known:
        known[key] = _choice(candidate, chosen, able)
    yield known[key]


def _choice(candidate: TrainingCandidate, chosen: Egress, able: tuple[Egress, ...]) -> Finding:
    """What `network.nat: auto` took among the ways that work."""
    usd = {mode: egress_usd(candidate, mode) for mode in able}
    others = sorted((mode for mode in able if mode is not chosen), key=usd.__getitem__)
    against = ", ".join(
        f"${cents(usd[mode])} by {mode.value}{_slower(candidate, mode, chosen, usd)}" for mode in others
    )
    own = _own_nat(candidate, chosen)
    message = f"auto took {chosen.value}: ${cents(usd[chosen])} against {against}" + (f"; {own}" if own else "")
    hint = "the network, and nodes that wait for their downloads; network.nat: gateway, instance or none decides"
    return info(AUTO_CODE, "network.nat", message, hint)


def _slower(candidate: TrainingCandidate, mode: Egress, chosen: Egress, usd: Mapping[Egress, Decimal]) -> str:
    """How much longer nodes wait by a cheaper way: without a price of theirs, its dollars do not have the wait."""
    choice = candidate.work.egress_choice
    if choice is None or usd[mode] >= usd[chosen]:
        return ""
    kind = candidate.place.target
    hours = [0.0 if (fetch := choice.fetch_hours(one, kind)) is None else fetch.mid for one in (mode, chosen)]
    return (
        f", through which nodes wait {duration_text((hours[0] - hours[1]) * HOUR_S)} longer"
        if hours[0] > hours[1]
        else ""
    )


def _own_nat(candidate: TrainingCandidate, chosen: Egress) -> str:
    """What a second plan pays for a NAT of its own, and the key that shares one; empty without a NAT.

    Of a shared network, whether its NAT and endpoints are counted.
    """
    request, place = candidate.context.request, candidate.place
    name, users = request.network.name, request.network.shared_by
    if name is not None and users:
        return f"network {name} exists for {', '.join(users)}: only what this job sends through it is counted"
    if name is not None:
        less = candidate.context.bill.own_network_usd(place, chosen, candidate.size)
        text = f"network {name} is counted as new: ${cents(less)} less if another cluster uses it already"
        return f"{text} (slipway launch FILE --dry-run reads the account)" if less else ""
    if chosen not in NATS:
        return ""
    # A shared network has a gateway unless each of its plans names the instance (docs/clusters.md).
    kind = f", nat: {NatMode.INSTANCE}" if chosen is Egress.NAT_INSTANCE else ""
    own = cents(candidate.context.bill.own_network_usd(place, chosen, candidate.size))
    shared = f"network: {{name: {SHARED}{kind}}}"
    return f"a second plan in {place.region} pays ${own} for its own ({shared} in both shares one)"


def egress_usd(candidate: TrainingCandidate, mode: Egress) -> Decimal:
    """Dollars of a way to the internet in a quote: its lines, and the nodes for as long as they wait for downloads."""
    place, choice = candidate.place, candidate.work.egress_choice
    usd = candidate.context.bill.egress_costs(place, mode).total_usd(candidate.size)
    return usd if choice is None else usd + Decimal(repr(choice.waiting_usd(mode, place.target, place.option)))
