"""`slipway compare`: the two worked cases of the guides, the rules that decide, the page and the JSON."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from html import escape
from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest
import yaml

from launcher.answers.compare import page
from launcher.answers.compare_document import document
from launcher.answers.html.compare import page as html_page
from launcher.model.enums import Availability
from launcher.model.errors import ImpossibleError
from launcher.pricing.verdict import Choice
from launcher.workflow.quote.compare import Comparison, compare
from launcher.workflow.quote.options import PriceOptions
from tests.plans import EXAMPLES, NOW

BASE: dict[str, Any] = {
    "slipway": 1,
    "name": "sft",
    "workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 2.0, "runs": 24, "port_weeks": 2}},
    "target": {"region": "us-east-2"},
}


@pytest.fixture
def compare_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Comparison]:
    """Compare a plan; `gpu` and `trainium` set what an hour on demand costs of a p5 and a trn2."""
    monkeypatch.chdir(tmp_path)

    def run(train: dict | None = None, *, gpu: float = 0, trainium: float = 0, **sections: Any) -> Comparison:
        plan = {**BASE, **sections}
        plan["workload"] = {"train": {**BASE["workload"]["train"], **(train or {})}}
        if gpu:
            overrides = {"p5.48xlarge/on-demand": gpu, "trn2.48xlarge/on-demand": trainium}
            types = ["p5.48xlarge", "trn2.48xlarge"]
            plan["target"] = {"kind": "parallelcluster", "instance_type": types, "nodes": 1, "region": "us-east-2"}
            plan["purchase"] = {"option": "on-demand", "price_overrides": overrides, **sections.get("purchase", {})}
        Path("plan.yaml").write_text(yaml.safe_dump(plan), encoding="utf-8")
        comparison = compare(Path("plan.yaml"), NOW, PriceOptions())
        assert isinstance(comparison, Comparison)
        return comparison

    return run


def saving(compared, share: float, gpu_run: float, train: dict) -> Comparison:
    """A comparison in which a run costs `gpu_run` on GPU and `share` less on Trainium."""
    probe = compared(train, gpu=100, trainium=100)
    hourly_gpu = rate(probe.gpu, gpu_run)
    hourly_trainium = rate(probe.trainium, gpu_run * (1 - share))
    comparison = compared(train, gpu=hourly_gpu, trainium=hourly_trainium)
    assert float(comparison.port.saving_per_run.mid) == pytest.approx(share * gpu_run, rel=1e-3)
    return comparison


def rate(quoted, total: float) -> float:
    """Dollars an hour at which a quote's total is `total`."""
    rest = sum(float(component.usd) for component in quoted.components if component.group != "compute")
    return (total - rest) / quoted.billed_hours / quoted.plan.place.nodes


def test_port_for_single_run_saving_40_percent_is_a_loss(compare_plan):
    comparison = saving(compare_plan, 0.4, 5000, {"runs": 1})
    assert comparison.port.usd == 10_000
    assert comparison.verdict.choice is Choice.GPU
    assert comparison.port.saving_usd < -7_000
    assert not comparison.port.pays
    assert any("the plan has 1 run" in reason for reason in comparison.verdict.reasons)


def test_port_for_monthly_runs_over_two_years_pays_back(compare_plan):
    comparison = saving(compare_plan, 0.4, 5000, {"runs": 24, "runs_per_month": 1})
    assert comparison.verdict.choice is not Choice.GPU
    assert comparison.port.break_even_run == 7
    gross = 24 * comparison.port.saving_per_run.mid
    assert gross / comparison.port.usd > 4
    assert comparison.port.saving_usd == pytest.approx(gross - comparison.port.usd - 24 * 500)


def test_break_even_has_date_and_each_path_a_completion_date(compare_plan):
    port_costs = saving(compare_plan, 0.4, 5000, {"runs": 24, "runs_per_month": 2}).port
    assert port_costs.break_even_run == 6
    assert port_costs.break_even_on == date(2027, 3, 6)
    gpu, first, meanwhile = port_costs.paths
    assert (gpu.runs_on_gpu, first.runs_on_gpu, meanwhile.runs_on_gpu) == (24, 0, 1)
    assert (first.done_on - gpu.done_on).days == 14
    assert meanwhile.done_on == gpu.done_on
    assert first.usd < meanwhile.usd < gpu.usd


@pytest.mark.long
@pytest.mark.parametrize(
    "train, plan, words",
    [
        ({"traits": ["changing-architecture"]}, {}, "architecture changes"),
        ({"traits": ["reinforcement-learning"]}, {}, "reinforcement learning"),
        ({"traits": ["portability"]}, {}, "other clouds"),
        ({"traits": ["latency-critical"]}, {}, "largest speed"),
        ({"custom_kernels": "heavy", "port_weeks": "auto"}, {}, "heavy custom"),
        ({}, {"purchase": {"deadline_h": 200}}, "deadline comes before"),
    ],
)
def test_workload_traits_decide_for_gpu_despite_cheaper_trainium(compare_plan, train, plan, words):
    assert compare_plan(gpu=1000, trainium=10).verdict.choice in {Choice.TRAINIUM, Choice.GPU_WHILE_PORTING}
    comparison = compare_plan(train, gpu=1000, trainium=10, **plan)
    assert comparison.verdict.choice is Choice.GPU
    assert words in comparison.verdict.text
    assert comparison.verdict.flips


def test_near_equal_totals_give_measure_first_verdict(compare_plan):
    comparison = saving(compare_plan, 0.4, 2400, {"runs": 24})
    assert 0.3 <= comparison.port.chance <= 0.7
    assert comparison.verdict.choice is Choice.MEASURE_FIRST
    assert comparison.verdict.text.startswith("Too close to call: measure both first.")


def test_port_to_unsupported_neuron_sdk_not_recommended(compare_plan):
    types = ["p5.48xlarge", "trn1.32xlarge"]
    target = {"kind": "parallelcluster", "instance_type": types, "nodes": 1, "region": "us-east-2"}
    own = {"p5.48xlarge/on-demand": 1000, "trn1.32xlarge/on-demand": 10}
    purchase = {"option": "on-demand", "price_overrides": own}
    comparison = compare_plan(target=target, purchase=purchase)
    assert comparison.verdict.choice is Choice.GPU
    assert "ended on 2026-05-20" in comparison.verdict.text
    assert any("--despite-verdict" in flip for flip in comparison.verdict.flips)
    despite = compare(Path("plan.yaml"), NOW, PriceOptions(despite_verdict=True))
    assert despite.verdict.choice in {Choice.TRAINIUM, Choice.GPU_WHILE_PORTING}
    assert " Support of PyTorch/XLA training on Neuron ended on 2026-05-20: " in despite.verdict.text


@pytest.mark.parametrize("runs_per_month, within", [(1, True), (24, False)])
def test_end_of_support_within_the_plans_months_is_in_verdict_page_and_json(compare_plan, runs_per_month, within):
    """24 runs last 24 months or 1 month; the support ends 80 days after the day of the comparison."""
    types = ["p4d.24xlarge", "trn1.32xlarge"]
    purchase = {"option": "on-demand", "price_overrides": {"trn1.32xlarge/on-demand": 1}}
    train = {"port_weeks": 0.5, "runs_per_month": runs_per_month}
    compare_plan(train, target={"instance_type": types, "region": "us-east-1"}, purchase=purchase)
    comparison = compare(Path("plan.yaml"), datetime(2026, 3, 1, tzinfo=UTC), PriceOptions())
    assert isinstance(comparison, Comparison)
    assert comparison.verdict.choice is not Choice.GPU
    sentence = "Support of PyTorch/XLA training on Neuron ends on 2026-05-20, in 80 days"
    for text in (
        " ".join(" ".join(page(comparison, 80)).split()),
        document(comparison)["verdict"]["text"],
        html_page(comparison),
    ):
        assert (sentence in text) is within
        assert "-226 days old" not in text


def test_verdict_names_option_and_region_of_launchable_rows(compare_plan):
    comparison = compare_plan()
    pair = comparison.decisive_pair
    assert pair.allowed
    assert f"{pair.place}: " in comparison.verdict.text
    assert {quote.gate.allows_launch for quote in (pair.gpu, pair.trainium)} == {True}


def test_verdict_from_old_spot_prices_names_price_age(compare_plan):
    comparison = compare_plan(target={"kind": "parallelcluster", "region": "us-east-2"}, purchase={"option": "spot"})
    assert "Its prices (spot) are " in comparison.verdict.text


def test_compared_pairs_have_equal_purchase_options(compare_plan):
    for pair in compare_plan().pairs:
        options = {quote.plan.place.option for quote in (pair.gpu, pair.trainium) if quote is not None}
        assert len(options) == 1


@pytest.mark.parametrize("target", [{"region": "us-east-2"}, {"region": "us-east-1"}])
def test_other_purchase_options_appear_in_flips_or_reasons(compare_plan, target):
    comparison = compare_plan(target=target)
    decisive_pair = comparison.decisive_pair
    whole = [pair for pair in comparison.pairs if pair.totals is not None and pair is not decisive_pair]
    assert whole
    for pair in whole:
        chances = [comparison.port_of(each).chance for each in (pair, decisive_pair)]
        agrees = len({(chance > 0.7) - (chance < 0.3) for chance in chances}) == 1
        where = comparison.verdict.reasons if agrees else comparison.verdict.flips
        assert any(text.startswith(f"{pair.name} on both sides: ") for text in where)


def test_port_chance_equals_share_of_joint_outcomes(compare_plan):
    comparison = compare_plan(target={"kind": "parallelcluster", "region": "us-east-2"}, purchase={"option": "spot"})
    pair = comparison.decisive_pair
    for usd, outcomes in zip(pair.totals, pair.outcomes, strict=True):
        tenth, middle, last = (quantiles(outcomes, n=10, method="inclusive")[at] for at in (0, 4, 8))
        assert [tenth, middle, last] == pytest.approx([float(end) for end in (usd.low, usd.mid, usd.high)], rel=0.06)
    wins = [trainium < gpu for gpu in pair.outcomes[0] for trainium in pair.outcomes[1]]
    assert pair.chance == pytest.approx(sum(wins) / len(wins), abs=0.01)
    each = float(comparison.port.usd / 24 + comparison.port.maintenance_usd_per_month)
    wins = [trainium + each < gpu for gpu in pair.outcomes[0] for trainium in pair.outcomes[1]]
    assert comparison.port.chance == pytest.approx(sum(wins) / len(wins), abs=0.01)


TRAINIUM_WINS = {"trn2.48xlarge/capacity-block": 1}


def test_side_without_on_demand_offer_decides_for_other_side(compare_plan):
    purchase = {"option": "on-demand", "price_overrides": TRAINIUM_WINS}
    comparison = compare_plan(target={"kind": "parallelcluster", "region": "ap-south-2"}, purchase=purchase)
    assert comparison.verdict.choice is Choice.GPU
    words = "no Trainium instance that fits the job can be had on demand in ap-south-2"
    assert comparison.verdict.text == f"Train on GPUs: {words}."
    assert comparison.verdict.reasons[0] == words
    assert "slipway capacity FILE" in comparison.verdict.flips[0]


BOTH = {"kind": "parallelcluster", "region": "us-east-2", "instance_type": ["p5.48xlarge", "trn2.48xlarge"]}


def test_blocks_to_be_bought_are_not_called_available_now(compare_plan):
    target, purchase = {"region": ["us-east-1", "us-east-2"]}, {"option": "capacity-block"}
    compare_plan({"port_weeks": None}, target=target, purchase=purchase)
    comparison = compare(Path("plan.yaml"), NOW, PriceOptions(max_price_age=3650))
    text = "\n".join(page(comparison, 80))
    assert "capacity block, to buy" in text
    assert "block, now" not in text


def test_plan_of_blocks_alone_is_not_decided_by_what_is_sold_on_demand(compare_plan):
    """The blocks of both sides have old prices: neither can be launched now, and Trainium's are the cheaper ones."""
    train = {"tokens_b": 40.0, "runs": 24, "port_weeks": 0.6}
    verdict = compare_plan(train, target=BOTH, purchase={"option": "capacity-block"}).verdict
    assert verdict.choice in {Choice.TRAINIUM, Choice.GPU_WHILE_PORTING}
    assert "Its prices (capacity block) are " in verdict.text
    with_on_demand = {"option": ["capacity-block", "on-demand"]}
    verdict = compare_plan(train, target=BOTH, purchase=with_on_demand).verdict
    assert verdict.choice is Choice.GPU
    assert "cannot be had on demand in us-east-2, and no row of it now" in verdict.text


def test_side_with_a_row_that_can_be_launched_is_not_called_unavailable(compare_plan):
    own = {"price_overrides": {"trn2.48xlarge/spot": "2"}}
    comparison = compare_plan({"tokens_b": 40.0, "runs": 24, "port_weeks": 0.6}, target=BOTH, purchase=own)
    assert comparison.decisive_pair.name == "spot"
    assert not comparison.decisive_pair.allowed
    assert comparison.verdict.choice in {Choice.TRAINIUM, Choice.GPU_WHILE_PORTING}


def test_cheaper_side_without_market_does_not_win(compare_plan):
    cheap = compare_plan(gpu=1000, trainium=10)
    assert cheap.verdict.choice in {Choice.TRAINIUM, Choice.GPU_WHILE_PORTING}
    pair = cheap.decisive_pair
    no_market = replace(pair, trainium=replace(pair.trainium, availability=Availability.NO_MARKET))
    del vars(cheap)["verdict"]
    vars(cheap)["decisive_pair"] = no_market
    assert cheap.verdict.choice is Choice.GPU
    assert "Trainium is cheaper, but the on demand price of trn2.48xlarge shows no market" in cheap.verdict.text


def test_guide_claim_appears_with_calculated_saving(compare_plan):
    (reason,) = [reason for reason in compare_plan().verdict.reasons if reason.startswith("guides put Trainium")]
    assert "30 to 50 % below GPUs; here it is " in reason
    assert " times as much an hour, for " in reason


def test_overlapping_runs_are_reported(compare_plan):
    often = compare_plan({"runs_per_month": 100}, gpu=50, trainium=20)
    assert "at 100 a month runs overlap" in " ".join(" ".join(page(often, 100, verbose=True)).split())
    assert "overlap" not in " ".join(page(compare_plan(gpu=50, trainium=20), 100, verbose=True))


def test_saving_is_reported_relative_to_gpu_cost(compare_plan):
    comparison = saving(compare_plan, 0.4, 5000, {"runs": 24})
    assert "saves $2,000.00 of the $5,000.00 on GPU" in comparison.verdict.reasons[0]


def test_auto_port_weeks_follow_custom_kernels(compare_plan):
    for kernels, weeks, usd in (("none", 0.6, 3000), ("some", 1.5, 7500), ("heavy", 8, 40_000)):
        port_costs = compare_plan({"custom_kernels": kernels, "port_weeks": "auto"}, gpu=1000, trainium=10).port
        assert (port_costs.weeks.mid, port_costs.usd) == (weeks, usd)


def test_pinned_instance_type_represents_accelerator_kind(compare_plan):
    target = {"instance_type": "p4d.24xlarge", "region": "us-east-2", "nodes": 2}
    comparison = compare_plan(target=target, purchase={"option": "on-demand"})
    assert (comparison.gpu.plan.place.instance_type, comparison.gpu.plan.place.option) == ("p4d.24xlarge", "on-demand")
    assert comparison.trainium.plan.place.instance_type.startswith("trn")
    assert {candidate.place.instance_type for candidate in comparison.priced.candidates} > {
        "p4d.24xlarge",
        "trn2.48xlarge",
    }


def test_pinned_type_without_a_price_leaves_its_side_to_a_priced_type(compare_plan):
    target = {"kind": "hyperpod-slurm", "region": "us-east-2", "instance_type": "trn2.48xlarge", "nodes": 4}
    compared = compare_plan({}, target=target, purchase={"option": "on-demand"})
    assert all(candidate.usd is None for candidate in compared.pinned.candidates)
    assert compared.decisive_pair is not None
    assert compared.decisive_pair.trainium.plan.place.instance_type != "trn2.48xlarge"
    assert not [reason for reason in compared.verdict.reasons if "no Trainium instance" in reason]


def test_rows_of_other_options_keep_the_types_and_nodes_of_the_plan(compare_plan):
    """Otherwise a plan of two nodes on reservations is compared with one node on demand, in twice the time."""
    target = {"instance_type": ["p4d.24xlarge", "trn1.32xlarge"], "region": "us-east-1", "nodes": 2}
    comparison = compare_plan(target=target, purchase={"option": "reserved"})
    pairs = {pair.name: pair for pair in comparison.pairs}
    assert {"reserved", "on demand"} <= set(pairs)
    for pair in (pairs["reserved"], pairs["on demand"]):
        assert (pair.gpu.plan.place.instance_type, pair.gpu.plan.place.nodes) == ("p4d.24xlarge", 2)
        assert (pair.trainium.plan.place.instance_type, pair.trainium.plan.place.nodes) == ("trn1.32xlarge", 2)


def test_hint_of_a_row_outside_the_plan_names_no_candidate_that_the_plan_cannot_pick(compare_plan):
    comparison = compare_plan(target={"instance_type": "p4d.24xlarge", "nodes": 2})
    opened = [row.gate.hint for row in comparison.priced.rows if not row.gate.allows_launch]
    assert comparison.priced.cheapest_allowed is not None
    assert opened
    assert not [hint for hint in opened if "--pick" in hint]
    written = [row.gate.hint for row in comparison.pinned.rows if not row.gate.allows_launch]
    assert [hint for hint in written if "--pick" in hint]


def test_reserved_term_compared_only_when_plan_requests_reserved(compare_plan):
    comparison = compare_plan()
    assert comparison.gpu.plan.place.term_years is None
    assert comparison.trainium.plan.place.term_years is None
    assert compare_plan(purchase={"option": "reserved", "term_years": 3}).trainium.plan.place.option == "reserved"


def test_plan_in_hours_compares_purchase_options_without_port(compare_plan):
    target = {"instance_type": "p5.48xlarge", "nodes": 1, "region": "us-east-2"}
    comparison = compare_plan({"tokens_b": None, "hours": 5}, target=target)
    assert comparison.port is None
    assert "give tokens_b" in comparison.verdict.text
    assert {candidate.place.instance_type for candidate in comparison.priced.candidates} == {"p5.48xlarge"}
    assert len({candidate.place.option for candidate in comparison.priced.candidates}) >= 4


def test_comparison_of_infeasible_plan_refused(compare_plan):
    with pytest.raises(ImpossibleError):
        compare_plan({"model": "llama-3.1-405b"}, target={"instance_type": "p5.48xlarge", "nodes": 1})


@pytest.mark.parametrize("width", [80, 120])
def test_page_equals_golden(compare_plan, golden, width):
    lines = page(compare_plan({"port_weeks": "auto"}), width)
    assert max(len(line) for line in lines) <= width
    assert len(lines) - 1 <= 15
    golden(f"plan/compare-{width}.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("tokens", ["tokens_b: 300", "tokens_b: 3000", "tokens_b: 0.001"])
def test_page_of_any_total_fits_80_columns(slipway, tmp_path, monkeypatch, tokens):
    monkeypatch.setenv("COLUMNS", "80")
    plan = tmp_path / "p.yaml"
    text = "slipway: 1\nname: x\nworkload: {train: {model: llama-3.1-70b, method: pretrain, %s}}\n"
    plan.write_text(text % tokens + "target: {region: [us-east-1, us-east-2]}\n", encoding="utf-8")
    _, out, _ = slipway("compare", str(plan), "--prices-as-of", "2026-11-20")
    assert "Trainium" in out
    assert max(map(len, out.splitlines())) <= 80
    assert len(out.strip().splitlines()) <= 13  # an empty line and the next command follow, on stderr


@pytest.mark.parametrize(
    "example", ["p5-spot.yaml", "ec2/lora-g6e.yaml", "hyperpod/trn2-on-demand.yaml", "serve/llama31-8b.yaml"]
)
def test_first_screen_of_examples_has_at_most_15_lines(slipway, monkeypatch, example):
    monkeypatch.setenv("COLUMNS", "80")
    ended = slipway("compare", str(EXAMPLES / example), "--prices-as-of", "2026-11-20")
    assert len(ended.out.strip().splitlines()) + len(ended.err.rstrip().splitlines()) <= 15


def test_json_has_schema_ranked_options_and_break_even(compare_plan, slipway):
    comparison = compare_plan()
    ended = slipway("compare", "plan.yaml", "--json")
    shown = json.loads(ended.out)
    assert ended.code == 0
    assert shown["schema"] == "slipway.compare/1"
    assert set(shown) >= {"schema", "name", "as_of", "verdict", "options", "break_even"}
    assert set(shown["verdict"]) == {"choice", "text", "reasons", "flips"}
    assert [option["rank"] for option in shown["options"]] == list(range(1, len(comparison.priced.candidates) + 1))
    assert shown["break_even"]["runs"] == 24
    assert [path["name"] for path in shown["break_even"]["paths"]] == ["gpu", "port-first", "gpu-while-porting"]
    vars(comparison)["port"] = None
    assert document(comparison)["break_even"] is None


def test_flips_of_a_dearer_trainium_name_the_price_and_no_number_of_runs(compare_plan):
    flips = compare_plan({"runs": 1}, gpu=10, trainium=1000).verdict.flips
    assert not [flip for flip in flips if "more runs" in flip]
    assert flips[0].startswith("a GPU run of $")


@pytest.mark.parametrize("train", [{"runs": 1}, {"runs": 6, "runs_per_month": 2}, {"runs": 1, "port_weeks": 0.5}])
def test_named_price_of_a_gpu_run_flips_the_verdict_and_half_of_it_does_not(compare_plan, train):
    comparison = compare_plan(train, gpu=10, trainium=20)
    named = re.match(r"a GPU run of \$([\d,]+) ", comparison.verdict.flips[0])
    assert named is not None, comparison.verdict.flips
    price = float(named[1].replace(",", ""))
    for share, kept in ((0.5, True), (1.05, False)):
        again = compare_plan(train, gpu=rate(comparison.gpu, share * price), trainium=20)
        assert (again.verdict.choice is Choice.GPU) == kept, (share, again.verdict)


def test_flips_of_a_hard_rule_beside_a_dearer_trainium_name_both(compare_plan):
    flips = compare_plan({"traits": ["portability"]}, gpu=10, trainium=1000).verdict.flips
    assert flips[0].startswith("a GPU run of $")
    assert flips[0].endswith("(drop portability from the traits)")


@pytest.mark.parametrize(
    "change", [{"traits": ["changing-architecture"]}, {"custom_kernels": "heavy", "port_weeks": None}]
)
def test_change_that_a_verdict_for_trainium_names_leads_to_gpus(compare_plan, change):
    verdict = compare_plan(gpu=1000, trainium=10).verdict
    assert verdict.choice is Choice.TRAINIUM
    assert "traits: [changing-architecture], or custom_kernels: heavy without port_weeks" in verdict.flips
    assert compare_plan(change, gpu=1000, trainium=10).verdict.choice is Choice.GPU


@pytest.mark.parametrize("change", [{"custom_kernels": "some"}, {"custom_kernels": "heavy", "port_weeks": 8}])
def test_change_that_a_verdict_by_heavy_kernels_names_leads_to_trainium(compare_plan, change):
    heavy = {"custom_kernels": "heavy", "port_weeks": None}
    verdict = compare_plan(heavy, gpu=1000, trainium=10).verdict
    assert verdict.choice is Choice.GPU
    assert "(custom_kernels: some), or port_weeks says what the port takes" in verdict.flips[0]
    assert compare_plan({**heavy, **change}, gpu=1000, trainium=10).verdict.choice is Choice.TRAINIUM


def test_end_of_a_beta_is_a_reason_because_no_verdict_depends_on_it(compare_plan):
    verdict = compare_plan(gpu=1000, trainium=10).verdict
    assert any(reason.endswith("; until TorchNeuron leaves beta") for reason in verdict.reasons)
    assert not any("beta" in flip for flip in verdict.flips)


def test_flips_of_a_hard_rule_beside_a_cheaper_trainium_name_the_rule_alone(compare_plan):
    flips = compare_plan({"traits": ["portability"]}, gpu=1000, trainium=10).verdict.flips
    assert flips[0] == "AWS alone is enough (drop portability from the traits)"


IDLE = {"run": {"command": ["python", "train.py"]}}


@pytest.mark.parametrize("width", [80, 120])
def test_comparison_warns_of_chips_that_the_command_leaves_idle(compare_plan, width):
    Path("train.py").write_text("import torch\n", encoding="utf-8")
    comparison = compare_plan(gpu=100, trainium=50, **IDLE)
    idle = [finding for finding in comparison.findings if finding.code == "chips-idle"]
    chips = ("of 8 GPUs are idle", "of 64 NeuronCores are idle")
    assert [chip in finding.message for chip, finding in zip(chips, idle, strict=True)] == [True, True]
    screen = " ".join(" ".join(page(comparison, width)).split())
    assert idle[0].message in screen
    assert idle[1].message not in screen
    whole = " ".join(" ".join(page(comparison, width, verbose=True)).split())
    assert all(finding.message in whole for finding in idle)
    assert [found["message"] for found in document(comparison)["findings"] if found["code"] == "chips-idle"] == [
        finding.message for finding in idle
    ]
    assert all(escape(finding.message) in html_page(comparison) for finding in idle)


def test_comparison_of_a_command_that_uses_all_chips_warns_of_none(compare_plan):
    Path("train.py").write_text("import torch\n", encoding="utf-8")
    comparison = compare_plan(gpu=100, trainium=50, run={"command": ["torchrun", "--nproc-per-node=auto", "train.py"]})
    assert not [finding for finding in comparison.findings if finding.code == "chips-idle"]


def test_side_that_is_cheaper_and_refused_is_not_called_outside_an_open_plan(compare_plan):
    """Spot is cheaper at a price that is too old; the plan leaves the purchase option open."""
    text = "\n".join(page(compare_plan(), 120, verbose=True))
    assert "Cheaper, but refused now: " in text
    assert "Outside the plan" not in text


@pytest.mark.parametrize("width, title", [(80, "managed, quota"), (120, "managed spot, beyond a quota")])
def test_options_whose_jobs_a_quota_stops_are_not_called_refused(compare_plan, width, title):
    train = {"model": "llama-3.1-70b", "method": "pretrain", "tokens_b": 3000, "runs": 1}
    comparison = compare_plan(train, target={"region": ["us-east-1", "us-east-2"]})
    assert comparison.decisive_pair.name == "on demand"
    lines = page(comparison, width)
    assert any(line.strip().startswith(title) for line in lines)
    assert max(map(len, lines)) <= width


def test_verdict_names_the_side_whose_launch_is_refused(slipway, monkeypatch):
    """LoRA on Trainium may cost more than the plan's budget: its published run took 10 to 21 times as long."""
    monkeypatch.setenv("COLUMNS", "120")
    out = slipway("compare", str(EXAMPLES / "ec2/lora-g6e.yaml"), "--prices-as-of", "2026-11-20").out
    assert "A launch of the Trainium row would be refused." in " ".join(out.split())


def test_row_of_prices_of_different_ages_has_both_ages(compare_plan):
    """The p5en's spot price is of 2026-08-06, the trn2's of 2026-10-04."""
    types = ["p5en.48xlarge", "trn2.48xlarge"]
    target = {"kind": "parallelcluster", "instance_type": types, "nodes": 1, "region": "us-east-2"}
    comparison = compare_plan(target=target, purchase={"option": "spot"})
    (line,) = [line for line in page(comparison, 120) if line.startswith("    spot, ")]
    ages = {(NOW.date() - side.price.as_of).days for side in (comparison.gpu, comparison.trainium)}
    assert len(ages) == 2
    assert line.startswith(f"    spot, {min(ages)} to {max(ages)} days old ")
