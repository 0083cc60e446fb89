"""Spot prices by zone from EC2's price history."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from launcher.aws.calls import RefusedPriceError, dollars, items
from launcher.aws.regions import zone_ids
from launcher.aws.session import Session
from launcher.catalog.fetched_prices import FetchedPrice, FetchedPrices, Refusal, answer
from launcher.catalog.selector import Key
from launcher.model.errors import AwsError

PRODUCT = "Linux/UNIX"


def spot(session: Session, instance_types: Collection[str], now: datetime) -> FetchedPrices:
    """The spot price of some types in each zone of the session's region.

    With the current time as start, the history is the price in effect, one entry per type and zone (EC2 API reference,
    DescribeSpotPriceHistory); of several entries the newest is valid.

    Raises:
        AwsError: a call failed, a response is incomplete, or a zone has no id.
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
    relevant = [entry for entry in entries if entry["InstanceType"] in instance_types]
    names = zone_ids(session) if any(not entry.get("AvailabilityZoneId") for entry in relevant) else {}
    newest: dict[Key, Mapping[str, Any]] = {}
    for history_entry in relevant:
        zone = history_entry.get("AvailabilityZoneId") or names.get(history_entry.get("AvailabilityZone", ""))
        if not zone:
            raise AwsError(
                f"spot price history of {region}: {history_entry.get('AvailabilityZone')} is no zone of this account"
            )
        key = Key("spot", history_entry["InstanceType"], region, str(zone))
        if key not in newest or newest[key]["Timestamp"] < history_entry["Timestamp"]:
            newest[key] = history_entry
    rates, refusals = [], []
    for key, history_entry in newest.items():
        note = f"since {history_entry['Timestamp']:%Y-%m-%d %H:%M} UTC"
        try:
            rates.append(FetchedPrice(key=key, usd=dollars(history_entry.get("SpotPrice")), note=note))
        except RefusedPriceError as problem:
            refusals.append(Refusal(key=key, reason=str(problem)))
    return answer(rates, refusals)
