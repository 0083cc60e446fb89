"""Templates and quotes of HyperPod with EKS agree: what is deployed is counted from the raw templates."""

import copy
import json
import math
import re

import pytest

from launcher.records.documents import quote_document
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.infra.conftest import HYPERPOD_EKS_FILES
from tests.infra.test_hyperpod_agreement import HEALTH_H, drop, resources
from tests.plans import NOW

MONTH_H, OVERHEAD_H, START_UP_H = 730, 0.5, 0.15
GUARD_METRICS, GUARD_CALLS_AN_HOUR, GUARD_REQUESTS = 3, 12, 2


@pytest.fixture(scope="module")
def sides(synthesised, catalog):
    done = {}

    def both(name):
        if name not in done:
            found = price(HYPERPOD_EKS_FILES[name], NOW, PriceOptions()).quote(1)
            rate = {} if found.usd_per_hour is None else {"usd_per_hour": f"{found.usd_per_hour:f}"}
            told = json.loads(json.dumps(quote_document(found, 1, catalog.instance_types)))
            done[name] = synthesised(found.plan, **rate).templates, told
        return copy.deepcopy(done[name])

    return both


def guards(templates):
    """The functions that cost something: what installs the chart runs once, for a minute."""
    made = [each for template in templates.values() for each in template["Resources"].items()]
    return [key for key, each in made if each["Type"] == "AWS::Lambda::Function" and key.startswith("Guardrails")]


def deployed(templates, quote):
    """Quantities of what the templates make, by the quote's name of the line; None: more than one is to be said."""
    up_h = quote["hours"]["mid"] + OVERHEAD_H
    (pod,) = resources(templates, "AWS::SageMaker::Cluster")
    groups = {each["InstanceGroupName"]: each for each in pod["InstanceGroups"]}
    workers = groups["workers"]
    how = "spot" if "CapacityRequirements" in workers else "training-plan" if "TrainingPlanArn" in workers else ""
    made = {
        f"{workers['InstanceCount']} x {workers['InstanceType']} {how}": None,
        f"system node {groups['system']['InstanceType']}": groups["system"]["InstanceCount"] * up_h,
        "control plane": len(resources(templates, "AWS::EKS::Cluster")) * up_h,
        "NAT gateway": len(resources(templates, "AWS::EC2::NatGateway")) * up_h,
        "public IPv4 address of the NAT": len(resources(templates, "AWS::EC2::EIP")) * up_h,
    }
    if how == "spot":
        trial = HEALTH_H if workers.get("OnStartDeepHealthChecks") else 0
        made["start-up of the machines"] = workers["InstanceCount"] * (START_UP_H + trial)
    months = up_h / MONTH_H
    alarms = len(resources(templates, "AWS::CloudWatch::Alarm"))
    made[f"{alarms} alarm{'s' * (alarms > 1)}"] = alarms * months
    made["dashboard"] = len(resources(templates, "AWS::CloudWatch::Dashboard")) * months
    made["guard and its messages"] = len(guards(templates)) * months
    if budgets := len(resources(templates, "AWS::Budgets::Budget")):
        made["AWS Budget"] = budgets * months
    made["custom metrics"] = GUARD_METRICS * months
    made["CloudWatch requests"] = GUARD_CALLS_AN_HOUR * GUARD_REQUESTS * up_h / 1000
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
    decided = re.compile(r"\d+ x ml\.|system|control plane|FSx|EBS|NAT gateway|\d+ alarm|dashboard|guard|AWS Budget")
    return found | {name for name in said if decided.match(name) and name not in made}


@pytest.mark.parametrize("name", sorted(HYPERPOD_EKS_FILES))
def test_what_is_deployed_is_what_is_quoted(sides, name):
    templates, quote = sides(name)
    assert differences(templates, quote) == set()


def change_group(name, key, value):
    def change(templates):
        (pod,) = resources(templates, "AWS::SageMaker::Cluster")
        next(each for each in pod["InstanceGroups"] if each["InstanceGroupName"] == name)[key] = value

    return change


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
    assert differences(templates, quote) != set()
