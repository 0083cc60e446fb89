"""The instances of PCS's node groups in the emulated EC2.

Judged by: moto 5.2.5, and the PCS user guide for the tags of instances (launcher/model/pcs.py).
"""

from collections.abc import Mapping
from typing import Any

from launcher.model.pcs import GROUP_TAG, PCS_CLUSTER_TAG
from launcher.sandbox.aws.fleet import EmulatedEc2


def template_data(ec2: EmulatedEc2, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The data of a node group's launch template; empty without a launch template."""
    named = request.get("customLaunchTemplate")
    template = None if named is None else ec2.template(named["id"], named["version"])
    return {} if template is None else template[0]


def run(ec2: EmulatedEc2, cluster_id: str, group_id: str, request: Mapping[str, Any]) -> str:
    """Run an instance of a node group, with PCS's tags and those of its launch template; return its id."""
    data = template_data(ec2, request)
    specifications = [
        specification
        for specification in data.get("TagSpecifications", [])
        if specification["ResourceType"] == "instance"
    ]
    tags = {tag["Key"]: tag["Value"] for specification in specifications for tag in specification["Tags"]}
    interfaces = data.get("NetworkInterfaces", [])
    groups = interfaces[0]["Groups"] if interfaces else data.get("SecurityGroupIds", [])
    return ec2.run(
        request["instanceConfigs"][0]["instanceType"],
        {**tags, PCS_CLUSTER_TAG: cluster_id, GROUP_TAG: group_id},
        request["subnetIds"][0],
        groups,
        request.get("purchaseOption", "ONDEMAND"),
    )
