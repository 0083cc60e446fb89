"""The part of a quote that is not the work: its lines, its share, and the target on which the share is lower."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
import yaml

from launcher.answers.quote_screen import page
from launcher.model.overhead import HIGH_SHARE, overhead_of
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.overhead import overhead_findings
from launcher.workflow.quote.price import price

NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def quote_plan(tmp_path):
    """The file, the candidates and the quote of an hour on a small instance, with other keys of the plan."""

    def make(hours=1, **keys):
        target = {"kind": "parallelcluster", "region": "us-east-1", "instance_type": "g5.2xlarge", "nodes": 1}
        train = {"model": "llama-3.1-8b", "method": "lora", "hours": hours}
        plan = {"slipway": 1, "name": "small", "workload": {"train": train}, "purchase": {"option": "on-demand"}}
        plan |= {"target": target | keys.pop("target", {}), "run": {"command": ["python", "-c", "pass"]}, **keys}
        path = tmp_path / "plan.yaml"
        path.write_text(yaml.safe_dump(plan))
        priced = price(path, NOW, PriceOptions())
        return path, priced, priced.quote(1)

    return make


def finding(path, priced, quote):
    (only,) = overhead_findings(path, priced, quote, NOW, PriceOptions())
    return only


def test_overhead_equals_total_without_job_hours_and_storage(quote_plan):
    quote = quote_plan()[2]
    hours, *_ = quote.components
    stored = sum(line.usd for line in quote.components if line.group == "storage")
    assert hours.group == "compute"
    assert quote.overhead.usd == sum(line.usd for line in quote.components) - hours.usd - stored
    assert quote.overhead.total_usd == quote.usd.mid


@pytest.mark.parametrize("network", [{}, {"nat": "gateway"}])
def test_high_overhead_share_names_cheaper_target(quote_plan, network):
    said = finding(*quote_plan(hours=0.5, network=network))
    assert (said.code, said.path, said.level) == ("overhead-share", "target.kind", "info")
    assert said.hint.startswith(f"target.kind: ec2{' with network.nat: auto' if network else ''} has ")
    assert ("NAT data" in said.message) == bool(network)


def test_nat_gateway_share_exceeds_public_address_share(quote_plan):
    assert quote_plan(network={"nat": "gateway"})[2].overhead.share > quote_plan()[2].overhead.share > 0.0


def test_gateway_finding_on_eks_names_launchable_target(quote_plan):
    path, priced, quote = quote_plan(target={"kind": "eks"})
    said = finding(path, priced, quote)
    assert said.hint.startswith("target.kind: ")
    assert "eks" not in said.hint


SMALL = [
    ("parallelcluster", "g5.2xlarge", 1, 1, "gateway"),
    ("eks", "g5.xlarge", 1, 1, "gateway"),
    ("eks", "g6.12xlarge", 0.3, 2, None),
    ("ec2", "g5.xlarge", 0.3, 1, "gateway"),
    ("ec2", "trn1.2xlarge", 0.3, 2, "gateway"),
]


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_plan_that_follows_the_hint_has_its_lower_share_and_total(quote_plan, case):
    kind, type_, hours, nodes, nat = case
    target = {"kind": kind, "instance_type": type_, "nodes": nodes}
    path, priced, quote = quote_plan(hours=hours, target=target, network={"nat": nat} if nat else {})
    changes, _, result = finding(path, priced, quote).hint.partition(" has ")
    keys = dict(change.split(": ") for change in changes.split(" with "))
    target |= {"kind": keys.get("target.kind", kind)}
    followed = quote_plan(hours=hours, target=target, network={"nat": keys.get("network.nat", nat or "auto")})[2]
    share = f"{followed.overhead.share:.0%}".replace("%", " %")
    assert result == f"{share} (${followed.usd.mid:,.2f} in all)"
    assert followed.overhead.share < quote.overhead.share
    assert followed.usd.mid < quote.usd.mid


def test_long_job_has_low_overhead_share_and_no_finding(quote_plan):
    path, priced, quote = quote_plan(hours=40)
    assert quote.overhead.share < HIGH_SHARE
    assert list(overhead_findings(path, priced, quote, NOW, PriceOptions())) == []


def test_quote_without_lines_has_no_overhead():
    empty = overhead_of(())
    assert (empty.usd, empty.share) == (Decimal(0), 0.0)


def test_screen_shows_a_low_share_too(quote_plan):
    _, priced, quote = quote_plan(hours=200, target={"kind": "ec2"})
    assert quote.overhead.share < 0.1
    assert any(line.startswith("  not the work: $") for line in page(quote, 1, 80, priced))
