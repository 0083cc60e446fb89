"""`slipway plan` and `slipway quote`: the page and the JSON."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.answers import explain, words
from launcher.answers.plan import page
from launcher.answers.plan_document import document
from launcher.answers.plan_screen import first_groups, more_rows, shown_ranks
from launcher.answers.quote import page as quote_page
from launcher.answers.quote_brief import page as brief_page
from launcher.answers.quote_screen import page as quote_screen_page
from launcher.model.units import duration_text
from launcher.pricing import priced
from launcher.pricing.priced import Priced
from launcher.pricing.standing import Standing
from launcher.records.quote_document import quote_document
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.plans import NOW

MONEY = re.compile(r"-?\d+(\.\d+)?")
ROW = re.compile(r" +[0-9a-f]{6,} +\d+ ?×")

OPEN = """
slipway: 1
name: llama31-8b-sft
workload:
  train: {model: llama-3.1-8b, method: full, tokens_b: 2.0, sequence_length: 8192, runs: 24}
"""
SOME = (
    OPEN
    + """
target:
  instance_type: [p5.48xlarge, p5e.48xlarge, p4d.24xlarge, trn1.32xlarge, trn2.48xlarge]
  region: [us-east-1, us-east-2, us-west-2]
"""
)
HOURS = """
slipway: 1
name: fixed-hours
workload: {train: {model: llama-3.1-8b, hours: 12}}
target: {kind: parallelcluster, instance_type: p5.48xlarge, nodes: 2, region: [us-east-1, us-west-2]}
purchase: {credits: [{pool: poc, usd: 300, expires: 2026-12-31T00:00:00Z}]}
budget: {max_usd: 1500}
"""
WITH_UNPRICED = """
slipway: 1
name: two-types
workload: {train: {model: llama-3.1-8b, tokens_b: 1}}
target: {kind: parallelcluster, instance_type: [p5.48xlarge, trn2.48xlarge], nodes: 1, region: us-east-2}
purchase: {option: on-demand}
"""
CANDIDATE = {
    *("rank", "digest", "target", "instance_type", "accelerator", "accelerators", "nodes", "region", "az_id"),
    *("purchase_option", "plan_kind", "term_years", "payment", "usd_per_hour", "hours", "billed_hours", "usd"),
    *("commitment_usd", "incomplete", "unpriced", "price", "training", "spot", "serving", "gate", "findings"),
}
PRICED: dict[tuple[object, ...], Priced] = {}
"""The plans of this module by text, trainer and options, each priced once: a priced plan never changes."""
QUOTE = CANDIDATE | {"schema", "components", "assumptions", "policies", "cash_after_credits_usd", "expires_at"}


@pytest.fixture
def price_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Priced]:
    """Price a plan's text from a folder of its own."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("", encoding="utf-8")

    def priced(text: str, **options: object) -> Priced:
        Path("plan.yaml").write_text(text, encoding="utf-8")
        key = (text, Path("train.py").exists(), *options.items())
        if key not in PRICED:
            PRICED[key] = price(Path("plan.yaml"), NOW, PriceOptions(**options))
        return PRICED[key]

    return priced


@pytest.mark.parametrize("width", [80, 120])
def test_plan_page_equals_golden(price_text, golden, width):
    golden(f"plan/table-{width}.txt", "\n".join(page(price_text(SOME), width, everything=False)) + "\n")


@pytest.mark.parametrize("width", [80, 120])
def test_quote_page_equals_golden(price_text, golden, width):
    priced_plan = price_text(HOURS)
    golden(f"plan/quote-{width}.txt", "\n".join(quote_page(priced_plan.quote(1), 1, width, priced_plan)) + "\n")


@pytest.mark.parametrize("option,good", [("on-demand", True), ("spot", False)])
def test_quote_shows_good_until_only_when_gate_allows(*, price_text, option, good):
    priced_plan = price_text(HOURS.replace("{credits", f"{{option: {option}, credits").replace("1500", "90000"))
    quoted = priced_plan.quote(1)
    assert quoted.gate.exit_code == (0 if good else 4)
    assert ("good until" in "\n".join(quote_page(quoted, 1, 100, priced_plan))) == good


def test_explained_quote_of_spot_has_the_total_of_the_worst_published_trace(price_text):
    for option, has_stress in (("spot", True), ("on-demand", False)):
        priced_plan = price_text(HOURS.replace("{credits", f"{{option: {option}, credits"))
        quoted = priced_plan.quote(1)
        stress = quoted.range_causes.stress
        shown = "\n".join(quote_page(quoted, 1, 120, priced_plan, explained=True))
        assert (stress is not None) is has_stress
        assert ("worst published trace" in shown) is has_stress
        assert stress is None or f"worst published trace: ${words.dollars(stress.usd)}" in shown


def test_explanation_of_row_equals_golden(price_text, golden):
    golden("plan/explain-100.txt", "\n".join(explain.page(price_text(HOURS), 1, 100)) + "\n")


def test_plan_json_equals_golden(price_text, golden):
    golden("plan/plan.json", json.dumps(document(price_text(HOURS)), indent=2, ensure_ascii=False) + "\n")


def test_quote_json_equals_golden(price_text, golden):
    priced_plan = price_text(HOURS)
    quoted = quote_document(priced_plan.quote(1), 1, priced_plan.catalog.instance_types)
    golden("plan/quote.json", json.dumps(quoted, indent=2, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("width", [80, 100, 160])
def test_commitment_and_block_remainders_reported_at_every_width(price_text, width):
    text = " ".join("\n".join(page(price_text(SOME), width, everything=False, verbose=True)).split())
    assert "Term commitments cost $" in text
    assert re.search(r"billed \d+ h at least; \d+ h unused; \d+% risk of overrun", text)


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("text", [OPEN, SOME, HOURS])
def test_page_at_any_width_has_no_wider_line_and_no_cut_number(price_text, text, width):
    priced_plan = price_text(text)
    lines = page(priced_plan, width, everything=False)
    assert max(len(line) for line in lines) <= width
    rows = [line for line in lines if ROW.match(line)]
    assert 1 <= len(rows) <= 12
    ids = {priced_plan.short_id(rank): rank for rank in range(1, len(priced_plan.candidates) + 1)}
    for line in rows:
        usd = priced_plan.quote(ids[line.split()[0]]).usd
        shown = f"{usd.mid:,.0f}" if usd.mid >= 100 else f"{usd.mid:,.2f}"
        assert shown in line


LONG = Path("a-folder-of-a-team-with-a-long-name/experiments-of-this-quarter/llama-3.1-8b-instruct.yaml")


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("text", [OPEN, SOME, HOURS])
@pytest.mark.parametrize("refused", [False, True])
def test_first_screen_has_at_most_15_lines(price_text, text, refused, width):
    if refused:
        Path("train.py").unlink()
    lines = page(price_text(text), width, everything=False)[1:]
    assert len(lines) <= 15
    assert any(ROW.match(line) for line in lines)


@pytest.mark.parametrize("text", [OPEN, SOME, SOME + "run: {command: [python, missing.py]}\n"])
def test_first_screen_of_long_path_has_at_most_15_lines_of_a_terminal(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    LONG.parent.mkdir(parents=True)
    LONG.write_text(text, encoding="utf-8")
    lines = page(price(LONG, NOW, PriceOptions()), 80, everything=False)[1:]
    assert sum(-(-max(1, len(line)) // 80) for line in lines) <= 15
    assert sum(bool(ROW.match(line)) for line in lines) >= 2


def test_note_before_limit_stays_where_warning_needs_room(price_text):
    Path("train.py").unlink()
    shown = "\n".join(page(price_text(OPEN), 80, everything=False))
    assert "warning: run.command: train.py is not in" in shown
    assert "%" in shown
    assert "No spending limit" not in shown


def test_zone_without_the_type_is_on_the_first_screens(price_text, slipway):
    """No instance starts there, so it is no note to count."""
    pinned = HOURS.replace("region: [us-east-1, us-west-2]", "region: us-east-1, az_id: use1-az1")
    planned = price_text(pinned.replace("p5.48xlarge", "p5en.48xlarge"))
    for text in ("\n".join(page(planned, 80, everything=False)), slipway("quote", "plan.yaml").out):
        assert "the catalog knows p5en.48xlarge in use1-az2, use1-az6, not in use1-az1" in " ".join(text.split())


@pytest.mark.parametrize("text", [OPEN, SOME])
def test_allowed_rows_come_first_sorted_by_price(price_text, text):
    candidates = document(price_text(text))["candidates"]
    allowed = [float(row["usd"]["mid"]) for row in candidates if row["gate"]["verdict"] == "allow"]
    assert candidates[0]["gate"]["verdict"] == "allow"
    assert allowed == sorted(allowed)
    assert [row["gate"]["verdict"] for row in candidates[: len(allowed)]] == ["allow"] * len(allowed)
    codes = [row["gate"]["exit_code"] for row in candidates if row["usd"] is not None]
    assert len([code for code, before in zip(codes[1:], codes, strict=False) if code != before]) < 5


@pytest.mark.parametrize("width", [80, 120])
def test_heading_of_refused_job_does_not_say_launchable(price_text, width):
    assert "  can be launched now " in "\n".join(page(price_text(SOME), width, everything=False))
    Path("train.py").unlink()
    shown = "\n".join(page(price_text(SOME), width, everything=False))
    assert "can be launched now" not in shown
    assert "can be launched once the warning is mended" in shown
    assert "warning: run.command: train.py is not in" in shown


ONE = """
slipway: 1
name: one
workload: {train: {model: llama-3.1-70b, method: lora, tokens_b: 0.1}}
target: {kind: ec2, instance_type: p5.48xlarge, nodes: 1, region: us-east-1}
purchase: {option: on-demand}
"""


LARGE_DATA = """
slipway: 1
name: data
workload: {train: {model: llama-3.1-8b, method: lora, tokens_b: 0.05}}
target: {kind: ec2, instance_type: g6e.xlarge, nodes: 1, region: us-east-1}
run: {data: [{uri: "s3://own-data/x/", path: /scratch/x, gib: 5000}]}
"""


@pytest.mark.parametrize("width", [80, 120])
def test_screen_of_refused_rows_alone_names_what_allows_them(price_text, width):
    lines = page(price_text(LARGE_DATA), width, everything=False)[1:]
    text = " ".join(" ".join(lines).split())
    assert "has 203 GiB free (read less data, set shard: true, stream it from S3 in the command, or use a type" in text
    assert len(lines) <= 15


@pytest.mark.parametrize("width", [80, 120])
def test_screen_of_one_row_shows_its_range_and_the_narrowing_action(price_text, width):
    priced_plan = price_text(ONE)
    quoted = priced_plan.quote(1)
    assert len(priced_plan.candidates) == 1
    shown = " ".join(" ".join(page(priced_plan, width, everything=False)).split())
    low, high = (words.dollars(usd) for usd in (quoted.usd.low, quoted.usd.high))
    assert f"{priced_plan.short_id(1)}: ${low} to ${high} by speed 100 %; workload.train.stack: huggingface" in shown


@pytest.mark.parametrize("explained, verbose", [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("trainer", [False, True])
def test_every_screen_of_a_quote_shows_the_same_launch_decision(price_text, trainer, explained, verbose):
    if not trainer:
        Path("train.py").unlink()
    priced_plan = price_text(ONE)
    lines = quote_page(priced_plan.quote(1), 1, 100, priced_plan, explained=explained, verbose=verbose)
    said = next(line for line in lines if re.match(r" +(Launch|gate:) ", line))
    assert ("allowed" in said) == trainer
    assert ("refused" in said and "train.py is not in this folder" in said) == (not trainer)


def test_refused_rows_on_first_screen_are_cheaper_than_first_allowed_row(price_text):
    priced_plan = price_text(OPEN)
    allowed, refused = shown_ranks(priced_plan)
    assert allowed[0] == 1
    assert refused
    assert all(priced_plan.candidates[rank - 1].usd < priced_plan.candidates[0].usd for rank in refused)


@pytest.mark.parametrize("width", [80, 100])
def test_rows_of_one_type_and_option_name_their_targets_at_every_width(price_text, width):
    target = "target: {kind: [ec2, eks], region: eu-west-1, instance_type: p4d.24xlarge, nodes: 1}\n"
    shown = [line for line in page(price_text(OPEN + target), width, everything=False) if ROW.match(line)]
    without_numbers = [re.sub(r"[~$]+[\d,.]+(/h)?|\d+\.\d h", "", line[10:]) for line in shown]
    assert len(set(without_numbers)) == len(shown) > 1


def test_wide_screen_of_several_targets_has_the_first_step_beside_the_hours(price_text):
    """HyperPod checks its nodes for an hour before the first step: the hours of the job alone are the same."""
    target = "target: {kind: [hyperpod-slurm, ec2], region: us-east-1, instance_type: p5.48xlarge, nodes: 1}\n"
    priced_plan = price_text(OPEN + target + "purchase: {option: on-demand}\n")
    for width in (80, 120):
        lines = page(priced_plan, width, everything=False)
        rows = {line.split()[0]: line for line in lines if ROW.match(line)}
        assert ("1st step" in " ".join(lines)) is (width == 120)
        for rank in (1, 2):
            quoted = priced_plan.row(rank)
            step = duration_text((quoted.hours_to_first_step or 0) * 3600)
            assert (f" {step} " in rows[priced_plan.short_id(rank)]) is (width == 120)
            assert (quoted.plan.place.target.value in rows[priced_plan.short_id(rank)]) is (width == 120)
    assert priced_plan.row(2).hours_to_first_step > priced_plan.row(1).hours_to_first_step + 0.9


@pytest.mark.parametrize("nodes", [2, 4])
def test_row_without_fees_comes_before_commitment_that_is_not_owned(price_text, nodes):
    """PCS has fees without a price; a commitment of years for a job of hours is no nearer to a launch."""
    target = f"target: {{kind: pcs, instance_type: p5.48xlarge, nodes: {nodes}}}\n"
    options = [candidate.place.option for candidate in price_text(OPEN + target).candidates]
    committed = [rank for rank, option in enumerate(options) if option in ("savings-plan", "reserved")]
    assert options[0] in ("spot", "on-demand", "capacity-block")
    assert committed == list(range(min(committed), len(options)))


def test_row_id_with_all_or_region_is_unchanged(price_text, slipway):
    first = price_text(SOME)
    picked = first.short_id(1)
    region = first.quote(1).plan.place.region
    for more in ([], ["--all"], ["--region", region]):
        shown = json.loads(slipway("quote", "plan.yaml", "--json", "--pick", picked, *more).out)
        assert shown["digest"] == first.digest(1)


def test_row_id_only_visible_with_all_can_be_quoted(price_text, slipway):
    few, every = price_text(SOME), price_text(SOME, everything=True)
    known = {quote.digest for quote in few.quotes}
    other = next(rank for rank in range(1, 300) if every.digest(rank) not in known)
    shown = json.loads(slipway("quote", "plan.yaml", "--json", "--pick", every.short_id(other)).out)
    assert shown["digest"] == every.digest(other)


def test_plan_document_has_contract_keys(price_text):
    json_document = document(price_text(SOME))
    assert list(json_document)[:7] == ["schema", "name", "as_of", "considered", "candidates", "findings", "next"]
    assert json_document["schema"] == "slipway.plan/1"
    for rank, candidate in enumerate(json_document["candidates"], start=1):
        assert set(candidate) >= CANDIDATE
        assert candidate["rank"] == rank
        check_candidate(candidate)


def test_quote_document_has_contract_keys(price_text):
    priced_plan = price_text(SOME)
    for rank in range(1, len(priced_plan.candidates) + 1):
        quote = quote_document(priced_plan.quote(rank), rank, priced_plan.catalog.instance_types)
        assert set(quote) >= QUOTE
        check_candidate(quote)
        lines = [float(line["usd"]) for line in quote["components"] if line["usd"] is not None]
        if quote["usd"] is not None:
            assert sum(lines) == pytest.approx(float(quote["usd"]["mid"]))
        assert {line["group"] for line in quote["components"]} <= {"compute", "storage", "network", "other"}
        assert all(set(line) == {"name", "value", "unit", "source"} for line in quote["assumptions"])
        assert all(set(line) == {"name", "value", "on"} for line in quote["policies"])


def check_candidate(candidate: dict) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", candidate["digest"])
    assert candidate["hours"]["low"] <= candidate["hours"]["mid"] <= candidate["hours"]["high"]
    assert (candidate["usd"] is None) is (candidate["unpriced"] is not None) is (candidate["price"] is None)
    assert candidate["gate"]["verdict"] == ("allow" if candidate["gate"]["exit_code"] == 0 else "refuse")
    assert (candidate["term_years"] is None) is (candidate["payment"] is None)
    for text in (candidate["usd_per_hour"], candidate["commitment_usd"], *(candidate["usd"] or {}).values()):
        assert text is None or MONEY.fullmatch(text)
    if candidate["price"] is not None:
        span = {"range"} if candidate["purchase_option"] == "spot" else set()
        assert set(candidate["price"]) == {"usd_per_hour", "source", "basis", "as_of", "note"} | span
        hourly = float(candidate["price"]["usd_per_hour"]) * candidate["nodes"]
        assert float(candidate["usd_per_hour"]) == pytest.approx(hourly)
    if candidate["spot"] is not None:
        assert set(candidate["spot"]) == {
            "interruptions_expected",
            "checkpoint_interval_s",
            "overhead_fraction",
            "break_even_interruptions_per_hour",
            "usd_p90",
        }


def test_price_override_has_user_as_source(price_text):
    priced_plan = price_text(
        HOURS.replace("{credits", "{option: on-demand, price_overrides: {p5.48xlarge/on-demand: '18.10'}, credits")
    )
    price = document(priced_plan)["candidates"][0]["price"]
    assert (price["source"], price["basis"], price["usd_per_hour"]) == ("user", "user", "18.1")
    assert price["note"] == "purchase.price_overrides p5.48xlarge/on-demand"
    bill = quote_document(priced_plan.quote(1), 1, priced_plan.catalog.instance_types)["components"]
    assert {line["source"] for line in bill if line["group"] == "compute"} == {"user"}
    shown = " ".join(" ".join(quote_page(priced_plan.quote(1), 1, 120, priced_plan, explained=True)).split())
    assert (
        "$18.10 an instance-hour: user, 2026-11-20, of today; purchase.price_overrides p5.48xlarge/on-demand" in shown
    )


def test_best_row_of_each_type_and_option_is_listed_priced_or_unpriced(price_text):
    candidates = document(price_text(SOME))["candidates"]
    keys = [(candidate["instance_type"], candidate["purchase_option"]) for candidate in candidates]
    # An option has a second row where a price that is too old is the cheaper one.
    once = [
        (*key, row["gate"]["exit_code"])
        for key, row in zip(keys, candidates, strict=True)
        if key[1] != "capacity-block"
    ]  # whose row has one beside it that holds the high estimate
    assert len(set(once)) == len(once)
    unpriced = {
        (candidate["instance_type"], candidate["purchase_option"])
        for candidate in candidates
        if candidate["usd"] is None
    }
    assert {("trn2.48xlarge", "on-demand"), ("p5e.48xlarge", "on-demand")} <= unpriced
    assert [candidate["usd"] is None for candidate in candidates] == sorted(
        candidate["usd"] is None for candidate in candidates
    )
    trn2 = next(candidate for candidate in candidates if keys[candidate["rank"] - 1] == ("trn2.48xlarge", "on-demand"))
    assert trn2["unverified"]["usd_per_hour"] == "85.964"


def test_all_at_narrow_width_shows_region_codes(price_text):
    text = SOME.replace("us-west-2]", "us-west-2]\n  nodes: 1")
    lines = page(price_text(text, everything=True), 100, everything=True)
    head = next(line for line in lines if line.lstrip().startswith("id "))
    assert " where " in head


def test_all_lists_every_combination(price_text):
    text = SOME.replace("region: [us-east-1, us-east-2, us-west-2]", "region: us-east-2\n  nodes: 1")
    priced_plan = price_text(text, everything=True)
    assert len(priced_plan.candidates) == sum(group.combinations for group in priced_plan.resolution.groups)
    assert len(priced_plan.candidates) > len(price_text(text).candidates)
    assert len({quote.digest for quote in priced_plan.quotes}) == len(priced_plan.candidates)


@pytest.mark.parametrize("everything", [False, True])
def test_short_ids_of_all_rows_computed_once(monkeypatch, price_text, everything):
    """For every row again, a plan of a thousand rows took three times as long."""
    compared = []
    monkeypatch.setattr(priced, "_lengths", lambda digests: compared.append(len(digests)) or iter(()))
    text = HOURS + f"tags: {{once: '{everything}'}}\n"
    priced_plan = price_text(text, everything=everything)
    ids = {priced_plan.short_id(rank) for rank in range(1, len(priced_plan.candidates) + 1)}
    assert all(row.gate.hint for row in priced_plan.rows if not row.gate.allows_launch)
    assert len(ids) > 1
    assert compared == [len(priced_plan.candidates)]


def test_rank_digest_and_short_digest_pick_equal_candidate(price_text, slipway):
    second = price_text(SOME).quote(2)
    for selection in (["--pick", "2"], ["--pick", second.digest], ["--pick", second.digest[:6].upper()]):
        shown = json.loads(slipway("quote", "plan.yaml", "--json", *selection).out)
        assert (shown["rank"], shown["digest"]) == (2, second.digest)


CAPACITY = (
    "slipway: 1\nname: later\nworkload: {train: {model: llama-3.1-8b, tokens_b: 1}}\n"
    "target: {region: [us-east-1, us-east-2]}\npurchase: {option: [capacity-block, training-plan, on-demand]}\n"
    "run: {command: [torchrun, train.py]}\n"
)


@pytest.mark.parametrize("width", [80, 120])
def test_capacity_to_be_bought_is_not_called_launchable(price_text, slipway, monkeypatch, width):
    """A launch of it is refused until the plan names what was bought."""
    monkeypatch.setenv("COLUMNS", str(width))
    age = ("--max-price-age", "3650")
    priced_plan = price_text(CAPACITY, max_price_age=3650)
    groups = dict(first_groups(priced_plan))
    to_buy = groups.pop("once it is bought (slipway capacity FILE)")
    assert {priced_plan.row(rank).plan.place.option.value for rank in to_buy} <= {"capacity-block", "training-plan"}
    now = groups["can be launched now"]
    assert {priced_plan.row(rank).plan.place.option.value for rank in now} == {"on-demand"}
    for rank, allowed in ((to_buy[0], False), (now[0], True)):
        picked = priced_plan.short_id(rank)
        _, out, err = slipway("quote", "plan.yaml", *age, "--pick", picked)
        (line,) = [line for line in out.splitlines() if line.strip().startswith("Launch ")]
        assert line.split()[1] == ("allowed" if allowed else "refused")
        assert ("slipway capacity plan.yaml" in err) is not allowed
        code, _, refusal = slipway("render", "plan.yaml", "-o", f"out{rank}", "--pick", picked)
        assert (code == 0) is allowed, refusal


def test_default_row_is_the_cheapest_that_a_launch_accepts_not_a_block_to_be_bought(price_text, slipway):
    text = CAPACITY.replace("[capacity-block, training-plan, on-demand]", "[capacity-block, on-demand]")
    age = ("--max-price-age", "3650")
    priced_plan = price_text(text, max_price_age=3650)
    block = next(rank for rank in range(2, 99) if priced_plan.standing(rank) is Standing.UNNAMED)
    assert priced_plan.row(block).usd.mid < priced_plan.row(1).usd.mid
    rows = document(priced_plan)["candidates"]
    gates = {row["purchase_option"]: row["gate"] for row in reversed(rows) if row["usd"] is not None}
    assert gates["on-demand"]["verdict"] == "allow"
    refused = gates["capacity-block"]
    assert (refused["verdict"], refused["exit_code"]) == ("refuse", 5)
    assert "need the ID of the purchased block" in refused["reason"]
    assert rows[0]["gate"]["verdict"] == "allow"
    _, out, err = slipway("quote", "plan.yaml", *age)
    assert "on demand" in out.splitlines()[1]
    assert "slipway launch plan.yaml" in err
    picked = out.splitlines()[1].split()[-1]
    assert f"--pick {picked}" in slipway("plan", "plan.yaml", *age).err
    price_text(text.replace(", on-demand", ""), max_price_age=3650)
    alone = slipway("quote", "plan.yaml", *age)
    assert "capacity block" in alone.out.splitlines()[1]
    # The price of capacity is asked before it is bought.
    assert alone.code == 0
    assert slipway("launch", "plan.yaml", "--sandbox", "--dry-run", "--yes").code == 5


def test_number_in_place_of_an_id_is_said_to_be_a_rank_with_its_id(price_text, slipway):
    """The screen shows ids, and not every row: its second row has seldom rank 2."""
    priced_plan = price_text(SOME)
    count, second = len(priced_plan.candidates), priced_plan.short_id(2)
    _, out, err = slipway("quote", "plan.yaml", "--pick", "2")
    assert second in out.splitlines()[1]
    assert f"--pick 2: rank 2 of {count} rows (--json)" in err
    assert f"The id of this one: --pick {second}" in err
    for selection in ("1", second):
        assert "rank" not in slipway("quote", "plan.yaml", "--pick", selection).err


def test_digest_depends_on_candidate_and_not_on_date(price_text):
    now = price_text(SOME).quote(1)
    again = price(Path("plan.yaml"), NOW.replace(year=2027), PriceOptions(picked=now.digest))
    assert now.digest in {again.digest(rank) for rank in range(1, len(again.candidates) + 1)}
    assert now.digest != price_text(SOME).quote(2).digest


def test_plan_missing_deadline_everywhere_is_shown_and_ends_with_5(price_text, slipway):
    price_text(SOME + "purchase: {deadline_h: 0.01}\n")
    ended = slipway("plan", "plan.yaml", "--json")
    assert ended.code == 5
    assert {candidate["gate"]["exit_code"] for candidate in json.loads(ended.out)["candidates"]} == {5}


NARROW = HOURS + "run: {command: torchrun --standalone train.py}\n"


@pytest.mark.parametrize("width", [80, 120])
def test_first_screens_name_idle_chips_of_command(price_text, width):
    priced_plan = price_text(NARROW)
    screens = page(priced_plan, width, everything=False), quote_page(priced_plan.quote(1), 1, width, priced_plan)
    for screen in screens:
        text = " ".join(" ".join(screen).split())
        assert "--standalone joins no other node: the 2 nodes train 2 separate copies, $" in text


@pytest.mark.parametrize("width", [80, 120])
def test_first_screens_note_trainer_without_accelerator_package(price_text, width):
    Path("train.py").write_text("import numpy", encoding="utf-8")
    priced_plan = price_text(HOURS + "run: {command: python train.py --lr 1}\n")
    quoted = priced_plan.quote(1)
    screens = (
        page(priced_plan, width, everything=False),
        quote_page(quoted, 1, width, priced_plan),
        brief_page(quoted, 1, width, priced_plan),
    )
    for screen in screens:
        text = " ".join(" ".join(screen).split())
        assert "python train.py --lr 1 imports only numpy: all 16 GPUs are idle, $" in text
        assert "torchrun" not in text


@pytest.mark.parametrize("limit, warned", [(100, "the job needs at least"), (2000, "")])
def test_first_screen_warns_of_a_spending_limit_below_the_total(price_text, limit, warned):
    text = HOURS.replace("budget: {max_usd: 1500}", f"budget: {{stop_at_usd: {limit}}}")
    shown = " ".join(" ".join(quote_screen_page(price_text(text).quote(1), 1, 80, price_text(text))).split())
    assert ("the guard stops it at about" in shown) == bool(warned)
    assert warned in shown


def test_screen_counts_the_rows_that_it_leaves_out(price_text):
    for text, which in ((SOME, ", some unpriced"), (HOURS, "")):
        offers = price_text(text)
        lines = page(offers, 120, everything=False)
        shown = sum(bool(ROW.match(line)) for line in lines)
        assert shown
        hidden = offers.considered - shown
        counted = f"{hidden:,} more{which}: --all."
        assert any(line.strip().startswith(counted) for line in lines) == (hidden > 0), lines
    assert more_rows(offers, offers.considered) == ""


def test_unpriced_rows_are_counted_where_each_row_is_a_candidate(price_text):
    offers = price_text(WITH_UNPRICED)
    assert len(offers.candidates) == offers.considered > 1
    unpriced = sum(offers.row(rank).usd is None for rank in range(1, offers.considered + 1))
    assert unpriced
    assert more_rows(offers, 1) == f"{offers.considered - 1} more, {unpriced} of them unpriced: --all."


def test_screen_of_a_command_that_wastes_chips_has_the_range_before_the_port(price_text):
    """The range belongs to the total above it; the port is the note that a full screen leaves out."""
    text = """
slipway: 1
name: wasteful
workload: {train: {model: llama-2-13b, method: pretrain, tokens_b: 200}}
target: {region: us-east-1}
purchase: {option: on-demand, deadline_h: 250}
"""
    priced_plan = price_text(text)
    for width in (80, 120):
        lines = page(priced_plan, width, everything=False)
        shown = [number for number, line in enumerate(lines) if line.strip().startswith(priced_plan.short_id(1) + ":")]
        ported = [number for number, line in enumerate(lines) if "Trainium: a port" in line]
        assert shown
        assert priced_plan.shortfalls
        assert all(number > shown[0] for number in ported)
