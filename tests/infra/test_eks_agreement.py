"""EKS's templates and quotes agree: what is deployed is counted from the raw templates, each thing of it."""

import pytest

from tests.infra.conftest import EKS_FILES
from tests.infra.counted import (
    GUARD_CALLS_AN_HOUR,
    GUARD_METRICS,
    GUARD_REQUESTS,
    MONTH_H,
    OVERHEAD_H,
    START_UP_H,
    by_the_hour,
    differences,
    drop,
    named,
    resources,
)

IDLE_VALUES = 3
OPTIONS = {"SPOT": "spot", "CAPACITY_BLOCK": "capacity-block", "ON_DEMAND": "on-demand"}
DECIDED = "system node|control plane"


@pytest.fixture(scope="module")
def sides(both_sides):
    return lambda name: both_sides(EKS_FILES[name])[1:]


def deployed(templates, quote):
    """Quantities of what the templates make, by the quote's name of the line; None: more than one is to be said."""
    hours = quote["hours"]["mid"]
    up_h, runs = hours + OVERHEAD_H, hours + START_UP_H
    groups = {each["NodegroupName"]: each for each in resources(templates, "AWS::EKS::Nodegroup")}
    machines = named(templates, "AWS::EC2::LaunchTemplate")
    data = {name: machines[each["LaunchTemplate"]["Id"]["Ref"]]["LaunchTemplateData"] for name, each in groups.items()}
    workers, count = groups["workers"], groups["workers"]["ScalingConfig"]["DesiredSize"]
    made = {
        f"{count} x {data['workers']['InstanceType']} {OPTIONS[workers['CapacityType']]}": None,
        f"system node {data['system']['InstanceType']}": groups["system"]["ScalingConfig"]["DesiredSize"] * up_h,
        "control plane": len(resources(templates, "AWS::EKS::Cluster")) * up_h,
        **by_the_hour(templates, up_h),
    }
    gib = {name: each["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] for name, each in data.items()}
    made["EBS gp3 root volumes"] = (gib["system"] * up_h + gib["workers"] * count * runs) / MONTH_H
    made["custom metrics"] = GUARD_METRICS * up_h / MONTH_H
    looks = GUARD_CALLS_AN_HOUR * IDLE_VALUES * count
    made["CloudWatch requests"] = (GUARD_CALLS_AN_HOUR * GUARD_REQUESTS * up_h + looks * runs) / 1000
    return made


@pytest.mark.parametrize("name", sorted(EKS_FILES))
def test_what_is_deployed_is_what_is_quoted(sides, name):
    templates, quote = sides(name)
    assert differences(deployed(templates, quote), quote, DECIDED) == set()


def change_nodes(name, key, value):
    def change(templates):
        groups = resources(templates, "AWS::EKS::Nodegroup")
        next(each for each in groups if each["NodegroupName"] == name)["ScalingConfig"][key] = value

    return change


def change_volume(templates):
    for each in resources(templates, "AWS::EC2::LaunchTemplate"):
        each["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] += 1


@pytest.mark.parametrize(
    "change",
    [
        change_nodes("workers", "DesiredSize", 3),
        change_nodes("system", "DesiredSize", 2),
        change_volume,
        drop("AWS::EC2::NatGateway"),
        drop("AWS::EKS::Cluster"),
        drop("AWS::Lambda::Function"),
    ],
)
def test_a_difference_is_found(sides, change):
    templates, quote = sides("trn1-spot")
    change(templates)
    assert differences(deployed(templates, quote), quote, DECIDED)
