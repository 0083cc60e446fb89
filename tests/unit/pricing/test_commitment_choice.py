"""Which commitment to buy: the closed form against brute force, the guides' floor, and refused commitments."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.answers.commit import document, page
from launcher.catalog.load import load
from launcher.model.enums import Basis
from launcher.model.units import HOURS_A_YEAR
from launcher.pricing.commitment_choice import demand
from launcher.pricing.held_commitments import other_usd, used_hours
from launcher.workflow.quote.commit import commit
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.portfolio import portfolio
from tests.checks import some

NOW = datetime(2026, 11, 22, tzinfo=UTC)
LOADS = st.lists(st.tuples(st.floats(0.5, 200), st.floats(0.01, 1.0)), min_size=1, max_size=5)
TRAINING = (
    "slipway: 1\nname: NAME\n"
    "workload: {train: {model: llama-3.1-8b, tokens_b: 2.0, runs: 3650, runs_per_month: RUNS}}\n"
    "target: {kind: parallelcluster, instance_type: p5.48xlarge, nodes: 1, region: us-east-1}\n"
    "purchase: {option: OPTION}\n"
)


def brute(loads, level):
    """The mean of what of a level is used, by every combination of the loads."""
    total = 0.0
    for on in product((True, False), repeat=len(loads)):
        share, value = 1.0, 0.0
        for running, (usd, part) in zip(on, loads, strict=True):
            share *= part if running else 1 - part
            value += usd if running else 0.0
        total += share * min(value, level)
    return total


class TestDemand:
    @given(LOADS, st.floats(0, 500))
    def test_used_share_of_a_level_equals_the_sum_over_all_combinations(self, loads, level):
        assert demand(loads).mean_used(level) == pytest.approx(brute(loads, level), rel=1e-6, abs=1e-6)

    @given(LOADS, st.floats(0.2, 0.9))
    def test_no_other_level_saves_more_than_the_quantile(self, loads, ratio):
        curve = demand(loads)
        best = curve.mean_used(curve.best(ratio)) - ratio * curve.best(ratio)
        for value in some(curve.shares):
            assert curve.mean_used(value) - ratio * value <= best + 1e-6

    @given(LOADS)
    def test_demand_has_the_mean_and_the_floor_of_the_loads(self, loads):
        curve = demand(loads)
        assert curve.mean == pytest.approx(sum(usd * share for usd, share in loads), rel=1e-6)
        assert curve.floor == pytest.approx(sum(usd for usd, share in loads if share == 1.0), abs=1e-6)

    def test_many_plans_are_joined_without_promising_more(self):
        loads = [(1.0 + index / 97, 0.5) for index in range(40)]
        curve = demand(loads)
        assert len(curve.shares) <= 8_100
        assert curve.mean <= sum(usd * share for usd, share in loads)
        assert curve.mean == pytest.approx(sum(usd * share for usd, share in loads), rel=0.05)


@pytest.fixture
def choose(tmp_path):
    def make(*plans, accept_derived=False):
        paths = []
        for index, (runs, option) in enumerate(plans):
            path = tmp_path / f"plan{index}.yaml"
            text = TRAINING.replace("NAME", f"job{index}").replace("RUNS", str(runs)).replace("OPTION", option)
            path.write_text(text, encoding="utf-8")
            paths.append(path)
        return commit(paths, NOW, PriceOptions(any_age=True), accept_derived=accept_derived)

    return make


def test_constant_load_is_committed_at_three_quarters_of_the_floor(choose):
    commitment = choose((200, "on-demand"), accept_derived=True)
    rate = load().on_demand("p5.48xlarge", "us-east-1").usd
    assert commitment.floor_usd_per_hour == rate * 3, "200 runs a month of about 11 hours keep three sets of nodes busy"
    assert commitment.choice.level == "floor"
    assert commitment.choice.covers_usd_per_hour == (rate * 3 * Decimal("0.75")).quantize(Decimal("0.001"))
    assert commitment.choice.utilisation == pytest.approx(1.0)
    assert commitment.choice.saving_usd > 0
    assert all(
        option.saving_usd <= commitment.choice.saving_usd for option in commitment.options if option.level == "floor"
    )


def test_occasional_load_is_not_committed(choose):
    commitment = choose((4, "on-demand"))
    assert commitment.floor_usd_per_hour == 0
    assert commitment.choice is None
    assert "Commit to nothing" in "\n".join(page(commitment, 100, everything=False))


def test_term_longer_than_the_runs_is_paid_to_the_end(tmp_path):
    """24 runs of 700 hours, one a month: of three years one goes by unused."""
    plan = TRAINING.replace("tokens_b: 2.0, runs: 3650", "hours: 700, runs: 24").replace("RUNS", "1")
    path = tmp_path / "plan.yaml"
    path.write_text(plan.replace("NAME", "job").replace("OPTION", "on-demand"), encoding="utf-8")
    commitment = commit([path], NOW, PriceOptions(any_age=True))
    (load_,) = commitment.loads
    assert load_.months == 24
    hours = load_.share * HOURS_A_YEAR * 2
    for option in commitment.options:
        used = hours * option.term_years / 2 if option.term_years == 1 else hours
        on_demand = float(load_.usd_per_hour) * used
        assert float(option.saving_usd) == pytest.approx(on_demand - float(option.commitment_usd), rel=0.01)


def test_spot_is_left_out_with_the_reason(choose):
    commitment = choose((200, "spot"))
    assert commitment.options == ()
    assert commitment.left_out == (("job0", "its best option is spot, which no commitment covers"),)


def test_reservations_come_in_whole_instances(choose):
    rate = load().on_demand("p5.48xlarge", "us-east-1").usd
    commitment = choose((200, "on-demand"), (200, "on-demand"))
    reserved = [option for option in commitment.options if option.instrument == "reserved"]
    assert reserved
    assert all(option.covers_usd_per_hour % rate == 0 for option in reserved)


def test_commitment_page_shows_the_stranding_price_cut_and_the_marginal_value(choose):
    commitment = choose((200, "on-demand"), accept_derived=True)
    text = "\n".join(page(commitment, 120, everything=True))
    assert "price cut of" in text
    assert "one more dollar an hour" in text
    values = [marginal.value for marginal in commitment.choice.marginal]
    assert values == sorted(values, reverse=True)
    assert "aws " in commitment.choice.command


def test_derived_rates_give_no_choice_unless_accepted(choose):
    commitment = choose((200, "on-demand"))
    assert commitment.choice is None
    assert commitment.derived_choice.basis is Basis.DERIVED
    assert "Commit to nothing yet" in "\n".join(page(commitment, 80, everything=False))
    assert [finding.code for finding in commitment.findings if finding.code == "derived-rate"]
    assert choose((200, "on-demand"), accept_derived=True).choice == commitment.derived_choice


def test_rate_past_the_allowed_age_is_a_warning(choose, tmp_path):
    commitment = choose((200, "on-demand"))
    path = tmp_path / "plan0.yaml"
    strict = commit([path], NOW, PriceOptions(any_age=True, max_price_age=1))
    assert "old-price" in [finding.code for finding in strict.findings]
    oldest = max((NOW.date() - option.as_of).days for option in commitment.options)
    patient = commit([path], NOW, PriceOptions(any_age=True, max_price_age=oldest))
    assert "old-price" not in [finding.code for finding in patient.findings]


@pytest.mark.parametrize("hours, nodes, runs_per_month", [(70, 4, 100), (2, 1, 1), (729, 2, 1), (30, 3, 24.5)])
def test_quote_portfolio_and_commit_say_the_same_dollars(tmp_path, hours, nodes, runs_per_month):
    """The same fleet in all of them: whole sets of the job's nodes for its billed hours a month."""
    path = tmp_path / "plan.yaml"

    def bought(option):
        path.write_text(
            "slipway: 1\nname: fleet\n"
            f"workload: {{train: {{hours: {hours}, runs: 5000, runs_per_month: {runs_per_month}}}}}\n"
            f"target: {{kind: parallelcluster, instance_type: p4d.24xlarge, nodes: {nodes}, region: us-east-1}}\n"
            f"purchase: {{option: {option}, term_years: 3}}\n",
            encoding="utf-8",
        )
        return portfolio([path], NOW, PriceOptions(any_age=True))

    committed = bought("reserved")
    quoted = committed.members[0].choice
    (commitment,) = committed.commitments
    assert float(quoted.commitment_usd) == pytest.approx(float(commitment.usd_per_month) * 36, rel=1e-9)
    assert float(quoted.cash_usd) == pytest.approx(float(quoted.commitment_usd + other_usd(quoted)), rel=1e-9)
    compute = sum(line.usd for line in quoted.components if line.group == "compute")
    assert float(compute) * min(5000, 36 * runs_per_month) == pytest.approx(float(quoted.commitment_usd), rel=1e-6)
    sets = commitment.instances / nodes
    assert sets == math.ceil(used_hours(quoted) / nodes * runs_per_month / 730 - 1e-9)
    on_demand = bought("on-demand")
    run_usd = sum(line.usd for line in on_demand.members[0].choice.components if line.group == "compute")
    monthly = run_usd * on_demand.members[0].times_a_month
    demand_ = commit([path], NOW, PriceOptions(any_age=True))
    assert float(demand_.mean_usd_per_hour) * 730 == pytest.approx(float(monthly), rel=1e-6)


def test_the_document_has_the_keys_of_the_contract(choose):
    json_document = document(choose((200, "on-demand")))
    keys = {"instrument", "term_years", "payment", "usd_per_hour", "commitment_usd", "saving_usd", "utilisation"}
    assert json_document["schema"] == "slipway.commit/1"
    assert set(json_document["demand"]) == {"floor_usd_per_hour", "mean_usd_per_hour"}
    keys |= {"break_even", "risks", "command", "source", "basis", "as_of"}
    assert json_document["options"]
    assert all(keys <= set(option) for option in json_document["options"])
