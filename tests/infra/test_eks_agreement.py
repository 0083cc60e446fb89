"""EKS's templates and quotes agree: what is deployed is counted from the raw templates, each thing of it."""

import copy
import json
import math
import re
from datetime import UTC, datetime

import pytest

from launcher.records.documents import quote_document
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.infra.conftest import EKS_FILES

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MONTH_H, OVERHEAD_H, START_UP_H = 730, 0.5, 0.15
GUARD_METRICS, GUARD_CALLS_AN_HOUR, GUARD_REQUESTS, IDLE_VALUES = 3, 12, 2, 3
OPTIONS = {"SPOT": "spot", "CAPACITY_BLOCK": "capacity-block", "ON_DEMAND": "on-demand"}


@pytest.fixture(scope="module")
def sides(synthesised, catalog):
    done = {}

    def both(name):
        if name not in done:
            found = price(EKS_FILES[name], NOW, PriceOptions()).quote(1)
            rate = {"usd_per_hour": f"{found.usd_per_hour:f}"}
            told = json.loads(json.dumps(quote_document(found, 1, catalog.instance_types)))
            done[name] = synthesised(found.plan, **rate).templates, told
        return copy.deepcopy(done[name])

    return both


def resources(templates, kind):
    made = [each for template in templates.values() for each in template["Resources"].items()]
    return {key: each.get("Properties", {}) for key, each in made if each["Type"] == kind}


def deployed(templates, quote):
    """Quantities of what the templates make, by the quote's name of the line; None: more than one is to be said."""
    hours = quote["hours"]["mid"]
    up_h, runs = hours + OVERHEAD_H, hours + START_UP_H
    groups = {each["NodegroupName"]: each for each in resources(templates, "AWS::EKS::Nodegroup").values()}
    machines = resources(templates, "AWS::EC2::LaunchTemplate")
    data = {name: machines[each["LaunchTemplate"]["Id"]["Ref"]]["LaunchTemplateData"] for name, each in groups.items()}
    workers, count = groups["workers"], groups["workers"]["ScalingConfig"]["DesiredSize"]
    prepaid = workers["CapacityType"] == "CAPACITY_BLOCK"
    made = {
        f"{count} x {data['workers']['InstanceType']} {OPTIONS[workers['CapacityType']]}": None,
        f"system node {data['system']['InstanceType']}": groups["system"]["ScalingConfig"]["DesiredSize"] * up_h,
        "control plane": len(resources(templates, "AWS::EKS::Cluster")) * up_h,
        "NAT gateway": len(resources(templates, "AWS::EC2::NatGateway")) * up_h,
        "public IPv4 address of the NAT": len(resources(templates, "AWS::EC2::EIP")) * up_h,
    }
    gib = {name: each["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] for name, each in data.items()}
    made["EBS gp3 root volumes"] = (gib["system"] * up_h + gib["workers"] * count * runs) / MONTH_H
    months = up_h / MONTH_H
    alarms = len(resources(templates, "AWS::CloudWatch::Alarm"))
    made[f"{alarms} alarm{'s' * (alarms > 1)}"] = alarms * months
    made["dashboard"] = len(resources(templates, "AWS::CloudWatch::Dashboard")) * months
    made["guard and its messages"] = len(resources(templates, "AWS::Lambda::Function")) * months
    if budgets := len(resources(templates, "AWS::Budgets::Budget")):
        made["AWS Budget"] = budgets * months
    made["custom metrics"] = GUARD_METRICS * months
    looks = 0 if prepaid else GUARD_CALLS_AN_HOUR * IDLE_VALUES * count
    made["CloudWatch requests"] = (GUARD_CALLS_AN_HOUR * GUARD_REQUESTS * up_h + looks * runs) / 1000
    return made


def differences(templates, quote):
    """Names of lines whose quantity is not what is deployed, and of machines that only one side has."""
    said = {each["name"]: each["quantity"] for each in quote["components"]}
    made = deployed(templates, quote)
    found = {name for name, value in made.items() if name not in said}
    found |= {
        name
        for name, value in made.items()
        if value is not None and name in said and not math.isclose(value, said[name], rel_tol=1e-9)
    }
    decided = re.compile(r"\d+ x |system node|control plane|NAT gateway|\d+ alarm|dashboard|guard|AWS Budget|FSx")
    return found | {name for name in said if decided.match(name) and name not in made}


@pytest.mark.parametrize("name", sorted(EKS_FILES))
def test_what_is_deployed_is_what_is_quoted(sides, name):
    templates, quote = sides(name)
    assert differences(templates, quote) == set()


def change_group(name, key, value):
    def change(templates):
        groups = resources(templates, "AWS::EKS::Nodegroup").values()
        next(each for each in groups if each["NodegroupName"] == name)["ScalingConfig"][key] = value

    return change


def change_volume(templates):
    for each in resources(templates, "AWS::EC2::LaunchTemplate").values():
        each["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] += 1


def drop(kind):
    def change(templates):
        for template in templates.values():
            made = template["Resources"].items()
            template["Resources"] = {key: each for key, each in made if each["Type"] != kind}

    return change


@pytest.mark.parametrize(
    "change",
    [
        change_group("workers", "DesiredSize", 3),
        change_group("system", "DesiredSize", 2),
        change_volume,
        drop("AWS::EC2::NatGateway"),
        drop("AWS::EKS::Cluster"),
        drop("AWS::Lambda::Function"),
    ],
)
def test_a_difference_is_found(sides, change):
    templates, quote = sides("trn1-spot")
    change(templates)
    assert differences(templates, quote)
