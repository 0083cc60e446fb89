"""A load test against an emulated endpoint, and its result for later quotes."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from launcher import plan_file
from launcher.answers.endpoint import load_page
from launcher.model.document import document
from launcher.model.endpoint_call import LoadTest
from launcher.model.errors import DeploymentFailedError
from launcher.records.load_documents import load_document
from launcher.workflow.cluster.endpoint import request_sender, served_endpoint
from launcher.workflow.run.endpoint_load import LoadPlan, load, loader, plan_load, prompt, step
from tests.documents import read_document
from tests.plans import NOW

pytestmark = pytest.mark.xdist_group("endpoint")
SHORT = LoadPlan(input_tokens=40, output_tokens=8, setting=None, full=None)
RUNTIME = {"digest": "d1", "template": 30}
PLAN = """
slipway: 1
name: small
workload:
  serve: {model: llama-3.1-8b, input_tokens: 300, output_tokens: 20, requests_per_s: 1, tensor_parallel: 8,
          batch_size: 2, sequence_length: 512}
target: {kind: sagemaker-endpoint, region: us-east-1, instance_type: inf2.48xlarge, nodes: 2}
purchase: {option: on-demand}
"""


@pytest.fixture
def endpoint_run(tmp_path):
    """The run that deployed the endpoint."""
    run_folder = tmp_path / ".slipway/runs/small/20261120T120000Z"
    run_folder.mkdir(parents=True)
    (run_folder.parent / "latest").symlink_to(run_folder.name)
    quote = {"digest": "d1", "price": {"usd_per_hour": "15.58"}, "serving": {"tokens_per_s": 1226.0}}
    (run_folder / "quote.json").write_text(json.dumps(quote))
    (run_folder / "plan.json").write_text(json.dumps(document(plan_file.loads(PLAN))))
    return run_folder


def load_requests(session, root, *, most=2, seconds=0.3, load_plan=SHORT, report=lambda load_step: None):
    endpoint = served_endpoint("small", session)
    ask = loader(endpoint, session, load_plan)
    return load(endpoint, session, ask, load_plan, most=most, seconds=seconds, root=root, now=NOW, on_step=report)


class TestStep:
    @pytest.mark.long
    def test_load_step_measures_delivered_rate(self, runtime, endpoint_session):
        """Within a tenth of the stand-in's own count over its own clock, however busy the machine is."""
        runtime.tokens, runtime.token_s = 20, 0.025
        load_step = step(request_sender(served_endpoint("small", endpoint_session), endpoint_session), 4, 2.0)
        assert load_step.failures == 0
        assert load_step.output_tokens == len(runtime.delivered)
        delivered = len(runtime.delivered) / (max(runtime.delivered) - min(runtime.delivered))
        assert load_step.tokens_per_s == pytest.approx(delivered, rel=0.1)
        # Four at once and 40 tokens a second each are what it was told; a pause is never shorter than asked for.
        assert load_step.tokens_per_s < 4 * 40

    def test_failed_requests_are_counted_and_reported(self, runtime, endpoint_session):
        runtime.refuse = 503
        load_step = step(request_sender(served_endpoint("small", endpoint_session), endpoint_session), 2, 0.3)
        assert load_step.failures == load_step.requests > 0
        assert "503" in load_step.failure

    def test_embedding_load_counts_input_tokens(self, endpoint_session):
        endpoint = replace(served_endpoint("small", endpoint_session), base_url=None)
        load_plan = LoadPlan(input_tokens=11, output_tokens=0, setting=None, full=None)
        load_step = step(loader(endpoint, endpoint_session, load_plan), 2, 0.3)
        assert load_step.mean_tokens == (11, 0)
        assert load_step.tokens_per_s == pytest.approx(load_step.input_tokens / load_step.seconds)
        test = LoadTest(
            name="small",
            at=NOW,
            input_tokens=11,
            output_tokens=0,
            setting=None,
            steps=(load_step,),
            instances=1,
            instances_after=1,
            usd_per_instance_hour=Decimal("0.9"),
            quoted_tokens_per_s=None,
        )
        assert test.usd_per_million_output_tokens is None
        cost_line = f"  ${test.usd_per_million_tokens:.2f} per million input tokens at that, of $0.9 an instance-hour"
        assert cost_line in load_page(test, 100)


class TestRequests:
    def test_request_length_follows_endpoint_token_count(self, runtime, endpoint_session):
        """The stand-in counts 30 tokens of a template beside the words."""
        load_plan = LoadPlan(input_tokens=300, output_tokens=20, setting=None, full=None)
        assert loader(
            served_endpoint("small", endpoint_session), endpoint_session, load_plan
        )().input_tokens == pytest.approx(300, rel=0.02)
        body = runtime.requests[-1][1]
        assert (body["max_tokens"], body["ignore_eos"]) == (20, True)

    def test_prompts_begin_differently(self):
        texts = [prompt(20, number) for number in range(200)]
        assert len({text.split()[0] for text in texts}) == 200
        assert len({" ".join(text.split()[1:]) for text in texts}) > 50

    def test_prompt_length_without_token_count_uses_words(self, runtime, endpoint_session):
        runtime.usage = False
        load_plan = LoadPlan(input_tokens=50, output_tokens=4, setting=None, full=None)
        loader(served_endpoint("small", endpoint_session), endpoint_session, load_plan)()
        assert len(runtime.requests[-1][1]["messages"][0]["content"].split()) == 51


class TestPlan:
    def test_load_lengths_and_layout_equal_deployed_plan(self, endpoint_session, tmp_path, endpoint_run):
        load_plan = plan_load(served_endpoint("small", endpoint_session), endpoint_session, tmp_path)
        assert (load_plan.input_tokens, load_plan.output_tokens, load_plan.full) == (300, 20, 6)
        setting = load_plan.setting
        assert (setting.model, setting.precision, setting.instance_type) == ("llama-3.1-8b", "bf16", "inf2.48xlarge")
        assert (setting.tensor_parallel, setting.copies, setting.batch, setting.sequence) == (8, 3, 2, 512)
        assert not setting.simulated
        assert load_plan.at_once(instances=2) == 12

    def test_run_with_other_digest_gives_no_setting(self, runtime, endpoint_session, tmp_path, endpoint_run):
        runtime.digest = "another"
        load_plan = plan_load(served_endpoint("small", endpoint_session), endpoint_session, tmp_path)
        assert (load_plan.setting, load_plan.at_once(instances=2)) == (None, 16)

    def test_load_without_run_uses_default_lengths(self, endpoint_session, tmp_path):
        load_plan = plan_load(served_endpoint("small", endpoint_session), endpoint_session, tmp_path)
        assert (load_plan.input_tokens, load_plan.output_tokens, load_plan.setting) == (256, 250, None)

    def test_answer_length_can_be_shortened(self, endpoint_session, tmp_path, endpoint_run):
        assert (
            plan_load(served_endpoint("small", endpoint_session), endpoint_session, tmp_path, tokens=5).output_tokens
            == 5
        )

    def test_sandbox_run_marks_setting_as_simulated(self, endpoint_session, tmp_path, endpoint_run):
        (endpoint_run / "report.json").write_text('{"simulated": true}')
        assert plan_load(served_endpoint("small", endpoint_session), endpoint_session, tmp_path).setting.simulated

    def test_broken_plan_gives_no_setting(self, endpoint_session, tmp_path, endpoint_run):
        (endpoint_run / "plan.json").write_text("{")
        assert plan_load(served_endpoint("small", endpoint_session), endpoint_session, tmp_path).setting is None


class TestLoad:
    def test_unavailable_endpoint_ends_load_test(self, runtime, endpoint_session, tmp_path):
        endpoint = served_endpoint("small", endpoint_session)
        ask = loader(endpoint, endpoint_session, SHORT)
        runtime.refuse = 503
        with pytest.raises(DeploymentFailedError, match="no answer with 1 request at once"):
            load(
                endpoint,
                endpoint_session,
                ask,
                SHORT,
                most=2,
                seconds=1,
                root=tmp_path,
                now=NOW,
                on_step=lambda load_step: None,
            )

    def test_load_test_is_stored_and_compared_with_quote(self, endpoint_session, tmp_path, endpoint_run):
        messages = []
        load_plan = plan_load(served_endpoint("small", endpoint_session), endpoint_session, tmp_path)
        load_test = load_requests(endpoint_session, tmp_path, most=3, load_plan=load_plan, report=messages.append)
        assert [load_step.concurrency for load_step in messages] == [1, 2, 3]
        # Two instances serve, and both are paid for.
        dollars = 2 * 15.58 / (load_test.best.tokens_per_s * 3600) * 1e6
        assert float(load_test.usd_per_million_output_tokens) == pytest.approx(dollars, rel=1e-3, abs=1e-4)
        saved = read_document((endpoint_run / "load.json").read_text())
        assert saved == load_document(load_test)
        assert (saved["schema"], saved["quoted_tokens_per_s"], len(saved["steps"])) == ("slipway.load/1", 1226.0, 3)

    def test_stored_load_test_has_measured_setting(self, runtime, endpoint_session, tmp_path, endpoint_run):
        runtime.tokens = 100
        load_plan = plan_load(served_endpoint("small", endpoint_session), endpoint_session, tmp_path)
        load_requests(endpoint_session, tmp_path, most=None, load_plan=load_plan)
        saved = read_document((endpoint_run / "load.json").read_text())
        expected = {
            "date": "2026-11-20T12:00:00+00:00",
            "model": "llama-3.1-8b",
            "precision": "bf16",
            "instance_type": "inf2.48xlarge",
            "instances": 2,
            "instances_after": 2,
            "tensor_parallel": 8,
            "copies_per_instance": 3,
            "batch_size": 2,
            "sequence_length": 512,
            "input_tokens": 300,
            "output_tokens": 20,
            "measured_output_tokens": 20.0,
            "simulated": False,
        }
        assert {name: saved[name] for name in expected} == expected
        assert saved["measured_input_tokens"] == pytest.approx(300, rel=0.02)
        assert [load_step["concurrency"] for load_step in saved["steps"]] == [1, 2, 4, 8, 12]
        assert saved["measured_ttft_ms"] > 0
        assert saved["measured_tpot_ms"] >= 0
