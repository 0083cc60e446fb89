"""`deploy` and `launch` of serving plans up to the first synthesis: what is refused, with which exit code, and why."""

import json
import re
from pathlib import Path

import pytest

from tests.plans import ROOT

EXAMPLES = ROOT / "examples/serve"
EMBED = """
slipway: 1
name: embed
workload:
  serve:
    model: qwen3-embedding-0.6b
    artifacts_uri: s3://models-of-the-team/qwen3-embedding-0.6b/inf2-tp2-b1-s512
    task: embedding
    input_tokens: 400
    requests_per_s: 5
    tensor_parallel: 2
    streaming: false
    max_instances: 3
target: {kind: sagemaker-endpoint, region: us-west-2, instance_type: inf2.xlarge}
purchase: {option: on-demand, price_overrides: {ml.inf2.xlarge/on-demand: "0.95"}}
"""
CHAT = """
slipway: 1
name: chat
workload:
  serve:
    model: llama-3.1-8b
    model_uri: s3://models-of-the-team/llama
    input_tokens: 1500
    output_tokens: 250
    requests_per_s: 0.2
    max_instances: 1
target: {kind: sagemaker-endpoint, region: us-east-1, instance_type: g6e.2xlarge}
purchase: {option: on-demand, price_overrides: {ml.g6e.2xlarge/on-demand: "2.8"}}
"""
BOTH = pytest.mark.parametrize("command", [["deploy", "--dry-run"], ["launch", "--sandbox", "--yes"]], ids=str)
OVER = "budget: {max_usd: 10}\n"


@pytest.fixture
def on_plan(tmp_path, monkeypatch, slipway):
    """Runs a command on a plan in a folder of its own: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(command, text, *more, name="plan.yaml"):
        Path("plan.yaml").write_text(text)
        return slipway(command[0], name, *command[1:], *more)

    return run


def of(text, line):
    """A plan with one more line of its workload."""
    return text.replace("\ntarget:", f"\n    {line}\ntarget:", 1)


@pytest.mark.long
@BOTH
@pytest.mark.parametrize(
    "text, code, message",
    [
        (CHAT, 5, "the verdict is against it: Do not deploy: Bedrock is cheaper at this volume"),
        (CHAT + OVER, 5, "the verdict is against it"),
        (EMBED + OVER, 3, "budget.max_usd $10.00"),
        (EMBED.replace(', price_overrides: {ml.inf2.xlarge/on-demand: "0.95"}', "") + OVER, None, ""),
        (CHAT.replace("on-demand, price", "bedrock, price").replace("instance_type: g6e.2xlarge", ""), 5, "nothing to"),
        (EMBED.replace("sagemaker-endpoint", "eks"), 5, "target.kind: eks"),
        (EMBED.replace("target: {", "target: {cluster: pod, "), 5, "an endpoint does not run in a cluster, got pod"),
        (of(EMBED, "min_instances: 0").replace("us-west-2", "eu-west-3"), 5, "eu-west-3"),
        (of(EMBED, "deployment: canary"), 5, "canary replaces a part of the instances"),
        (
            EMBED.replace("tensor_parallel: 2", "tensor_parallel: 12"),
            5,
            "12 is not a supported degree of tensor parallelism",
        ),
        (CHAT.replace("    model_uri: s3://models-of-the-team/llama\n", ""), 5, "given with a token"),
    ],
    ids=[
        *(
            "verdict",
            "verdict-before-budget",
            "budget",
            "age",
            "bedrock",
            "eks",
            "cluster",
            "zero",
            "canary",
            "twelve",
            "no-uri",
        )
    ],
)
def test_serving_deploy_against_verdict_or_budget_refused_before_any_file(on_plan, command, text, code, message):
    exit_code, out, err = on_plan(command, text)
    if code is None:
        # A price too old is refused in AWS, and only warned of in the sandbox.
        code, message = (4, "days old") if "--dry-run" in command else (3, "budget.max_usd $10.00")
    assert (exit_code, out) == (code, ""), err
    assert message in err
    assert not Path(".slipway").exists()


@BOTH
def test_refusal_by_verdict_lists_reasons_and_alternatives(on_plan, command):
    _, _, err = on_plan(command, CHAT)
    for phrase in ("against it", "GPU: $", "of operations", "your own weights", "--despite-verdict", "compare"):
        assert phrase in " ".join(err.split()), phrase


def test_undeployable_serving_plan_names_alternative_command(on_plan):
    _, _, err = on_plan(["deploy", "--dry-run"], EMBED.replace("sagemaker-endpoint", "eks"))
    assert "slipway render plan.yaml -o DIR" in err
    plan = CHAT.replace(", instance_type: g6e.2xlarge", "").replace("option: on-demand, ", "")
    _, _, err = on_plan(["deploy", "--dry-run"], plan)
    named = re.search(r"--pick ([0-9a-f]{6}) is an endpoint on", " ".join(err.split()))
    assert named is not None, err
    _, _, err = on_plan(["deploy", "--dry-run"], plan, "--pick", named[1])
    assert "the verdict is against it" in err


def test_interrupt_after_for_serving_plan_refused(on_plan):
    code, _, err = on_plan(["launch", "--sandbox", "--yes"], EMBED, "--interrupt-after", "1")
    assert (code, "a serving plan has none" in err) == (2, True)


def test_serving_launch_without_terminal_ends_with_2_after_warnings(on_plan):
    text = EMBED.replace("    artifacts_uri: s3://models-of-the-team/qwen3-embedding-0.6b/inf2-tp2-b1-s512\n", "")
    code, _, err = on_plan(["launch", "--sandbox"], text)
    assert code == 2
    warnings = " ".join(err.split())
    assert "neither compiled nor known to be in Hugging Face's cache" in warnings
    assert warnings.index("neither compiled") < warnings.index("cannot ask whether")


@pytest.mark.cdk
@pytest.mark.long
def test_deploy_dry_run_despite_verdict_shows_endpoint_and_override(on_plan, warm_launches):
    code, _, err = on_plan(["deploy", "--dry-run"], CHAT, "--despite-verdict")
    assert code == 0, err
    warnings = " ".join(err.split())
    assert "against the verdict (--despite-verdict): Do not deploy" in warnings
    assert "endpoint slipway-chat: 1 x ml.g6e.2xlarge, on demand, in us-east-1" in warnings
    assert "Slipway cannot read what exists in AWS" in warnings
    assert "resources in 1 new stack; $2.80 an hour with 1 instance" in warnings
    assert "would run: " in warnings
    (folder,) = [path for path in Path(".slipway/runs/chat").iterdir() if not path.is_symlink()]
    assert json.loads((folder / "plan.json").read_text())["name"] == "chat"
    assert json.loads((folder / "rendered/endpoint.json").read_text())["instance_type"] == "ml.g6e.2xlarge"
    assert not (folder / "report.json").exists()


def test_measure_first_verdict_is_shown_and_allows_launch(on_plan):
    near = CHAT.replace('"2.8"', '"1.3"').replace("s: 0.2", "s: 1.8").replace("instances: 1", "instances: 4")
    cheap = of(near, "operations_usd_per_month: 0")
    code, _, err = on_plan(["launch", "--sandbox"], cheap)
    assert (code, "cannot ask whether" in err) == (2, True), err
    assert "the verdict: Too close to call" in " ".join(err.split())


REPORT = {
    "schema": "slipway.report/1",
    "name": "chat",
    "status": "succeeded",
    "scheduler": "none",
    "simulated": True,
    "attempts": [],
    "quoted": {"usd": "2059.02", "hours": 730.0, "usd_per_hour": "2.8", "prices_as_of": "2026-11-20"},
    "actual": {"hours": 0, "usd_at_quoted_rate": "0"},
    "stacks": [{"name": "slipway-chat-serving", "status": "CREATE_COMPLETE"}],
    "verified_resources": ["endpoint: InService"],
    "not_emulated": [],
    "endpoint": {
        "name": "slipway-chat",
        "region": "us-east-1",
        "mode": "components",
        "status": "InService",
        "config": "config-1",
        "instances": 1,
        "url": None,
        "answer": {
            "kind": "chat",
            "input_tokens": 10,
            "output_tokens": 64,
            "ttft_ms": 59.1,
            "latency_ms": 812.0,
            "tokens_per_s": 83.9,
            "shown": "This is a stand-in",
        },
    },
}


def test_endpoint_report_shows_answers_and_monthly_cost(on_plan):
    folder = Path(".slipway/runs/chat/20261120T120000Z")
    folder.mkdir(parents=True)
    (folder.parent / "latest").symlink_to(folder.name)
    (folder / "report.json").write_text(json.dumps(REPORT))
    _, out, _ = run_document(on_plan, "report")
    for line in (
        "chat: succeeded, simulated",
        "endpoint slipway-chat in us-east-1: InService, 1 instance, as deployed",
        "first token after 59 ms, then 83.7 tokens/s",
        "quoted $2,059 a month",
        "its tokens per second are not a model's",
    ):
        assert line in " ".join(out.split()), out
    assert "attempt" not in out
    (folder / "report.json").write_text(json.dumps({**REPORT, "simulated": False}))
    _, out, _ = run_document(on_plan, "status")
    assert "slipway endpoint test chat shows its current state" in " ".join(out.split())
    code, _, err = run_document(on_plan, "logs")
    assert code == 2
    assert "aws logs tail /aws/sagemaker/InferenceComponents/slipway-chat --region us-east-1" in " ".join(err.split())


def run_document(on_plan, command):
    """A command on the run of that name; the plan file beside it is not read."""
    return on_plan([command], "", name="chat")
