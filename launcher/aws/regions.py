"""Regions and zones of an account."""

from launcher.aws.calls import items
from launcher.aws.session import Session, bare_session


def enabled_regions(session: Session) -> frozenset[str]:
    """The regions that the account may use; never regions of another partition."""
    regions = items(session.client("ec2").describe_regions, "describe the regions", "Regions")
    return frozenset(str(region["RegionName"]) for region in regions)


def zone_ids(session: Session) -> dict[str, str]:
    """The ids of a region's zones by name; in another account, the same names refer to other zones."""
    subject = f"describe the zones of {session.region}"
    zones = items(
        session.client("ec2").describe_availability_zones, subject, "AvailabilityZones", AllAvailabilityZones=True
    )
    return {str(zone["ZoneName"]): str(zone["ZoneId"]) for zone in zones}


def opt_in_status(session: Session, region: str) -> str | None:
    """opt-in-not-required, opted-in or not-opted-in; None if AWS has no such region."""
    describe = session.client("ec2").describe_regions
    regions = items(describe, "describe the regions", "Regions", AllRegions=True)
    return next((str(described["OptInStatus"]) for described in regions if described["RegionName"] == region), None)


def offering_zones(session: Session, instance_type: str) -> frozenset[str]:
    """The ids of the zones of the session's region that offer an instance type."""
    offerings = items(
        session.client("ec2").describe_instance_type_offerings,
        f"zones of {session.region} that offer {instance_type}",
        "InstanceTypeOfferings",
        LocationType="availability-zone-id",
        Filters=[{"Name": "instance-type", "Values": [instance_type]}],
    )
    return frozenset(str(offering["Location"]) for offering in offerings)


def region_names() -> frozenset[str]:
    """The regions of EC2 that botocore knows, in every partition; no call."""
    session = bare_session()
    partitions = session.get_available_partitions()
    return frozenset(name for partition in partitions for name in session.get_available_regions("ec2", partition))
