"""Service fees without a published amount: unpriced, ranked last, and refused at a launch until priced."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from launcher.model.enums import Basis, TargetKind
from launcher.model.errors import SlipwayError
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price

NOW = datetime(2026, 11, 23, tzinfo=UTC)
PLAN = """
slipway: 1
name: small
workload: {{train: {{hours: 10}}}}
target: {{kind: {kind}, region: us-east-2, instance_type: p5.48xlarge, nodes: 2}}
purchase: {{option: on-demand{more}}}
run: {{command: [python3, train.py]}}
"""
FEES = (
    "PCS controller, small",
    "PCS node management, advanced",
    "PCS node management, login node",
    "PCS accounting, small",
)
STORAGE = "PCS accounting storage, 1 GB"
OWN = '"pcs/controller": "0.6", "pcs/node": "0.1", "pcs/accounting": "0.2"'


@pytest.fixture
def quote_plan(tmp_path):
    def quote(kind="pcs", overrides="", **options):
        more = f", price_overrides: {{{overrides}}}" if overrides else ""
        path = tmp_path / "plan.yaml"
        path.write_text(PLAN.format(kind=kind, more=more))
        return price(path, NOW, PriceOptions(max_price_age=10_000, **options))

    return quote


def lines(quote):
    return {component.name: component for component in quote.components if component.name in (*FEES, STORAGE)}


def test_each_unpriced_fee_is_a_line_with_the_reason(quote_plan):
    components = lines(quote_plan().quote(1))
    assert set(components) == {*FEES, STORAGE}
    assert all(
        component.usd is None and "purchase.price_overrides pcs/" in component.unpriced
        for component in components.values()
    )


def test_launch_with_unpriced_fees_is_refused_and_the_sandbox_is_allowed(quote_plan):
    gate = quote_plan().quote(1).gate
    assert (gate.allows_launch, gate.exit_code) == (False, 4)
    assert all(key in gate.reason for key in ("pcs/controller", "pcs/node", "pcs/accounting"))
    assert "purchase.price_overrides" in gate.hint
    assert quote_plan(any_age=True).quote(1).gate.allows_launch


@pytest.mark.parametrize("left", ["pcs/controller", "pcs/node", "pcs/accounting"])
def test_one_unknown_fee_refuses_the_launch(quote_plan, left):
    overrides = ", ".join(override for override in OWN.split(", ") if left not in override)
    assert quote_plan(overrides=overrides).quote(1).gate.reason.endswith(left)


def test_the_persons_own_prices_count_by_the_hour(quote_plan):
    quote = quote_plan(overrides=OWN).quote(1)
    components, hours = lines(quote), quote.hours.mid
    assert quote.gate.allows_launch
    assert {component.basis for component in components.values()} == {Basis.USER}
    controller, nodes, login, accounting = (components[fee] for fee in FEES)
    assert controller.quantity == login.quantity == accounting.quantity >= hours
    assert nodes.quantity >= 2 * hours
    assert controller.usd == pytest.approx(Decimal("0.6") * Decimal(repr(controller.quantity)), abs=Decimal("0.001"))
    assert quote_plan(overrides=OWN.replace("0.6", "9.6")).quote(1).usd.mid > quote.usd.mid


def test_accounting_storage_is_part_of_the_accounting_price_unless_priced_separately(quote_plan):
    assert STORAGE not in lines(quote_plan(overrides=OWN).quote(1))
    split = quote_plan(overrides=f'{OWN}, "pcs/accounting-storage": "0.5"').quote(1)
    storage = lines(split)[STORAGE]
    assert split.gate.allows_launch
    assert (storage.unit, storage.unit_price_usd) == ("GB-month", Decimal("0.5"))
    assert storage.quantity * 730 == pytest.approx(lines(split)["PCS accounting, small"].quantity)
    alone = quote_plan(overrides='"pcs/accounting-storage": "0.5"').quote(1)
    assert alone.gate.exit_code == 4
    assert lines(alone)[STORAGE].usd is not None


def test_regional_override_has_precedence_over_the_global_one(quote_plan):
    here = quote_plan(overrides=f'{OWN}, "pcs/controller/us-east-2": "7", "pcs/controller/us-west-2": "8"').quote(1)
    assert lines(here)["PCS controller, small"].unit_price_usd == Decimal(7)


def test_candidate_with_an_unknown_fee_ranks_after_priced_candidates(quote_plan):
    both = quote_plan(kind="[pcs, parallelcluster]")
    assert [candidate.place.target for candidate in both.candidates] == [TargetKind.PARALLELCLUSTER, TargetKind.PCS]
    free = quote_plan(kind="[pcs, parallelcluster]", overrides=OWN)
    assert [candidate.unknown_fees for candidate in free.candidates] == [(), ()]


def test_override_key_of_no_service_is_refused(quote_plan):
    with pytest.raises(SlipwayError) as refusal:
        quote_plan(overrides='"pcs/controllers": "1"').quote(1)
    assert "pcs/controllers" in str(refusal.value.findings)
