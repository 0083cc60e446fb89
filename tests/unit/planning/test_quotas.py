"""Quotas that every account has: what a plan needs of them is compared offline, and limits what a job asks for."""

import pytest

from launcher.catalog.quotas import load_quotas
from launcher.model.money import Range
from launcher.planning.pin import pinned_plan
from launcher.planning.quotas import default_findings, default_run_s, quota_needs
from launcher.pricing.stop_findings import run_time_findings
from tests import plans


def plan_of(catalog, kind="sagemaker-training", nodes=1, **run):
    data = {
        "slipway": 1,
        "name": "small",
        "workload": {"train": {"hours": 10}},
        "target": {"kind": kind, "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": nodes},
        "purchase": {"option": "on-demand"},
        "run": {"command": ["true"], **run},
    }
    return pinned_plan(plans.request_of(data), catalog)


def defaults(catalog, plan):
    return list(default_findings(quota_needs(plan, catalog.instance_types, load_quotas())))


@pytest.mark.parametrize("kind, nodes", [("sagemaker-training", 21), ("hyperpod-slurm", 32)])
def test_more_instances_than_default_quota_are_named(catalog, kind, nodes):
    findings = defaults(catalog, plan_of(catalog, kind, nodes))
    assert findings
    assert all(finding.code == "default-quota" and "20" in finding.message + finding.hint for finding in findings[:1])


@pytest.mark.parametrize("kind, nodes", [("sagemaker-training", 20), ("hyperpod-slurm", 8), ("eks", 64), ("pcs", 2)])
def test_plan_within_default_quotas_has_no_finding(catalog, kind, nodes):
    assert defaults(catalog, plan_of(catalog, kind, nodes)) == []


@pytest.mark.parametrize(
    "high, limit, said", [(100.0, None, None), (328.0, None, "launch again"), (50.0, 121, "432,000"), (50.0, 120, None)]
)
def test_run_longer_than_default_quota_is_warning(catalog, high, limit, said):
    plan = plan_of(catalog, **({} if limit is None else {"time_limit_h": limit}))
    findings = list(run_time_findings(plan, Range(low=high / 2, mid=high / 1.5, high=high)))
    if said is None:
        assert findings == []
    else:
        (finding,) = findings
        assert finding.path == "run.time_limit_h"
        assert said in finding.message + finding.hint or "435,600" in finding.hint


def test_default_run_time_is_five_days():
    assert default_run_s(load_quotas()) == 432_000
