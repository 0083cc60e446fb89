"""Templates and quotes of clusters without ParallelCluster agree: what is deployed is counted from raw templates."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.infra.conftest import EC2_FILES, EKS_FILES, HYPERPOD_EKS_FILES, HYPERPOD_FILES, PCS_FILES, TRAINING_JOB_FILES
from tests.infra.counted import (
    GUARD_CALLS_AN_HOUR,
    GUARD_METRICS,
    GUARD_REQUESTS,
    HEALTH_H,
    MONTH_H,
    by_the_hour,
    change_group,
    differences,
    drop,
    groups_of,
    hours_up,
    job_hours,
    named,
    resources,
    start_h,
)

IDLE_VALUES = 3
OPTIONS = {"SPOT": "spot", "CAPACITY_BLOCK": "capacity-block", "ON_DEMAND": "on-demand"}
NODE_METRICS, CONTROLLER_METRICS, REPORTS_AN_HOUR, JOB_METRICS, JOB_REPORTS_AN_HOUR = 3, 1, 60, 1, 12
UNPRICED = "trn2-on-demand"
COUNT_METRICS, COUNT_REQUESTS = 1, 2
"""Of pods, which the guard writes and reads back."""


def eks_case(templates, quote):
    up_h, runs = hours_up(quote)
    groups = {resource["NodegroupName"]: resource for resource in resources(templates, "AWS::EKS::Nodegroup")}
    machines = named(templates, "AWS::EC2::LaunchTemplate")
    data = {
        name: machines[group["LaunchTemplate"]["Id"]["Ref"]]["LaunchTemplateData"] for name, group in groups.items()
    }
    workers = groups["workers"]
    # A block's nodes are set when it begins.
    count = workers["ScalingConfig"]["MaxSize" if workers["CapacityType"] == "CAPACITY_BLOCK" else "DesiredSize"]
    quantities = {
        f"{count} x {data['workers']['InstanceType']} {OPTIONS[workers['CapacityType']]}": None,
        f"system node {data['system']['InstanceType']}": groups["system"]["ScalingConfig"]["DesiredSize"] * up_h,
        "control plane": len(resources(templates, "AWS::EKS::Cluster")) * up_h,
        **by_the_hour(templates, up_h),
    }
    gib = {name: template_data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] for name, template_data in data.items()}
    quantities["EBS gp3 root volumes"] = (gib["system"] * up_h + gib["workers"] * count * runs) / MONTH_H
    quantities["custom metrics"] = GUARD_METRICS * up_h / MONTH_H
    node_calls = GUARD_CALLS_AN_HOUR * IDLE_VALUES * count
    quantities["CloudWatch requests"] = (GUARD_CALLS_AN_HOUR * GUARD_REQUESTS * up_h + node_calls * runs) / 1000
    return quantities


def start_with(workers, quote):
    """The quote's start-up of a node, or one that is wrong by the health checks that only one side has."""
    hours = start_h(quote)
    return hours if bool(workers.get("OnStartDeepHealthChecks")) is (hours > HEALTH_H) else abs(hours - HEALTH_H)


def hyperpod_case(templates, quote):
    hours = job_hours(quote)
    up_h, runs = hours_up(quote)
    groups = groups_of(templates)
    workers = groups["workers"]
    count, type_ = workers["InstanceCount"], workers["InstanceType"]
    planned = "TrainingPlanArn" in workers
    quantities = {
        f"{count} x {type_} {'training-plan' if planned else 'on-demand'}": None if planned else count * hours
    }
    if not planned:
        quantities["start-up of the nodes"] = count * start_with(workers, quote)
    quantities[f"controller {groups['controller']['InstanceType']}"] = groups["controller"]["InstanceCount"] * up_h
    if "login" in groups:
        logins = groups["login"]["InstanceCount"]
        quantities[f"{logins} login node{'s' * (logins > 1)} {groups['login']['InstanceType']}"] = logins * up_h
    for resource in resources(templates, "AWS::FSx::FileSystem"):
        gib, speed = resource["StorageCapacity"], resource["LustreConfiguration"]["PerUnitStorageThroughput"]
        quantities[f"FSx Lustre {gib} GiB, {speed} MB/s/TiB"] = gib / MONTH_H * up_h
    quantities |= by_the_hour(templates, up_h)
    months = up_h / MONTH_H
    of_nodes = (NODE_METRICS * count + JOB_METRICS) * runs / MONTH_H
    quantities["custom metrics"] = (GUARD_METRICS + CONTROLLER_METRICS) * months + of_nodes
    calls = GUARD_CALLS_AN_HOUR * GUARD_REQUESTS + REPORTS_AN_HOUR
    node_calls = (REPORTS_AN_HOUR + JOB_REPORTS_AN_HOUR) * count + GUARD_CALLS_AN_HOUR * (1 + JOB_METRICS)
    quantities["CloudWatch requests"] = (calls * up_h + node_calls * runs) / 1000
    return quantities


def hyperpod_eks_case(templates, quote):
    up_h, runs = hours_up(quote)
    groups = groups_of(templates)
    workers = groups["workers"]
    shares = [
        (resource["InstanceType"], resource["Count"])
        for quota in resources(templates, "AWS::SageMaker::ComputeQuota")
        for resource in quota["ComputeQuotaConfig"]["ComputeQuotaResources"]
    ]
    # What a team may use is what is paid for.
    assert shares in ([], [(workers["InstanceType"], workers["InstanceCount"])])
    bought = {"CapacityRequirements": "spot", "TrainingPlanArn": "training-plan"}
    how = next((word for key, word in bought.items() if key in workers), "on-demand")
    quantities = {
        f"{workers['InstanceCount']} x {workers['InstanceType']} {how}": None,
        f"system node {groups['system']['InstanceType']}": groups["system"]["InstanceCount"] * up_h,
        "control plane": len(resources(templates, "AWS::EKS::Cluster")) * up_h,
        **by_the_hour(templates, up_h),
    }
    if how != "training-plan":
        quantities["start-up of the nodes"] = workers["InstanceCount"] * start_with(workers, quote)
    functions = resources(templates, "AWS::Lambda::Function")
    counts_pods = any("PODS_FUNCTION" in function["Environment"]["Variables"] for function in functions)
    quantities["custom metrics"] = (GUARD_METRICS + counts_pods * COUNT_METRICS) * up_h / MONTH_H
    nodes_up_h = counts_pods * runs
    requests = GUARD_REQUESTS * up_h + COUNT_REQUESTS * nodes_up_h
    quantities["CloudWatch requests"] = GUARD_CALLS_AN_HOUR * requests / 1000
    return quantities


def training_job_case(templates, quote):
    """No resource is a machine, which the request names: what watches them is all that stays up."""
    up_h, _ = hours_up(quote)
    of_the_request = [component["name"] for component in quote["components"] if " x ml." in component["name"]]
    quantities = {name: hours for name, hours in by_the_hour(templates, up_h).items() if hours}
    quantities |= dict.fromkeys(of_the_request)
    quantities["custom metrics"] = GUARD_METRICS * up_h / MONTH_H
    quantities["CloudWatch requests"] = GUARD_CALLS_AN_HOUR * GUARD_REQUESTS * up_h / 1000
    return quantities


def check_instances(templates, quote):
    up_h, runs = hours_up(quote)
    (group,) = resources(templates, "AWS::AutoScaling::AutoScalingGroup")
    (data,) = (one["LaunchTemplateData"] for one in resources(templates, "AWS::EC2::LaunchTemplate"))
    count = int(group["MaxSize"])
    spot = (
        group.get("MixedInstancesPolicy", {})
        .get("InstancesDistribution", {})
        .get("OnDemandPercentageAboveBaseCapacity")
        == 0
    )
    subnets = resources(templates, "AWS::EC2::Subnet")
    public = any(subnet.get("MapPublicIpOnLaunch") for subnet in subnets) and not resources(
        templates, "AWS::EC2::NatGateway"
    )
    block = data.get("InstanceMarketOptions") == {"MarketType": "capacity-block"}
    option = "capacity-block" if block else "spot" if spot else "on-demand"
    quantities = {
        f"{count} x {data['InstanceType']} {option}": None,
        **{name: hours for name, hours in by_the_hour(templates, up_h).items() if hours},
    }
    quantities["EBS gp3 root volumes"] = data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] * count * runs / MONTH_H
    if public:
        quantities["public IPv4 addresses"] = count * runs
    quantities["custom metrics"] = GUARD_METRICS * up_h / MONTH_H
    node_calls = GUARD_CALLS_AN_HOUR * IDLE_VALUES * count
    quantities["CloudWatch requests"] = (GUARD_CALLS_AN_HOUR * GUARD_REQUESTS * up_h + node_calls * runs) / 1000
    return quantities


def change_max_size(templates):
    resources(templates, "AWS::AutoScaling::AutoScalingGroup")[0]["MaxSize"] = "3"


def pcs_case(templates, quote):
    up_h, runs = hours_up(quote)
    groups = {resource["Name"]: resource for resource in resources(templates, "AWS::PCS::ComputeNodeGroup")}
    machines = named(templates, "AWS::EC2::LaunchTemplate")
    data = {name: machines[group["CustomLaunchTemplate"]["TemplateId"]["Ref"]] for name, group in groups.items()}
    login = groups.pop("login")
    (workers,) = groups.values()
    count, logins = (group["ScalingConfiguration"]["MaxInstanceCount"] for group in (workers, login))
    (cluster,) = resources(templates, "AWS::PCS::Cluster")
    size, bought = cluster["Size"].lower(), OPTIONS[workers["PurchaseOption"].replace("ONDEMAND", "ON_DEMAND")]
    accounting = cluster["SlurmConfiguration"]["Accounting"]["Mode"] == "STANDARD"
    quantities = {
        f"{count} x {workers['InstanceConfigs'][0]['InstanceType']} {bought}": None,
        f"login node {login['InstanceConfigs'][0]['InstanceType']}": logins * up_h,
        f"PCS controller, {size}": up_h,
        "PCS node management, advanced": count * runs,
        "PCS node management, login node": logins * up_h,
        f"PCS accounting, {size}": accounting * up_h,
        "PCS accounting storage, 1 GB": accounting * up_h / MONTH_H,
        **by_the_hour(templates, up_h),
    }
    for file_system in resources(templates, "AWS::FSx::FileSystem"):
        gib, speed = file_system["StorageCapacity"], file_system["LustreConfiguration"]["PerUnitStorageThroughput"]
        quantities[f"FSx Lustre {gib} GiB, {speed} MB/s/TiB"] = gib / MONTH_H * up_h
    gib = {key: one["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] for key, one in data.items()}
    quantities["EBS gp3 root volumes"] = (gib["login"] * up_h + gib[workers["Name"]] * count * runs) / MONTH_H
    of_nodes = (NODE_METRICS * count + JOB_METRICS) * runs / MONTH_H
    quantities["custom metrics"] = GUARD_METRICS * up_h / MONTH_H + of_nodes
    node_calls = (REPORTS_AN_HOUR + JOB_REPORTS_AN_HOUR) * count + GUARD_CALLS_AN_HOUR * (
        IDLE_VALUES * count + JOB_METRICS
    )
    quantities["CloudWatch requests"] = (GUARD_CALLS_AN_HOUR * GUARD_REQUESTS * up_h + node_calls * runs) / 1000
    return quantities


def change_pcs_group(name, key, value):
    def change(templates):
        groups = resources(templates, "AWS::PCS::ComputeNodeGroup")
        next(group for group in groups if group["Name"] == name)["ScalingConfiguration"][key] = value

    return change


def change_nodes(name, key, value):
    def change(templates):
        groups = resources(templates, "AWS::EKS::Nodegroup")
        next(group for group in groups if group["NodegroupName"] == name)["ScalingConfig"][key] = value

    return change


def change_volume(templates):
    for resource in resources(templates, "AWS::EC2::LaunchTemplate"):
        resource["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] += 1


def change_file_system(templates):
    resources(templates, "AWS::FSx::FileSystem")[0]["StorageCapacity"] += 2400


class Kind(NamedTuple):
    """A target: its plan files, what counts its templates, the lines that they decide, and changes of one plan's.

    `deployed` gives quantities by the quote's name of the line; None: more than one is to be said.
    """

    files: dict[str, Path]
    deployed: Callable
    decided: str
    changed: str
    changes: list[Callable]


ALWAYS_MADE = ("AWS::CloudWatch::Alarm", "AWS::Lambda::Function")
NAT_GATEWAY, NAT_INSTANCE = "AWS::EC2::NatGateway", "AWS::EC2::Instance"
"""What `network.nat: auto` takes for the changed example."""
KINDS = {
    "eks": Kind(
        EKS_FILES,
        eks_case,
        "system node|control plane",
        "trn1-spot",
        [
            change_nodes("workers", "DesiredSize", 3),
            change_nodes("system", "DesiredSize", 2),
            change_volume,
            *map(drop, ("AWS::EKS::Cluster", NAT_INSTANCE, *ALWAYS_MADE)),
        ],
    ),
    "sagemaker-training": Kind(
        TRAINING_JOB_FILES,
        training_job_case,
        "custom metrics|CloudWatch requests|idle tail|NAT",
        "lora-g5",
        [*map(drop, ("AWS::CloudWatch::Alarm", "AWS::Lambda::Function", "AWS::Budgets::Budget"))],
    ),
    "ec2": Kind(
        EC2_FILES,
        check_instances,
        "EBS|public IPv4|NAT gateway|NAT instance|custom metrics|CloudWatch requests",
        "lora-g6e",
        [
            change_max_size,
            change_volume,
            *map(drop, ("AWS::CloudWatch::Alarm", "AWS::Lambda::Function", "AWS::EC2::Subnet")),
        ],
    ),
    "pcs": Kind(
        PCS_FILES,
        pcs_case,
        "login|PCS|EBS",
        "p5-spot",
        [
            change_pcs_group("p5-48xlarge", "MaxInstanceCount", 3),
            change_pcs_group("login", "MaxInstanceCount", 2),
            change_volume,
            change_file_system,
            *map(drop, ("AWS::FSx::FileSystem", NAT_INSTANCE, *ALWAYS_MADE)),
        ],
    ),
    "hyperpod-slurm": Kind(
        HYPERPOD_FILES,
        hyperpod_case,
        "controller|login",
        "p5en-lustre",
        [
            change_group("workers", "InstanceCount", 7),
            change_group("workers", "InstanceType", "ml.p5.48xlarge"),
            change_group("controller", "InstanceType", "ml.m6i.4xlarge"),
            change_group("controller", "InstanceCount", 2),
            change_file_system,
            *map(
                drop, ("AWS::FSx::FileSystem", "AWS::EC2::EIP", "AWS::CloudWatch::Dashboard", NAT_GATEWAY, *ALWAYS_MADE)
            ),
            drop("AWS::Budgets::Budget"),
        ],
    ),
    "hyperpod-eks": Kind(
        HYPERPOD_EKS_FILES,
        hyperpod_eks_case,
        "system|control plane|EBS",
        "p5en-spot",
        [
            change_group("workers", "InstanceCount", 7),
            change_group("workers", "InstanceType", "ml.p5.48xlarge"),
            change_group("workers", "OnStartDeepHealthChecks", []),
            change_group("system", "InstanceType", "ml.m6i.4xlarge"),
            change_group("system", "InstanceCount", 2),
            *map(drop, ("AWS::EKS::Cluster", NAT_GATEWAY, *ALWAYS_MADE)),
        ],
    ),
}


@pytest.fixture(scope="module")
def cluster_sides(both_sides, tmp_path_factory):
    """Of an example, with a rate where none is known."""
    folder = tmp_path_factory.mktemp("plans")

    def both(kind, name):
        path = KINDS[kind].files[name]
        if name == UNPRICED:
            purchase = '  option: on-demand\n  price_overrides: {"ml.trn2.48xlarge/on-demand": "40"}\n'
            text = path.read_text(encoding="utf-8").replace("  option: on-demand\n", purchase)
            path = folder / path.name
            path.write_text(text, encoding="utf-8")
        return both_sides(path)[1:]

    return both


@pytest.mark.parametrize(
    "kind, name", [(kind, name) for kind, target in KINDS.items() for name in sorted(target.files)]
)
def test_deployed_stacks_equal_quote(cluster_sides, kind, name):
    templates, quote = cluster_sides(kind, name)
    assert differences(KINDS[kind].deployed(templates, quote), quote, KINDS[kind].decided) == set()


@pytest.mark.parametrize(
    "kind, change", [(kind, change) for kind, target in KINDS.items() for change in target.changes]
)
def test_each_changed_quantity_differs_from_quote(cluster_sides, kind, change):
    templates, quote = cluster_sides(kind, KINDS[kind].changed)
    change(templates)
    assert differences(KINDS[kind].deployed(templates, quote), quote, KINDS[kind].decided) != set()


RESERVED = """
slipway: 1
name: reserved
workload: {train: {hours: 4}}
target: {kind: ec2, region: us-east-2, az_id: use2-az1, instance_type: p5.48xlarge, nodes: 2}
run: {command: [python, -c, pass]}
purchase:
  option: %s
  reservation: {id: cr-0123456789abcdef0, count: 2, starts_at: 2026-12-01T11:30:00Z, ends_at: 2026-12-02T11:30:00Z%s}
"""


@pytest.mark.parametrize("option, fee", [("on-demand", ""), ("capacity-block", ', fee_usd: "1500"')])
def test_reserved_instances_are_targeted_in_their_zone_and_equal_quote(both_sides, tmp_path, option, fee):
    path = tmp_path / "reserved.yaml"
    path.write_text(RESERVED % (option, fee), encoding="utf-8")
    _, templates, quote = both_sides(path)
    assert differences(check_instances(templates, quote), quote, KINDS["ec2"].decided) == set()
    (data,) = (template["LaunchTemplateData"] for template in resources(templates, "AWS::EC2::LaunchTemplate"))
    target = data["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationId": "cr-0123456789abcdef0"}
    assert ("InstanceMarketOptions" in data) == (option == "capacity-block")
    (group,) = resources(templates, "AWS::AutoScaling::AutoScalingGroup")
    # A mixed instances policy would leave the market to Auto Scaling.
    assert "MixedInstancesPolicy" not in group
    assert len(group["VPCZoneIdentifier"]) == 1


VARIANT = """
slipway: 1
name: variant
workload: {{train: {{hours: 4}}}}
target: {{kind: ec2, region: us-east-2, {target}}}
purchase: {{option: {option}}}
run: {{command: [python, train.py]{run}}}
"""
DATA = ', data: [{uri: "s3://corpus/shards", path: /scratch/shards, gib: 2000}]'
VARIANTS = {
    "pair": ("instance_type: p5.48xlarge, nodes: 2", "on-demand", ""),
    "raid": ("instance_type: trn1.32xlarge, nodes: 1", "on-demand", DATA),
    "fallback": ("instance_type: g6e.2xlarge, fallback_types: [g5.2xlarge], nodes: 1", "on-demand", ""),
    "fallback-spot": ("instance_type: g6e.2xlarge, fallback_types: [g5.2xlarge], nodes: 1", "spot", ""),
}


@pytest.fixture(scope="module")
def sides(both_sides, tmp_path_factory):
    """The stacks and the quote of a variant."""
    folder = tmp_path_factory.mktemp("variants")

    def both(name):
        target, option, run = VARIANTS[name]
        path = folder / f"{name}.yaml"
        path.write_text(VARIANT.format(target=target, option=option, run=run), encoding="utf-8")
        return both_sides(path)[1:]

    return both


@pytest.fixture(params=VARIANTS)
def variant(request, sides):
    """Every variant in turn: its stacks and its quote."""
    return sides(request.param)


def launch(templates):
    """The launch template's data, and the group."""
    (data,) = (template["LaunchTemplateData"] for template in resources(templates, "AWS::EC2::LaunchTemplate"))
    (group,) = resources(templates, "AWS::AutoScaling::AutoScalingGroup")
    return data, group


def test_stacks_of_variant_equal_quote(variant):
    templates, quote = variant
    assert differences(check_instances(templates, quote), quote, KINDS["ec2"].decided) == set()


def test_pair_runs_in_open_reservations_with_efa_in_one_placement_group(sides):
    templates, _ = sides("pair")
    data, group = launch(templates)
    # Without a specification EC2 uses each matching open reservation (EC2 API, CapacityReservationPreference).
    assert not {"CapacityReservationSpecification", "InstanceMarketOptions"} & data.keys()
    kinds = [interface["InterfaceType"] for interface in data["NetworkInterfaces"]]
    assert (kinds.count("interface"), kinds.count("efa-only"), len(kinds)) == (1, 32, 33)
    assert {interface["NetworkCardIndex"] for interface in data["NetworkInterfaces"]} == set(range(32))
    assert not any(interface.get("AssociatePublicIpAddress") for interface in data["NetworkInterfaces"])
    assert data["Placement"]["GroupName"]
    assert len(group["VPCZoneIdentifier"]) == 1
    assert [placed["Strategy"] for placed in resources(templates, "AWS::EC2::PlacementGroup")] == ["cluster"]


def test_data_on_instance_disks_takes_no_root_volume(sides):
    data, _ = launch(sides("raid")[0])
    assert data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] < 1000


@pytest.mark.parametrize(
    "name, percent, strategy",
    [
        ("fallback", 100, ("OnDemandAllocationStrategy", "prioritized")),
        ("fallback-spot", 0, ("SpotAllocationStrategy", "price-capacity-optimized")),
    ],
)
def test_fallback_types_are_in_the_order_of_the_plan(sides, name, percent, strategy):
    data, group = launch(sides(name)[0])
    policy = group["MixedInstancesPolicy"]
    assert [one["InstanceType"] for one in policy["LaunchTemplate"]["Overrides"]] == ["g6e.2xlarge", "g5.2xlarge"]
    assert policy["InstancesDistribution"]["OnDemandPercentageAboveBaseCapacity"] == percent
    assert policy["InstancesDistribution"][strategy[0]] == strategy[1]
    # EC2 Auto Scaling refuses a market in the launch template of a mixed instances policy.
    assert "InstanceMarketOptions" not in data
