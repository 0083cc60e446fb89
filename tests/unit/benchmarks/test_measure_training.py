"""`benchmarks.measure_training`: Hugging Face's Trainer and torch's FSDP on a tiny model, without a GPU."""

import json
import os
import subprocess

import pytest

from launcher.catalog.training import load_training
from launcher.model.enums import Method, Stack
from launcher.planning.posterior import posterior
from launcher.records.measurements import load_measurements
from tests.measured_runs import job_shape
from tests.plans import ROOT

PYTHON = ROOT / ".venv-trainers" / "bin" / "python"
pytestmark = pytest.mark.trainers
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 256,
    "max_position_embeddings": 128,
}
SMALL = ("--sequence", "32", "--steps", "3", "--warm-up", "1", "--repeats", "2")


def run(*words, **environment):
    command = [PYTHON, "-m", "benchmarks.measure_training", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


@pytest.mark.parametrize(
    "words, method, stack",
    [
        (("--method", "lora", "--micro-batch", "2"), Method.LORA, Stack.HUGGINGFACE),
        (("--method", "full", "--stack", "framework", "--recompute", "none"), Method.FULL, Stack.FRAMEWORK),
    ],
)
def test_a_trainer_on_this_computer_writes_a_measurement_that_no_quote_uses(config, tmp_path, words, method, stack):
    ended = run(config, "--type", "g6e.xlarge", *words, *SMALL, "-o", tmp_path / "measurements.jsonl")
    assert ended.returncode == 0, ended.stderr
    ((measured,), findings) = load_measurements(tmp_path / "measurements.jsonl")
    assert not findings
    assert (measured.method, measured.stack, measured.instance_type) == (method, stack, "g6e.xlarge")
    assert (measured.accelerator, measured.accelerators, measured.sequence_length) == ("L40S", 1, 32)
    assert measured.global_batch_tokens == 32 * (2 if "--micro-batch" in words else 1)
    assert 0 < measured.tokens_per_s.low <= measured.tokens_per_s.mid <= measured.tokens_per_s.high
    assert measured.tokens_per_s.mid == pytest.approx(measured.global_batch_tokens / measured.step_s)
    assert measured.simulated
    facts = load_training()
    assert posterior(job_shape("L40S", chips=1), facts, 0.3) is None
    assert dict(measured.software).keys() >= {"torch", "transformers", "peft"}


FAULTS = [
    (("no-such-model", "--type", "g6e.xlarge"), "no-such-model is no model of `slipway models`, and no path"),
    (("llama-3.1-8b", "--type", "g6e.tiny"), "g6e.tiny is no instance type with accelerators"),
    (("qwen3-30b-a3b", "--type", "g6e.xlarge"), "is not a dense decoder with a gated MLP"),
    (("x", "--type", "g6e.xlarge", "--stack", "framework", "--method", "lora"), "--stack framework trains every"),
    (("x", "--type", "g6e.xlarge", "--repeats", "0"), "--repeats must be at least 1, got 0"),
]
EVERY_FAULT = """
import contextlib, io, json, sys
from benchmarks.measure_training import main
for words in json.loads(sys.argv[1]):
    written = io.StringIO()
    with contextlib.redirect_stderr(written):
        try:
            main(words)
        except SystemExit as ended:
            print(json.dumps(f"{ended.code} {written.getvalue()}"))
"""


def test_an_impossible_measurement_names_the_fault(tmp_path):
    words = json.dumps([[*line, "-o", str(tmp_path / "measurements.jsonl")] for line, _ in FAULTS])
    command = [PYTHON, "-c", EVERY_FAULT, words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    messages = ended.stdout.splitlines()
    assert len(messages) == len(FAULTS)
    for message, (_, fault) in zip(messages, FAULTS, strict=True):
        assert fault in json.loads(message)
    assert not (tmp_path / "measurements.jsonl").exists()


def test_steps_of_the_warm_up_and_between_repeats_do_not_count():
    code = (
        "from benchmarks.measure_training import rates\n"
        "repeats = [[0, 50, 51, 52, 53], [900, 980, 981, 982, 984]]\n"
        "rate, seconds = rates(repeats, 1, 600)\n"
        "print(rate.low, rate.mid, rate.high, seconds.mid)\n"
    )
    ended = subprocess.run([PYTHON, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [float(word) for word in ended.stdout.split()] == pytest.approx([300, 600 * 6 / 7, 600, 7 / 6])
