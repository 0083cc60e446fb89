"""The sandbox has each subnet that a plan names, also without its zone."""

import pytest

from launcher import plan_file
from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.planning.pin import pinned_plan
from launcher.workflow.deploy.in_sandbox import prerequisites_for

REGION = "us-east-1"
SUBNETS = ("subnet-0a1b2c3d", "subnet-1a1b2c3d")
PLAN = """
slipway: 1
name: named
workload: {{train: {{model: {{params_b: 0.1}}, hours: 1}}}}
target: {{kind: {kind}, instance_type: p5.48xlarge, nodes: 1, region: us-east-1}}
purchase: {{option: on-demand}}
network: {{vpc_id: {vpc}, subnet_ids: [{subnets}]}}
"""


@pytest.mark.parametrize("kind, vpc", [("sagemaker-training", "vpc-0a1b2c3d"), ("ec2", "vpc-1a1b2c3d")])
def test_every_named_subnet_exists_without_its_zone(sandbox, kind, vpc):
    names = [f"{subnet[:-4]}{vpc[4:8]}" for subnet in SUBNETS]
    plan = pinned_plan(plan_file.loads(PLAN.format(kind=kind, vpc=vpc, subnets=", ".join(names))), load())
    assert set(prerequisites_for(sandbox, plan)) == {vpc, *names}
    ec2 = Session(environment=sandbox.process_environment({}), region=REGION).client("ec2")
    found = ec2.describe_subnets(SubnetIds=names)["Subnets"]
    assert {subnet["VpcId"] for subnet in found} == {vpc}
    assert not any(subnet["MapPublicIpOnLaunch"] for subnet in found)
