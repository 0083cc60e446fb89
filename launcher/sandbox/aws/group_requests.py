"""What the request of an Auto Scaling group and its launch template say.

Judged by: botocore 1.44.5 (autoscaling/2011-01-01 and ec2/2016-11-15, service-2.json).
"""

import base64
from collections.abc import Mapping
from typing import Any

from moto.ec2.models import ec2_backends

from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT


def targeted_reservation(data: Mapping[str, Any]) -> str:
    """The id of the reservation that a launch template targets; empty for none."""
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    return str(target.get("CapacityReservationId", ""))


def is_spot(policy: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
    """Whether a group's instances are on spot."""
    share = policy.get("InstancesDistribution", {}).get("OnDemandPercentageAboveBaseCapacity", 100)
    return int(share) == 0 or data.get("InstanceMarketOptions", {}).get("MarketType") == "spot"


def mixed_of(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mixed instances policy of a group; empty without one."""
    policy: Mapping[str, Any] = request.get("MixedInstancesPolicy", {})
    return policy


def specification_of(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The launch template of a group."""
    policy = mixed_of(request).get("LaunchTemplate", {})
    named: Mapping[str, Any] = request.get("LaunchTemplate") or policy.get("LaunchTemplateSpecification", {})
    return named


def template_data(region: str, specification: Mapping[str, Any]) -> Mapping[str, Any]:
    """The data of a version of a launch template; empty if it does not exist."""
    templates: Any = ec2_backends[ACCOUNT][region].launch_templates
    template, version = templates.get(specification.get("LaunchTemplateId")), str(specification.get("Version", ""))
    if template is None or not version.isdecimal() or not 1 <= int(version) <= len(template.versions):
        return {}
    data: Mapping[str, Any] = template.get_version(int(version)).data
    return data


def user_data_of(data: Mapping[str, Any]) -> str:
    """The user data of a launch template, decoded."""
    encoded = data.get("UserData", "")
    # moto keeps it as text where a call brought it, and as a type of its own where a template did.
    return base64.b64decode(encoded).decode() if isinstance(encoded, str) else str(encoded.decode())


def instance_tags(data: Mapping[str, Any]) -> dict[str, str]:
    """The tags that a launch template gives to instances."""
    kinds = (each for each in data.get("TagSpecifications", ()) if each["ResourceType"] == "instance")
    return {tag["Key"]: str(tag["Value"]) for kind in kinds for tag in kind["Tags"]}
