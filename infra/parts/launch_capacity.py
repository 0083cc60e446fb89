"""The common parts of node groups' launch templates: capacity, root volume, tags."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import aws_ec2 as ec2


def launch_capacity(reservation_id: str | None, *, block: bool) -> dict[str, Any]:
    """A launch template's properties for a reservation, and the market type of a Capacity Block; {} without either."""
    # "When you create your launch template, specify the Capacity Block's reservation ID and instance type" (EC2 Auto
    # Scaling user guide, launch-template-capacity-blocks); an Auto Scaling group's preference `default` follows it.
    options: dict[str, Any] = {}
    if reservation_id is not None:
        options["capacity_reservation_specification"] = ec2.CfnLaunchTemplate.CapacityReservationSpecificationProperty(
            capacity_reservation_target=ec2.CfnLaunchTemplate.CapacityReservationTargetProperty(
                capacity_reservation_id=reservation_id
            )
        )
    if block:
        options["instance_market_options"] = ec2.CfnLaunchTemplate.InstanceMarketOptionsProperty(
            market_type="capacity-block"
        )
    return options


def root_volume(device: str, gib: int, key_arn: str | None) -> ec2.CfnLaunchTemplate.BlockDeviceMappingProperty:
    """An encrypted root volume of `gib` GiB; without the ARN of a key, EBS's own key encrypts it."""
    return ec2.CfnLaunchTemplate.BlockDeviceMappingProperty(
        device_name=device,
        ebs=ec2.CfnLaunchTemplate.EbsProperty(
            volume_size=gib, volume_type="gp3", encrypted=True, delete_on_termination=True, kms_key_id=key_arn
        ),
    )


def tag_specifications(tags: Mapping[str, str], *, spot: bool) -> list[ec2.CfnLaunchTemplate.TagSpecificationProperty]:
    """The tags of nodes and of all that EC2 creates with them, which do not inherit the stack's tags.

    An organisation's policy may refuse RunInstances for an untagged interface or spot request.
    """
    entries = [{"key": key, "value": value} for key, value in tags.items()]
    kinds = ("instance", "volume", "network-interface", *(("spot-instances-request",) if spot else ()))
    return [ec2.CfnLaunchTemplate.TagSpecificationProperty(resource_type=kind, tags=entries) for kind in kinds]


def template_tags(tags: Mapping[str, str]) -> list[ec2.CfnLaunchTemplate.LaunchTemplateTagSpecificationProperty]:
    """The tags of a launch template itself: the stack's tags do not reach it at its creation."""
    entries = [{"key": key, "value": value} for key, value in tags.items()]
    kind = ec2.CfnLaunchTemplate.LaunchTemplateTagSpecificationProperty
    return [kind(resource_type="launch-template", tags=entries)]
