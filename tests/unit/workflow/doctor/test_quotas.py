"""The doctor on quotas: by name, with the current use, and never ok when the answer is unknown."""

from datetime import timedelta

import pytest

from launcher.aws.quotas import Quota
from launcher.catalog.load import load
from launcher.catalog.quotas import load_quotas
from launcher.model.administrator import ADMINISTRATOR, REMARK
from launcher.model.diagnosis import Outcome
from launcher.planning.quotas import QuotaNeed, UnnamedQuota, quota_needs
from launcher.workflow.doctor.quotas import QUOTAS, matching
from tests.unit.workflow.doctor.conftest import METRIC, NOW, client, quotas
from tests.unit.workflow.doctor.reservations import HYPERPOD

EXAMINED = QUOTAS

pytestmark = pytest.mark.server

CLUSTER = (
    "slipway: 1\nname: probe\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}\n"
    "target: {kind: parallelcluster, instance_type: TYPE, nodes: 2, region: us-east-2}\n"
    "purchase: {option: OPTION, price_overrides: {TYPE/OPTION: '20'}}\n"
)
PCS = CLUSTER.replace("parallelcluster", "pcs").replace("TYPE", "p5.48xlarge").replace("OPTION", "spot")


def of(diagnosis, fragment):
    return [check for check in diagnosis.checks if check.name.startswith("quota") and fragment in check.name]


def needs(plan):
    return quota_needs(plan, load().instance_types, load_quotas())


def test_spot_nodes_count_vcpus_of_family_and_head_node_standard(probe_plan):
    needed = {needed_quota.name: (needed_quota.amount, needed_quota.unit) for needed_quota in needs(probe_plan())}
    assert needed["All P5 Spot Instance Requests"] == (384, "vCPUs")
    assert needed["Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"] == (2, "vCPUs")
    assert needed["EC2-VPC Elastic IPs"] == (1, "addresses")


def test_hyperpod_counts_instances_by_type_cluster_and_total(probe_plan):
    needed = {needed_quota.name: needed_quota.amount for needed_quota in needs(probe_plan(HYPERPOD))}
    assert needed["ml.p5.48xlarge for cluster usage"] == 4
    assert needed["ml.m6i.xlarge for cluster usage"] == 1
    assert needed["Maximum number instances allowed per SageMaker HyperPod cluster"] == 5


def test_pcs_counts_clusters_and_ec2_vcpus(probe_plan):
    needed = {needed_quota.name: (needed_quota.amount, needed_quota.unit) for needed_quota in needs(probe_plan(PCS))}
    assert needed["Clusters"] == (1, "clusters")
    assert needed["All P5 Spot Instance Requests"] == (384, "vCPUs")


def test_family_without_known_quota_name_is_reported(probe_plan):
    text = CLUSTER.replace("TYPE", "p6-b200.48xlarge").replace("OPTION", "spot")
    assert [needed_quota for needed_quota in needs(probe_plan(text)) if isinstance(needed_quota, UnnamedQuota)]


def test_too_small_quota_fails_with_increase_request(ready_account, examined, probe_plan):
    ready_account.canned["service-quotas.ListServiceQuotas"] = lambda sent: {
        "Quotas": quotas(sent["ServiceCode"], L_C4BD4855=192.0)
    }
    (check,) = of(examined(probe_plan()), "P5 Spot")
    assert check.result is Outcome.FAILED
    assert check.got == "192, its use is unknown"
    assert check.fix == (
        "aws service-quotas request-service-quota-increase --region us-east-2 --service-code ec2 "
        f"--quota-code L-C4BD4855 --desired-value 384{REMARK}{ADMINISTRATOR})"
    )


def test_used_quota_reduces_available_amount(ready_account, examined, probe_plan):
    spot = [{**entry, "UsageMetric": METRIC} for entry in quotas("ec2", L_C4BD4855=500.0)]
    ready_account.canned["service-quotas.ListServiceQuotas"] = lambda sent: {
        "Quotas": spot if sent["ServiceCode"] == "ec2" else quotas(sent["ServiceCode"])
    }
    dimensions = [{"Name": name, "Value": value} for name, value in METRIC["MetricDimensions"].items()]
    for minutes, value in ((30, 0.0), (6, 192.0)):
        point = {"MetricName": METRIC["MetricName"], "Dimensions": dimensions, "Value": value}
        point["Timestamp"] = NOW - timedelta(minutes=minutes)
        client(ready_account, "cloudwatch").put_metric_data(Namespace=METRIC["MetricNamespace"], MetricData=[point])
    (check,) = of(examined(probe_plan()), "P5 Spot")
    assert (check.result, check.got) == (Outcome.FAILED, "500, 192 of it used")
    assert "--desired-value 576 " in check.fix


def test_default_quota_used_without_applied_value(ready_account, examined, probe_plan):
    ready_account.canned["service-quotas.ListServiceQuotas"] = {"Quotas": []}
    assert {check.result for check in of(examined(probe_plan()), "")} == {Outcome.UNKNOWN}
    ready_account.canned["service-quotas.ListAWSDefaultServiceQuotas"] = lambda sent: {
        "Quotas": quotas(sent["ServiceCode"])
    }
    assert {check.result for check in of(examined(probe_plan()), "")} == {Outcome.OK}


def need(**changed):
    defaults = {"service": "ec2", "name": "Exact name", "code": "L-1", "unit": "vCPUs", "what": "x", "confirmed": True}
    return QuotaNeed(**{**defaults, "amount": 1, "least": 1, **changed})


def quota(name, code="L-9"):
    return Quota(service="ec2", name=name, code=code, value=1.0, adjustable=True)


@pytest.mark.parametrize(
    "wanted,names,expected",
    [
        (need(), [quota("exact NAME"), quota("other", "L-1")], "exact NAME"),
        (need(), [quota("other", "L-1"), quota("Exact name of another")], None),
        (need(confirmed=False), [quota("An exact longer name")], "An exact longer name"),
        (need(name=""), [quota("named", "L-1")], "named"),
    ],
)
def test_quota_matched_by_name_before_code(wanted, names, expected):
    result = matching(wanted, names)
    assert (result.name if result else None) == expected
