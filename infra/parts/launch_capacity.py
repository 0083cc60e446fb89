"""Where the launch template of a node group takes its instances from."""

from typing import Any

from aws_cdk import aws_ec2 as ec2


def launch_capacity(reservation_id: str | None, *, block: bool) -> dict[str, Any]:
    """The properties of a launch template for a reservation, and for the market of a Capacity Block; {} without."""
    found: dict[str, Any] = {}
    if reservation_id is not None:
        found["capacity_reservation_specification"] = ec2.CfnLaunchTemplate.CapacityReservationSpecificationProperty(
            capacity_reservation_target=ec2.CfnLaunchTemplate.CapacityReservationTargetProperty(
                capacity_reservation_id=reservation_id
            )
        )
    if block:
        found["instance_market_options"] = ec2.CfnLaunchTemplate.InstanceMarketOptionsProperty(
            market_type="capacity-block"
        )
    return found
