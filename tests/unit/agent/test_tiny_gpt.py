"""The demo trainer: its gradients, its checkpoints, and that an interruption leaves no trace in the weights."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "tiny_gpt"
SMALL = ["--batch", "4", "--context", "32", "--log-every", "10"]


@pytest.fixture(scope="module")
def gpt_module():
    spec = importlib.util.spec_from_file_location("tiny_gpt_model", FOLDER / "model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def trainer(folder, *options, **environment):
    """The trainer as a process of its own, in an empty folder."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SLIPWAY_")}
    return subprocess.Popen(
        [sys.executable, str(FOLDER / "train.py"), *SMALL, *options],
        cwd=folder,
        env=variables | environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    output, _ = process.communicate(timeout=120)
    return process.returncode, output


def weights_line(output):
    return next(line for line in output.splitlines() if line.startswith("weights sha256 "))


class TestGradients:
    @pytest.fixture
    def case(self, gpt_module):
        """A model in double precision, away from its symmetric start, and a batch in which tokens repeat."""
        import numpy as np

        shape = gpt_module.Shape(vocabulary=11, context=6, width=8, heads=2, layers=2)
        rng = np.random.default_rng(3)
        weights = gpt_module.initial_weights(shape, 1, np.float64)
        weights = {name: value + rng.normal(0, 0.3, value.shape) for name, value in weights.items()}
        inputs, targets = rng.integers(0, 11, (2, 3, 5))
        return shape, weights, inputs, targets

    def test_agree_with_finite_differences(self, gpt_module, case):
        import numpy as np

        shape, weights, inputs, targets = case
        _, gradients = gpt_module.loss_and_gradients(weights, shape, inputs, targets)
        assert set(gradients) == set(weights)
        rng, step = np.random.default_rng(0), 1e-5
        for name, gradient in gradients.items():
            for at in {tuple(rng.integers(0, size) for size in gradient.shape) for _ in range(6)}:
                original = weights[name][at]
                losses = []
                for moved in (original + step, original - step):
                    weights[name][at] = moved
                    losses.append(gpt_module.loss_and_gradients(weights, shape, inputs, targets)[0])
                weights[name][at] = original
                slope = (losses[0] - losses[1]) / (2 * step)
                assert gradient[at] == pytest.approx(slope, rel=1e-5, abs=1e-8), f"{name}{list(at)}"

    def test_no_token_sees_a_later_one(self, gpt_module, case):
        shape, weights, inputs, targets = case
        changed = inputs.copy()
        changed[:, 3:] = (changed[:, 3:] + 1) % 11
        before = [
            gpt_module.loss_and_gradients(weights, shape, tokens[:, :3], targets[:, :3])[0]
            for tokens in (inputs, changed)
        ]
        assert before[0] == before[1]
        whole = [gpt_module.loss_and_gradients(weights, shape, tokens, targets)[0] for tokens in (inputs, changed)]
        assert whole[0] != whole[1]

    def test_a_uniform_guess_costs_the_logarithm_of_the_vocabulary(self, gpt_module):
        import numpy as np

        shape = gpt_module.Shape(vocabulary=50, context=4, width=8, heads=2, layers=1)
        weights = gpt_module.initial_weights(shape, 1, np.float64)
        weights["head"][:] = 0
        tokens = np.arange(8).reshape(2, 4)
        assert gpt_module.loss_and_gradients(weights, shape, tokens, tokens)[0] == pytest.approx(np.log(50))


class TestRun:
    @pytest.mark.long
    def test_an_interruption_leaves_no_trace_in_the_weights(self, tmp_path):
        steps = ["--steps", "60"]
        never = tmp_path / "never"
        often = tmp_path / "often"
        for folder in (never, often):
            folder.mkdir()
        code, output = finish(trainer(never, *steps))
        assert code == 0
        expected = weights_line(output)
        assert expected.endswith(" after step 60")
        first = trainer(often, *steps, "--log-every", "1", SLIPWAY_CHECKPOINT_DIR=str(often))
        while not (line := first.stdout.readline()).startswith("step 7/"):
            assert line, "it ended before its seventh step"
        first.send_signal(signal.SIGUSR1)
        code, output = finish(first)
        assert code == 85
        (checkpoint,) = often.glob("step-*")
        assert 7 <= int(checkpoint.name.removeprefix("step-")) < 60
        assert not list(often.glob("tmp-*"))
        second = trainer(
            often, *steps, "--every", "10", SLIPWAY_CHECKPOINT_DIR=str(often), SLIPWAY_RESUME_DIR=str(checkpoint)
        )
        code, output = finish(second)
        assert (code, weights_line(output)) == (0, expected)
        assert output.startswith(f"resumed from step {checkpoint.name.removeprefix('step-')} ")
        summary = json.loads((often / "step-60" / "weights.json").read_text())
        assert summary == {"step": 60, "sha256": expected.split()[2]}

    def test_run_reports_steps_and_the_loss_falls(self, tmp_path):
        metrics = tmp_path / "metrics.jsonl"
        code, output = finish(trainer(tmp_path, "--steps", "80", "--batch", "8", SLIPWAY_METRICS=str(metrics)))
        assert code == 0
        first, *lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        assert (first["parallel"], sorted(first["software"])) == ({"data": 1}, ["numpy", "python"])
        assert [line["step"] for line in lines] == list(range(10, 81, 10))
        assert [line["tokens"] for line in lines] == [step * 8 * 32 for step in range(10, 81, 10)]
        assert 4.5 < lines[0]["loss"] < 5.6  # near log 256 = 5.55: it knows nothing yet
        assert lines[-1]["loss"] < 3.6
        assert output.count("\nstep ") == 8
        assert not list(tmp_path.glob("step-*"))

    def test_run_saves_by_the_interval_in_the_file(self, tmp_path):
        interval = tmp_path / "interval"
        interval.write_text("0\n")
        finish(
            trainer(
                tmp_path,
                "--steps",
                "3",
                SLIPWAY_CHECKPOINT_DIR=str(tmp_path),
                SLIPWAY_CHECKPOINT_INTERVAL_S="600",
                SLIPWAY_CHECKPOINT_INTERVAL_FILE=str(interval),
            )
        )
        assert sorted(path.name for path in tmp_path.glob("step-*")) == ["step-1", "step-2", "step-3"]

    @pytest.fixture
    def checkpoint(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("checkpoint")
        finish(trainer(folder, "--steps", "2", "--checkpoint-dir", str(folder)))
        return folder / "step-2"

    def test_run_refuses_another_runs_checkpoint(self, tmp_path, checkpoint):
        code, output = finish(trainer(tmp_path, "--steps", "3", "--seed", "2", "--resume-dir", str(checkpoint)))
        assert code == 1
        assert output == f"{checkpoint}: written with another seed, steps; the same weights would not come of it\n"

    def test_run_refuses_weights_different_from_the_saved_ones(self, tmp_path, checkpoint):
        summary = checkpoint / "weights.json"
        summary.write_text(summary.read_text().replace('"sha256": "', '"sha256": "0'))
        code, output = finish(trainer(tmp_path, "--steps", "2", "--resume-dir", str(checkpoint)))
        assert code == 1
        assert output.endswith("the weights are not those that were saved\n")

    def test_run_refuses_zero_steps(self, tmp_path):
        code, output = finish(trainer(tmp_path, "--steps", "0"))
        assert (code, output.splitlines()[-1]) == (2, "train.py: error: --steps must be at least 1")
