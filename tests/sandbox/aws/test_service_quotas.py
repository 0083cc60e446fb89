"""The sandbox's Service Quotas: AWS's defaults, the account's values, and the doctor's answer for plain instances."""

from datetime import UTC, datetime

import pytest

from launcher.catalog.load import load
from launcher.model.diagnosis import Outcome
from launcher.workflow.doctor.diagnosis import subject_of
from launcher.workflow.doctor.examination import examine
from launcher.workflow.doctor.quotas import QUOTAS
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from tests.sandbox.aws.answers import REGION

PLAN = f"""
slipway: 1
name: probe
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: ec2, instance_type: g6e.8xlarge, nodes: 2, region: {REGION}}}
"""


@pytest.mark.parametrize(
    "option, limits, outcome",
    [
        ("spot", {}, Outcome.OK),
        ("spot", {"spot_vcpus": 63}, Outcome.FAILED),
        ("spot", {"vcpus": 63}, Outcome.OK),
        ("on-demand", {"vcpus": 63}, Outcome.FAILED),
    ],
)
def test_doctor_compares_plan_with_quota_that_limits_its_instances(tmp_path, world_sandbox, option, limits, outcome):
    (tmp_path / "plan.yaml").write_text(f"{PLAN}purchase: {{option: {option}}}\n")
    now = datetime.now(UTC)
    plan = pick(price(tmp_path / "plan.yaml", now, PriceOptions(any_age=True)), None)[1].plan
    world_sandbox.limit_instances(**limits)
    try:
        environment = world_sandbox.process_environment({})
        checks = examine(subject_of(plan, REGION, catalog=load(), environment=environment, now=now), QUOTAS)
    finally:
        world_sandbox.limit_instances()
    name = "All G and VT Spot Instance Requests" if option == "spot" else "Running On-Demand G and VT instances"
    (check,) = [check for check in checks.checks if check.name == f"quota {name}"]
    assert (check.result, check.asked) == (outcome, "64 vCPUs for 2 x g6e.8xlarge")
    assert outcome is Outcome.OK or "--desired-value 64" in check.fix


def test_defaults_are_those_of_a_new_account(client):
    quotas = client("service-quotas")
    defaults = quotas.list_aws_default_service_quotas(ServiceCode="ec2")["Quotas"]
    values = {quota["QuotaName"]: quota["Value"] for quota in defaults}
    assert values["All G and VT Spot Instance Requests"] == 0
    assert values["EC2-VPC Elastic IPs"] == 5
    sagemaker = quotas.list_service_quotas(ServiceCode="sagemaker")["Quotas"]
    assert "ml.p5.48xlarge for training job usage" in {quota["QuotaName"] for quota in sagemaker}
