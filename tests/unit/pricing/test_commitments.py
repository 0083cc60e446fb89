"""A commitment that is not owned yet is ranked by its full cost."""

import math
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.model.units import HOURS_A_YEAR
from launcher.pricing.gate import GateRules, NewCommitment, decide
from launcher.pricing.training_candidate import TrainingCandidate
from launcher.workflow.quote.commands import CHANGES
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.portfolio import Portfolio, portfolio
from tests.unit.pricing.conftest import NOW, price_over

JOB = {"workload": {"train": {"hours": 12}}}
RESERVED = {"option": "reserved", "term_years": 3}


def reserve(priced, train=None, **purchase):
    plan = {"workload": {"train": {"hours": 12, **(train or {})}}, "purchase": {**RESERVED, **purchase}}
    return priced({**plan, "budget": {"max_usd": 500}}).quote(1)


def test_new_reservation_charges_one_run_the_whole_term(priced):
    quoted = reserve(priced)
    assert quoted.commitment_usd == quoted.price.usd * HOURS_A_YEAR * 3
    assert quoted.usd.mid > quoted.commitment_usd
    assert quoted.billed_hours == HOURS_A_YEAR * 3
    lines = {component.name: component for component in quoted.components}
    assert lines["the rest of the commitment"].usd > Decimal(600_000)
    assert sum(component.usd for component in quoted.components) == quoted.usd.mid


def test_new_commitment_is_refused_with_the_on_demand_total_and_allowed_once_owned(priced):
    quoted = reserve(priced)
    demand = priced({**JOB, "budget": {"max_usd": 500}}).quote(1)
    assert (quoted.gate.allows_launch, quoted.gate.exit_code) == (False, 5)
    assert f"${demand.usd.mid:,.2f}" in quoted.gate.reason
    assert "over the $500.00 of budget.max_usd," in quoted.gate.reason
    assert "purchase.owned: true" in quoted.gate.hint
    owned = reserve(priced, owned=True)
    assert (owned.gate.allows_launch, owned.commitment_usd) == (True, None)
    assert owned.usd.high < 500


def test_refusal_of_a_new_commitment_without_an_on_demand_price_states_the_unknown_price(priced):
    quoted = reserve(priced)
    new = NewCommitment(Decimal(600_000), None)
    rules = GateRules(today=NOW.date(), changes=CHANGES)
    gate = decide(quoted.plan, quoted.price, quoted.usd, quoted.usd_per_hour, (), rules=rules, commitment=new)
    assert gate.exit_code == 5
    assert "at a price that is not known" in gate.reason


@pytest.mark.parametrize(
    "runs, per_month, term, expected", [(1, 1, 3, 1), (24, 1, 3, 24), (100, 1, 3, 36), (100, 2, 1, 24), (5, 0.01, 1, 1)]
)
def test_runs_within_the_term_share_the_commitment(priced, runs, per_month, term, expected):
    train = {"hours": 12, "runs": runs, "runs_per_month": per_month}
    plan = {"workload": {"train": train}, "purchase": {"option": "savings-plan", "plan_kind": "compute"}}
    quoted = priced({**plan, "purchase": {**plan["purchase"], "term_years": term}}).quote(1)
    assert quoted.billed_hours == pytest.approx(HOURS_A_YEAR * term / expected)


def test_run_pays_at_least_the_own_hours_and_the_runs_hold_the_sets_needed(priced):
    plan = {"workload": {"train": {"hours": 900, "runs": 36000, "runs_per_month": 1000}}, "purchase": RESERVED}
    quoted = priced(plan).quote(1)
    used = quoted.hours.mid + 0.15 + 5 / 60
    sets = math.ceil(used * 1000 / 730)
    assert quoted.commitment_usd == quoted.price.usd * HOURS_A_YEAR * 3 * sets
    assert used <= quoted.billed_hours < used * 1.01
    (idle,) = [component for component in quoted.components if component.name == "the rest of the commitment"]
    assert idle.quantity == pytest.approx(sets * HOURS_A_YEAR * 3 / 36000 - used, rel=1e-6)


@settings(max_examples=60)
@given(
    hours=st.floats(0.1, 5_000),
    runs=st.integers(1, 100),
    per_month=st.floats(0.1, 60),
    term=st.sampled_from([1, 3]),
    option=st.sampled_from(["reserved", "savings-plan"]),
)
def test_commitment_below_break_even_never_ranks_above_on_demand(hours, runs, per_month, term, option):
    train = {"hours": hours, "runs": runs, "runs_per_month": per_month}
    priced_plan = price_over(
        {"workload": {"train": train}, "purchase": {"option": [option, "on-demand"], "term_years": term}}
    )
    rows = {
        candidate.place.option.value: candidate for candidate in priced_plan.candidates if candidate.usd is not None
    }
    if option not in rows:
        return
    tied, demand = rows[option], rows["on-demand"]
    in_term = max(1.0, min(runs, 12 * per_month * term))
    assert isinstance(demand, TrainingCandidate)
    used = demand.charge.billed_hours * in_term
    sets = math.ceil(demand.charge.billed_hours * per_month / 730 - 1e-9)
    break_even = float(tied.offer.price.usd / demand.offer.price.usd) * HOURS_A_YEAR * term * max(1, sets)
    if used < break_even * 0.999:
        assert priced_plan.candidates.index(demand) < priced_plan.candidates.index(tied)


class TestPortfolio:
    def page(self, folder: Path, *jobs: str) -> Portfolio:
        paths = []
        for number, train in enumerate(jobs):
            path = folder / f"{number}.yaml"
            path.write_text(
                f"slipway: 1\nname: job-{number}\nworkload: {{train: {train}}}\n"
                "target: {instance_type: p5.48xlarge, nodes: 1, region: us-east-1}\n"
                "purchase: {option: reserved, term_years: 3}\n",
                encoding="utf-8",
            )
            paths.append(path)
        return portfolio(paths, NOW, PriceOptions())

    def test_portfolio_month_is_the_monthly_cost_of_the_commitment(self, tmp_path):
        priced_portfolio = self.page(tmp_path, "{hours: 12}")
        (commitment,) = priced_portfolio.commitments
        assert commitment.usd_per_month == pytest.approx(Decimal("17356.48"), rel=Decimal("0.001"))
        assert priced_portfolio.usd_per_month.mid > commitment.usd_per_month

    def test_plans_within_one_commitment_pay_once(self, tmp_path):
        alone = self.page(tmp_path, "{hours: 12}").commitments[0].usd_per_month
        (both,) = self.page(tmp_path, "{hours: 12}", "{hours: 30}").commitments
        assert (both.usd_per_month, both.plans) == (alone, ("job-0", "job-1"))
        (more,) = self.page(tmp_path, "{hours: 600}", "{hours: 600}").commitments
        assert (more.usd_per_month, more.instances) == (alone * 2, 2)
