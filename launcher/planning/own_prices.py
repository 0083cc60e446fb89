"""Checks of the prices that a user sets: each key names a type, a purchase option, and perhaps a region and target."""

from collections.abc import Iterator

from launcher.catalog.load import Catalog
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.finding import Finding, error, warning
from launcher.model.names import nearest_name
from launcher.model.request import PlanRequest
from launcher.targets.registry import TARGETS, training_targets

OWN_PRICES = "purchase.price_overrides"
SEVERAL_SERVICES = "several-services"
MAX_USD_PER_HOUR = 1_000_000
_KINDS = frozenset(kind.value for kind in TargetKind)


def own_price_findings(request: PlanRequest, catalog: Catalog) -> Iterator[Finding]:
    """Findings for the user's own prices: each must name a known type and purchase option, or a service's fee."""
    fees = {key for target in TARGETS.values() for key in target.fee_keys}
    for key, usd in request.purchase.price_overrides.items():
        path, (named, option, *rest) = f"{OWN_PRICES}.{key}", key.split("/")
        if usd > MAX_USD_PER_HOUR:
            message = f"must be at most {MAX_USD_PER_HOUR:,} dollars an instance-hour, got {usd}"
            yield error("too-dear", path, message)
        is_fee = f"{named}/{option}" in fees
        target = rest.pop() if rest and rest[-1] in _KINDS and not is_fee else None
        misplaced = [*_region(path, rest, catalog, is_fee=is_fee)]
        yield from misplaced
        if is_fee:
            continue
        name = named.removeprefix("ml.")
        if name not in catalog.instance_types:
            hint = nearest_name(name, catalog.instance_types)
            yield error("unknown-instance-type", path, f"no instance type {name}", hint)
        if option not in [known.value for known in PurchaseOption]:
            allowed = ", ".join(known.value for known in PurchaseOption)
            yield error("unknown-option", path, f"the option must be one of {allowed}")
        # A key that is wrong in its last parts has that error alone: they may be a misspelt target.
        if target is None and not misplaced:
            yield from _several_services(key, request)
        elif target is not None and (billed := TARGETS[TargetKind(target)].billed_name(name)) != named:
            message = f"{target} has no instances named {named}"
            yield error("other-service", path, message, f"{billed}/{key.partition('/')[2]}")


def _region(path: str, rest: list[str], catalog: Catalog, *, is_fee: bool) -> Iterator[Finding]:
    """Findings for the parts of a key after the purchase option, without its target: a region at most."""
    region, others = (rest[0], rest[1:]) if rest else ("", [])
    code, kinds = "the code of a region, such as us-east-1", ", ".join(TargetKind)
    if is_fee and rest:
        hint = nearest_name(region, catalog.regions) or code
    elif region in _KINDS:
        hint = f"{code}, and the target after it"
    else:
        hint = nearest_name(region, (*catalog.regions, *_KINDS)) or f"{code}, or a target: {kinds}"
    if rest and region not in catalog.regions:
        yield error("unknown-region", path, f"no region {region} in the catalog", hint)
    elif is_fee and others:
        yield error("fee-of-target", path, f"the fee is of one target, got {others[0]}", f"end the key with {region}")
    elif others:
        hint = nearest_name(others[0], _KINDS) or f"one of {kinds}"
        yield error("unknown-target", path, f"no target {others[0]}", hint)


def _several_services(key: str, request: PlanRequest) -> Iterator[Finding]:
    """A warning if the plan compares several of the services that a key prices."""
    jobs = training_targets() if request.workload.serve is None else ()
    compared = [kind for kind in jobs if kind in (request.target.kind or jobs)]
    name, option = key.split("/")[:2]
    kinds = [kind for kind in compared if TARGETS[kind].sagemaker is not None and option in TARGETS[kind].trains]
    if name.startswith("ml.") and len({TARGETS[kind].sagemaker for kind in kinds}) > 1:
        message = f"prices {', '.join(kinds)}: AWS bills each service of SageMaker at a rate of its own"
        hint = f"add the target to the key: {key}/{kinds[-1]}"
        yield warning(SEVERAL_SERVICES, f"{OWN_PRICES}.{key}", message, hint)
