"""The spot prices of EC2, for which moto answers one price for every type.

Emulated, after botocore 1.44.5 (ec2/2016-11-15 service-2.json, DescribeSpotPriceHistory) and the EC2 API reference:
the price in effect by type and zone, at the rate of the catalog or at a set one, filtered by types, product and zone;
no entry for a type that the catalog has no rate for. Not emulated: the history before the present, and other products.
"""

from datetime import UTC, datetime
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import InvalidParameterValueError
from moto.ec2.responses import EC2Response

from launcher.sandbox.aws.allocation import Capacity
from launcher.sandbox.aws.fleet import EmulatedEc2

PRODUCTS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
"""The names of the same product, in the classic network and in a VPC."""


def install(capacity: Capacity) -> None:
    """Add the call to moto's EC2; `capacity` has the set prices."""

    def describe_spot_price_history(response: Any) -> ActionResult:
        backend, region = response.ec2_backend, response.ec2_backend.region_name
        types = response._get_param("InstanceTypes") or []  # noqa: SLF001  the way moto's own responses read
        products = response._get_param("ProductDescriptions") or list(PRODUCTS)  # noqa: SLF001
        given_zone = response._get_param("AvailabilityZone")  # noqa: SLF001
        ec2 = EmulatedEc2(response.current_account, region)
        for name in types:
            if ec2.instance_type(name) is None:
                raise InvalidParameterValueError(f"({name}) for parameter InstanceType")
        zones = {zone.zone_id: zone.name for zone in backend.describe_availability_zones()}
        entries = []
        for name in types:
            for zone_id, zone in zones.items():
                usd = capacity.usd(name, region, zone, zone_id)
                if usd is None or given_zone not in (None, zone):
                    continue
                entry = {
                    "InstanceType": name,
                    "ProductDescription": PRODUCTS[0],
                    "SpotPrice": f"{usd:.6f}",
                    "AvailabilityZone": zone,
                    "AvailabilityZoneId": zone_id,
                    "Timestamp": datetime.now(UTC).replace(microsecond=0),
                }
                entries.append(entry)
        return ActionResult({"SpotPriceHistory": entries if set(products) & set(PRODUCTS) else [], "NextToken": ""})

    setattr(EC2Response, describe_spot_price_history.__name__, describe_spot_price_history)
