"""HyperPod's templates and quotes agree: what is deployed is counted from the raw templates, each thing of it."""

import pytest

from tests.infra.conftest import HYPERPOD_FILES
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

NODE_METRICS, CONTROLLER_METRICS, REPORTS_AN_HOUR = 3, 1, 60
DECIDED = "controller|login"


@pytest.fixture(scope="module")
def sides(both_sides, tmp_path_factory):
    """Of an example, with a rate where none is known."""
    folder = tmp_path_factory.mktemp("plans")

    def both(name):
        own = 'price_overrides: {"ml.trn2.48xlarge/on-demand": "40"}'
        text = HYPERPOD_FILES[name].read_text(encoding="utf-8")
        path = folder / f"{name}.yaml"
        path.write_text(text.replace("  option: on-demand\n", f"  option: on-demand\n  {own}\n"), encoding="utf-8")
        return both_sides(path)[1:]

    return both


def deployed(templates, quote):
    """Quantities of what the templates make, by the quote's name of the line."""
    hours = quote["hours"]["mid"]
    up_h, runs = hours + OVERHEAD_H, hours + START_UP_H
    groups = groups_of(templates)
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
    made |= by_the_hour(templates, up_h)
    months = up_h / MONTH_H
    made["custom metrics"] = (GUARD_METRICS + CONTROLLER_METRICS) * months + NODE_METRICS * count * runs / MONTH_H
    calls = GUARD_CALLS_AN_HOUR * GUARD_REQUESTS + REPORTS_AN_HOUR
    looks = REPORTS_AN_HOUR * count + GUARD_CALLS_AN_HOUR
    made["CloudWatch requests"] = (calls * up_h + looks * runs) / 1000
    return made


@pytest.mark.parametrize("name", sorted(HYPERPOD_FILES))
def test_what_is_deployed_is_what_is_quoted(sides, name):
    templates, quote = sides(name)
    assert differences(deployed(templates, quote), quote, DECIDED) == set()


def change_file_system(templates):
    resources(templates, "AWS::FSx::FileSystem")[0]["StorageCapacity"] += 2400


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
    assert differences(deployed(templates, quote), quote, DECIDED) != set()
