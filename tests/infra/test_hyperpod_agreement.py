"""HyperPod's templates and quotes agree: what is deployed is counted from the raw templates, each thing of it."""

import copy
import json
import math
import re

import pytest

from launcher.records.documents import quote_document
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.infra.conftest import HYPERPOD_FILES
from tests.plans import NOW

MONTH_H, OVERHEAD_H, START_UP_H = 730, 0.5, 0.15
HEALTH_H = 1.0
"""Deep health checks, of which AWS publishes no time: what the quote assumes of them."""
NODE_METRICS, GUARD_METRICS, CONTROLLER_METRICS = 3, 3, 1
REPORTS_AN_HOUR, GUARD_CALLS_AN_HOUR, GUARD_REQUESTS = 60, 12, 2


@pytest.fixture(scope="module")
def sides(synthesised, catalog, tmp_path_factory):
    """Of an example, with a rate where none is known: its templates as the launcher deploys them, its quote's JSON."""
    done, folder = {}, tmp_path_factory.mktemp("plans")

    def both(name):
        if name not in done:
            own = 'price_overrides: {"ml.trn2.48xlarge/on-demand": "40"}'
            text = HYPERPOD_FILES[name].read_text(encoding="utf-8")
            path = folder / f"{name}.yaml"
            path.write_text(text.replace("  option: on-demand\n", f"  option: on-demand\n  {own}\n"), encoding="utf-8")
            found = price(path, NOW, PriceOptions()).quote(1)
            rate = {"usd_per_hour": f"{found.usd_per_hour:f}"}
            told = json.loads(json.dumps(quote_document(found, 1, catalog.instance_types)))
            done[name] = synthesised(found.plan, **rate).templates, told
        return copy.deepcopy(done[name])

    return both


def resources(templates, kind):
    made = [each for template in templates.values() for each in template["Resources"].values()]
    return [each.get("Properties", {}) for each in made if each["Type"] == kind]


def deployed(templates, quote):
    """Quantities of what the templates make, by the quote's name of the line."""
    hours = quote["hours"]["mid"]
    up_h, runs = hours + OVERHEAD_H, hours + START_UP_H
    (pod,) = resources(templates, "AWS::SageMaker::Cluster")
    groups = {each["InstanceGroupName"]: each for each in pod["InstanceGroups"]}
    workers = groups["workers"]
    count, type_ = workers["InstanceCount"], workers["InstanceType"]
    planned = "TrainingPlanArn" in workers
    made = {f"{count} x {type_} {'training-plan' if planned else 'on-demand'}": None if planned else count * hours}
    if not planned:
        made["start-up of the machines"] = count * (
            START_UP_H + (HEALTH_H if "OnStartDeepHealthChecks" in workers else 0)
        )
    made[f"controller {groups['controller']['InstanceType']}"] = groups["controller"]["InstanceCount"] * up_h
    if "login" in groups:
        logins = groups["login"]["InstanceCount"]
        made[f"{logins} login node{'s' * (logins > 1)} {groups['login']['InstanceType']}"] = logins * up_h
    for each in resources(templates, "AWS::FSx::FileSystem"):
        gib, speed = each["StorageCapacity"], each["LustreConfiguration"]["PerUnitStorageThroughput"]
        made[f"FSx Lustre {gib} GiB, {speed} MB/s/TiB"] = gib / MONTH_H * up_h
    made["NAT gateway"] = len(resources(templates, "AWS::EC2::NatGateway")) * up_h
    made["public IPv4 address of the NAT"] = len(resources(templates, "AWS::EC2::EIP")) * up_h
    months = up_h / MONTH_H
    alarms = len(resources(templates, "AWS::CloudWatch::Alarm"))
    made[f"{alarms} alarm{'s' * (alarms > 1)}"] = alarms * months
    made["dashboard"] = len(resources(templates, "AWS::CloudWatch::Dashboard")) * months
    made["guard and its messages"] = len(resources(templates, "AWS::Lambda::Function")) * months
    if budgets := len(resources(templates, "AWS::Budgets::Budget")):
        made["AWS Budget"] = budgets * months
    made["custom metrics"] = (GUARD_METRICS + CONTROLLER_METRICS) * months + NODE_METRICS * count * runs / MONTH_H
    calls = GUARD_CALLS_AN_HOUR * GUARD_REQUESTS + REPORTS_AN_HOUR
    looks = REPORTS_AN_HOUR * count + (0 if planned else GUARD_CALLS_AN_HOUR)
    made["CloudWatch requests"] = (calls * up_h + looks * runs) / 1000
    return made


def differences(templates, quote):
    """Names of lines whose quantity is not what is deployed, and of machines and stores that only one side has."""
    said = {each["name"]: each["quantity"] for each in quote["components"]}
    made = deployed(templates, quote)
    found = {name for name, value in made.items() if name not in said}
    found |= {
        name
        for name, value in made.items()
        if value is not None and name in said and not math.isclose(value, said[name], rel_tol=1e-9)
    }
    decided = re.compile(r"\d+ x ml\.|controller|login|FSx|NAT gateway|\d+ alarm|dashboard|guard|AWS Budget")
    return found | {name for name in said if decided.match(name) and name not in made}


@pytest.mark.parametrize("name", sorted(HYPERPOD_FILES))
def test_what_is_deployed_is_what_is_quoted(sides, name):
    templates, quote = sides(name)
    assert differences(templates, quote) == set()


def change_group(name, key, value):
    def change(templates):
        (pod,) = resources(templates, "AWS::SageMaker::Cluster")
        next(each for each in pod["InstanceGroups"] if each["InstanceGroupName"] == name)[key] = value

    return change


def change_file_system(templates):
    resources(templates, "AWS::FSx::FileSystem")[0]["StorageCapacity"] += 2400


def drop(kind):
    def change(templates):
        for template in templates.values():
            made = template["Resources"].items()
            template["Resources"] = {key: each for key, each in made if each["Type"] != kind}

    return change


@pytest.mark.parametrize(
    "change",
    [
        change_group("workers", "InstanceCount", 7),
        change_group("workers", "InstanceType", "ml.p5.48xlarge"),
        change_group("controller", "InstanceType", "ml.m6i.4xlarge"),
        change_group("controller", "InstanceCount", 2),
        change_file_system,
        *map(drop, ("AWS::FSx::FileSystem", "AWS::EC2::NatGateway", "AWS::EC2::EIP", "AWS::CloudWatch::Alarm")),
        *map(drop, ("AWS::CloudWatch::Dashboard", "AWS::Lambda::Function", "AWS::Budgets::Budget")),
    ],
)
def test_each_quantity_changed_is_seen(sides, change):
    templates, quote = sides("p5en-lustre")
    change(templates)
    assert differences(templates, quote) != set()
