"""The doctor on plans of plain instances: the quotas of the purchase option, and the zones that offer the type."""

import pytest

from launcher.model.diagnosis import Outcome

pytestmark = pytest.mark.server

PLAN = (
    "slipway: 1\nname: probe\nworkload: {{train: {{model: llama-3.1-8b, method: lora, tokens_b: 0.1}}}}\n"
    "target: {{kind: ec2, instance_type: {type}, nodes: {nodes}, region: us-east-2}}\n"
    "purchase: {{option: {option}}}\n"
)


@pytest.mark.parametrize(
    "words, quota, asked",
    [
        (("g6e.2xlarge", 1, "on-demand"), "Running On-Demand G and VT instances", "8 vCPUs for 1 x g6e.2xlarge"),
        (("g6e.8xlarge", 2, "spot"), "All G and VT Spot Instance Requests", "64 vCPUs for 2 x g6e.8xlarge"),
        (("p5.48xlarge", 1, "spot"), "All P5 Spot Instance Requests", "192 vCPUs for 1 x p5.48xlarge"),
        (("trn1.2xlarge", 1, "on-demand"), "Running On-Demand Trn instances", "8 vCPUs for 1 x trn1.2xlarge"),
    ],
)
@pytest.mark.usefixtures("ready_account")
def test_quota_of_plain_instances_is_that_of_family_and_option(examined, probe_plan, words, quota, asked):
    instance_type, nodes, option = words
    diagnosis = examined(probe_plan(PLAN.format(type=instance_type, nodes=nodes, option=option)))
    checks = {check.name: check for check in diagnosis.checks}
    assert checks[f"quota {quota}"].asked == asked
    assert checks["quota VPCs per Region"].asked == "1 network for the cluster's VPC"
    assert checks["type offered"].result is Outcome.OK
