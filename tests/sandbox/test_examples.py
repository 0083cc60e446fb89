"""Every example deploys into the sandbox, is read back completely, and is removed except for its checkpoints."""

import re

import pytest

from launcher.aws import stacks
from launcher.sandbox.sandbox import Sandbox
from tests.plans import EXAMPLES
from tests.sandbox.example_plans import copied
from tests.sandbox.world import World, assert_read_back

BUILT = [
    path
    for path in sorted(EXAMPLES.glob("*.yaml"))
    if "kind: parallelcluster" in path.read_text() and path.stem not in ("p5-spot", "tiny-gpt")
]
"""The examples of ParallelCluster; p5-spot has tests of its own below, tiny-gpt is launched by others."""
QUICK = ("p4d-lustre", "p5en-capacity-block")
"""In every run: a file system linked to data, and a block with a boundary, a bootstrap and a key of the account."""
PLANS = [pytest.param(path, marks=[] if path.stem in QUICK else [pytest.mark.slow], id=path.stem) for path in BUILT]
pytestmark = pytest.mark.xdist_group("examples")


def region_of(path):
    match = re.search(r"region: ([a-z0-9-]+)", path.read_text())
    assert match is not None
    return match[1]


def assert_gone(world, document):
    """All stacks but the checkpoints', all machines, and the scheduler."""
    assert world.stacks() <= {f"slipway-{world.name}-checkpoints"}
    assert "checkpoints" in {resource["kind"] for resource in document["kept"]}
    assert world.sandbox.clusters() == ()
    reservations = world.session.client("ec2").describe_instances()["Reservations"]
    assert {one["State"]["Name"] for reservation in reservations for one in reservation["Instances"]} == {"terminated"}


@pytest.mark.parametrize("path", PLANS)
def test_example_deploys_is_verified_and_removed(path, tmp_path, monkeypatch, capsys):
    with Sandbox(region=region_of(path), scheduler="local") as sandbox:
        world = World(copied(path, tmp_path), sandbox, tmp_path)
        assert_read_back(world)
        document = world.down(monkeypatch, capsys)
        assert_gone(world, document)


@pytest.fixture(scope="module")
def p5_spot(tmp_path_factory):
    with Sandbox(region="us-east-2", scheduler="local") as sandbox:
        yield World(EXAMPLES / "p5-spot.yaml", sandbox, tmp_path_factory.mktemp("p5-spot"))


class TestP5Spot:
    """One example step by step; the last step takes it down."""

    def test_p5_spot_deployment_is_verified(self, p5_spot):
        assert_read_back(p5_spot)

    def test_changes_outside_plan_are_found_per_service(self, p5_spot):
        session, before = p5_spot.session, p5_spot.complaints()
        outputs = stacks.describe(session, "slipway-p5-spot-training").outputs
        (function,) = p5_spot.ids("training", "AWS::Lambda::Function")
        (group,) = p5_spot.ids("training", "AWS::Logs::LogGroup")
        (bucket,) = p5_spot.ids("checkpoints", "AWS::S3::Bucket")
        (budget,) = p5_spot.ids("training", "AWS::Budgets::Budget")
        limit = {"Amount": "4000", "Unit": "USD"}
        changed = {"BudgetName": budget, "BudgetType": "COST", "TimeUnit": "MONTHLY", "BudgetLimit": limit}
        budgets = session.client("budgets")

        session.client("lambda").update_function_configuration(
            FunctionName=function, Environment={"Variables": {"CLUSTER": "another"}}
        )
        session.client("logs").put_retention_policy(logGroupName=group, retentionInDays=365)
        session.client("events").disable_rule(Name=p5_spot.ids("training", "AWS::Events::Rule")[0])
        session.client("s3").delete_public_access_block(Bucket=bucket)
        budgets.delete_budget(AccountId="123456789012", BudgetName=budget)
        budgets.create_budget(AccountId="123456789012", Budget=changed)
        session.client("cloudwatch").delete_alarms(AlarmNames=p5_spot.ids("training", "AWS::CloudWatch::Alarm")[:1])
        session.client("sns").set_topic_attributes(
            TopicArn=outputs["NotifyTopicArn"], AttributeName="DisplayName", AttributeValue="another"
        )
        session.client("ec2").authorize_security_group_ingress(
            GroupId=outputs["NodeSecurityGroupId"], IpProtocol="tcp", FromPort=22, ToPort=22, CidrIp="0.0.0.0/0"
        )

        complaints = p5_spot.complaints() - before

        for start in (
            "guard: planned CLUSTER p5-spot",
            f"retention in days of {group}: planned 30, found 365",
            "event rules are enabled: planned yes, found no",
            "checkpoint bucket blocks public access: planned yes, found no",
            "monthly budget, $: planned 1000, found 4000",
            "alarms on: planned",
            "topic: planned slipway p5-spot, found another",
            "nodes accept no other traffic: planned yes, found no",
        ):
            assert any(line.startswith(start) for line in complaints), (start, complaints)

    def test_p5_spot_removal_leaves_no_resources(self, p5_spot, monkeypatch, capsys):
        assert_gone(p5_spot, p5_spot.down(monkeypatch, capsys))
