"""Other costs of the bill: monthly tiers, data between regions, and the lines of each kind of cluster."""

import re
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from launcher.answers import words
from launcher.catalog.load import load
from launcher.model.enums import Basis
from launcher.model.money import Price, Tier, Unpriced
from launcher.model.overhead import START_UP
from launcher.pricing import bill
from launcher.pricing.bill_lines import JobSize, Line, combine_prices, component, components, tiered_usd, total_usd
from launcher.pricing.training_candidate import TrainingCandidate
from tests.checks import some
from tests.unit.pricing.conftest import price_over

TIERS = (Tier(start=Decimal(0), end=Decimal(10), usd=Decimal(2)), Tier(start=Decimal(10), end=None, usd=Decimal(1)))
JOB_H = price_over().quote(1).hours.mid
"""Wall hours of a job of 10 hours of progress: failures and restarts are on top."""
NODE_H = JOB_H + 0.15 + 5 / 60
"""Hours of a node for it: start-up before it and idle tail after it."""
UP_H = JOB_H + 0.5
"""Hours of its cluster."""
PRICE = Price(usd=Decimal(2), source="x", basis=Basis.LISTED, as_of=date(2026, 1, 1), tiers=TIERS)


@pytest.mark.parametrize("quantity, usd", [(0, 0), (4, 8), (10, 20), (15, 25)])
def test_tiered_price_applies_the_price_of_each_tier(quantity, usd):
    assert tiered_usd(PRICE, quantity) == usd


def test_tiers_start_again_every_month():
    assert component("x", "storage", "GB-month", 40, PRICE).usd == 50
    assert component("x", "storage", "GB-month", 40, PRICE, months=4.0).usd == 80
    assert component("x", "storage", "GB-month", 60, PRICE, months=4.0).usd == 100


def test_bill_items_exist_in_the_catalog():
    source = "".join(path.read_text(encoding="utf-8") for path in Path(bill.__file__).parent.glob("bill*.py"))
    items = {item for item, _region in load().store.bill_items}
    services = "|".join(sorted({item.partition(".")[0] for item in items}))
    named = set(re.findall(rf'"((?:{services})\.[a-z0-9-]+)"', source))
    assert len(named) >= 25
    assert named <= items


def test_line_without_a_price_is_not_zero():
    line = component("x", "storage", "GB", 5, Unpriced(reason="nobody says"))
    assert (line.usd, line.unit_price_usd, line.unpriced) == (None, None, "nobody says")


def lines(priced_plan):
    return {line.name: line for line in priced_plan.quote(1).components}


def test_training_data_from_another_region_cost_the_transfer(priced):
    def train(region):
        return {"workload": {"train": {"data": {"gib": 1000, "region": region}}}}

    here, there = lines(priced(train("us-east-1"))), lines(priced(train("us-west-2")))
    moved = there["training data from us-west-2"]
    assert "training data from us-east-1" not in here
    assert moved.quantity == 1000
    assert moved.unit_price_usd == load().transfer("us-west-2", "us-east-1").usd
    assert moved.group == "network"


def test_container_image_from_another_region_costs_the_transfer_to_each_node(priced):
    """The nodes fetch an image of the region past the NAT, in less time; another region's passes the NAT."""

    def quoted(region):
        image = f"123456789012.dkr.ecr.{region}.amazonaws.com/train:1"
        target, network = {"kind": "parallelcluster", "region": "us-east-1", "nodes": 2}, {"nat": "gateway"}
        run = {"image": image, "command": ["true"], "workdir": "."}
        return priced({"target": target, "run": run, "network": network}).quote(1)

    here, there = quoted("us-east-1"), quoted("us-west-2")
    named = [{line.name: line for line in each.components} for each in (here, there)]
    assert "container image from us-east-1" not in named[0]
    moved = named[1]["container image from us-west-2"]
    assert moved.quantity == pytest.approx(20, abs=1)
    assert moved.unit_price_usd == load().transfer("us-west-2", "us-east-1").usd
    assert named[1]["NAT data"].quantity - named[0]["NAT data"].quantity == pytest.approx(20, abs=1)
    waits = [_minutes_on_the_way(each) for each in (here, there)]
    assert waits[1] == pytest.approx(2 * waits[0], rel=0.05)


def _minutes_on_the_way(quoted):
    name = "of it, weights and packages on their way to the nodes"
    (minutes,) = (float(row.value) for row in quoted.assumptions if row.name == name)
    return minutes


def test_region_pair_with_a_listed_transfer_price_uses_the_listed_price(priced):
    catalog = load()
    pair, other = catalog.transfer("us-east-1", "us-east-2"), catalog.transfer("us-east-1", "us-west-2")
    assert pair.usd < other.usd
    train = {"workload": {"train": {"data": {"gib": 10, "region": "us-east-1"}}}}
    moved = lines(priced({**train, "target": {"region": "us-east-2"}}))["training data from us-east-1"]
    assert moved.unit_price_usd == pair.usd


def test_line_without_a_regional_price_is_derived_and_in_the_total(priced):
    first = priced(
        {"target": {"instance_type": "p5en.48xlarge", "region": "eu-south-2"}, "purchase": {"option": "spot"}}
    ).quote(1)
    derived = [line for line in first.components if line.basis is Basis.DERIVED and line.group != "compute"]
    assert not first.incomplete
    assert derived
    assert first.derived_lines == len(derived) + (first.price.basis is Basis.DERIVED)
    in_them = sum(line.usd for line in first.components if line.basis is Basis.DERIVED)
    assert first.derived_share == pytest.approx(float(in_them / first.usd.mid), rel=0.01, abs=1e-6)
    assert first.usd.mid == sum(line.usd for line in first.components)


def test_total_with_cents_of_derived_prices_is_not_marked_as_derived(priced):
    target = {"instance_type": "p5.48xlarge", "region": "ap-northeast-1"}
    own = {"purchase": {"option": "on-demand", "price_overrides": {"p5.48xlarge/on-demand": "60"}}, "target": target}
    first = priced(own).quote(1)
    assert first.derived_lines
    assert 0 < first.derived_share < 0.01
    assert not first.is_derived
    assert words.total(first).startswith("$")


def test_total_of_a_derived_rate_is_marked_as_derived(priced):
    target = {"kind": "sagemaker-training", "instance_type": "p5.48xlarge", "region": "us-east-1", "nodes": 1}
    first = priced({"purchase": {"option": "spot"}, "target": target}).quote(1)
    assert first.derived_share > 0.9
    assert words.total(first).startswith("~$")


def test_storage_in_the_plan_is_storage_in_the_bill(priced):
    storage = {"lustre_gib": 2400, "lustre_mb_s_per_tib": 500, "login_nodes": 2}
    bill_lines = lines(priced({"storage": storage, "checkpoint": {"keep": 5}}))
    plain = lines(priced())
    lustre = bill_lines["FSx Lustre 2400 GiB, 500 MB/s/TiB"]
    assert lustre.unit_price_usd == load().bill_item("fsx.lustre-persistent-500", "us-east-1").usd
    assert lustre.quantity == pytest.approx(2400 * UP_H / 730)
    assert bill_lines["2 login nodes m6i.large"].quantity == pytest.approx(2 * UP_H)
    # A login node has the image's own 45 GiB; a node's volume lasts as long as the node, start-up and tail included.
    assert bill_lines["EBS gp3 root volumes"].quantity == pytest.approx(((100 + 2 * 45) * UP_H + 100 * NODE_H) / 730)
    assert bill_lines["load balancer of the login nodes"].quantity == pytest.approx(UP_H)
    assert "load balancer of the login nodes" not in plain
    assert bill_lines["S3 checkpoints"].quantity == pytest.approx(plain["S3 checkpoints"].quantity * 5 / 3)


def test_outputs_of_a_known_size_are_in_the_bill(priced):
    quoted, plain = (priced({"run": run}).quote(1) for run in ({"outputs": ["out"], "outputs_gib": 3600}, {}))
    assert {line.name: line for line in quoted.components}["S3 outputs"].quantity == 3600
    assert "S3 outputs" not in {line.name for line in plain.components}
    # At 1 GB/s they are an hour and four minutes on their way.
    assert quoted.billed_hours == pytest.approx(plain.billed_hours + 1.073741824)


def test_the_hours_of_steps_are_billed(priced):
    steps = {"before": [{"command": "a", "hours": 2}, {"command": "b"}], "after": [{"command": "c", "hours": 0.5}]}
    quoted, plain = (priced({"run": run}).quote(1) for run in (steps, {}))
    assert quoted.billed_hours == pytest.approx(plain.billed_hours + 2.5)
    hours, before = ({line.name: line.quantity for line in of.components} for of in (quoted, plain))
    assert hours["data, steps and outputs"] == pytest.approx(2.5 * quoted.plan.place.nodes)
    assert hours["start-up of the nodes"] == pytest.approx(before["start-up of the nodes"])
    (assumption,) = [
        assumption for assumption in quoted.assumptions if assumption.name == "steps before and after the command"
    ]
    assert (assumption.value, assumption.source.split("; ")[1]) == ("2.5", "1 of 3 without hours, counted as none")


@pytest.mark.parametrize("source,share", [({}, 1), ({"shard": True}, 2), ({"path": "/fsx/tokens"}, 2)])
def test_data_are_fetched_in_the_start_up(priced, source, share):
    """At 1 GB/s a node; of what is shared each node fetches its half."""
    data = {"uri": "s3://corpus/tokens", "path": "/scratch/tokens", "gib": 3600, **source}
    two = {"target": {"nodes": 2}}
    quoted, plain = (priced({"run": run, **two}).quote(1) for run in ({"data": [data]}, {}))
    assert quoted.billed_hours == pytest.approx(plain.billed_hours + 1.073741824 / share)
    (assumption,) = [
        assumption for assumption in quoted.assumptions if assumption.name == "data on their way to the nodes"
    ]
    assert ("a new node fetches them again" in assumption.source) is ("path" not in source)


def test_checkpoints_written_by_the_trainer_are_not_in_the_bill(priced):
    quoted, agent = (
        priced({"checkpoint": policy, "purchase": {"option": "spot"}}).quote(1)
        for policy in ({"mode": "own", "uri": "s3://team/runs", "interval": 600}, {"interval": 600})
    )
    assert not {line.name for line in quoted.components} & {"S3 checkpoints", "S3 uploads"}
    # It is priced as a job with checkpoints.
    assert quoted.hours == agent.hours
    assert any(assumption.value == "s3://team/runs" for assumption in quoted.assumptions)


def test_cluster_without_idle_stop_is_billed_as_long_as_the_nodes(priced):
    """Nothing stops idle nodes: they stay a day, and head node, disks and network with them."""
    quoted = priced({"guardrails": {"idle_minutes": 0}, "storage": {"lustre_gib": 2400}}).quote(1)
    components_by_name = {line.name: line for line in quoted.components}
    node_h = JOB_H + 0.15 + 24
    assert components_by_name["NAT gateway"].quantity == pytest.approx(node_h)
    assert components_by_name["head node m6i.large"].quantity == pytest.approx(node_h)
    assert components_by_name["FSx Lustre 2400 GiB, 250 MB/s/TiB"].quantity == pytest.approx(2400 * node_h / 730)
    assert components_by_name["EBS gp3 root volumes"].quantity == pytest.approx(200 * node_h / 730)
    assert quoted.left_up_usd_per_hour > quoted.usd_per_hour
    assert quoted.usd.low < quoted.usd.mid


def test_hourly_cost_of_a_cluster_left_up_is_reported(priced):
    quoted = priced({"storage": {"lustre_gib": 2400}}).quote(1)
    components_by_name = {line.name: line for line in quoted.components}
    hourly = ("NAT gateway", "public IPv4 address of the NAT", "head node m6i.large")
    fsx = components_by_name["FSx Lustre 2400 GiB, 250 MB/s/TiB"].unit_price_usd * 2400 / 730
    least = sum(components_by_name[name].unit_price_usd for name in hourly) + fsx
    assert least < quoted.left_up_usd_per_hour < least * Decimal("1.5")
    assert priced({"target": {"cluster": "team"}}).quote(1).left_up_usd_per_hour == 0
    timed = priced({"guardrails": {"idle_minutes": 0, "ttl_h": 48}}).quote(1)
    assert timed.left_up_usd_per_hour < 1, "the time to live ends the nodes"


def test_existing_network_has_no_nat_lines(priced):
    network = {"vpc_id": "vpc-01234567", "subnet_ids": ["subnet-01234567"]}
    quote = priced({"network": network, "workload": {"train": {"hours": 13}}}).quote(1)
    assert [line.name for line in quote.components if line.group == "network"] == ["private DNS zone"]
    assert any(assumption.value == "not counted" for assumption in quote.assumptions)


@pytest.mark.parametrize("public", [True, False])
def test_addresses_of_existing_public_subnet_are_in_the_bill(priced, public):
    subnet = "subnet-0a1b2c3d4e5f60718"
    facts = {"id": subnet, "az_id": "use2-az1", "free_addresses": 9, "public_addresses": public}
    network = {"vpc_id": "vpc-0a1b2c3d4e5f60718", "subnet_ids": [subnet], "subnets": [facts]}
    target = {"kind": "ec2", "region": "us-east-2", "instance_type": "g6e.8xlarge", "nodes": 1}
    bill_lines = lines(priced({"network": network, "target": target, "purchase": {"option": "on-demand"}}))
    assert ("public IPv4 addresses" in bill_lines) is public


def test_job_without_checkpoints_has_no_storage_lines(priced):
    s3_lines = [name for name in lines(priced({"checkpoint": {"mode": "none"}})) if name.startswith("S3")]
    assert s3_lines == ["S3 listings of the guard"]


def test_every_bill_line_has_source_basis_and_date(priced):
    for line in some(priced().quote(1).components):
        assert line.source
        assert line.basis in {"listed", "derived", "memory"}
        assert line.as_of


# --------------------------------------------------------------------------------------- what exists with the cluster


FETCHED = 20
"""GB that a node fetches: packages; a few in a thousand are lost meanwhile."""


def hours_of(line):
    """How many of something run for the hours of the cluster."""
    return line.quantity * 730 / UP_H


def test_each_vpc_endpoint_is_priced_and_logs_bypass_the_nat(priced):
    plain, logs = lines(priced()), lines(priced({"network": {"endpoints": ["logs", "ssm"]}}))
    assert logs["2 interface endpoints"].quantity == pytest.approx(2 * UP_H)
    assert plain["NAT data"].quantity == pytest.approx(FETCHED + plain["CloudWatch logs"].quantity, rel=0.01)
    assert logs["NAT data"].quantity == pytest.approx(FETCHED, rel=0.01)
    tuned = lines(priced({"workload": {"train": {"method": "full"}}}))
    assert tuned["NAT data"].quantity - plain["NAT data"].quantity == pytest.approx(2 * 8.03 / 1.073741824, rel=0.01)
    assert logs["interface endpoint data"].quantity == pytest.approx(plain["CloudWatch logs"].quantity)
    one = lines(priced({"network": {"endpoints": ["ssm"]}}))
    assert one["1 interface endpoint"].quantity == pytest.approx(UP_H)
    assert "interface endpoint data" not in one


@pytest.mark.parametrize("method, fetched", [("full", 2 * 8.03 / 1.073741824), ("pretrain", 0)])
def test_each_lost_node_downloads_the_weights_through_the_nat_again(priced, method, fetched):
    plan = {"workload": {"train": {"hours": None, "tokens_b": 20, "method": method}}, "purchase": {"option": "spot"}}
    quoted = priced(plan).quote(1)
    components_by_name = {line.name: line for line in quoted.components}
    lost = (quoted.spot.interruptions_per_hour + quoted.work.node_failures_per_h) * quoted.hours.mid
    assert lost > 0.02
    through = components_by_name["NAT data"].quantity - components_by_name["CloudWatch logs"].quantity
    assert through == pytest.approx((20 + fetched) * (1 + lost), rel=5e-3)
    assumptions = {assumption.name: assumption.value for assumption in quoted.assumptions}
    assert ("weights through the NAT gateway" in assumptions) is bool(fetched)
    named = priced({**plan, "run": {"data": [{"uri": "s3://team-data/tokens", "path": "/data"}]}}).quote(1)
    (past,) = (line for line in named.components if line.name == "NAT data")
    assert (past.quantity < components_by_name["NAT data"].quantity) is bool(fetched)


def test_data_to_a_nat_gateway_in_another_zone_are_charged_at_both_ends(priced):
    def shared(zones):
        network = {"name": "team", "az_ids": zones}
        return lines(priced({"network": network, "target": {"region": "us-east-2", "az_id": "use2-az2"}}))

    near, far = shared(["use2-az2", "use2-az1"]), shared(["use2-az1", "use2-az2"])
    assert "data to the NAT's zone and back" not in near
    assert far["data to the NAT's zone and back"].quantity == pytest.approx(2 * near["NAT data"].quantity)


def test_budget_adds_an_alarm_and_a_free_aws_budget(priced):
    plain, limited = lines(priced()), lines(priced({"budget": {"max_usd": 9000}}))
    assert hours_of(plain["7 alarms"]) == pytest.approx(7)
    assert hours_of(limited["8 alarms"]) == pytest.approx(8)
    assert limited["AWS Budget"].usd == 0
    assert "AWS Budget" not in plain


def test_metrics_are_counted_of_the_cluster_and_of_every_node(priced):
    one, four = lines(priced()), lines(priced({"target": {"nodes": 4}}))
    of_node = (3 + 1) * NODE_H / 730
    assert one["custom metrics"].quantity == pytest.approx(7 * UP_H / 730 + of_node)
    quoted = priced({"target": {"nodes": 4}}).quote(1)
    four_h, start_h = quoted.hours.mid, quoted.hours_to_first_step
    of_nodes = (4 * 3 + 1) * (four_h + start_h + 5 / 60) / 730
    assert four["custom metrics"].quantity == pytest.approx(7 * (four_h + 0.5) / 730 + of_nodes)
    of_node = (60 + 12 + 12 * (1 + 3)) * NODE_H / 1000
    assert one["CloudWatch requests"].quantity == pytest.approx((12 + 60) * UP_H / 1000 + of_node)


def test_fleet_of_a_block_is_checked_for_idleness(priced):
    block = lines(priced({"purchase": {"option": "capacity-block"}}))
    assert block["CloudWatch requests"].quantity == pytest.approx((72 * UP_H + 120 * (JOB_H + 0.15)) / 1000)


def test_job_on_an_existing_cluster_pays_for_the_own_metrics(priced):
    bill_lines = lines(priced({"target": {"cluster": "team"}}))
    assert bill_lines["custom metrics"].quantity == pytest.approx(3 * (JOB_H + 1.15) / 730), (
        "Slurm's idle time there is an hour"
    )
    assert bill_lines["CloudWatch requests"].quantity == pytest.approx(60 * (JOB_H + 1.15) / 1000)


def test_guard_is_priced_by_calls_and_duration(priced):
    guard = lines(priced())["guard and its messages"]
    calls = 12 * 730
    usd = calls / 1e6 * 0.2 + calls * 3 * 0.25 * 0.0000166667 + 730 / 1e6 * 0.5
    assert float(guard.unit_price_usd) == pytest.approx(usd, abs=5e-5)
    assert hours_of(guard) == pytest.approx(1)


def test_guard_pays_one_s3_listing_per_call(priced):
    listings = lines(priced())["S3 listings of the guard"]
    assert listings.quantity == pytest.approx(12 * UP_H / 1000)
    assert listings.unit_price_usd == load().bill_item("s3.put-requests", "us-east-1").usd
    assert "S3 listings of the guard" not in lines(priced({"target": {"cluster": "team"}}))


def test_each_node_of_a_job_writes_12_heartbeats_an_hour(priced):
    one, two = (lines(priced({"target": {"nodes": nodes}}))["heartbeats of the job"] for nodes in (1, 2))
    assert one.unit == "1000 requests"
    assert one.usd < Decimal("0.01")
    assert two.quantity > one.quantity


def test_free_tier_of_the_account_is_counted_as_used_up(priced):
    dashboard = lines(priced())["dashboard"]
    assert load().bill_item("cloudwatch.dashboard", "us-east-1").tiers[0].usd == 0
    assert float(dashboard.usd) == pytest.approx(3 * UP_H / 730, abs=5e-5)


@pytest.mark.parametrize("hours, months", [(10, 0), (11, 0), (12, 1), (690, 1), (731, 2)])
def test_a_dns_zone_is_free_for_half_a_day_and_then_paid_by_whole_months(priced, hours, months):
    bill_lines = lines(priced({"workload": {"train": {"hours": hours}}}))
    assert (
        bill_lines.get("private DNS zone") is None if not months else bill_lines["private DNS zone"].quantity == months
    )


def test_replaced_checkpoints_are_billed_until_the_lifecycle_rule_expires_the_objects(priced):
    plan = {"workload": {"train": {"hours": None, "tokens_b": 5}}, "checkpoint": {"interval": 600, "keep": 4}}
    quoted = priced(plan).quote(1)
    components_by_name = {line.name: line for line in quoted.components}
    saves = quoted.hours.mid * 6
    size = quoted.work.checkpoint_gb / 1.073741824  # of 2^30 bytes
    assert components_by_name["S3 replaced checkpoints"].quantity == pytest.approx((saves - 4) * size * 36 / 730)
    few = priced({**plan, "checkpoint": {"interval": 600, "keep": 400}}).quote(1)
    assert "S3 replaced checkpoints" not in {line.name for line in few.components}


def test_access_log_is_billed_for_the_retention_of_the_bucket(priced):
    plan = {"workload": {"train": {"hours": None, "tokens_b": 5}}, "storage": {"access_log": True}}
    bill_lines = lines(priced(plan))
    assert bill_lines["S3 access log"].quantity == pytest.approx(
        bill_lines["S3 uploads"].quantity * 0.0005 * 90 * 24 / 730
    )
    assert "S3 access log" not in lines(priced({**plan, "checkpoint": {"uri": "s3://own/x"}}))


def test_small_lines_are_priced_in_every_region_with_a_reported_basis(priced):
    target = {"instance_type": "p5en.48xlarge", "region": "eu-south-2"}
    bill_lines = lines(priced({"target": target, "purchase": {"option": "spot"}}))
    for name in ("7 alarms", "composite alarm of the head node", "dashboard", "guard and its messages"):
        assert bill_lines[name].usd is not None
        assert bill_lines[name].basis is Basis.DERIVED


# -------------------------------------------------------------------------------------------------------------- lines


def price(usd, basis=Basis.LISTED, day=1):
    return Price(usd=Decimal(usd), source=f"source {day}", basis=basis, as_of=date(2026, 1, day))


def test_combined_price_has_the_weakest_basis_and_the_oldest_date():
    combined_price = combine_prices([(2.0, price("0.5", day=3)), (4.0, price("0.25", Basis.MEMORY, day=2))])
    assert combined_price == Price(
        usd=Decimal("2.0000"), source="source 3; source 2", basis=Basis.MEMORY, as_of=date(2026, 1, 2)
    )
    assert combine_prices([(1.0, price("1")), (1.0, Unpriced(reason="nobody says"))]).reason == "nobody says"


def test_zero_line_is_left_out_and_the_total_is_the_sum_of_the_other_lines():
    every = Line("hourly", "other", "hour", price("0.3333"), once=0.5, an_hour=1.0)
    saved = Line("saved", "storage", "GB", PRICE, a_save=3.0, saves_free=2)
    unknown = Line("unknown", "other", "hour", Unpriced(reason="nobody says"), an_hour=1.0)
    short, long = JobSize(1.0, 1800.0), JobSize(10.0, 1800.0)
    assert [cost_component.name for cost_component in components((every, saved, unknown), short)] == [
        "hourly",
        "unknown",
    ]
    bill_lines = components((every, saved, unknown), long)
    assert [cost_component.quantity for cost_component in bill_lines] == [10.5, 54.0, 10.0]
    assert total_usd((every, saved, unknown), long) == sum(
        cost_component.usd for cost_component in bill_lines if cost_component.usd is not None
    )


def test_no_checkpoint_interval_means_no_saves():
    assert JobSize(10.0, None).saves == 0


def test_first_step_behind_a_gateway_is_later_with_the_reason_in_the_quote(priced):
    parts = {
        "workload": {"train": {"model": "llama-3.1-70b", "method": "full", "hours": None, "tokens_b": 1.0}},
        "purchase": {"option": "on-demand"},
    }
    target = {"region": "us-east-1", "instance_type": "p5.48xlarge", "nodes": 16}
    behind = priced({**parts, "target": {"kind": "parallelcluster", **target}}).quote(1)
    outside = priced({**parts, "target": {"kind": "sagemaker-training", **target}}).quote(1)
    assert behind.hours_to_first_step > outside.hours_to_first_step + 0.1
    source = next(line.source for line in behind.assumptions if line.name.startswith("of it, weights"))
    assert "5 Gbit/s" in source
    assert "100" in source
    assert "VPC user guide" in source


@pytest.mark.parametrize(
    "tokens_b, nodes, option",
    [(1.0, 64, "on-demand"), (0.3, 16, "on-demand"), (0.3, 16, "spot")],
    ids=["64 nodes behind one gateway", "16 nodes", "spot"],
)
def test_job_and_start_up_of_short_job_exceed_medians_by_same_factor(tokens_b, nodes, option):
    train = {"model": "llama-3.1-70b", "method": "full", "tokens_b": tokens_b, "hours": None}
    target = {"kind": "parallelcluster", "instance_type": "p6-b200.48xlarge", "nodes": nodes, "region": "us-east-1"}
    changes = {"workload": {"train": train}, "target": target, "purchase": {"option": option}}
    candidate = price_over(changes).candidates[0]
    assert isinstance(candidate, TrainingCandidate)
    hours = {line.name: line.quantity / nodes for line in candidate.components if line.group == "compute"}
    job_h, start_h = next(iter(hours.values())), hours[START_UP]
    charged = candidate.charge
    assert charged is not None
    assert job_h / charged.hours == pytest.approx(start_h / charged.start_h)
    assert 1.0 < job_h / charged.hours < 1.12
