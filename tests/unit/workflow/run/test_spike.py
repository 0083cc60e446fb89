"""Spikes: the plans they launch, when the job ends, and compare before and after."""

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from launcher import plan_file
from launcher.catalog.load import load
from launcher.cli.app import main
from launcher.model.document import document
from launcher.model.enums import CheckpointMode
from launcher.model.errors import ImpossibleError
from launcher.model.measurement import MEASUREMENTS
from launcher.model.money import Range
from launcher.records import run_folder
from launcher.records.measurements import add_measurement
from launcher.submit.jobs import UnreachableError
from launcher.workflow.run.follow import StopCondition
from launcher.workflow.run.spike import SpikePlans, stop_after
from tests.measured_runs import measurement

CATALOG = load()
TRAIN = {"model": "llama-3.1-8b", "tokens_b": 2.0, "sequence_length": 8192, "runs": 24}
PLAN = {
    "slipway": 1,
    "name": "a-job-whose-name-is-nearly-forty-long",
    "workload": {"train": TRAIN},
    "checkpoint": {"uri": "s3://bucket/jobs/mine/"},
    "run": {"workdir": "work", "retries": 3, "time_limit_h": 0.25},
}


@pytest.fixture
def plans(tmp_path):
    def make(**changes):
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(PLAN | changes))
        (tmp_path / "work").mkdir(exist_ok=True)
        request = plan_file.load(path)
        return SpikePlans(path=path, request=request, train=request.workload.train, catalog=CATALOG)

    return make


class TestPlans:
    def test_spike_plan_is_small_and_separate_from_job(self, plans, tmp_path):
        spike = plans().plan("trn2.48xlarge", 30)
        assert spike.name == "a-job-whose-name-is-nearly-fo-spike-trn2"
        assert (spike.target.instance_type, spike.target.nodes.minimum, spike.target.nodes.maximum) == (
            ("trn2.48xlarge",),
            1,
            1,
        )
        assert (spike.workload.train.hours, spike.workload.train.tokens_b) == (0.5, None)
        assert (spike.run.time_limit_h, spike.run.retries) == (0.25, 0)
        assert spike.run.workdir == str(tmp_path / "work")
        assert spike.run.env == {"SLIPWAY_READ_BACK": "1"}
        assert spike.checkpoint.uri == "s3://bucket/jobs/mine-spike-trn2"
        # It is a plan file like any other.
        path = tmp_path / "spike.json"
        path.write_text(json.dumps(document(spike)))
        assert plan_file.load(path) == spike

    def test_spike_uses_smallest_fitting_node_count(self, plans):
        big = plans(workload={"train": TRAIN | {"model": "llama-3.1-70b"}})
        assert big.plan("p4d.24xlarge", 30).target.nodes.minimum > 1
        with pytest.raises(ImpossibleError, match=r"has no instance type p5\.48xlrge") as caught:
            big.plan("p5.48xlrge", 30)
        assert caught.value.hint == "did you mean p5.48xlarge?"
        with pytest.raises(ImpossibleError, match="has no accelerators"):
            big.plan("m6i.large", 30)

    def test_spike_of_open_plan_uses_cheapest_gpu_and_trainium(self, plans, tmp_path):
        from launcher.workflow.quote.options import PriceOptions

        now = datetime(2026, 11, 20, tzinfo=UTC)
        types = [CATALOG.instance_types[name] for name in plans().types(now, PriceOptions())]
        assert [CATALOG.accelerators[type_.accelerator].family for type_ in types] == ["nvidia", "neuron"]
        pinned = plans(target={"instance_type": ["p5.48xlarge", "trn1.32xlarge"]})
        assert list(pinned.types(now, PriceOptions())) == ["p5.48xlarge", "trn1.32xlarge"]


class Slurm:
    """The scheduler's side, which is a process elsewhere; it does not answer the first time."""

    def __init__(self):
        self.requests = []

    def cancel(self, job):
        self.requests.append(job)
        if len(self.requests) == 1:
            raise UnreachableError("the head node is silent")


class Watch:
    def __init__(self):
        self.source, self.job = Slurm(), "job 7"


class Follower:
    step = None


class TestEnough:
    def test_spike_job_cancelled_once_and_again_after_silence(self):
        checked, messages = [], []
        watch, follower = Watch(), Follower()

        def enough(folder):
            checked.append(follower.step)
            return follower.step >= 20

        sated = StopCondition(is_met=enough, watch=watch, folder=None, notify=messages.append)
        for step in (None, 10, 10, 20, 20, 20, 30):
            follower.step = step
            sated.check(follower)
        assert checked == [10, 20, 20]
        assert watch.source.requests == ["job 7", "job 7"]
        assert messages == [
            "the head node is silent; trying again",
            "step 20: the measurement is complete, cancelling the job",
        ]

    def test_stop_condition_without_predicate_makes_no_requests(self):
        watch, follower = Watch(), Follower()
        follower.step = 20
        sated = StopCondition(is_met=None, watch=watch, folder=None, notify=None)
        sated.check(follower)
        assert (sated.checked_step, sated.over, watch.source.requests) == (None, False, [])


class TestReadBackWait:
    """What a spike waits for: so many steps, and a checkpoint that came back."""

    @pytest.fixture
    def look(self, tmp_path):
        folder = run_folder.create("tiny", datetime(2026, 11, 20, 12, tzinfo=UTC), tmp_path)
        (folder.path / "job").mkdir()
        minutes = [0]

        def make(mode=CheckpointMode.AGENT):
            enough = stop_after(100, mode, lambda: datetime(2026, 11, 20, 12, minutes[0], tzinfo=UTC))

            def check(*, minute, steps, events=()):
                minutes[0] = minute
                lines = [{"step": step, "seconds": float(step)} for step in range(5, steps + 1, 5)]
                (folder.path / "job" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
                run_events = [
                    {"event": event, "time": "2026-11-20T12:00:00Z", "attempt": 1, "step": 5} for event in events
                ]
                (folder.path / "job" / "events.jsonl").write_text(
                    "".join(json.dumps(event) + "\n" for event in run_events)
                )
                return enough(folder)

            return check

        return make

    def test_spike_needs_rate_and_read_back_checkpoint(self, look):
        is_shown = look()
        assert not is_shown(minute=1, steps=95, events=["read-back"])
        assert not is_shown(minute=2, steps=100, events=["checkpoint-uploaded"])
        assert is_shown(minute=3, steps=105, events=["checkpoint-uploaded", "read-back"])

    @pytest.mark.parametrize("message", ["read-back-failed", "read-back-skipped"])
    def test_failed_read_back_is_not_awaited(self, look, message):
        assert look()(minute=2, steps=100, events=[message])

    def test_trainer_without_checkpoints_is_awaited_five_minutes(self, look):
        is_shown = look()
        assert not is_shown(minute=2, steps=100)
        assert not is_shown(minute=6, steps=200)
        assert is_shown(minute=7, steps=205)

    @pytest.mark.parametrize("mode", [CheckpointMode.DCP, CheckpointMode.NONE])
    def test_read_back_not_awaited_without_agent_checkpoints(self, look, mode):
        assert look(mode)(minute=2, steps=100)


def measure(name, accelerator, chips, rate):
    rates = Range(low=rate * 0.98, mid=rate, high=rate * 1.02)
    machine = {"instance_type": name, "accelerator": accelerator, "accelerators": chips, "nodes": 1}
    return measurement(**machine, tokens_per_s=rates, run=f"{name}/1")


class TestCompare:
    @pytest.fixture
    def compare(self, monkeypatch, capsys, tmp_path):
        monkeypatch.chdir(tmp_path)
        # Overrides put the two sides near to each other whatever the catalog says.
        plan = PLAN | {
            "name": "close",
            "workload": {"train": TRAIN | {"runs": 24, "runs_per_month": 40}},
            "target": {"instance_type": ["p5.48xlarge", "trn2.48xlarge"], "region": "us-east-2", "nodes": 1},
            "purchase": {
                "option": "on-demand",
                "price_overrides": {"p5.48xlarge/on-demand": "55", "trn2.48xlarge/on-demand": "40"},
            },
        }
        (tmp_path / "plan.json").write_text(json.dumps(plan))

        def run(*arguments):
            monkeypatch.setattr(sys, "argv", ["slipway", "compare", "plan.json", *arguments])
            with pytest.raises(SystemExit) as ended:
                main()
            assert ended.value.code == 0
            return capsys.readouterr()

        return run

    def test_too_close_verdict_gives_spike_commands_and_then_decides(self, compare, tmp_path):
        assert json.loads(compare("--json").out)["verdict"]["choice"] == "measure-first"
        page = compare()
        commands = [line.strip() for line in page.err.splitlines() if "slipway spike" in line]
        assert commands == [f"next: slipway spike plan.json --type {name}" for name in ("p5.48xlarge", "trn2.48xlarge")]
        add_measurement(tmp_path / MEASUREMENTS, replace(measure("p5.48xlarge", "H100", 8, 60_000), simulated=True))
        sentence = "What the sandbox measured on p5.48xlarge is of this computer, and decides nothing."
        assert (sentence in page.out, sentence in compare().out) == (False, True)
        assert "--type p5.48xlarge" in compare().err
        add_measurement(tmp_path / MEASUREMENTS, measure("p5.48xlarge", "H100", 8, 60_000))
        assert "--type p5.48xlarge" not in compare().err
        add_measurement(tmp_path / MEASUREMENTS, replace(measure("trn2.48xlarge", "Trainium2", 16, 30_000)))
        assert json.loads(compare("--json").out)["verdict"]["choice"] == "gpu"
        assert "slipway spike" not in compare().err
