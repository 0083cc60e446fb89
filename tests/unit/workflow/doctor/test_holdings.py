"""A second launch: resources of the plan's own stacks count as available, those of other clusters do not."""

import json
from datetime import timedelta

import pytest

from launcher.model.diagnosis import Outcome
from launcher.workflow.doctor.capacity import CAPACITY
from launcher.workflow.doctor.quotas import QUOTAS
from tests.unit.workflow.doctor.conftest import METRIC, NOW, client, quotas
from tests.unit.workflow.doctor.reservations import BLOCK, HELD, HYPERPOD

EXAMINED = (*CAPACITY, *QUOTAS)

pytestmark = pytest.mark.server

EKS_BLOCK, PCS_BLOCK = (BLOCK.replace("kind: parallelcluster", f"kind: {kind}") for kind in ("eks", "pcs"))
NOTHING = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}


def name_of(diagnosis, fragment):
    return next(check for check in diagnosis.checks if fragment in check.name)


def standing(account, *names):
    """The plan's stacks, as a first launch has left them."""
    for name in names:
        client(account, "cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(NOTHING))


def running(account, tags, count, *, type_="p5.48xlarge", **more):
    """Instances as EC2 describes them, to who asks for these very tags."""

    def answer(sent):
        filters = {
            sent[f"Filter.{number}.Name"]: sent[f"Filter.{number}.Value.1"]
            for number in range(1, 9)
            if f"Filter.{number}.Name" in sent
        }
        filters = {name.removeprefix("tag:"): value for name, value in filters.items() if name.startswith("tag:")}
        facts = {"InstanceType": type_, "LaunchTime": "2026-11-20T08:00:00.000Z", **more}
        instances = [{"InstanceId": f"i-{number:017x}", **facts} for number in range(count)]
        return {"Reservations": [{"Instances": instances if filters.items() <= tags.items() else []}]}

    account.canned["ec2.DescribeInstances"] = answer


def use_quota(account, service, in_use, **changed):
    """The quotas of a service with the use of all of them as CloudWatch was told it."""
    account.canned["service-quotas.ListServiceQuotas"] = lambda sent: {
        "Quotas": [{**quota, "UsageMetric": METRIC} for quota in quotas(sent["ServiceCode"], **changed)]
        if sent["ServiceCode"] == service
        else quotas(sent["ServiceCode"])
    }
    dimensions = [{"Name": name, "Value": value} for name, value in METRIC["MetricDimensions"].items()]
    point = {"MetricName": METRIC["MetricName"], "Dimensions": dimensions, "Value": in_use}
    moment = {"Timestamp": NOW - timedelta(minutes=6)}
    client(account, "cloudwatch").put_metric_data(Namespace=METRIC["MetricNamespace"], MetricData=[{**point, **moment}])


@pytest.mark.parametrize(
    "text, tags",
    [
        (BLOCK, {"parallelcluster:cluster-name": "slipway-block"}),
        (EKS_BLOCK, {"eks:cluster-name": "slipway-block"}),
        (PCS_BLOCK, {"slipway:cluster": "block"}),
    ],
    ids=["parallelcluster", "eks", "pcs"],
)
def test_capacity_block_used_by_own_cluster_counts_as_free(ready_account, examined, probe_plan, text, tags):
    ready_account.canned["ec2.DescribeCapacityReservations"] = {
        "CapacityReservations": [{**HELD, "AvailableInstanceCount": 0}]
    }
    lives = {"InstanceLifecycle": "capacity-block", "CapacityReservationId": HELD["CapacityReservationId"]}
    running(ready_account, tags, 2, **lives)
    assert (
        name_of(examined(probe_plan(text)), "reservation").result is Outcome.FAILED
    )  # no stack of the plan: not its own
    standing(ready_account, "slipway-block-training")
    check = name_of(examined(probe_plan(text)), "reservation")
    assert check.result is Outcome.OK, check.got
    assert "0 of 2 x p5.48xlarge in use2-az1 and 2 of this plan's own cluster" in check.got


@pytest.mark.parametrize(
    "tags, more",
    [
        ({"parallelcluster:cluster-name": "slipway-other"}, {"CapacityReservationId": HELD["CapacityReservationId"]}),
        ({"parallelcluster:cluster-name": "slipway-block"}, {"CapacityReservationId": "cr-0fedcba9876543210"}),
        ({"parallelcluster:cluster-name": "slipway-block"}, {}),
    ],
    ids=["another cluster's", "of another reservation", "of none"],
)
def test_capacity_block_used_by_other_instances_is_full(ready_account, examined, probe_plan, tags, more):
    ready_account.canned["ec2.DescribeCapacityReservations"] = {
        "CapacityReservations": [{**HELD, "AvailableInstanceCount": 0}]
    }
    standing(ready_account, "slipway-block-training")
    running(ready_account, tags, 2, **more)
    check = name_of(examined(probe_plan(BLOCK)), "reservation")
    assert (check.result, "0 of its instances are free" in check.got) == (Outcome.FAILED, True)


def test_quota_used_by_own_stacks_counts_as_free(ready_account, examined, probe_plan):
    use_quota(ready_account, "ec2", 384.0, L_C4BD4855=384.0)
    running(ready_account, {"parallelcluster:cluster-name": "slipway-probe"}, 2, InstanceLifecycle="spot")
    assert name_of(examined(probe_plan()), "P5 Spot").result is Outcome.FAILED
    standing(ready_account, "slipway-probe-network", "slipway-probe-training")
    check = name_of(examined(probe_plan()), "P5 Spot")
    assert (check.result, check.got) == (Outcome.OK, "384, 384 of it used, 384 by this plan's own stacks")


def test_quota_used_by_others_or_other_purchase_option_counts(ready_account, examined, probe_plan):
    use_quota(ready_account, "ec2", 384.0, L_C4BD4855=384.0)
    standing(ready_account, "slipway-probe-training")
    running(ready_account, {"parallelcluster:cluster-name": "slipway-probe"}, 1, InstanceLifecycle="spot")
    check = name_of(examined(probe_plan()), "P5 Spot")
    assert (check.result, check.got) == (Outcome.FAILED, "384, 384 of it used, 192 by this plan's own stacks")
    assert "--desired-value 576 " in check.fix
    running(ready_account, {"parallelcluster:cluster-name": "slipway-probe"}, 2)  # on demand: another quota's
    assert name_of(examined(probe_plan()), "P5 Spot").got == "384, 384 of it used"


def test_hyperpod_instances_and_network_of_plan_count_as_free(ready_account, examined, probe_plan):
    use_quota(ready_account, "sagemaker", 5.0, value=5.0)
    standing(ready_account, "slipway-pod-network", "slipway-pod-training")
    names = ["ml.p5.48xlarge"] * 4 + ["ml.m6i.xlarge"]
    nodes = [
        {
            "InstanceGroupName": "workers",
            "InstanceId": f"i-{number:017x}",
            "InstanceType": name,
            "LaunchTime": NOW,
            "InstanceStatus": {"Status": "Running"},
        }
        for number, name in enumerate(names)
    ]
    ready_account.canned["sagemaker.ListClusterNodes"] = {"NextToken": "", "ClusterNodeSummaries": nodes}
    diagnosis = examined(probe_plan(HYPERPOD))
    for name, stack_usage in (("ml.p5.48xlarge for cluster usage", 4), ("Total number of instances", 5)):
        check = name_of(diagnosis, name)
        assert (check.result, check.got) == (Outcome.OK, f"5, 5 of it used, {stack_usage} by this plan's own stacks")


@pytest.mark.parametrize("plan, service", [(EKS_BLOCK, "eks"), (PCS_BLOCK, "pcs")], ids=["eks", "pcs"])
def test_cluster_quota_used_by_own_stacks_counts_as_free(ready_account, examined, probe_plan, plan, service):
    use_quota(ready_account, service, 5.0, value=5.0)
    assert name_of(examined(probe_plan(plan)), "quota Clusters").result is Outcome.FAILED
    standing(ready_account, "slipway-block-training")
    check = name_of(examined(probe_plan(plan)), "quota Clusters")
    assert (check.result, check.got) == (Outcome.OK, "5, 5 of it used, 1 by this plan's own stacks")


def test_vpc_of_plan_counts_as_free(ready_account, examined, probe_plan):
    use_quota(ready_account, "vpc", 5.0, value=5.0)
    assert name_of(examined(probe_plan()), "VPCs per Region").result is Outcome.FAILED
    standing(ready_account, "slipway-probe-network")
    assert name_of(examined(probe_plan()), "VPCs per Region").result is Outcome.OK
