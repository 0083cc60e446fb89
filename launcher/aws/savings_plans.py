"""Savings Plan rates of EC2 and SageMaker."""

from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any

from launcher.aws.calls import RefusedPriceError, dollars, items
from launcher.aws.price_list import PAYMENTS, sagemaker_products
from launcher.aws.session import Session
from launcher.catalog.fetched_prices import FetchedPrice, FetchedPrices, Refusal, answer
from launcher.catalog.selector import Key
from launcher.model.enums import SavingsPlanKind

HOME = "us-east-1"
"""The region of the service's only endpoint."""
KINDS = {
    "Compute": SavingsPlanKind.COMPUTE,
    "EC2Instance": SavingsPlanKind.EC2_INSTANCE,
    "SageMaker": SavingsPlanKind.SAGEMAKER,
}
YEARS_BY_SECONDS = {31_536_000: 1, 94_608_000: 3}
EC2_FILTERS = {"tenancy": ("shared",), "productDescription": ("Linux/UNIX",)}
LARGEST_PAGE = 1000


def ec2(session: Session, instance_type: str, regions: Collection[str]) -> FetchedPrices:
    """Hourly rates of an EC2 type under Compute and EC2 Instance Savings Plans in some regions."""
    filters = {"instanceType": (instance_type,), "region": tuple(sorted(regions)), **EC2_FILTERS}
    rates = _rates(
        session,
        instance_type,
        savingsPlanTypes=["Compute", "EC2Instance"],
        serviceCodes=["AmazonEC2"],
        filters=[{"name": name, "values": list(values)} for name, values in filters.items()],
    )
    plain = [rate for rate in rates if "BoxUsage" in rate.get("usageType", "")]
    return _answer(plain, instance_type, regions, {})


def sagemaker(session: Session, prices: Session, ml_type: str, regions: Collection[str]) -> FetchedPrices:
    """Hourly rates of an `ml.` type under SageMaker Savings Plans in some regions; the highest of its components.

    The request names the usage types that the Price List gives for the type; they name the region. `session` has a
    client of savingsplans, `prices` a client of pricing.
    """
    places = {
        product.attributes["usagetype"]: product.attributes["regionCode"]
        for product in sagemaker_products(prices, ml_type, regions)
        if product.attributes.get("usagetype")
    }
    if not places:
        return FetchedPrices(rates=())
    rates = _rates(
        session,
        ml_type,
        savingsPlanTypes=["SageMaker"],
        serviceCodes=["AmazonSageMaker"],
        usageTypes=sorted(places),
    )
    return _answer(rates, ml_type, regions, places)


def _rates(session: Session, name: str, **question: Any) -> list[Any]:
    return items(
        session.client("savingsplans").describe_savings_plans_offering_rates,
        f"Savings Plan rates of {name}",
        "searchResults",
        maxResults=LARGEST_PAGE,
        **question,
    )


def _answer(rates: list[Any], name: str, regions: Collection[str], places: Mapping[str, str]) -> FetchedPrices:
    fetched, refusals = [], []
    for rate in rates:
        offering = rate.get("savingsPlanOffering", {})
        kind, years = KINDS.get(offering.get("planType")), YEARS_BY_SECONDS.get(offering.get("durationSeconds"))
        payment = PAYMENTS.get(offering.get("paymentOption"))
        stated = {item["name"]: item["value"] for item in rate.get("properties", ())}
        region = places.get(rate.get("usageType", ""), stated.get("region", ""))
        if kind is None or years is None or payment is None or region not in regions:
            continue
        if not places and stated.get("instanceType", name) != name:
            continue
        key = Key("savings-plan", name, region, "", kind.value, years, payment.value)
        try:
            fetched.append(FetchedPrice(key=key, usd=_hourly(rate, offering)))
        except RefusedPriceError as problem:
            refusals.append(Refusal(key=key, reason=str(problem)))
    return answer(fetched, refusals)


def _hourly(rate: Mapping[str, Any], offering: Mapping[str, Any]) -> Decimal:
    if rate.get("unit") != "Hrs":
        raise RefusedPriceError(f"the rate is per {rate.get('unit')}, expected Hrs")
    return dollars(rate.get("rate"), offering.get("currency"))
