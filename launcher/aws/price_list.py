"""The Price List: on-demand and reserved rates of EC2, and SageMaker's rates.

Filters as in Karpenter's price updater (aws/karpenter-provider-aws, pkg/providers/pricing/pricing.go).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from launcher.agent import safe_json
from launcher.aws.calls import RefusedPriceError, dollars, items
from launcher.aws.session import CUT_SHORT, Session
from launcher.catalog.bill import EVERYWHERE
from launcher.catalog.fetched_prices import FetchedPrice, FetchedPrices, Refusal, answer
from launcher.catalog.selector import SAGEMAKER, Key
from launcher.catalog.usage_types import UsageType
from launcher.model.enums import Payment
from launcher.model.errors import AwsError

HOME = "us-east-1"
"""The region of the Price List for all commercial and GovCloud regions; most regions have no endpoint for it."""
HOURS_PER_YEAR = 8760
PLACES = Decimal("0.000001")
"""Effective hourly rates are rounded to a millionth of a dollar, as in the shipped snapshot."""
CLASSES = ("standard", "convertible")
"""Offering classes of Reserved Instances."""

EC2_FILTERS = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
"""Filters for one Linux on-demand price; without marketoption, products of Capacity Blocks match too."""

COMPONENTS = {
    "hosting": "hosting",
    "training": "training",
    "cluster": "cluster",
    "studio-jupyterlab": "studio",
}
"""The catalog's components by their lower-case names in SageMaker's products. Other products of the same type (spot
training, reserved clusters, notebooks, free tiers) have prices of their own and are left out."""

FILTERS: Mapping[str, tuple[Mapping[str, str], ...]] = {
    "AmazonEC2": tuple(
        {"productFamily": family}
        for family in ("Storage", "System Operation", "Provisioned Throughput", "Storage Snapshot", "NAT Gateway")
    ),
    "AmazonFSx": ({"productFamily": "Storage"},),
    "AmazonSageMaker": ({"volumeType": "General Purpose-Hosting"}, {"operation": "Invoke-Endpoint"}),
    "AWSELB": ({"productFamily": "Load Balancer-Network"},),
}
"""Filters that find the bill items among the products of a service that has many others."""

DATA_TRANSFER = "AWSDataTransfer"
PAYMENTS = {
    "No Upfront": Payment.NO_UPFRONT,
    "Partial Upfront": Payment.PARTIAL_UPFRONT,
    "All Upfront": Payment.ALL_UPFRONT,
}
YEARS = {"1yr": 1, "3yr": 3}
_HOURS = frozenset(("Hrs", "Hours", "hours", "hrs"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One entry of the Price List; its family is among the attributes."""

    attributes: Mapping[str, str]
    terms: Mapping[str, Mapping[str, Any]]

    def terms_of(self, kind: str) -> list[Mapping[str, Any]]:
        """The terms of one kind: OnDemand or Reserved."""
        return list(self.terms.get(kind, {}).values())


def ec2(
    session: Session, instance_type: str, regions: Collection[str], now: datetime, *, reserved: bool
) -> FetchedPrices:
    """On-demand rates of a type in some regions and, if requested, its reserved rates.

    With one region, the request names only this region; with more, it covers all, including their local zones.
    """
    listed = instance_products(session, instance_type, regions)
    return ec2_answer(listed, {instance_type}, regions, now, reserved=reserved)


def instance_products(session: Session, instance_type: str, regions: Collection[str]) -> Iterator[Product]:
    """The Linux on-demand products of a type."""
    filters = {"instanceType": instance_type, **EC2_FILTERS}
    return _products(session, "AmazonEC2", filters, regions, f"Price List of {instance_type}")


def ec2_answer(
    products: Iterable[Product], names: Collection[str], regions: Collection[str], now: datetime, *, reserved: bool
) -> FetchedPrices:
    """On-demand rates, and reserved rates if requested, of some types in some regions, from products."""
    rates: list[FetchedPrice] = []
    refusals: list[Refusal] = []
    for product in products:
        name = product.attributes.get("instanceType", next(iter(names)) if len(names) == 1 else "")
        place = _place(product.attributes.get("regionCode", ""), regions)
        if place is not None and name in names and is_plain(product.attributes):
            region, zone = place
            outcomes = [_on_demand(product, Key("on-demand", name, region, zone), now)]
            if reserved and not zone:
                outcomes += _reserved_rates(product, Key("reserved", name, region), now)
            rates += [outcome for outcome in outcomes if isinstance(outcome, FetchedPrice)]
            refusals += [outcome for outcome in outcomes if isinstance(outcome, Refusal)]
    return answer(rates, refusals)


def sagemaker(session: Session, ml_type: str, regions: Collection[str], now: datetime) -> FetchedPrices:
    """SageMaker's rates of an `ml.` type in some regions, by component."""
    return sagemaker_answer(sagemaker_products(session, ml_type, regions), now, name=ml_type)


def sagemaker_answer(products: Iterable[Product], now: datetime, *, name: str = "") -> FetchedPrices:
    """SageMaker's rates by component, from products that `is_managed` accepts; `name` if a product states none."""
    outcomes = []
    for product in products:
        stated = product.attributes
        component = COMPONENTS[_component(stated)]
        key = Key(SAGEMAKER, stated.get("instanceName", name), stated["regionCode"], detail=component)
        outcomes.append(_on_demand(product, key, now))
    rates = [outcome for outcome in outcomes if isinstance(outcome, FetchedPrice)]
    return answer(rates, [outcome for outcome in outcomes if isinstance(outcome, Refusal)])


def sagemaker_products(session: Session, ml_type: str, regions: Collection[str]) -> list[Product]:
    """SageMaker's products of an `ml.` type for which the catalog has a component."""
    subject = f"Price List of {ml_type}"
    return [
        product
        for product in _products(session, "AmazonSageMaker", {"instanceName": ml_type}, regions, subject)
        if is_managed({"instanceName": ml_type, **product.attributes}, {ml_type}, regions)
    ]


def is_managed(attributes: Mapping[str, str], names: Collection[str], regions: Collection[str]) -> bool:
    """Whether a product is SageMaker's, for these `ml.` types and regions, and for a component of the catalog."""
    matches = attributes.get("regionCode") in regions and attributes.get("instanceName") in names
    return matches and _component(attributes) in COMPONENTS


def stated_attributes(product: Mapping[str, Any]) -> dict[str, str]:
    """The attributes of a product as listed, with its family."""
    return {"productFamily": product.get("productFamily", ""), **product["attributes"]}


def bill_products(session: Session, service: str, region: str, known: Collection[UsageType] = ()) -> list[Product]:
    """The products of a service in a region that can be bill items; of EC2 without instances.

    Products with the same price everywhere name no region: the request names their usage type. Data transfer uses
    another attribute than other products for its region, the region in which it begins.
    """
    subject = f"Price List of {service} in {region}"
    if region == EVERYWHERE:
        filters = [{"usagetype": usage_type.name} for usage_type in known]
        return [product for filter_ in filters for product in _products(session, service, filter_, (), subject)]
    if service == DATA_TRANSFER:
        inside = _products(session, service, {"transferType": "IntraRegion"}, (), subject)
        transfer = {"transferType": "InterRegion Outbound", "fromRegionCode": region}
        outside = _products(session, service, transfer, (), subject)
        return [product for product in (*inside, *outside) if begins_in(product.attributes) == region]
    filter_sets = FILTERS.get(service, ({},))
    return [product for filter_ in filter_sets for product in _products(session, service, filter_, (region,), subject)]


def begins_in(attributes: Mapping[str, str]) -> str:
    """The region in which a data transfer product begins; empty if the product states none."""
    return attributes.get("fromRegionCode") or attributes.get("regionCode", "")


def _component(attributes: Mapping[str, str]) -> str:
    return (attributes.get("platoinstancetype") or attributes.get("component") or "").lower()


def _products(
    session: Session, service: str, filters: Mapping[str, str], regions: Collection[str], subject: str
) -> Iterator[Product]:
    matched = {**filters, "regionCode": next(iter(regions))} if len(regions) == 1 else filters
    entries = items(
        session.client("pricing").get_products,
        subject,
        "PriceList",
        ServiceCode=service,
        Filters=[{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in matched.items()],
        FormatVersion="aws_v1",
        MaxResults=100,
    )
    for text in entries:
        try:
            entry = safe_json.loads(text)
            yield Product(attributes=stated_attributes(entry["product"]), terms=entry["terms"])
        except (KeyError, TypeError, ValueError) as problem:
            raise AwsError(f"{subject}: {CUT_SHORT}: {str(text)[:60]!r}", hint="run it again") from problem


def is_plain(attributes: Mapping[str, str]) -> bool:
    """Whether a product is a plain on-demand instance: no Capacity Block, no reservation, no other operating system."""
    if any(attributes.get(name, value) != value for name, value in EC2_FILTERS.items()):
        return False
    return "BoxUsage" in attributes.get("usagetype", "BoxUsage")


def _place(code: str, regions: Collection[str]) -> tuple[str, str] | None:
    """The region of a product and its local zone, or "" for the region itself; None for regions not requested.

    >>> _place("us-east-1-atl-1", {"us-east-1"}), _place("us-east-1", {"us-east-1"}), _place("eu-west-1", {"us-east-1"})
    (('us-east-1', 'us-east-1-atl-1'), ('us-east-1', ''), None)
    """
    if code in regions:
        return code, ""
    return next(((region, code) for region in regions if code.startswith(f"{region}-")), None)


def _on_demand(product: Product, key: Key, now: datetime) -> FetchedPrice | Refusal | None:
    """The current hourly price, with a note about a future one; None for a product without such terms.

    Of several terms, the newest that has begun is valid; of several prices in it, the highest.
    """
    terms = product.terms_of("OnDemand")
    if not terms:
        return None
    try:
        later = sorted((term for term in terms if _begins(term) > now), key=_begins)
        # A product may have several prices at once: the estimate must not be too low.
        usd = max(_hourly(term) for term in holding(terms, now))
    except RefusedPriceError as problem:
        return Refusal(key=key, reason=str(problem))
    note = f"from {_begins(later[0]):%Y-%m-%d} on: {_rate_text(later[0])}" if later else ""
    return FetchedPrice(key=key, usd=usd, note=note)


def holding(terms: list[Mapping[str, Any]], now: datetime) -> list[Mapping[str, Any]]:
    """The newest of the terms that have begun; empty if no terms are given.

    Raises:
        RefusedPriceError: no term has begun, or a term states no begin.
    """
    begun = [term for term in terms if _begins(term) <= now]
    if terms and not begun:
        raise RefusedPriceError(f"the price holds from {min(map(_begins, terms)):%Y-%m-%d} on")
    newest = max(map(_begins, begun), default=now)
    return [term for term in begun if _begins(term) == newest]


def _begins(term: Mapping[str, Any]) -> datetime:
    try:
        moment = datetime.fromisoformat(term["effectiveDate"])
    except (KeyError, TypeError, ValueError) as problem:
        raise RefusedPriceError("the price has no effective date") from problem
    # The files state UTC without saying so.
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _hourly(term: Mapping[str, Any]) -> Decimal:
    prices = [_amount(dimension) for dimension in _dimensions(term, lambda unit: unit in _HOURS)]
    if not prices:
        raise RefusedPriceError("the price is not by the hour")
    return max(prices)


def _dimensions(term: Mapping[str, Any], selects: Callable[[str], bool]) -> list[Mapping[str, Any]]:
    return [dimension for dimension in term.get("priceDimensions", {}).values() if selects(dimension.get("unit", ""))]


def _amount(dimension: Mapping[str, Any], *, free: bool = False) -> Decimal:
    per_unit = dimension.get("pricePerUnit", {})
    # A price in another currency is refused by its name, not as missing.
    currency = "USD" if "USD" in per_unit else next(iter(per_unit), None)
    return dollars(per_unit.get(currency), currency, free=free)


def _rate_text(term: Mapping[str, Any]) -> str:
    try:
        return f"${_hourly(term).normalize():f}"
    except RefusedPriceError as problem:
        return str(problem)


def _reserved_rates(product: Product, key: Key, now: datetime) -> Iterator[FetchedPrice | Refusal]:
    """The effective hourly rates of a product's reserved terms, each from the newest term that has begun."""
    newest: dict[Key, datetime] = {}
    outcomes: dict[Key, FetchedPrice | Refusal] = {}
    for term in product.terms_of("Reserved"):
        stated = term.get("termAttributes", {})
        years, payment = YEARS.get(stated.get("LeaseContractLength")), PAYMENTS.get(stated.get("PurchaseOption"))
        offering_class = stated.get("OfferingClass")
        if years is None or payment is None or offering_class not in CLASSES:
            continue
        reserved_key = key._replace(detail=offering_class, term_years=years, payment=payment.value)
        try:
            begins, rate = _begins(term), FetchedPrice(key=reserved_key, usd=_effective(term, years))
        except RefusedPriceError as problem:
            outcomes.setdefault(reserved_key, Refusal(key=reserved_key, reason=str(problem)))
            continue
        if begins <= now and (reserved_key not in newest or newest[reserved_key] <= begins):
            newest[reserved_key], outcomes[reserved_key] = begins, rate
    yield from outcomes.values()


def _effective(term: Mapping[str, Any], years: int) -> Decimal:
    """The hourly rate of a reserved term with its upfront payment spread over it: hourly + upfront / (8760 x years).

    >>> term = {
    ...     "priceDimensions": {
    ...         "a": {"unit": "Quantity", "pricePerUnit": {"USD": "8760"}},
    ...         "b": {"unit": "Hrs", "pricePerUnit": {"USD": "1.5"}},
    ...     }
    ... }
    >>> _effective(term, 1)
    Decimal('2.500000')
    """
    parts = _dimensions(term, lambda unit: unit in _HOURS or unit == "Quantity")
    # The upfront payment is the price of a quantity of one, for the whole term.
    hours = {"Quantity": HOURS_PER_YEAR * years}
    total = sum((_amount(part, free=True) / hours.get(part["unit"], 1) for part in parts), Decimal(0))
    return dollars(str(total)).quantize(PLACES)
