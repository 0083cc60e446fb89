"""Spot prices in the guard's code, with moto: what counts towards limits, and which replacement a job may have."""

import json
from datetime import UTC, datetime, timedelta

import boto3
import pytest

from launcher.model.report import EndedBy
from tests.infra.guard_account import NOW, Account, client, started
from tests.infra.guard_modules import guard_module

pytestmark = pytest.mark.xdist_group("guard")

NAME, TYPE, ZONE = "slipway-tiny", "p5.48xlarge", "us-east-2a"
LOOK = timedelta(minutes=5)
NOTICE = "EC2 Spot Instance Interruption Warning"
BASE = {"EC2": NAME, "IDLE_MINUTES": "0", "USD_PER_NODE_HOUR": "60", "SPOT": "true"}
JOB = {
    "JOB_MAX_USD": "400",
    "JOB_MAX_USD_NAME": "budget.max_usd",
    "JOB_NODE_HOURS": "6",
    "NODES": "1",
    "OTHER_USD_PER_HOUR": "0",
}
"""Six hours at $60 are $360 of the $400."""


class GroupAccount(Account):
    """An account with the Auto Scaling group of a job; the tests start and end its instances themselves."""

    def __init__(self):
        super().__init__()
        self.ec2, self.scaling = boto3.client("ec2"), client("autoscaling")
        data = {"ImageId": "ami-12345678", "InstanceType": "t3.nano"}
        self.ec2.create_launch_template(LaunchTemplateName=NAME, LaunchTemplateData=data)
        self.scaling.create_auto_scaling_group(
            AutoScalingGroupName=NAME,
            MinSize=0,
            MaxSize=2,
            DesiredCapacity=1,
            LaunchTemplate={"LaunchTemplateName": NAME, "Version": "$Latest"},
            AvailabilityZones=[ZONE],
        )
        self.usd = {}
        self.ec2.meta.events.register("after-call.ec2.DescribeInstances", self.mark)
        self.ec2.meta.events.register("after-call.ec2.DescribeSpotPriceHistory", self.price)

    def instance(self, job="tiny-1", instance_type=TYPE):
        tags = {"slipway:cluster": "tiny", "slipway:machine": "node", "slipway:run": job}
        (id_,) = started(1, **tags)
        return id_

    def mark(self, parsed, **_):
        """Moto describes no instance as spot."""
        for reservation in parsed["Reservations"]:
            for instance in reservation["Instances"]:
                instance["InstanceLifecycle"] = "spot"

    def price(self, parsed, **_):
        """Moto has one price."""
        at = datetime(2026, 11, 20, tzinfo=UTC)
        parsed["SpotPriceHistory"] = [
            {"InstanceType": TYPE, "AvailabilityZone": zone, "SpotPrice": usd, "Timestamp": at}
            for zone, usd in self.usd.items()
        ]

    @property
    def size(self):
        (group,) = self.scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[NAME])["AutoScalingGroups"]
        return group["DesiredCapacity"]


ACCOUNT_KIND = GroupAccount


@pytest.fixture
def guard(aws):
    """The guard of the job's instances at a check."""
    with guard_module("ec2") as module:

        def make(step=0, **variables):
            settings = aws.settings(module, **{**BASE, **variables})
            clients = {"ec2": aws.ec2, "autoscaling": aws.scaling}
            made = module.InstanceGuard(settings, lambda name: clients.get(name) or client(name), NOW + step * LOOK)
            made.deployed_at = made.made_at = lambda: NOW - timedelta(hours=1)
            return made

        yield make


def notice(instance):
    return {"detail-type": NOTICE, "detail": {"instance-id": instance, "instance-action": "terminate"}}


class TestCounting:
    @pytest.mark.parametrize(
        "prices, rate",
        [({ZONE: "90"}, 90), ({ZONE: "12"}, 60), ({}, 60), ({"us-east-2b": "90"}, 60), ({ZONE: "60.6"}, 60.6)],
    )
    def test_nodes_count_at_the_higher_of_quoted_and_current_price_of_their_zone(self, aws, guard, prices, rate):
        aws.instance()
        aws.usd = prices
        made = guard()
        made.watch()
        assert made.rate == pytest.approx(rate)
        assert made.state.node_hours * 60 + made.state.above_usd == pytest.approx(rate / 12)
        assert aws.metric("EstimatedSpend") == pytest.approx([rate / 12])

    def test_price_counts_for_the_time_in_which_it_holds(self, aws, guard):
        aws.instance()
        for step, usd in enumerate(("90", "60", "75")):
            aws.usd = {ZONE: usd}
            made = guard(step)
            made.watch()
        assert made.state.above_usd == pytest.approx((30 + 0 + 15) / 12)

    def test_guard_without_spot_asks_for_no_price(self, aws, guard):
        aws.instance()
        aws.usd = {ZONE: "90"}
        made = guard(SPOT="false")
        made.watch()
        assert made.rate == 60

    def test_refused_price_list_counts_the_quoted_rate_and_is_reported(self, aws, guard):
        aws.instance()

        def refuse(**_):
            error = {"Error": {"Code": "UnauthorizedOperation", "Message": "no"}}
            raise aws.ec2.exceptions.ClientError(error, "DescribeSpotPriceHistory")

        aws.ec2.meta.events.register("before-call.ec2.DescribeSpotPriceHistory", refuse)
        with pytest.raises(Exception, match="could not read the current spot prices"):
            guard().watch()
        assert aws.metric("EstimatedSpend") == pytest.approx([5])
        ((subject, _),) = aws.messages
        assert subject == "slipway tiny: the guard could not act"


class TestReplacement:
    def test_replacement_within_budget_runs_at_a_higher_price(self, aws, guard):
        first = aws.instance()
        guard(0, **JOB).watch()
        aws.ec2.terminate_instances(InstanceIds=[first])
        aws.instance()
        aws.usd = {ZONE: "66"}
        guard(1, **JOB).watch()
        assert (aws.size, aws.messages) == (1, [])

    @pytest.mark.parametrize("limit", ["budget.max_usd", "--max-usd"])
    def test_replacement_beyond_budget_sets_group_to_zero_with_reason_and_fix(self, aws, guard, limit):
        job, first = {**JOB, "JOB_MAX_USD_NAME": limit}, aws.instance()
        guard(0, **job).watch()
        aws.ec2.terminate_instances(InstanceIds=[first])
        aws.instance()
        aws.usd = {ZONE: "90"}
        guard(1, **job).watch()
        assert aws.size == 0
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: instances stopped"
        assert "the spot price is now $90.00 an hour, quoted $60.00" in text
        # Two checks of five minutes, at $60 and at $90; then 5.8 hours at $90.
        assert "$12.50 are spent, and 5.8 more hours make $537.50" in text
        assert f"fits the $400.00 of {limit}: " in text
        assert f"raise {limit}, or" in text

    @pytest.mark.parametrize("call", ["ec2.DescribeSpotPriceHistory", "autoscaling.SetDesiredCapacity"])
    def test_replacement_beyond_budget_is_refused_at_the_next_check_when_a_call_fails(self, aws, guard, call):
        first = aws.instance()
        guard(0, **JOB).watch()
        aws.ec2.terminate_instances(InstanceIds=[first])
        aws.instance()
        aws.usd = {ZONE: "90"}
        service, _, name = call.partition(".")
        events = {"ec2": aws.ec2, "autoscaling": aws.scaling}[service].meta.events

        def refuse(**_):
            error = {"Error": {"Code": "Throttling", "Message": "Rate exceeded"}}
            raise aws.ec2.exceptions.ClientError(error, name)

        events.register(f"before-call.{call}", refuse)
        with pytest.raises(Exception, match="could not"):
            guard(1, **JOB).watch()
        assert aws.size == 1
        events.unregister(f"before-call.{call}", refuse)
        guard(2, **JOB).watch()
        assert aws.size == 0

    @pytest.mark.parametrize(
        "variables, text, cause",
        [
            ({"TTL_HOURS": "0.5"}, "its 0.5 hours have ended", EndedBy.TIME_LIMIT),
            (JOB, "of budget.max_usd", EndedBy.BUDGET),
        ],
    )
    def test_stop_leaves_its_reason_for_launch_and_status(self, aws, guard, variables, text, cause):
        s3 = client("s3")
        s3.create_bucket(Bucket="store", CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
        aws.instance()
        aws.usd = {ZONE: "90"}
        guard(0, FOLDER_URI="s3://store/jobs/.guard/x", **variables).watch()
        written = s3.get_object(Bucket="store", Key="jobs/.guard/x/sent/stopped.json")["Body"].read()
        assert text in json.loads(written)["text"]
        assert json.loads(written)["jobs_wait"] is False
        assert json.loads(written)["ended_by"] == cause
        assert aws.size == 0

    def test_higher_price_without_replacement_keeps_the_instance(self, aws, guard):
        aws.instance()
        guard(0, **JOB).watch()
        aws.usd = {ZONE: "90"}
        guard(1, **JOB).watch()
        assert aws.size == 1

    @pytest.mark.parametrize("usd, size", [("90", 0), ("62", 1), ("12", 1)])
    def test_notice_prices_the_job_before_the_replacement_starts(self, aws, guard, usd, size):
        instance = aws.instance()
        guard(0, **JOB).watch()
        aws.usd = {ZONE: usd}
        guard(1, **JOB).pass_on(notice(instance))
        assert aws.size == size
        assert [subject for subject, _ in aws.messages][:1] == ["slipway tiny: interruption notice"]

    def test_notice_of_another_instance_changes_nothing(self, aws, guard):
        aws.instance()
        (other,) = started(1, Name="other")
        aws.usd = {ZONE: "90"}
        guard(0, **JOB).pass_on(notice(other))
        assert (aws.size, aws.messages) == (1, [])

    def test_next_job_of_the_plan_counts_from_zero(self, aws, guard):
        first = aws.instance()
        for step in range(6):
            guard(step, **{**JOB, "JOB_MAX_USD": "361"}).watch()
        aws.ec2.terminate_instances(InstanceIds=[first])
        aws.instance(job="tiny-2")
        made = guard(6, **{**JOB, "JOB_MAX_USD": "361"})
        made.watch()
        assert (made.state.job, made.state.job_usd, aws.size) == ("tiny-2", pytest.approx(5), 1)

    def test_longer_job_than_quoted_may_have_replacements_until_its_budget_is_spent(self, aws, guard):
        job = {**JOB, "JOB_MAX_USD": "12", "JOB_NODE_HOURS": "0.05"}
        first = aws.instance()
        guard(0, **job).watch()
        for step in (1, 2):
            aws.ec2.terminate_instances(InstanceIds=[first])
            first = aws.instance()
            guard(step, **job).watch()
            # $5 a check: beyond $12 after the third.
            assert aws.size == (1 if step == 1 else 0)
