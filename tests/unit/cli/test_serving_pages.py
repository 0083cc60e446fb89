"""`plan`, `quote`, `compare` and `portfolio` of serving plans: the pages, the JSON, and the exit codes."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.answers import explain, serving_compare
from launcher.answers import portfolio as portfolio_page
from launcher.answers.plan import page
from launcher.answers.quote import page as quote_page
from launcher.answers.serving_screen import first_groups
from launcher.pricing.priced import Priced
from launcher.workflow.quote.compare import compare
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.portfolio import portfolio
from launcher.workflow.quote.price import price
from tests.plans import NOW, ROOT

CHAT = """
slipway: 1
name: chat
workload:
  serve:
    model: llama-3.1-8b
    input_tokens: 1500
    output_tokens: 250
    hourly_requests_per_s: [1, 1, 1, 1, 1, 1, 2, 4, 8, 12, 14, 14, 12, 13, 14, 14, 13, 10, 8, 6, 4, 3, 2, 1]
target: {region: us-east-1}
"""
SFT = """
slipway: 1
name: sft
workload: {train: {model: llama-3.1-8b, method: full, tokens_b: 0.5, runs: 24, runs_per_month: 2}}
target: {instance_type: [p5.48xlarge, trn1.32xlarge], region: [us-east-1, us-east-2]}
"""


@pytest.fixture
def write_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write a plan into a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def written(text: str, name: str = "plan.yaml") -> Path:
        Path(name).write_text(text, encoding="utf-8")
        return Path(name)

    return written


def priced(path: Path) -> Priced:
    return price(path, NOW, PriceOptions())


@pytest.mark.parametrize("width", [80, 120])
def test_serving_plan_page_equals_golden(write_plan, golden, width):
    golden(f"plan/serving-table-{width}.txt", "\n".join(page(priced(write_plan(CHAT)), width, everything=False)) + "\n")


def test_instances_without_the_weights_that_a_deployment_needs_are_not_called_usable(write_plan, slipway):
    """Llama's weights are given with a token: a deployment is refused until they are in S3."""
    priced_plan = priced(write_plan(CHAT))
    groups = dict(first_groups(priced_plan))
    hosted, instances = (
        groups["can be used now"],
        groups["can be used once the plan is complete (workload.serve.model_uri)"],
    )
    assert {priced_plan.row(rank).plan.place.option.value for rank in hosted} == {"bedrock"}
    assert instances
    named = CHAT.replace("input_tokens", "model_uri: s3://models-of-the-team/llama\n    input_tokens")
    assert list(dict(first_groups(priced(write_plan(named))))) == ["can be used now"]
    write_plan(CHAT)
    picked = priced_plan.short_id(instances[0])
    out = " ".join(slipway("quote", "plan.yaml", "--pick", picked).out.split())
    assert "Deployment refused the weights of llama-3.1-8b are given with a token" in out
    code, _, err = slipway("deploy", "plan.yaml", "--dry-run", "--despite-verdict", "--pick", picked)
    assert code == 5
    assert "the weights of llama-3.1-8b are given with a token" in err


@pytest.mark.parametrize("width", [80, 120])
def test_serving_quote_page_equals_golden(write_plan, golden, width):
    priced_plan = priced(write_plan(CHAT))
    lines = quote_page(priced_plan.quote(2), 2, width, priced_plan)
    golden(f"plan/serving-quote-{width}.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("width", [80, 120])
def test_serving_comparison_page_equals_golden(write_plan, golden, width):
    comparison = compare(write_plan(CHAT), NOW, PriceOptions())
    golden(f"plan/serving-compare-{width}.txt", "\n".join(serving_compare.page(comparison, width)) + "\n")


@pytest.mark.parametrize("width", [80, 120])
def test_portfolio_page_equals_golden(write_plan, golden, width):
    portfolio_result = portfolio([write_plan(CHAT), write_plan(SFT, "sft.yaml")], NOW, PriceOptions())
    golden(f"plan/portfolio-{width}.txt", "\n".join(portfolio_page.page(portfolio_result, width)) + "\n")


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(write_plan, width):
    priced_plan = priced(write_plan(CHAT))
    lines = [
        *page(priced_plan, width, everything=False),
        *explain.page(priced_plan, 2, width),
        *explain.page(priced_plan, 1, width),
    ]
    lines += serving_compare.page(compare(Path("plan.yaml"), NOW, PriceOptions()), width)
    assert [line for line in lines if len(line) > width and "://" not in line] == []


def test_serving_table_at_80_columns_keeps_numbers(write_plan):
    text = "\n".join(page(priced(write_plan(CHAT)), 80, everything=False))
    assert "$/M out" in text
    assert "used" in text
    assert "1.54" in text


def test_serving_explanation_shows_each_step(write_plan):
    text = "\n".join(explain.page(priced(write_plan(CHAT)), 2, 120))
    assert "one decoding step of" in text
    assert "requests/s of the instance" in text


def test_serving_plan_quote_and_comparison_json_agree_on_schema_and_verdict(write_plan, slipway):
    write_plan(CHAT)
    code, out, _ = slipway("plan", "plan.yaml", "--json")
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "slipway.plan/1")
    assert {candidate["purchase_option"] for candidate in document["candidates"]} == {
        "bedrock",
        "on-demand",
        "savings-plan",
    }
    code, out, _ = slipway("quote", "plan.yaml", "--pick", "2", "--json")
    assert (code, json.loads(out)["schema"]) == (0, "slipway.quote/1")
    code, out, _ = slipway("compare", "plan.yaml", "--json")
    document = json.loads(out)
    assert (code, document["schema"], document["verdict"]["choice"]) == (0, "slipway.compare/1", "bedrock")
    assert document["break_even"]["requests_per_month"] > 17.5e6
    inf2 = [machine for machine in document["break_even"]["machines"] if machine["instance_type"] == "inf2.48xlarge"]
    assert inf2[0]["crossover_utilisation"] == pytest.approx(2.29, abs=0.01)


def test_portfolio_json_sums_monthly_dollars_and_missing_chips(write_plan, slipway):
    write_plan(CHAT)
    write_plan(SFT, "sft.yaml")
    code, out, _ = slipway("portfolio", "plan.yaml", "sft.yaml", "--json")
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "slipway.portfolio/1")
    months = [float(plan["usd_per_month"]["mid"]) for plan in document["plans"]]
    assert float(document["usd_per_month"]["mid"]) == pytest.approx(sum(months))
    sft = next(plan for plan in document["plans"] if plan["name"] == "sft")
    assert float(sft["usd_per_month"]["mid"]) == pytest.approx(2 * float(sft["choice"]["usd"]["mid"]))
    assert [plan["kind"] for plan in document["plans"]] == ["serve", "train"]
    chips = {chip["accelerator"]: chip for chip in document["one_chip"]}
    assert chips["Trainium1"]["missing"] == []
    assert float(chips["H100"]["difference_usd"]) > 0
    assert "sft" in chips["Inferentia2"]["missing"]


def test_portfolio_with_invalid_plan_names_file(write_plan, slipway):
    write_plan(CHAT)
    write_plan(CHAT.replace("llama-3.1-8b", "llama-9"), "bad.yaml")
    code, _, err = slipway("portfolio", "plan.yaml", "bad.yaml")
    assert code == 5
    assert "bad.yaml: no model llama-9" in err


def test_portfolio_reports_every_invalid_plan_at_once(write_plan, slipway):
    """Those that end while they are read, too."""
    write_plan(CHAT)
    write_plan(CHAT.replace("llama-3.1-8b", "llama-9"), "bad.yaml")
    write_plan(CHAT.replace("output_tokens: 250", "output_tokens: 250\n    zones: 9"), "far.yaml")
    code, _, err = slipway("portfolio", "far.yaml", "plan.yaml", "bad.yaml")
    assert code == 5
    assert "far.yaml: must be at most 6, got 9" in err
    assert "bad.yaml: no model llama-9" in err


def test_infeasible_serving_plan_ends_with_5_and_allowed_values(write_plan, slipway):
    write_plan(CHAT.replace("output_tokens: 250", "output_tokens: 250\n    tensor_parallel: 12"))
    code, _, err = slipway("plan", "plan.yaml")
    assert code == 5
    assert "1, 2, 4, 8, 24 on Inferentia2" in err


def test_init_serve_writes_valid_plan(tmp_path, monkeypatch, slipway):
    monkeypatch.chdir(tmp_path)
    assert slipway("init", "--serve", "--name", "mine")[0] == 0
    code, out, _ = slipway("plan", "plan.yaml")
    assert code == 0
    assert "mine · serving llama-3.1-8b" in out
    assert "# hourly_requests_per_s: null" in Path("plan.yaml").read_text(encoding="utf-8")


def test_schema_has_serving_keys(slipway):
    code, out, _ = slipway("schema")
    workload = json.loads(out)["properties"]["workload"]["anyOf"][0]["properties"]["serve"]["anyOf"][0]["anyOf"][0]
    assert code == 0
    assert workload["properties"]["hourly_requests_per_s"]["anyOf"][0]["minItems"] == 24
    assert "bedrock" in workload["properties"]


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "serve").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_serving_example_has_price_and_bill_within_80_columns(path):
    priced_plan = priced(path)
    best = priced_plan.quote(1)
    assert best.usd is not None
    assert best.serving is not None
    bill = [line for line in quote_page(best, 1, 80, priced_plan) if not line.startswith("  next: ")]
    assert [line for line in bill if len(line) > 80] == []


def test_training_plan_loads_no_serving_modules(write_plan):
    write_plan(SFT)
    code = "import sys; from launcher.cli.app import main; sys.argv = ['slipway', 'plan', 'plan.yaml']\n"
    code += "try:\n    main()\nexcept SystemExit:\n    pass\n"
    code += "print([each for each in sys.modules if '.serving' in each or 'bedrock' in each], file=sys.stderr)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # The terms of Bedrock are a part of the serving model.
    assert ended.stderr.splitlines()[-1] == str(["launcher.model.bedrock", "launcher.model.serving"])


def test_page_names_the_modes_of_bedrock_apart(write_plan, slipway):
    write_plan(CHAT.replace("    input_tokens", "    asynchronous: true\n    input_tokens"))
    slipway("plan", "plan.yaml", "--html", "plan.html")
    labels = re.findall(r'class="tick name"[^>]*>([^<]*Bedrock[^<]*)<', Path("plan.html").read_text(encoding="utf-8"))
    modes = {label.split(", ")[1] for label in labels}
    assert {"batch", "on demand"} <= modes, labels


@pytest.mark.parametrize("text", [CHAT, SFT], ids=["serving", "training"])
def test_plan_without_any_price_offers_no_quote(write_plan, slipway, text):
    write_plan(text)
    code, out, err = slipway("plan", "plan.yaml", "--prices-as-of", "2020-01-01", "--region", "us-east-1")
    assert code == 0
    assert " rows, all unpriced: --all." in out
    assert err.strip() == "next: slipway plan plan.yaml --region us-east-1"
    document = json.loads(slipway("plan", "plan.yaml", "--prices-as-of", "2020-01-01", "--json")[1])
    assert document["next"] == "slipway plan plan.yaml"
