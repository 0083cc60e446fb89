"""status, logs -f, cancel and the fallback, for jobs on a real Slurm over a real sshd."""

import json
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from launcher.cli.app import main
from launcher.cli.console import CLOCK
from launcher.model.errors import SlipwayError
from launcher.model.report import RunStatus
from launcher.records.run_folder import latest
from launcher.workflow.quote.fresh import Picked
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch_options import LaunchOptions
from launcher.workflow.run.plan_launch import Fallback
from tests.sandbox.submit.conftest import BUCKET
from tests.waiting import until

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm-commands")]
TALKER = """import json, os, time
from pathlib import Path
for step in range(1, 4):
    print("step", step, "é", flush=True)
    with Path(os.environ["SLIPWAY_METRICS"]).open("a") as lines:
        lines.write(json.dumps({"step": step, "steps": 3, "loss": 1.5}) + "\\n")
        lines.write(json.dumps({"checkpoint_step": step, "checkpoint_seconds": 0.1}) + "\\n")
while not Path("..", "go").exists():
    time.sleep(0.1)
print("done", flush=True)
"""


@pytest.fixture
def closed_terminal(far, monkeypatch):
    """A job that runs, and a terminal that has been closed."""
    (far.work / "train.py").write_text(TALKER)

    def stop(now):
        if now.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        far.launch(far.plan([sys.executable, "train.py"]), progress=stop)
    monkeypatch.chdir(far.root)
    for name, value in far.environment.items():
        monkeypatch.setenv(name, value)
    return far


@pytest.fixture
def slipway_bytes(closed_terminal, monkeypatch, capsysbinary):
    """A command; its exit code, its result, its chatter."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["slipway", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsysbinary.readouterr()
        return ended.value.code, out.decode(), err.decode()

    return run


def test_run_is_found_followed_and_reported(closed_terminal, slipway_bytes):
    code, out, _ = slipway_bytes("status", "far", "--json")
    document = json.loads(out)
    assert (code, document["schema"], document["status"], document["state"]) == (
        0,
        "slipway.status/1",
        "running",
        "RUNNING",
    )
    assert (document["step"], document["steps"], document["loss"], document["restarts"]) == (3, 3, 1.5, 0)
    assert document["nodes"] == ["trn1-2xlarge-dy-nodes-1"]
    assert document["checkpoint_uri"] == f"s3://{BUCKET}/team"
    assert [attempt["ended_by"] for attempt in document["attempts"]] == [None]
    code, out, _ = slipway_bytes("status", "far")
    assert code == 0
    assert f"far: running, job {document['job']} RUNNING on trn1-2xlarge-dy-nodes-1" in out
    assert "step 3 of 3, loss 1.500" in out

    so_far = json.loads(slipway_bytes("report", "far", "--json")[1])
    assert so_far["status"] == "running"
    # Both round, and the meter has cents: what matters is that they count the same clock.
    assert so_far["actual"]["hours"] == pytest.approx(document["meter"]["hours"], abs=0.05)
    assert float(so_far["actual"]["usd_used"]) == pytest.approx(float(document["meter"]["usd"]), abs=0.5)
    assert " so far, $" in slipway_bytes("report", "far")[1]

    place = latest("far", closed_terminal.root).read_json("submission.json")["folder"]
    (closed_terminal.head.home / "slipway" / place.rpartition("/")[2] / "go").touch()
    code, out, err = slipway_bytes("logs", "far", "-f")
    assert (code, err.splitlines()[-1]) == (0, "far: succeeded")
    assert out.count("step 1 é\n") == 1
    assert out.count("done\n") == 1
    code, out, _ = slipway_bytes("logs", "far", "--attempt", "1")
    assert (code, "step 3 é" in out, "done" in out) == (0, True, True)
    code, out, _ = slipway_bytes("report", "far", "--json")
    report = json.loads(out)
    assert (report["status"], report["attempts"][0]["exit_code"], report["attempts"][0]["last_step"]) == (
        "succeeded",
        0,
        3,
    )
    assert "has ended already: nothing is cancelled" in slipway_bytes("cancel", "far", "--yes")[2]
    code, out, _ = slipway_bytes("runs", "--json")
    assert [run["status"] for run in json.loads(out)["runs"]] == ["succeeded"]


def test_meter_of_followed_spot_job_shows_current_price(closed_terminal, slipway_bytes, monkeypatch):
    folder = latest("far", closed_terminal.root)
    spot = {"interruptions_expected": 0.1, "checkpoint_interval_s": 900}
    folder.write_json("quote.json", folder.read_json("quote.json") | {"purchase_option": "spot", "spot": spot})
    monkeypatch.setattr("launcher.workflow.run.meter.EVERY_S", 0.0)
    place = folder.read_json("submission.json")["folder"]
    (closed_terminal.head.home / "slipway" / place.rpartition("/")[2] / "go").touch()
    code, _, err = slipway_bytes("logs", "far", "-f")
    assert code == 0
    assert " an hour (since 20" in err.replace("\n" + " " * CLOCK, " ")


def test_cancel_ends_job_and_report_is_cancelled(closed_terminal, slipway_bytes):
    code, out, err = slipway_bytes("cancel", "far", "--yes")
    assert (code, "far: cancelled, job " in out, "slipway down" in err) == (0, True, False)
    job = latest("far", closed_terminal.root).read_json("submission.json")["job"]
    assert [state for _, number, state in closed_terminal.head.jobs() if number == job] == ["CANCELLED"]
    assert json.loads(slipway_bytes("status", "far", "--json")[1])["status"] == "cancelled"
    assert latest("far", closed_terminal.root).read_json("report.json")["status"] == "cancelled"


def test_submission_without_job_id_finds_job(closed_terminal, slipway_bytes):
    folder = latest("far", closed_terminal.root)
    record = folder.read_json("submission.json")
    folder.write_json("submission.json", {**record, "job": None})
    assert json.loads(slipway_bytes("status", "far", "--json")[1])["job"] == record["job"]
    assert folder.read_json("submission.json") == record


def test_unreachable_head_node_is_reported(closed_terminal, slipway_bytes):
    closed_terminal.sshd.stop()
    code, out, err = slipway_bytes("status", "far")
    assert (code, out, "Connection refused" in err) == (1, "", True)
    code, out, err = slipway_bytes("logs", "far")
    assert (code, "the last known" in err, "step 1" in out) == (0, True, True)


PLAN = """
slipway: 1
name: far
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, tokens_b: 0.0001, sequence_length: 64}}}}
target:
  {{kind: parallelcluster, region: us-east-2, instance_type: [trn1.2xlarge, p4d.24xlarge], nodes: 1, ssh_host: gpu1}}
purchase:
  option: on-demand
  wait_for_capacity_minutes: 0.02
  price_overrides: {{trn1.2xlarge/on-demand: "1.34", p4d.24xlarge/on-demand: "21.96"}}
checkpoint: {{uri: s3://{bucket}/team, interval: 30, keep: 3, grace_seconds: 20}}
run: {{command: [{python}, train.py], workdir: work}}
"""
NO_EFA = {"SLIPWAY_SANDBOX": "1"}
"""The p4d of this test has no EFA interfaces that could be counted."""


class TestFallback:
    @pytest.fixture
    def story(self, far, keys):
        far.sshd.stop()
        variables = {"SLIPWAY_PYTHON": sys.executable, "SLIPWAY_AGENT_CACHE": os.environ["SLIPWAY_AGENT_CACHE"]}
        far.sshd.start(**keys, **variables, **NO_EFA)
        (far.work / "train.py").write_text("print('hello')\n")
        path = far.root / "plan.yaml"
        path.write_text(PLAN.format(bucket=BUCKET, python=sys.executable))
        candidates = lambda: price(path, datetime.now(UTC), PriceOptions(everything=True))  # noqa: E731
        options = LaunchOptions(
            root=far.root,
            environment=far.environment,
            notify=far.messages.append,
            progress=far.messages.append,
            poll_s=0.5,
        )
        node = "trn1-2xlarge-dy-nodes-1"
        far.head.slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=no capacity")
        fallback = Fallback(
            options=options,
            candidates=candidates,
            requote=lambda digest: Picked(priced := candidates(), *pick(priced, digest)),
            options_for=lambda picked: replace(
                options, approve=lambda: far.messages.append(f"approved {picked[2].plan.place.instance_type}")
            ),
            obstacle=lambda quoted: None,
        )
        yield fallback
        if "drain" in far.head.slurm.run("sinfo", "--noheader", f"--nodes={node}", "--format=%T"):
            far.head.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")

    def test_no_capacity_moves_to_next_candidate(self, far, story):
        priced = story.candidates()
        rank, quoted = pick(priced, None)
        assert quoted.plan.place.instance_type == "trn1.2xlarge"
        folder, report = story.launch(Picked(priced, rank, quoted))
        assert report.status is RunStatus.SUCCEEDED
        assert folder.read_json("quote.json")["instance_type"] == "p4d.24xlarge"
        assert "approved p4d.24xlarge" in far.messages
        first, second = sorted(path for path in folder.path.parent.iterdir() if not path.is_symlink())
        keys = [json.loads((run / "submission.json").read_text())["key"] for run in (first, second)]
        states = {name: state for name, _, state in far.head.jobs()}
        assert [states[key] for key in keys] == ["CANCELLED", "COMPLETED"]
        assert json.loads((first / "report.json").read_text())["status"] == "cancelled"

    def test_no_capacity_without_next_candidate_keeps_waiting(self, far, story):
        def refuse(digest):
            raise SlipwayError("never asked")

        story.requote = refuse
        priced = price(far.root / "plan.yaml", datetime.now(UTC), PriceOptions())
        only = lambda: price(far.root / "one.yaml", datetime.now(UTC), PriceOptions(everything=True))  # noqa: E731
        text = (far.root / "plan.yaml").read_text().replace("[trn1.2xlarge, p4d.24xlarge]", "trn1.2xlarge")
        (far.root / "one.yaml").write_text(text)
        story.candidates = only

        def notify(text):
            far.messages.append(str(text))
            if "continues to wait" in str(text):
                far.head.slurm.run("scontrol", "update", "nodename=trn1-2xlarge-dy-nodes-1", "state=resume")

        story.options = LaunchOptions(
            root=far.root, environment=far.environment, notify=notify, progress=far.messages.append, poll_s=0.5
        )
        rank, quoted = pick(priced, None)
        _, report = story.launch(Picked(priced, rank, quoted))
        assert report.status is RunStatus.SUCCEEDED
        assert any("continues to wait" in str(line) for line in far.messages)
        until(lambda: not far.head.slurm.run("squeue", "--noheader", "--format=%i").strip())
