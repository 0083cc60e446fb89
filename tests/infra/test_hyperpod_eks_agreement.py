"""Templates and quotes of HyperPod with EKS agree: what is deployed is counted from the raw templates."""

import pytest

from tests.infra.conftest import HYPERPOD_EKS_FILES
from tests.infra.counted import (
    GUARD_CALLS_AN_HOUR,
    GUARD_METRICS,
    GUARD_REQUESTS,
    HEALTH_H,
    MONTH_H,
    OVERHEAD_H,
    START_UP_H,
    by_the_hour,
    change_group,
    differences,
    drop,
    groups_of,
    resources,
)

DECIDED = "system|control plane|EBS"
COUNT_METRICS, COUNT_REQUESTS = 1, 2
"""Of pods, which the guard writes and reads back."""


@pytest.fixture(scope="module")
def sides(both_sides):
    return lambda name: both_sides(HYPERPOD_EKS_FILES[name])[1:]


def deployed(templates, quote):
    """Quantities of what the templates make, by the quote's name of the line; None: more than one is to be said."""
    up_h = quote["hours"]["mid"] + OVERHEAD_H
    groups = groups_of(templates)
    workers = groups["workers"]
    shares = [
        (each["InstanceType"], each["Count"])
        for quota in resources(templates, "AWS::SageMaker::ComputeQuota")
        for each in quota["ComputeQuotaConfig"]["ComputeQuotaResources"]
    ]
    # What a team may use is what is paid for.
    assert shares in ([], [(workers["InstanceType"], workers["InstanceCount"])])
    bought = {"CapacityRequirements": "spot", "TrainingPlanArn": "training-plan"}
    how = next((word for key, word in bought.items() if key in workers), "on-demand")
    made = {
        f"{workers['InstanceCount']} x {workers['InstanceType']} {how}": None,
        f"system node {groups['system']['InstanceType']}": groups["system"]["InstanceCount"] * up_h,
        "control plane": len(resources(templates, "AWS::EKS::Cluster")) * up_h,
        **by_the_hour(templates, up_h),
    }
    trial = HEALTH_H if workers.get("OnStartDeepHealthChecks") else 0
    if how != "training-plan":
        made["start-up of the machines"] = workers["InstanceCount"] * (START_UP_H + trial)
    functions = resources(templates, "AWS::Lambda::Function")
    looks = any("PODS_FUNCTION" in each["Environment"]["Variables"] for each in functions)
    made["custom metrics"] = (GUARD_METRICS + looks * COUNT_METRICS) * up_h / MONTH_H
    nodes_up_h = looks * (quote["hours"]["mid"] + START_UP_H)
    requests = GUARD_REQUESTS * up_h + COUNT_REQUESTS * nodes_up_h
    made["CloudWatch requests"] = GUARD_CALLS_AN_HOUR * requests / 1000
    return made


@pytest.mark.parametrize("name", sorted(HYPERPOD_EKS_FILES))
def test_what_is_deployed_is_what_is_quoted(sides, name):
    templates, quote = sides(name)
    assert differences(deployed(templates, quote), quote, DECIDED) == set()


@pytest.mark.parametrize(
    "change",
    [
        change_group("workers", "InstanceCount", 7),
        change_group("workers", "InstanceType", "ml.p5.48xlarge"),
        change_group("workers", "OnStartDeepHealthChecks", []),
        change_group("system", "InstanceType", "ml.m6i.4xlarge"),
        change_group("system", "InstanceCount", 2),
        *map(drop, ("AWS::EKS::Cluster", "AWS::EC2::NatGateway", "AWS::CloudWatch::Alarm", "AWS::Lambda::Function")),
    ],
)
def test_each_quantity_changed_is_seen(sides, change):
    templates, quote = sides("p5en-spot")
    change(templates)
    assert differences(deployed(templates, quote), quote, DECIDED) != set()
