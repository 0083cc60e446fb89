"""A launch with budget.stop_at_usd on each target: its guard, on a fast clock, has the job save, leave for good, and
ends the machines, before the sum is spent; a raised sum goes on from there."""

import json
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from launcher.answers import report as report_page
from launcher.aws.session import Session
from launcher.model.errors import DeploymentFailedError
from launcher.model.report import RunStatus
from launcher.records.report_document import read_report
from launcher.records.run_folder import RunFolder
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions
from tests.waiting import until

pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.long, pytest.mark.xdist_group("budget-stop")]

TRAINER = """
import os, signal, sys, time
from pathlib import Path
stop = []
signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
step = int(resume.rpartition("-")[2]) if resume else 0
begun = step
odd = folder / f"tmp-{step + 1}"
odd.mkdir()
os.mkfifo(odd / "pipe")
odd.rename(folder / f"step-{step + 1}")
while not stop and step < begun + 4000:
    time.sleep(0.05)
    step += 1
    with open(os.environ["SLIPWAY_METRICS"], "a") as metrics:
        print('{"step": %d, "steps": 100000}' % step, file=metrics)
partial = folder / f"tmp-{step}"
partial.mkdir()
(partial / "state").write_text(str(step))
partial.rename(folder / f"step-{step}")
"""
PLAN = """
slipway: 1
name: {name}
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 4}}}}
target: {target}
purchase: {{option: on-demand, price_overrides: {{"{billed}/on-demand": "60"}}}}
checkpoint: {{interval: 30, keep: 3, grace_seconds: 20}}
budget: {{stop_at_usd: {usd}}}
guardrails: {{notify: ["{people}"]}}
{more}run: {{command: [{python}, train.py], workdir: work}}
"""
TARGETS = {
    "parallelcluster": (
        "{kind: parallelcluster, region: us-east-2, instance_type: p5.48xlarge, nodes: 1}",
        "p5.48xlarge",
        "",
    ),
    "hyperpod-slurm": (
        "{kind: hyperpod-slurm, region: us-east-2, instance_type: p5.48xlarge, nodes: 1}",
        "ml.p5.48xlarge",
        "",
    ),
    "eks": (
        "{kind: eks, region: us-east-2, instance_type: p5.48xlarge, nodes: 1}",
        "p5.48xlarge",
        "network: {api_cidrs: [52.94.76.0/24]}\n",
    ),
    "pcs": ("{kind: pcs, region: us-east-2, instance_type: p5.48xlarge, nodes: 1}", "p5.48xlarge", ""),
    "ec2": ("{kind: ec2, region: us-east-2, instance_type: p5.48xlarge, nodes: 1}", "p5.48xlarge", ""),
    "sagemaker-training": (
        "{kind: sagemaker-training, region: us-east-2, instance_type: p5.48xlarge, nodes: 1}",
        "ml.p5.48xlarge",
        "",
    ),
    "hyperpod-eks": (
        "{kind: hyperpod-eks, region: us-east-2, instance_type: p5.48xlarge, nodes: 1}",
        "ml.p5.48xlarge",
        "network: {api_cidrs: [52.94.76.0/24]}\n",
    ),
}


def launch(root, sandbox, kind, usd):
    """One launch; its messages, and its error."""
    target, billed, more = TARGETS[kind]
    python = "python3" if kind.endswith("eks") else json.dumps(sys.executable)
    name = f"stop-{kind}"
    people = queue(sandbox)["QueueArn"]
    text = PLAN.format(name=name, target=target, billed=billed, usd=usd, more=more, python=python, people=people)
    (root / "plan.yaml").write_text(text)
    (root / "work").mkdir(exist_ok=True)
    (root / "work" / "train.py").write_text(TRAINER)
    priced = price(root / "plan.yaml", datetime.now(UTC), PriceOptions(any_age=True))
    rank, quoted = pick(priced, None)
    messages = []
    options = LaunchOptions(
        root=root, sandbox=True, notify=messages.append, progress=lambda _: None, scheduler="local", emulator=sandbox
    )
    with pytest.raises(DeploymentFailedError) as caught:
        launch_quote(priced, rank, quoted, options)
    return name, messages, caught.value


def session_of(sandbox):
    return Session(environment=sandbox.process_environment({}), region="us-east-2")


def queue(sandbox):
    """Where people hear what is announced; it is there when its cluster is made."""
    sqs = session_of(sandbox).client("sqs")
    url = sqs.create_queue(QueueName="people")["QueueUrl"]
    return {**sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"], "url": url}


def told_people(sandbox):
    """What was announced since the last call: subjects with their words."""
    sqs, messages_by_subject = session_of(sandbox).client("sqs"), {}
    while got := sqs.receive_message(QueueUrl=queue(sandbox)["url"], MaxNumberOfMessages=10).get("Messages"):
        for message in got:
            body = json.loads(message["Body"])
            messages_by_subject.setdefault(body["Subject"], []).append(body["Message"])
            sqs.delete_message(QueueUrl=queue(sandbox)["url"], ReceiptHandle=message["ReceiptHandle"])
    return messages_by_subject


def dollars(sandbox, cluster):
    """What the guard has counted, in dollars: the clock of the meter."""
    session = session_of(sandbox)
    now = datetime.now(UTC)
    answer = session.client("cloudwatch").get_metric_statistics(
        Namespace="Slipway",
        MetricName="DollarsPerLook",
        Dimensions=[{"Name": "Cluster", "Value": cluster}],
        StartTime=now - timedelta(days=1),
        EndTime=now + timedelta(days=9),
        Period=86400,
        Statistics=["Sum"],
    )
    return sum(datapoint["Sum"] for datapoint in answer["Datapoints"])


@pytest.mark.parametrize(
    "kind",
    [
        "hyperpod-eks",
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("parallelcluster", "hyperpod-slurm", "eks", "pcs", "ec2", "sagemaker-training")
        ),
    ],
)
def test_budget_stop_saves_checkpoint_and_ends_nodes_below_limit(tmp_path, sandbox, kind):
    name, messages, ended = launch(tmp_path, sandbox, kind, 60)
    assert ended.exit_code == 6
    assert "stopped at the budget: $" in ended.message
    assert " of $60 is spent, and the rest reserved for the end, checkpoint of step " in ended.message
    assert "raise budget.stop_at_usd and launch again: it resumes from step" in ended.message
    assert any("the guard reports that the budget is used up" in line for line in messages), messages
    folder = RunFolder(path=(tmp_path / ".slipway" / "runs" / name / "latest").resolve())
    report = read_report(folder.read_json("report.json"))
    (attempt,) = report.attempts
    assert report.status is RunStatus.STOPPED
    assert (attempt.ended_by, attempt.exit_code) == ("budget", 79)
    saved = report.stopped.checkpoint_step
    assert saved == attempt.last_step > 0
    assert any("stopped at the budget" in line for line in report_page.page(report, 100))
    assert 0 < dollars(sandbox, name) < 60
    # Nodes have no right to publish: their guard has told what one could not store.
    (dropped,) = told_people(sandbox)[f"slipway {name}: checkpoint dropped"]
    assert f"job {name}, attempt 1, step 1: step-1 holds 'pipe', a FIFO" in dropped
    if kind != "sagemaker-training":  # whose machines end with the job
        # Plain instances end by themselves, a moment after the job.
        until(lambda: all(node.partition == "system" for node in sandbox.nodes(f"slipway-{name}")))
    # A higher sum goes on counting, and on training.
    _, messages, ended = launch(tmp_path, sandbox, kind, 120)
    again = read_report(RunFolder(path=folder.path.parent / "latest").read_json("report.json"))
    assert again.attempts, (ended.message, messages)
    assert again.attempts[0].resumed_from_step == saved
    assert again.stopped.checkpoint_step > saved
    assert 60 - 20 < dollars(sandbox, name) < 120
    assert Decimal(again.stopped.reason.split()[0].strip("$")) > 60
