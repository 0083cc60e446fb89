"""How a load test of a deployed endpoint changes later quotes."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from launcher import plan_file
from launcher.catalog.load import load
from launcher.cli.app import application
from launcher.model.endpoint_call import LoadSetting, LoadStep, LoadTest
from launcher.records.load_documents import load_document
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.serving import price_serving
from tests.plans import NOW

SERVE = {"model": "llama-3.1-8b", "input_tokens": 1400, "output_tokens": 250, "requests_per_s": 4}
PINNED = {"tensor_parallel": 8, "batch_size": 32, "sequence_length": 2048}
SETTING = {
    "model": "llama-3.1-8b",
    "precision": "bf16",
    "instance_type": "inf2.48xlarge",
    "tensor_parallel": 8,
    "copies": 3,
    "batch": 32,
    "sequence": 2048,
}


def measure(
    *, per_s=900.0, instances=2, at_once=192, failures=0, lengths=(1400, 250), got=(1390, 250), at=NOW, **setting
):
    """A load test of two steps whose second put out so many tokens a second of all instances."""
    answered = 100 - failures
    once = LoadStep(
        concurrency=1,
        seconds=30.0,
        requests=10,
        failures=0,
        input_tokens=10 * got[0],
        output_tokens=10 * got[1],
        first_s=(0.2, 0.3),
        whole_s=(5.0, 6.0),
        failure="",
    )
    full = LoadStep(
        concurrency=at_once,
        seconds=answered * got[1] / (per_s * instances),
        requests=100,
        failures=failures,
        input_tokens=answered * got[0],
        output_tokens=answered * got[1],
        first_s=(1.0, 2.0),
        whole_s=(13.45, 20.0),
        failure="",
    )
    return LoadTest(
        name="chat",
        at=at,
        input_tokens=lengths[0],
        output_tokens=lengths[1],
        setting=LoadSetting(**{**SETTING, **setting}),
        steps=(once, full),
        instances=instances,
        instances_after=instances,
        usd_per_instance_hour=Decimal("15.58"),
        quoted_tokens_per_s=1100.0,
    )


@pytest.fixture
def keep(tmp_path):
    """Puts a load test, or any text, into a run folder."""

    def write_load_test(content, stamp="20261120T120000Z"):
        folder = tmp_path / ".slipway/runs/chat" / stamp
        folder.mkdir(parents=True)
        text = content if isinstance(content, str) else json.dumps(load_document(content))
        (folder / "load.json").write_text(text)

    return write_load_test


@pytest.fixture
def price_serve(tmp_path):
    """The only candidate of a plan of inf2.48xlarge on demand, and the findings on the plan."""

    def price(**serve):
        text = yaml.safe_dump(plan(**serve))
        options = PriceOptions(runs=tmp_path)
        return price_serving(Path("chat.yaml"), plan_file.loads(text), load(), NOW, options)

    return price


def plan(instance_type="inf2.48xlarge", **serve):
    return {
        "slipway": 1,
        "name": "chat",
        "workload": {"serve": {**SERVE, **serve}},
        "target": {"region": "us-east-1", "instance_type": instance_type},
        "purchase": {"option": "on-demand"},
    }


def unused_port(priced_plan):
    return [finding.message for finding in priced_plan.findings if finding.code.startswith("load-test")]


class TestUsed:
    def test_load_test_replaces_model_estimate(self, keep, price_serve):
        before = price_serve().candidates[0].estimate
        keep(measure())
        priced_plan = price_serve()
        estimate = priced_plan.candidates[0].estimate
        assert not before.measured
        assert (estimate.measured, estimate.source, unused_port(priced_plan)) == (True, "load test of 2026-11-20", [])
        assert estimate.tokens_per_s.mid == pytest.approx(900, rel=1e-3)
        assert (
            estimate.tokens_per_s.high / estimate.tokens_per_s.low < before.tokens_per_s.high / before.tokens_per_s.low
        )
        assert estimate.ttft_ms == 1000.0
        assert estimate.tpot_ms == pytest.approx(50.0, rel=0.01)

    def test_pinned_plan_of_deployment_uses_load_test(self, keep, price_serve):
        keep(measure())
        assert price_serve(**PINNED).candidates[0].estimate.source == "load test of 2026-11-20"

    def test_quote_names_load_test_as_source(self, keep, price_serve):
        keep(measure())
        lines = {assumption.name: assumption for assumption in price_serve().quote(1).assumptions}
        assert lines["measured throughput"].source == "load test of 2026-11-20"

    def test_load_test_overrides_published_row(self, keep, price_serve):
        published = price_serve(input_tokens=1500).candidates[0].estimate
        keep(measure(lengths=(1500, 250), got=(1500, 250)))
        estimate = price_serve(input_tokens=1500).candidates[0].estimate
        assert published.measured
        assert "load test" not in published.source
        assert estimate.source == "load test of 2026-11-20"

    def test_newest_load_test_counts(self, keep, price_serve):
        keep(measure(per_s=500, at=datetime(2026, 11, 1, tzinfo=UTC)), "20261101T000000Z")
        keep(measure(per_s=700), "20261120T120000Z")
        assert price_serve().candidates[0].estimate.tokens_per_s.mid == pytest.approx(700, rel=1e-3)

    def test_endpoint_measured_slower_costs_more(self, keep, price_serve):
        before = price_serve(requests_per_s=40).candidates[0].usd
        keep(measure(per_s=400))
        assert price_serve(requests_per_s=40).candidates[0].usd > before

    def test_load_test_does_not_affect_other_types(self, keep, price_serve):
        keep(measure())
        priced_plan = price_serve(instance_type="inf2.24xlarge")
        assert not priced_plan.candidates[0].estimate.measured
        assert unused_port(priced_plan) == []


class TestUnused:
    @pytest.mark.parametrize(
        "test, serve, message",
        [
            ({}, {"input_tokens": 1300}, "it had 1400 tokens in and 250 out, the plan has 1300 in and 250 out"),
            ({}, {"batch_size": 16}, "its batch was 32, the plan's is 16"),
            ({}, {"tensor_parallel": 4}, "it ran 3 copies with tensor parallel 8"),
            ({}, {"sequence_length": 4096}, "its longest request was 2048 tokens, the plan's is 4096"),
            ({}, {"precision": "int8"}, "its weights were bf16, the plan's are int8"),
            ({}, {"max_tpot_ms": 30}, "its first token came after 1000 ms and the others after 50.0 ms each"),
            ({"at_once": 64}, {}, "it had 32 concurrent requests on an instance, a full one takes 96"),
            ({"failures": 7}, {}, "7 of 100 requests failed"),
            ({"got": (1390, 90)}, {}, "its requests had 90 output tokens, requested were 250"),
            ({"got": (900, 250)}, {}, "its requests had 900 input tokens, requested were 1400"),
            ({"simulated": True}, {}, "its endpoint was simulated"),
        ],
    )
    def test_nearly_matching_load_test_is_reported_as_unused(self, keep, price_serve, test, serve, message):
        keep(measure(**test))
        priced_plan = price_serve(**serve)
        assert not priced_plan.candidates[0].estimate.measured
        assert unused_port(priced_plan) == [f"the load test of 2026-11-20 on inf2.48xlarge is not used: {message}"]

    def test_load_test_of_other_model_is_ignored(self, keep, price_serve):
        keep(measure(model="llama-3.2-1b"))
        assert unused_port(price_serve()) == []

    def test_load_test_with_changed_instance_count_is_reported(self, keep, price_serve):
        text = load_document(measure())
        keep(json.dumps({**text, "instances_after": 4}))
        assert "2 instances ran when it began and 4 when it ended" in unused_port(price_serve())[0]


class TestBroken:
    @pytest.mark.parametrize(
        "text, message",
        [
            ("{", "cannot read"),
            ("[]", "must hold a JSON object, got list"),
            ('{"schema": "slipway.load/1", "measured_tokens_per_s": NaN}', "NaN is not JSON"),
            ("3", "must hold a JSON object, got int"),
            ('{"schema": "slipway.load/2"}', "schema must be slipway.load/1, got 'slipway.load/2'"),
            ('{"schema": "slipway.load/1", "instance_type": "inf2.48xlarge"}', "model is missing"),
        ],
    )
    def test_broken_load_test_file_is_warning(self, keep, price_serve, text, message):
        keep(text)
        (warning,) = unused_port(price_serve())
        assert message in warning

    @pytest.mark.parametrize(
        "key, value",
        [
            ("date", "yesterday"),
            ("date", 5),
            ("measured_tokens_per_s", "many"),
            ("measured_tokens_per_s", 0),
            ("instances", -1),
            ("batch_size", True),
            ("precision", "fp4"),
            ("model", ""),
            ("steps", []),
            ("steps", [{"concurrency": 1}]),
            ("steps", [3]),
        ],
    )
    def test_invalid_load_test_value_is_warning_naming_key(self, keep, price_serve, key, value):
        keep(json.dumps({**load_document(measure()), key: value}))
        priced_plan = price_serve()
        assert not priced_plan.candidates[0].estimate.measured
        (warning,) = unused_port(priced_plan)
        assert key in warning or "tokens_per_s" in warning

    def test_load_test_without_setting_is_ignored(self, keep, price_serve):
        keep('{"schema": "slipway.load/1", "name": "chat", "steps": [], "instances": 1}')
        assert unused_port(price_serve()) == []

    def test_load_test_on_unknown_instance_type_is_ignored(self, keep, price_serve):
        keep(measure(instance_type="inf9.huge"))
        priced_plan = price_serve()
        assert (priced_plan.candidates[0].estimate.measured, unused_port(priced_plan)) == (False, [])


class TestCommands:
    @pytest.fixture
    def run(self, monkeypatch, tmp_path):
        (tmp_path / "chat.yaml").write_text(yaml.safe_dump(plan()))
        monkeypatch.chdir(tmp_path)

        def stdout_of(command, *arguments):
            done = CliRunner().invoke(application((command,)), [command, "chat.yaml", *arguments])
            assert done.exit_code == 0, done.output
            return done.stdout

        return stdout_of

    def test_plan_quote_compare_and_portfolio_use_load_test(self, keep, run):
        keep(measure())
        quoted = json.loads(run("quote", "--json"))
        assert (quoted["serving"]["basis"], quoted["serving"]["source"]) == ("measured", "load test of 2026-11-20")
        (candidate,) = json.loads(run("plan", "--json"))["candidates"]
        assert candidate["serving"]["tokens_per_s"] == quoted["serving"]["tokens_per_s"]
        options = json.loads(run("compare", "--json"))["options"]
        measured_options = [option for option in options if option["serving"]["basis"] == "measured"]
        assert {option["instance_type"] for option in measured_options} == {"inf2.48xlarge"}
        assert run("portfolio")

    def test_explanation_names_load_test(self, keep, run):
        keep(measure())
        assert "load test of 2026-11-20" in run("plan", "--explain", "1")

    def test_table_gives_reason_for_unused_load_test(self, keep, run):
        keep(measure(at_once=64))
        assert "is not used: it had 32 concurrent requests" in " ".join(run("plan").split())
