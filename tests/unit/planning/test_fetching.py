"""What nodes fetch before the first step: at their own speed, or together through one NAT gateway."""

import pytest

from launcher.model.enums import Egress, TargetKind
from launcher.planning.fetching import (
    NAT_CONNECTIONS,
    connection_findings,
    fetched_weights_gb,
    own_fetch_h,
    packages_gb,
    shared_fetch_h,
)
from launcher.planning.pin import pinned_plan
from tests.plans import request_of

TUNING = {"model": "llama-3.1-70b", "method": "full", "tokens_b": 1.0}


@pytest.fixture(scope="module")
def plan_of(catalog):
    """The plan of a job on p5.48xlarge in a network of its own."""

    def make(train=None, nodes=16, run=None, network=None, **target):
        target = {"kind": "parallelcluster", "region": "us-east-1", "instance_type": "p5.48xlarge", **target}
        data = {"slipway": 1, "name": "n", "workload": {"train": train or TUNING}, "target": target | {"nodes": nodes}}
        data |= {"purchase": {"option": "on-demand"}, "run": run or {}, "network": network or {}}
        return pinned_plan(request_of(data), catalog)

    return make


@pytest.fixture(scope="module")
def hours_of(catalog, plan_of):
    """Hours of each node alone, and of all through a gateway."""

    def make(**parts):
        plan = plan_of(**parts)
        facts, nodes = catalog.instance_types[plan.place.instance_type], plan.place.nodes
        weights = fetched_weights_gb(plan.request, catalog)
        packages = packages_gb(plan.request, plan.place.target, facts, plan.place.region)
        shared = shared_fetch_h(Egress.NAT_GATEWAY, facts, nodes, packages=packages, weights=weights)
        return own_fetch_h(weights, facts), shared

    return make


def test_nodes_share_nat_gateway_between_documented_rates(hours_of):
    alone_h, shared = hours_of()
    every_gb = 16 * (2 * 70.55 + 20 * 1.073741824)
    assert alone_h == pytest.approx(2 * 70.55 / 3600, rel=0.01)
    # 5 to 100 Gbit/s, equally likely in logarithms: 6.75, 22.4 and 74.1 at the percentiles
    own_s = 20 * 1.073741824
    expected = [(every_gb / (gbps / 8) - own_s) / 3600 for gbps in (74.11, 22.36, 6.747)]
    assert [shared.low, shared.mid, shared.high] == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("region, gb", [("us-east-1", 10), ("us-west-2", 20)])
def test_image_in_ecr_of_the_region_takes_no_time_of_the_nat(hours_of, region, gb):
    """Its layers come from S3; those of another region's ECR pass the NAT."""
    run = {"image": f"123456789012.dkr.ecr.{region}.amazonaws.com/train:1"}
    _, shared = hours_of(run=run, train={"hours": 5.0})
    each_gb = gb * 1.073741824
    assert shared.mid == pytest.approx((16 * each_gb / (22.36 / 8) - each_gb) / 3600, rel=0.01)


def test_single_node_download_limited_by_node_speed(hours_of):
    alone_h, shared = hours_of(nodes=1)
    assert shared.low == pytest.approx(alone_h)
    assert shared.high > alone_h


@pytest.mark.parametrize("train", [{"hours": 5.0}, {"model": "llama-3.1-8b", "method": "pretrain", "tokens_b": 1.0}])
def test_job_without_weights_fetches_only_packages(hours_of, train):
    alone_h, shared = hours_of(train=train)
    assert alone_h == 0.0
    assert 0.0 < shared.mid < shared.high


def test_weights_from_s3_bypass_nat_gateway(hours_of):
    run = {"command": ["true"], "data": [{"uri": "s3://team/weights", "path": "/scratch/w", "gib": 130}]}
    assert hours_of(run=run)[0] == 0.0


@pytest.mark.parametrize(
    "job, warned",
    [
        ((1000, TUNING, TargetKind.PARALLELCLUSTER), True),
        ((800, TUNING, TargetKind.PARALLELCLUSTER), False),
        ((1000, {"hours": 5.0}, TargetKind.PARALLELCLUSTER), False),
        ((1000, TUNING, TargetKind.SAGEMAKER_TRAINING), False),
    ],
)
def test_more_connections_than_gateway_limit_give_warning(catalog, plan_of, job, warned):
    nodes, train, kind = job
    plan = plan_of(train=train, nodes=nodes, kind=kind.value)
    facts = catalog.instance_types["p5.48xlarge"]
    findings = list(connection_findings(plan.place, plan.request, facts, catalog))
    assert bool(findings) == warned
    assert all(f"{NAT_CONNECTIONS:,}" in finding.message and "run.data" in finding.hint for finding in findings)
