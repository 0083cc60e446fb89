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


RUNS = {
    "trainer": ("--method", "lora", "--micro-batch", "2"),
    "fsdp": ("--method", "full", "--stack", "framework", "--recompute", "none"),
}
FAULTS = [
    (("no-such-model", "--type", "g6e.xlarge"), "no-such-model is no model of `slipway models`, and no path"),
    (("llama-3.1-8b", "--type", "g6e.tiny"), "g6e.tiny is no instance type with accelerators"),
    (("qwen3-30b-a3b", "--type", "g6e.xlarge"), "is not a dense decoder with a gated MLP"),
    (("x", "--type", "g6e.xlarge", "--stack", "framework", "--method", "lora"), "--stack framework trains every"),
    (("x", "--type", "g6e.xlarge", "--repeats", "0"), "--repeats must be at least 1, got 0"),
]
EVERY_RUN = """
import contextlib, io, json, sys
from benchmarks.measure_training import main
ends = []
for words in json.loads(sys.argv[1]):
    written = io.StringIO()
    with contextlib.redirect_stderr(written):
        try:
            code = main(words)
        except SystemExit as ended:
            code = ended.code
    ends.append([code, written.getvalue()])
print("\\n" + json.dumps(ends))
"""


@pytest.fixture(scope="module")
def end_of(tmp_path_factory):
    """Exit code, messages and file of every run, of one process: the import of the frameworks takes seconds."""
    folder = tmp_path_factory.mktemp("measured")
    config = folder / "config.json"
    config.write_text(json.dumps(CONFIG))
    lines = [[str(config), "--type", "g6e.xlarge", *words, *SMALL] for words in RUNS.values()]
    lines += [list(words) for words, _ in FAULTS]
    files = [folder / f"{number}.jsonl" for number in range(len(lines))]
    words = json.dumps([[*line, "-o", str(file)] for line, file in zip(lines, files, strict=True)])
    command, environment = [PYTHON, "-c", EVERY_RUN, words], {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ends = json.loads(done.stdout.splitlines()[-1])
    return [(*end, file) for end, file in zip(ends, files, strict=True)]


@pytest.mark.parametrize(
    "name, method, stack", [("trainer", Method.LORA, Stack.HUGGINGFACE), ("fsdp", Method.FULL, Stack.FRAMEWORK)]
)
def test_measurement_of_a_local_trainer_is_written_and_used_by_no_quote(end_of, name, method, stack):
    code, messages, path = end_of[list(RUNS).index(name)]
    assert not code, messages
    ((measured,), findings) = load_measurements(path)
    assert not findings
    assert (measured.method, measured.stack, measured.instance_type) == (method, stack, "g6e.xlarge")
    assert (measured.accelerator, measured.accelerators, measured.sequence_length) == ("L40S", 1, 32)
    assert measured.global_batch_tokens == 32 * (2 if name == "trainer" else 1)
    assert 0 < measured.tokens_per_s.low <= measured.tokens_per_s.mid <= measured.tokens_per_s.high
    assert measured.tokens_per_s.mid == pytest.approx(measured.global_batch_tokens / measured.step_s)
    assert measured.simulated
    facts = load_training()
    assert posterior(job_shape("L40S", chips=1), facts, 0.3) is None
    assert dict(measured.software).keys() >= {"torch", "transformers", "peft"}


def test_impossible_measurement_is_refused_with_the_fault(end_of):
    for (code, messages, path), (_, fault) in zip(end_of[len(RUNS) :], FAULTS, strict=True):
        assert fault in f"{code} {messages}"
        assert not path.exists()
