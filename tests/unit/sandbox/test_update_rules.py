"""The sandbox refuses every update of the table of service rules that the services refuse."""

from dataclasses import replace

import pytest
from moto import mock_aws
from moto.applicationautoscaling.models import applicationautoscaling_backends
from moto.ec2.models import ec2_backends

from launcher.catalog.updates import load_service_rules
from launcher.model.update import Needs
from launcher.sandbox.aws import endpoints, file_systems
from launcher.sandbox.aws.eks import EmulatedEks
from launcher.sandbox.aws.model import Requested, ResourceRefusedError
from launcher.sandbox.cluster import pcs_request
from tests.unit.sandbox.eks_resources import HOSTS, cluster, group

ACCOUNT, REGION = "123456789012", "us-east-2"
CHANGE = {model.type.rpartition("::")[2]: model.change for model in EmulatedEks(HOSTS).models()}
OWN = {"VariantName": "main", "InstanceType": "ml.g5.xlarge", "ModelName": "m"}
COMPONENTS = {"VariantName": "main", "InstanceType": "ml.g5.xlarge"}


def request_values(kind, **properties):
    return Requested(
        type=kind,
        logical_id="X",
        name="x",
        stack_id="s",
        properties=properties,
        account_id=ACCOUNT,
        region_name=REGION,
    )


def update_variants(before, after, *, scaled=False, **properties):
    """UpdateEndpoint from one variant to another."""
    configs = [
        endpoints.StoredEntity(kind="endpoint-config", name="c", arn="a", request={"ProductionVariants": [variant]})
        for variant in (before, after)
    ]
    live = endpoints.Live(
        endpoint_name="chat", arn="a", request={}, config=configs[0], containers={}, instance_counts={}
    )
    if scaled:
        targets = applicationautoscaling_backends[ACCOUNT][REGION].targets
        targets["sagemaker:variant:DesiredInstanceCount"] = {"endpoint/chat/variant/main": object()}
    endpoints.refuse_variants(request_values("AWS::SageMaker::Endpoint", **properties), live, configs[1])


def update_node_group(*, image=False, other=False):
    """UpdateNodegroupVersion to a template with an image of its own, or to another template."""
    ec2 = ec2_backends[ACCOUNT][REGION]
    vpc = ec2.create_vpc("10.0.0.0/16")
    zones = (("10.0.0.0/28", "us-east-2a"), ("10.0.0.16/28", "us-east-2b"))
    subnets = [ec2.create_subnet(vpc.id, cidr, availability_zone=zone).id for cidr, zone in zones]
    cluster(subnets)
    created = group(ec2)
    data = {"InstanceType": "p5.48xlarge", **({"ImageId": "ami-1"} if image else {})}
    if other:
        template = ec2.create_launch_template("other", "", data, {})
    else:
        template = ec2.get_launch_template_by_name("t")
        template.create_version(data, "")
    wanted = request_values(
        "AWS::EKS::Nodegroup",
        ClusterName="slipway-x",
        NodegroupName="workers",
        NodeRole=f"arn:aws:iam::{ACCOUNT}:role/slipway-x",
        Subnets=subnets[:1],
        CapacityType="ON_DEMAND",
        ScalingConfig={"MinSize": 0, "MaxSize": 2, "DesiredSize": 2},
        LaunchTemplate={"Id": template.id, "Version": "1" if other else "2"},
    )
    CHANGE["Nodegroup"](wanted, created)


def shrink_file_system(gib):
    made = request_values("AWS::FSx::FileSystem", FileSystemType="LUSTRE", StorageCapacity=4800, SubnetIds=["subnet-1"])
    created = file_systems.create_file_system(made)
    file_systems.change_file_system(replace(made, properties={**made.properties, "StorageCapacity": gib}), created)


def refuse(problems):
    if problems := list(problems):
        raise ResourceRefusedError("; ".join(problems))


def grow_beyond_size(most):
    limits = pcs_request.ClusterLimits(size="SMALL", max_instances=20, subnets=())
    refuse(pcs_request.size_problems({"minInstanceCount": 0, "maxInstanceCount": most}, limits))


def change_slurm(version):
    before, after = ({"scheduler": {"type": "SLURM", "version": one}} for one in ("25.05", version))
    refuse(pcs_request.cluster_update_problems(before, after))


OTHER_TYPE, OTHER_NAME = {"InstanceType": "ml.g6.xlarge"}, {"VariantName": "other"}
CASES = {
    "components-changed": (lambda: update_variants(OWN, COMPONENTS), lambda: update_variants(OWN, OWN)),
    "groups-beyond-size": (lambda: grow_beyond_size(20), lambda: grow_beyond_size(12)),
    "image-of-node-group": (lambda: update_node_group(image=True), update_node_group),
    "lustre-smaller": (lambda: shrink_file_system(2400), lambda: shrink_file_system(7200)),
    "scheduler-version": (lambda: change_slurm("24.11"), lambda: change_slurm("25.11")),
    "template-of-node-group": (lambda: update_node_group(other=True), update_node_group),
    "type-of-components": (
        lambda: update_variants(COMPONENTS, {**COMPONENTS, **OTHER_TYPE}),
        lambda: update_variants(OWN, {**OWN, **OTHER_TYPE}),
    ),
    "type-of-scaled-variant": (
        lambda: update_variants(OWN, {**OWN, **OTHER_TYPE}, scaled=True),
        lambda: update_variants(OWN, OWN, scaled=True),
    ),
    "variant-changed": (
        lambda: update_variants(OWN, {**OWN, **OTHER_NAME}, DeploymentConfig={"RollingUpdatePolicy": {}}),
        lambda: update_variants(OWN, {**OWN, **OTHER_NAME}),
    ),
}
"""By rule an update that the service refuses, and one close to it that the service makes."""


@pytest.mark.parametrize("rule", [rule.name for rule in load_service_rules() if rule.needs is Needs.NEW_CLUSTER])
def test_update_refused_by_service_is_refused_by_sandbox(rule):
    forbidden, allowed = CASES[rule]
    with mock_aws(), pytest.raises(ResourceRefusedError):
        forbidden()
    with mock_aws():
        allowed()
