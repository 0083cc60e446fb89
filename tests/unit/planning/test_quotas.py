"""Quotas that every account has: what a plan needs of them is compared offline, and limits what a job asks for."""

import pytest
import yaml

from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.quotas import load_quotas
from launcher.catalog.serving import load_serving
from launcher.model.administrator import ADMINISTRATOR, REMARK
from launcher.model.money import Range
from launcher.planning.endpoint_pin import pinned_serving
from launcher.planning.pin import pinned_plan
from launcher.planning.quotas import default_findings, default_run_s, quota_needs
from launcher.pricing.stop_findings import run_time_findings
from tests import plans


def plan_of(
    catalog, kind="sagemaker-training", nodes=1, *, name="p5.48xlarge", option="on-demand", lustre_gib=0, **run
):
    data = {
        "slipway": 1,
        "name": "small",
        "workload": {"train": {"hours": 10}},
        "target": {"kind": kind, "region": "us-east-2", "instance_type": name, "nodes": nodes},
        "purchase": {"option": option, "price_overrides": {f"{name}/{option}": "20"}},
        "storage": {"lustre_gib": lustre_gib},
        "run": {"command": ["true"], **run},
    }
    return pinned_plan(plans.request_of(data), catalog)


def defaults(catalog, plan):
    return list(default_findings(quota_needs(plan, catalog.instance_types, load_quotas()), plan.place.region, {}))


def too_small(catalog, plan):
    """The names of the quotas that the findings name, each with what the plan needs."""
    found = {}
    for finding in defaults(catalog, plan):
        assert (finding.code, finding.level) == ("default-quota", "warning")
        name = finding.message.split("'")[1]
        found[name] = int(finding.message.split("the plan needs ")[1].split(" ")[0].replace(",", ""))
    return found


ON_DEMAND_P, STANDARD = (
    "Running On-Demand P instances",
    "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
)


@pytest.mark.parametrize(
    "kind, nodes, bought, expected",
    [
        ("ec2", 1, ("p5.48xlarge", "on-demand"), {ON_DEMAND_P: 192}),
        ("ec2", 2, ("p5.48xlarge", "spot"), {"All P5 Spot Instance Requests": 384}),
        ("ec2", 1, ("p4d.24xlarge", "spot"), {"All P4, P3 and P2 Spot Instance Requests": 96}),
        ("ec2", 1, ("g6.12xlarge", "spot"), {"All G and VT Spot Instance Requests": 48}),
        ("parallelcluster", 1, ("trn1.2xlarge", "on-demand"), {"Running On-Demand Trn instances": 8}),
        ("parallelcluster", 2, ("trn1.32xlarge", "spot"), {"All Trn Spot Instance Requests": 256}),
        ("parallelcluster", 8, ("p5.48xlarge", "capacity-block"), {"Concurrent P5 Capacity Blocks per account": 1536}),
        ("pcs", 4, ("g6.12xlarge", "on-demand"), {"Running On-Demand G and VT instances": 192}),
        (
            "eks",
            200,
            ("p5.48xlarge", "on-demand"),
            {STANDARD: 16, ON_DEMAND_P: 38_400, "Network interfaces per Region": 6_400},
        ),
        (
            "eks",
            500,
            ("trn1.2xlarge", "on-demand"),
            {STANDARD: 16, "Running On-Demand Trn instances": 4_000, "Nodes per managed node group": 500},
        ),
        ("hyperpod-slurm", 8, ("p5.48xlarge", "on-demand"), {}),
        (
            "hyperpod-slurm",
            32,
            ("p5.48xlarge", "on-demand"),
            {
                "Maximum number instances allowed per SageMaker HyperPod cluster": 33,
                "Total number of instances allowed across SageMaker HyperPod clusters": 33,
            },
        ),
        (
            "hyperpod-eks",
            2,
            ("p5.48xlarge", "spot"),
            {"Total number of Spot instances allowed across SageMaker HyperPod clusters": 2},
        ),
        ("sagemaker-training", 1, ("g5.xlarge", "on-demand"), {"ml.g5.xlarge for training job usage": 1}),
        (
            "sagemaker-training",
            21,
            ("trn1.32xlarge", "spot"),
            {
                "Maximum number of instances per spot training job": 21,
                "ml.trn1.32xlarge for spot training job usage": 21,
                "Number of instances across all spot training jobs": 21,
            },
        ),
        ("sagemaker-training", 4, ("m5.2xlarge", "on-demand"), {}),
    ],
)
def test_default_quotas_below_plan_are_findings(catalog, kind, nodes, bought, expected):
    name, option = bought
    assert too_small(catalog, plan_of(catalog, kind, nodes, name=name, option=option)) == expected


def test_finding_of_ec2_quota_names_request_to_type(catalog):
    (finding,) = defaults(catalog, plan_of(catalog, "ec2"))
    assert finding.message == (
        "the default of the quota 'Running On-Demand P instances' is 0 vCPUs, the plan needs 192 (1 x p5.48xlarge)"
    )
    assert finding.hint.endswith(
        "aws service-quotas request-service-quota-increase --region us-east-2 --service-code ec2"
        f" --quota-code L-417A185B --desired-value 192{REMARK}{ADMINISTRATOR})"
    )


def test_large_file_system_and_many_volumes_exceed_default_storage(catalog):
    found = too_small(catalog, plan_of(catalog, "parallelcluster", 600, lustre_gib=120_000))
    assert found["Storage for General Purpose SSD (gp3) volumes, in TiB"] == 59
    assert found["Lustre Persistent_2 storage capacity"] == 120_000


def test_data_larger_than_default_volume_of_training_job_is_finding(catalog):
    source = {"uri": "s3://bucket/data", "gib": 1_500, "path": "/data"}
    found = too_small(catalog, plan_of(catalog, name="m5.2xlarge", data=[source]))
    assert found == {"Size of EBS volume for an instance": 1_600}


def test_endpoint_needs_quota_of_its_type_and_of_all_endpoints(catalog):
    text = (plans.EXAMPLES / "serve" / "pinned" / "llama31-8b-inf2.yaml").read_text("utf-8")
    plan = pinned_serving(plans.request_of(yaml.safe_load(text)), catalog, BedrockCatalog(), load_serving())
    assert too_small(catalog, plan) == {
        "ml.inf2.48xlarge for endpoint usage": 5,
        "Maximum number of instances per endpoint": 5,
        "Number of instances across active endpoints": 5,
    }


def test_endpoint_in_training_plan_needs_the_quota_of_one_endpoint_only(catalog):
    data = yaml.safe_load((plans.EXAMPLES / "serve" / "pinned" / "llama31-8b-g6e.yaml").read_text("utf-8"))
    arn = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/chat"
    bought = {"arn": arn, "count": 5, "ends_at": "2026-12-30T11:30:00Z"}
    data["target"]["instance_type"] = "p5.48xlarge"
    data["workload"]["serve"]["max_instances"] = 5
    data["purchase"] = {"option": "training-plan", "training_plan": bought}
    plan = pinned_serving(plans.request_of(data), catalog, BedrockCatalog(), load_serving())
    assert too_small(catalog, plan) == {"Maximum number of instances per endpoint": 5}


@pytest.mark.parametrize(
    "high, limit, said", [(100.0, None, None), (328.0, None, "launch again"), (50.0, 121, "432,000"), (50.0, 120, None)]
)
def test_run_longer_than_default_quota_is_warning(catalog, high, limit, said):
    plan = plan_of(catalog, **({} if limit is None else {"time_limit_h": limit}))
    findings = list(run_time_findings(plan, Range(low=high / 2, mid=high / 1.5, high=high), {}))
    if said is None:
        assert findings == []
    else:
        (finding,) = findings
        assert finding.path == "run.time_limit_h"
        assert said in finding.message + finding.hint or "435,600" in finding.hint


@pytest.mark.parametrize("high, can_ask", [(672.0, True), (673.0, False)])
def test_longest_possible_training_job_is_28_days_and_no_longer_limit_is_advised(catalog, high, can_ask):
    plan = plan_of(catalog)
    (finding,) = run_time_findings(plan, Range(low=high / 2, mid=high / 1.5, high=high), {})
    assert ("set run.time_limit_h to 672" in finding.hint) is can_ask
    assert ("more nodes, or another target.kind" in finding.hint) is not can_ask
    assert ("No quota allows more than 672 h" in finding.message) is not can_ask


def test_default_run_time_is_five_days():
    assert default_run_s(load_quotas()) == 432_000
