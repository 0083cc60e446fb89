"""Measurements of runs: how they are taken and stored, their effect on quotes, and `slipway accuracy`."""

import functools
import json
from dataclasses import replace

import pytest

from launcher.answers import spike as answer
from launcher.answers.spike import page
from launcher.model.errors import UnreadableInputError
from launcher.model.measurement import MEASUREMENTS, Measurement
from launcher.model.money import Range
from launcher.model.spike import Spiked, SpikeResult
from launcher.records.measurements import add_measurement, measurement_document, parse_measurement
from launcher.workflow.history.measurement import keep_measurement, measurement_of
from tests.documents import read_document
from tests.measured_runs import CATALOG, EVENTS, PLAN, QUOTE, lines, measurement, written_run


@pytest.fixture
def measured_run_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return functools.partial(written_run, tmp_path)


def measure(**changes) -> Measurement:
    return measurement(**{"global_batch_tokens": 1e6, "step_s": 10.0, "restore_s": 2.0, "revision": "abc"} | changes)


class TestFromRun:
    def test_rate_is_measured_on_warm_parts_of_all_attempts(self, measured_run_of):
        job_measurement = measurement_of("tiny", measured_run_of(lines(100_000)), CATALOG)
        assert job_measurement.tokens_per_s.mid == pytest.approx(100_000, rel=0.03)
        assert 85_000 < job_measurement.tokens_per_s.low < 95_000
        assert 105_000 < job_measurement.tokens_per_s.high < 115_000
        assert (job_measurement.global_batch_tokens, round(job_measurement.step_s)) == (1e6, 10)
        assert (job_measurement.boot_s, job_measurement.restore_s, job_measurement.checkpoint_write_s) == (
            300.0,
            40.5,
            12.0,
        )

    def test_restore_time_of_uninterrupted_run_is_read_back_time(self, measured_run_of):
        folder = measured_run_of(lines(100_000))
        read_back_events = [dict(event) for event in EVENTS]
        read_back_events[2] |= {"event": "read-back", "seconds": 33.0}
        folder.events.write_text("".join(json.dumps(event) + "\n" for event in read_back_events))
        job_measurement = measurement_of("tiny", folder, CATALOG)
        assert (job_measurement.restore_s, job_measurement.restart_s) == (33.0, None)
        assert (job_measurement.model, job_measurement.nodes, job_measurement.simulated) == ("llama-3.1-8b", 2, False)

    def test_tokens_per_step_from_plan_give_rate(self, measured_run_of):
        train = PLAN["workload"]["train"] | {"global_batch_tokens": 2_000_000}
        job_measurement = measurement_of(
            "tiny", measured_run_of(lines(100_000, tokens=False), plan=PLAN | {"workload": {"train": train}}), CATALOG
        )
        assert job_measurement.tokens_per_s.mid == pytest.approx(200_000, rel=0.03)

    def test_seconds_of_single_steps_give_no_rate(self, measured_run_of):
        of_steps = [line | {"seconds": 10.0 + line["step"] % 3} for line in lines(100_000)[:-1]]
        with pytest.raises(UnreadableInputError, match="metrics have 0 stretches") as refused:
            measurement_of("tiny", measured_run_of(of_steps), CATALOG)
        assert "the seconds since the start of the attempt" in refused.value.hint

    @pytest.mark.parametrize("metrics", [[], lines(100_000)[:4], lines(100_000, tokens=False)])
    def test_too_few_metrics_refused(self, measured_run_of, metrics):
        with pytest.raises(UnreadableInputError, match="stretches after the warm-up, 3 are needed"):
            measurement_of("tiny", measured_run_of(metrics), CATALOG)

    def test_interruptions_restarts_and_hours_are_measured(self, measured_run_of):
        folder = measured_run_of(lines(100_000))
        interruption = {"ended_by": "spot-interruption", "exit_code": 75}
        events = [
            *EVENTS[:2],
            {"time": "2026-11-20T18:05:00Z", "event": "interrupted", "attempt": 1, **interruption},
            {"time": "2026-11-20T18:15:00Z", "event": "attempt-started", "attempt": 2},
            {"time": "2026-11-20T18:16:00Z", "event": "restored", "attempt": 2, "step": 5, "seconds": 40.0},
            {"time": "2026-11-20T20:15:00Z", "event": "interrupted", "attempt": 2, **interruption},
            {"time": "2026-11-20T20:35:00Z", "event": "attempt-started", "attempt": 3},
            {**EVENTS[-1], "attempt": 3},
        ]
        folder.events.write_text("".join(json.dumps(event) + "\n" for event in events))
        job_measurement = measurement_of("tiny", folder, CATALOG)
        assert (job_measurement.interruptions, job_measurement.restarts) == (2, 2)
        assert job_measurement.restart_s == (600 + 1200) / 2 + 40
        assert job_measurement.running_h == pytest.approx(6 + 2 + 2.5)
        assert (job_measurement.region, job_measurement.purchase_option) == ("us-east-2", "on-demand")

    def test_run_on_a_chosen_type_measures_this_type(self, measured_run_of):
        folder = measured_run_of(lines(100_000))
        begun = [event for event in EVENTS if event["event"] == "attempt-started"]

        def chosen(*types):
            placed = [begun[0] | {"instance_types": list(types), "zones": ["us-east-2a"] * len(types)}]
            events = [*placed, *(event for event in EVENTS if event not in begun)]
            folder.events.write_text("".join(json.dumps(event) + "\n" for event in events))
            return measurement_of("tiny", folder, CATALOG)

        one = chosen("p4d.24xlarge", "p4d.24xlarge")
        assert (one.instance_type, one.accelerator, one.accelerators) == ("p4d.24xlarge", "A100-40GB", 16)
        with pytest.raises(UnreadableInputError, match=r"several instance types \(p4d\.24xlarge, p5\.48xlarge\)"):
            chosen("p5.48xlarge", "p4d.24xlarge")

    def test_attempt_without_end_event_counts_hours_without_restart(self, measured_run_of):
        folder = measured_run_of(lines(100_000))
        begun = {"time": "2026-11-20T18:05:00Z", "event": "attempt-started", "attempt": 2}
        events = [*EVENTS[:2], begun, {**EVENTS[-1], "attempt": 2}]
        folder.events.write_text("".join(json.dumps(event) + "\n" for event in events))
        job_measurement = measurement_of("tiny", folder, CATALOG)
        assert (job_measurement.interruptions, job_measurement.restarts, job_measurement.restart_s) == (1, 0, None)
        assert job_measurement.running_h == pytest.approx(11)


class TestFigures:
    def test_step_range_memory_and_compile_time_are_measured(self, measured_run_of):
        metrics = [
            {**line, "memory_gib": 60.0 + number % 3} if "step" in line else line
            for number, line in enumerate(lines(100_000))
        ]
        job_measurement = measurement_of("tiny", measured_run_of(metrics), CATALOG)
        assert (
            job_measurement.step_range_s.low
            < job_measurement.step_range_s.mid
            == job_measurement.step_s
            < job_measurement.step_range_s.high
        )
        # The first line says 100 seconds for one step of 10.
        assert job_measurement.compile_s == pytest.approx(100.0 - job_measurement.step_s)
        assert job_measurement.memory_gib == 62.0
        assert parse_measurement(measurement_document(job_measurement)) == job_measurement

    def test_reported_compile_seconds_are_used(self, measured_run_of):
        assert (
            measurement_of("tiny", measured_run_of([{"compile_seconds": 42.5}, *lines(100_000)]), CATALOG).compile_s
            == 42.5
        )
        assert measurement_of("tiny", measured_run_of(lines(100_000)), CATALOG).memory_gib is None


class TestSetup:
    SAID = ({"parallel": {"data": 4, "tensor": 4}}, {"software": {"torch": "2.9.0", "python": "3.12.3"}})

    def test_measured_mfu_equals_quote_arithmetic(self, measured_run_of, tmp_path, slipway):
        (tmp_path / "plan.json").write_text(json.dumps(PLAN))
        quoted = json.loads(slipway("quote", "plan.json", "--json")[1])["training"]
        job_measurement = measurement_of("tiny", measured_run_of(lines(100_000)), CATALOG)
        for name in ("low", "mid", "high"):
            rate, mfu = getattr(job_measurement.tokens_per_s, name), getattr(job_measurement.mfu, name)
            assert mfu / rate == pytest.approx(quoted["mfu"]["mid"] / quoted["tokens_per_s"]["mid"])
        # 6 x 8.03e9 + 12 x 32 x 4096 x 8192 FLOP a token, 16 chips of 989 TFLOP/s.
        assert job_measurement.mfu.mid == pytest.approx(
            job_measurement.tokens_per_s.mid * 6.107e10 / (16 * 989e12), rel=0.01
        )

    def test_parallelism_and_versions_from_trainer_and_driver_from_agent(self, measured_run_of):
        folder = measured_run_of([*self.SAID, *lines(100_000)])
        begun = EVENTS[1] | {"software": {"nvidia-driver": "580.95.05", "torch": "0.1", "odd one": "1"}}
        folder.events.write_text("".join(json.dumps(event) + "\n" for event in (EVENTS[0], begun, *EVENTS[2:])))
        job_measurement = measurement_of("tiny", folder, CATALOG)
        assert job_measurement.parallelism == (("data", 4), ("tensor", 4))
        assert job_measurement.software == (("nvidia-driver", "580.95.05"), ("python", "3.12.3"), ("torch", "2.9.0"))
        document = measurement_document(job_measurement)
        assert document["parallelism"] == {"data": 4, "tensor": 4}
        assert document["software"]["torch"] == "2.9.0"
        assert parse_measurement(json.loads(json.dumps(document))) == job_measurement

    def test_unreported_parallelism_and_versions_are_absent(self, measured_run_of):
        document = measurement_document(measurement_of("tiny", measured_run_of(lines(100_000)), CATALOG))
        assert (document["parallelism"], document["software"]) == (None, {})

    @pytest.mark.parametrize(
        "parallel_degrees, kept",
        [
            ({"data": 2, "tensor": 8}, {"data": 2, "tensor": 8}),
            ({"tensor": 8}, {"tensor": 8}),
            ({"data": 16, "expert": 8}, {"data": 16, "expert": 8}),
            ({"data": 3, "tensor": 8}, None),
            ({"data": 16, "tensor": 2}, None),
            ({"data": 16, "expert": 3}, None),
        ],
    )
    def test_parallelism_not_dividing_workers_is_dropped(self, measured_run_of, parallel_degrees, kept):
        job_measurement = measurement_of(
            "tiny",
            measured_run_of([{"parallel": {"data": 1}}, {"parallel": parallel_degrees}, *lines(100_000)]),
            CATALOG,
        )
        assert measurement_document(job_measurement)["parallelism"] == kept

    def test_spike_document_and_page_contain_measurement(self, measured_run_of):
        job_measurement = measurement_of("tiny", measured_run_of([*self.SAID, *lines(100_000)]), CATALOG)
        spiked = Spiked(measurement=job_measurement, estimated=job_measurement.tokens_per_s)
        result = SpikeResult(name="tiny", measured=(spiked,), unmeasured=())
        (only,) = answer.document(result)["measurements"]
        assert set(measurement_document(job_measurement)) < set(only)
        assert (only["parallelism"], only["mfu"]["mid"]) == ({"data": 4, "tensor": 4}, job_measurement.mfu.mid)
        assert f"{job_measurement.mfu.mid:.2g}" in " ".join(page(result, 120))


class TestKept:
    def test_measurement_is_stored_once_and_used_by_next_quote(self, measured_run_of, tmp_path, slipway):
        (tmp_path / "plan.json").write_text(json.dumps(PLAN))
        before = json.loads(slipway("quote", "plan.json", "--json")[1])["training"]["tokens_per_s"]
        folder, messages = measured_run_of(lines(60_000)), []
        for _ in range(2):
            keep_measurement("tiny", folder, tmp_path, CATALOG, messages.append)
        assert len((tmp_path / MEASUREMENTS).read_text().splitlines()) == len(messages) == 1
        after = json.loads(slipway("quote", "plan.json", "--json")[1])["training"]["tokens_per_s"]
        assert after["mid"] == pytest.approx(60_000, rel=0.1) != pytest.approx(before["mid"], rel=0.1)
        assert after["high"] / after["low"] < before["high"] / before["low"]
        explanation = " ".join(slipway("plan", "plan.json", "--explain", "1")[1].split())
        assert "own measurements: 0." in explanation
        assert "llama-3.1-8b full bf16 on 2 x p5.48xlarge (tiny/20261120T120000Z): measured 0." in explanation

    def test_sandbox_measurement_stays_in_run_folder(self, measured_run_of, tmp_path):
        folder = measured_run_of(lines(60_000), simulated=True)
        assert keep_measurement("tiny", folder, tmp_path, CATALOG, lambda _: None).simulated
        assert (folder.path / "measurement.json").is_file()
        assert not (tmp_path / MEASUREMENTS).exists()

    def test_contradicting_measurements_are_named_in_quote(self, tmp_path, slipway, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "plan.json").write_text(json.dumps(PLAN))
        slow = Range(low=39_000.0, mid=40_000.0, high=41_000.0)
        for job_measurement in (measure(), measure(run="b/1", tokens_per_s=slow)):
            add_measurement(tmp_path / MEASUREMENTS, job_measurement)
        codes = [finding["code"] for finding in json.loads(slipway("quote", "plan.json", "--json")[1])["findings"]]
        assert "measurements-contradict" in codes

    def test_measured_starts_restarts_and_interruptions_enter_quote(self, tmp_path, slipway, monkeypatch):
        monkeypatch.chdir(tmp_path)
        spot = {**PLAN, "purchase": {"option": "spot"}}
        (tmp_path / "plan.json").write_text(json.dumps(spot))

        def quoted():
            document = json.loads(slipway("quote", "plan.json", "--json")[1])
            return document, {assumption["name"]: assumption for assumption in document["assumptions"]}

        before, assumed = quoted()
        met = {"purchase_option": "spot", "region": "us-east-2", "running_h": 100.0, "interruptions": 20}
        for run_of in ("a/1", "a/2"):
            timed = measure(run=run_of, boot_s=1800.0, restart_s=2400.0, restarts=20, **met)
            add_measurement(tmp_path / MEASUREMENTS, timed)
        after, assumptions = quoted()
        starts = "start-up of the nodes, billed before the first step"
        restarts = "restart after an interruption, billed"
        rate = "interruptions of the job by spot"
        assert (assumed[starts]["value"], assumed[restarts]["value"]) == ("9.27", "15")
        assert 20 < float(assumptions[starts]["value"]) <= 30
        assert 35 < float(assumptions[restarts]["value"]) <= 40
        assert 0.15 < float(assumptions[rate]["value"]) < 0.2
        assert float(assumptions[rate]["value"]) > 2 * float(assumed[rate]["value"])
        for name in (starts, restarts, rate):
            assert assumptions[name]["source"].startswith("measured, 2 runs, 2026-11-20")
        assert after["spot"]["interruptions_expected"] > before["spot"]["interruptions_expected"]
        page = " ".join(slipway("plan", "plan.json", "--explain", "1")[1].split())
        assert "without a run 9 min (4.5 to 18)" in page
        assert "a/1: 20 in 108 node-hours" in page

    def test_planned_interruption_rate_overrides_measured(self, tmp_path, slipway, monkeypatch):
        monkeypatch.chdir(tmp_path)
        plan_document = {**PLAN, "purchase": {"option": "spot", "interruptions_per_node_hour": 0.01}}
        (tmp_path / "plan.json").write_text(json.dumps(plan_document))
        met = {"purchase_option": "spot", "region": "us-east-2", "running_h": 100.0, "interruptions": 20}
        add_measurement(tmp_path / MEASUREMENTS, measure(**met))
        assumptions = json.loads(slipway("quote", "plan.json", "--json")[1])["assumptions"]
        sources = {assumption["name"]: assumption["source"] for assumption in assumptions}
        assert sources["interruptions of the job by spot"] == "purchase.interruptions_per_node_hour"

    def test_contradicting_interruption_measurements_are_named(self, tmp_path, slipway, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "plan.json").write_text(json.dumps({**PLAN, "purchase": {"option": "spot"}}))
        met = {"purchase_option": "spot", "region": "us-east-2"}
        add_measurement(tmp_path / MEASUREMENTS, measure(run="calm/1", running_h=500.0, interruptions=0, **met))
        add_measurement(tmp_path / MEASUREMENTS, measure(run="storm/1", running_h=20.0, interruptions=30, **met))
        findings = json.loads(slipway("quote", "plan.json", "--json")[1])["findings"]
        (message,) = [finding["message"] for finding in findings if finding["code"] == "measurements-contradict"]
        assert message.startswith("own runs contradict each other on interruptions")
        assert "storm/1" in message


class TestAccuracy:
    def test_accuracy_compares_quoted_with_measured(self, measured_run_of, tmp_path, slipway):
        keep_measurement("tiny", measured_run_of(lines(100_000)), tmp_path, CATALOG, lambda _: None)
        code, out, _ = slipway("accuracy", "--json")
        document = read_document(out)
        assert (code, document["schema"], document["tokens_per_s"]) == (
            *(0, "slipway.accuracy/1"),
            {"n": 1, "within_25": 1.0, "covered": 1.0},
        )
        (only,) = document["runs"]
        assert (only["hours"]["ratio"], only["hours"]["covered"]) == (1.1, True)
        assert only["usd"] == {
            "quoted": {**QUOTE["usd"], "mean": None},
            "measured": "1210",
            "ratio": 1.1,
            "covered": True,
        }
        _, out, _ = slipway("accuracy")
        assert "tokens a second: of 1 run 100% within 0.8 to 1.25 of the quote, 100% in its range." in out

    def test_sandbox_measurement_counts_in_no_share(self, measured_run_of, tmp_path, slipway):
        keep_measurement("tiny", measured_run_of(lines(100_000), simulated=True), tmp_path, CATALOG, lambda _: None)
        assert json.loads(slipway("accuracy", "--json")[1])["hours"] == {"n": 0, "within_25": None, "covered": None}
        assert "1 run in the sandbox, on emulated nodes." in slipway("accuracy")[1]


class TestSamples:
    """A trainer of images, video or speech counts samples instead of tokens."""

    PLAN_OF_IMAGES = PLAN | {"workload": {"train": {"model": {"params_b": 0.3}, "hours": 2}}}

    def test_trainer_counting_samples_has_samples_rate(self, measured_run_of):
        folder = measured_run_of(
            [{("samples" if key == "tokens" else key): value for key, value in line.items()} for line in lines(800)],
            plan=self.PLAN_OF_IMAGES,
        )
        found = measurement_of("tiny", folder, CATALOG)
        assert found.tokens_per_s is None
        assert found.samples_per_s.mid == pytest.approx(800, rel=0.03)
        assert (found.global_batch_tokens, found.mfu) == (None, None)
        assert parse_measurement(measurement_document(found)) == found

    def test_spike_page_names_samples_throughput_key_per_node(self):
        found = measure(tokens_per_s=None, samples_per_s=Range(low=790.0, mid=800.0, high=810.0), nodes=2)
        text = "\n".join(
            page(SpikeResult(name="x", measured=(Spiked(measurement=found, estimated=None),), unmeasured=()), 100)
        )
        assert "800 samples" in text
        assert "workload.train.throughput_samples_per_s: 400" in " ".join(text.split())

    @pytest.mark.parametrize("rates", [(None, None), (Range(low=1, mid=1, high=1), Range(low=1, mid=1, high=1))])
    def test_measurement_requires_exactly_one_rate(self, rates):
        document = measurement_document(measure(tokens_per_s=rates[0], samples_per_s=rates[1]))
        with pytest.raises(ValueError, match="either tokens_per_s or samples_per_s"):
            parse_measurement(document)

    def test_samples_rate_does_not_correct_token_estimate(self, tmp_path, monkeypatch):
        from launcher.catalog.training import load_training
        from launcher.planning.posterior import posterior
        from tests.measured_runs import job_shape

        found = measure(tokens_per_s=None, samples_per_s=Range(low=790.0, mid=800.0, high=810.0))
        facts = replace(load_training(), measured=(found,))
        assert posterior(job_shape("H100", chips=16), facts, 0.3) is None
