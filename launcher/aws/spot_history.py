"""Spot prices per zone, as EC2's price history has them."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from launcher.aws.calls import RefusedPriceError, dollars, items
from launcher.aws.regions import zone_ids
from launcher.aws.session import Session
from launcher.catalog.fetched_prices import Answer, FetchedPrice, Refusal, answer
from launcher.catalog.selector import Key
from launcher.model.errors import AwsError

PRODUCT = "Linux/UNIX"


def spot(session: Session, instance_types: Collection[str], now: datetime) -> Answer:
    """The spot price of some types in each zone of the session's region.

    With a start of now the history is the price in effect, one entry a type and zone (EC2 API reference,
    DescribeSpotPriceHistory); of several entries the newest counts.

    Raises:
        AwsError: a call failed, an answer is not whole, or a zone has no id.
    """
    region = session.region
    entries = items(
        session.client("ec2").describe_spot_price_history,
        f"spot price history of {region}",
        "SpotPriceHistory",
        InstanceTypes=sorted(instance_types),
        ProductDescriptions=[PRODUCT],
        StartTime=now,
    )
    wanted = [entry for entry in entries if entry["InstanceType"] in instance_types]
    names = zone_ids(session) if any(not each.get("AvailabilityZoneId") for each in wanted) else {}
    newest: dict[Key, Mapping[str, Any]] = {}
    for each in wanted:
        zone = each.get("AvailabilityZoneId") or names.get(each.get("AvailabilityZone", ""))
        if not zone:
            raise AwsError(f"spot price history of {region}: {each.get('AvailabilityZone')} is no zone of this account")
        key = Key("spot", each["InstanceType"], region, str(zone))
        if key not in newest or newest[key]["Timestamp"] < each["Timestamp"]:
            newest[key] = each
    rates, refusals = [], []
    for key, each in newest.items():
        note = f"since {each['Timestamp']:%Y-%m-%d %H:%M} UTC"
        try:
            rates.append(FetchedPrice(key=key, usd=dollars(each.get("SpotPrice")), note=note))
        except RefusedPriceError as problem:
            refusals.append(Refusal(key=key, reason=str(problem)))
    return answer(rates, refusals)
