"""Plain instances in open reservations, with EFA, on instance disks and with fallback types.

Their stacks equal the quote, and the deployer's policies allow the launch that EC2 checks for the maker of a group.
"""

import pytest

from launcher.model.enums import TargetKind
from tests.infra.agreement import resources
from tests.infra.deployer import FREE, refused
from tests.infra.iam import ACCOUNT
from tests.infra.test_cluster_agreement import KINDS, differences, of_instances
from tests.infra.test_deployer_policy import BOUND

PLAN = """
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
        path.write_text(PLAN.format(target=target, option=option, run=run), encoding="utf-8")
        return both_sides(path)[1:]

    return both


@pytest.fixture(params=VARIANTS)
def variant(request, sides):
    """Every variant in turn: its stacks and its quote."""
    return sides(request.param)


def launched(templates):
    """The launch template's data, and the group."""
    (data,) = (template["LaunchTemplateData"] for template in resources(templates, "AWS::EC2::LaunchTemplate"))
    (group,) = resources(templates, "AWS::AutoScaling::AutoScalingGroup")
    return data, group


def test_stacks_of_variant_equal_quote(variant):
    templates, quote = variant
    assert differences(of_instances(templates, quote), quote, KINDS["ec2"].decided) == set()


def test_pair_runs_in_open_reservations_with_efa_in_one_placement_group(sides):
    templates, _ = sides("pair")
    data, group = launched(templates)
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
    data, _ = launched(sides("raid")[0])
    assert data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] < 1000


@pytest.mark.parametrize(
    "name, percent, strategy",
    [
        ("fallback", 100, ("OnDemandAllocationStrategy", "prioritized")),
        ("fallback-spot", 0, ("SpotAllocationStrategy", "price-capacity-optimized")),
    ],
)
def test_fallback_types_are_in_the_order_of_the_plan(sides, name, percent, strategy):
    data, group = launched(sides(name)[0])
    policy = group["MixedInstancesPolicy"]
    assert [one["InstanceType"] for one in policy["LaunchTemplate"]["Overrides"]] == ["g6e.2xlarge", "g5.2xlarge"]
    assert policy["InstancesDistribution"]["OnDemandPercentageAboveBaseCapacity"] == percent
    assert policy["InstancesDistribution"][strategy[0]] == strategy[1]
    # EC2 Auto Scaling refuses a market in the launch template of a mixed instances policy.
    assert "InstanceMarketOptions" not in data


def trial_launch(placed, *, reserved):
    """Action, ARN and context of the launch that EC2 checks for the maker of a group (EC2 Auto Scaling user guide).

    The resources are those of RunInstances in the Service Authorization Reference.
    """
    ec2, own = f"arn:aws:ec2:us-east-2:{ACCOUNT}", {"CreateAction": "RunInstances"}
    kinds = ["instance/*", "volume/*", "network-interface/*", "subnet/subnet-1", "security-group/sg-1"]
    kinds += ["launch-template/lt-1", *(["placement-group/x"] if placed else [])]
    kinds += ["capacity-reservation/cr-0123456789abcdef0"] if reserved else []
    for kind in kinds:
        yield "ec2:RunInstances", f"{ec2}:{kind}", {}
    yield "ec2:RunInstances", "arn:aws:ec2:us-east-2::image/ami-1", {}
    for kind in ("instance", "volume", "network-interface"):
        yield "ec2:CreateTags", f"{ec2}:{kind}/*", own
    yield "iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/slipway-x", {"PassedToService": "ec2.amazonaws.com"}


@pytest.mark.parametrize("account", [FREE, BOUND], ids=["free", "bounded"])
@pytest.mark.parametrize("reserved", [False, True], ids=["open", "targeted"])
def test_deployer_policies_allow_trial_launch_in_reservation_and_placement_group(account, reserved):
    assert refused(TargetKind.EC2, trial_launch(placed=True, reserved=reserved), account) == []
