"""Regions and zones as an account sees them."""

from launcher.aws.calls import items
from launcher.aws.session import Session


def enabled(session: Session) -> frozenset[str]:
    """The regions that the account may use; regions of another partition are never among them."""
    found = items(session.client("ec2").describe_regions, "describe the regions", "Regions")
    return frozenset(str(each["RegionName"]) for each in found)


def zone_ids(session: Session) -> dict[str, str]:
    """The ids of a region's zones by their names, which are another account's for other zones."""
    what = f"describe the zones of {session.region}"
    found = items(
        session.client("ec2").describe_availability_zones, what, "AvailabilityZones", AllAvailabilityZones=True
    )
    return {str(each["ZoneName"]): str(each["ZoneId"]) for each in found}


def opt_in_status(session: Session, region: str) -> str | None:
    """Whether the account may use a region: opt-in-not-required, opted-in, not-opted-in; None where AWS has none such.

    Args:
        session: of any region that is enabled.
        region: the one that is meant.
    """
    describe = session.client("ec2").describe_regions
    found = items(describe, "describe the regions", "Regions", AllRegions=True)
    return next((str(each["OptInStatus"]) for each in found if each["RegionName"] == region), None)


def offering_zones(session: Session, instance_type: str) -> frozenset[str]:
    """The ids of the zones of the session's region that offer an instance type."""
    found = items(
        session.client("ec2").describe_instance_type_offerings,
        f"zones of {session.region} that offer {instance_type}",
        "InstanceTypeOfferings",
        LocationType="availability-zone-id",
        Filters=[{"Name": "instance-type", "Values": [instance_type]}],
    )
    return frozenset(str(each["Location"]) for each in found)
