"""Regions and zones as an account sees them."""

from launcher.aws.calls import items
from launcher.aws.session import Session


def enabled(session: Session) -> frozenset[str]:
    """The regions that the account may use; regions of another partition are never among them.

    Raises:
        AwsError: the call failed.
    """
    found = items(session.client("ec2").describe_regions, "describe the regions", "Regions")
    return frozenset(str(each["RegionName"]) for each in found)


def zone_ids(session: Session) -> dict[str, str]:
    """The ids of a region's zones by their names, which are another account's for other zones.

    Raises:
        AwsError: the call failed.
    """
    what = f"describe the zones of {session.region}"
    found = items(
        session.client("ec2").describe_availability_zones, what, "AvailabilityZones", AllAvailabilityZones=True
    )
    return {str(each["ZoneName"]): str(each["ZoneId"]) for each in found}
