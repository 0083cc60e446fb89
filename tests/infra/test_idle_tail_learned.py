"""How long nodes stay after a job: counted by the guard, read from CloudWatch, stored, used in the next quote."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from launcher.model.measurement import MEASUREMENTS
from launcher.records.measurements import load_measurements, parse_measurement
from launcher.workflow.history.idle_tail import learn_tails
from launcher.workflow.history.measurement import IN_RUN, keep_measurement
from tests.infra.guard_account import HyperPodAccount, account_of, client, started
from tests.infra.guard_account import hyperpod_node as node
from tests.infra.guard_modules import guard_module
from tests.measured_runs import CATALOG, PLAN, lines, written_run

pytestmark = pytest.mark.xdist_group("guard")

ENDED = datetime(2026, 11, 20, 23, 5, tzinfo=UTC)
"""Of the run in the folder."""
LOOK = timedelta(minutes=5)
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


@pytest.fixture
def guard_looks(aws, guard_of):
    """The guard's looks every five minutes from the last one before the job's end, at so many nodes each."""

    there: list[str] = []

    def poll(*counts, first=ENDED - timedelta(minutes=3)):
        for number, count in enumerate(counts):
            if len(there) < count:
                there.extend(aws.nodes(count - len(there)))
            if len(there) > count:
                aws.ec2.terminate_instances(InstanceIds=there[count:])
                del there[count:]
            guard_of(now=first + number * LOOK).watch()

    return poll


@pytest.fixture
def measured_run(tmp_path, monkeypatch):
    """The folder of a run that was just measured, as `launch` leaves it."""

    def measured(plan=PLAN):
        monkeypatch.chdir(tmp_path)
        folder = written_run(tmp_path, lines(100_000), plan=plan)
        keep_measurement("tiny", folder, tmp_path, CATALOG, lambda _: None)
        return folder

    return measured


def learn(root, now=ENDED + timedelta(hours=2), environment=CREDENTIALS):
    messages = []
    learn_tails("tiny", root, environment, now, messages.append)
    return messages


def test_idle_tail_measured_from_guard_counts_is_used_by_next_quote(
    measured_run, guard_looks, tmp_path, slipway, capsys
):
    folder = measured_run()
    guard_looks(2, 2, 2, 2, 0, 0)
    (message,) = learn(tmp_path)
    # From 23:05: both nodes until 23:17, and they are taken to go evenly until 23:22.
    assert message.startswith("the nodes of tiny/20261120T120000Z stayed 14.5 minutes: stored in measurements.jsonl")
    (one,), findings = load_measurements(tmp_path / MEASUREMENTS)
    assert (one.target, one.idle_tail_assumed_h, findings) == ("parallelcluster", 5 / 60, ())
    assert one.idle_tail_h == pytest.approx(14.5 / 60)
    assert parse_measurement(folder.read_json(IN_RUN)) == one
    assert learn(tmp_path) == [], "it is known"
    plan = PLAN | {"target": PLAN["target"] | {"kind": "parallelcluster"}}
    (tmp_path / "tiny.yaml").write_text(json.dumps(plan))
    capsys.readouterr()  # the guard's log
    code, page, _ = slipway("quote", "tiny.yaml", "--json")
    document = json.loads(page)
    (tail,) = [component for component in document["components"] if component["name"] == "idle tail"]
    assert code == 0
    assert 5 < tail["quantity"] / 2 * 60 < 14.5
    (line,) = [
        assumption
        for assumption in document["assumptions"]
        if assumption["name"].startswith("nodes stay after the job")
    ]
    assert line["source"].startswith("measured, 1 run, 2026-11-20; ")


class OnEksMachines:
    """Machines of an EKS cluster's workers, as EC2 describes them."""

    name, kind, target = "eks", "EksGuard", "eks"

    def __init__(self, account):
        self.ec2, self.client = client("ec2"), client

    def set(self, count):
        tags = {"eks:cluster-name": "slipway-tiny", "eks:nodegroup-name": "workers"}
        reservations = self.ec2.describe_instances(Filters=[{"Name": "instance-state-name", "Values": ["running"]}])
        there = [node["InstanceId"] for group in reservations["Reservations"] for node in group["Instances"]]
        if len(there) > count:
            self.ec2.terminate_instances(InstanceIds=there[count:])
        if len(there) < count:
            started(count - len(there), **tags)


class InHyperPod:
    """Workers of a HyperPod cluster, as SageMaker lists them beside its controller, which reports a job."""

    name, kind, target = "hyperpod", "HyperPodGuard", "hyperpod-slurm"

    def __init__(self, account):
        self.account, self.client = account, account.client
        queued = {"MetricName": "QueuedJobs", "Dimensions": [{"Name": "Cluster", "Value": "tiny"}], "Value": 1}
        account.cloudwatch.put_metric_data(
            Namespace="Slipway/Nodes/tiny", MetricData=[queued | {"Timestamp": ENDED - 2 * LOOK}]
        )

    def set(self, count):
        nodes = [node(number, group="controller" if number == 0 else "workers") for number in range(count + 1)]
        self.account.answers(*nodes)


class InHyperPodWithEks(InHyperPod):
    """The same with EKS, where nobody counts pods."""

    name, kind, target = "hyperpod_eks", "HyperPodEksGuard", "hyperpod-eks"


@pytest.mark.parametrize("place", [OnEksMachines, InHyperPod, InHyperPodWithEks])
def test_guard_counts_of_every_target_give_idle_tail(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    folder = written_run(tmp_path, lines(100_000), plan={**PLAN, "target": {**PLAN["target"], "kind": place.target}})
    folder.write_json("quote.json", folder.read_json("quote.json") | {"target": place.target})
    keep_measurement("tiny", folder, tmp_path, CATALOG, lambda _: None)
    (before,), _ = load_measurements(tmp_path / MEASUREMENTS)
    with account_of(monkeypatch, HyperPodAccount) as account, guard_module(place.name) as module:
        there = place(account)
        settings = account.settings(module, **{place.name.upper(): "slipway-tiny", "IDLE_MINUTES": "60"})
        for number, count in enumerate((2, 2, 1, 0)):
            there.set(count)
            now = ENDED - timedelta(minutes=3) + number * LOOK
            module.__dict__[place.kind](settings, there.client, now).watch()
        assert "stayed 7 minutes" in learn(tmp_path)[0]
    (one,), _ = load_measurements(tmp_path / MEASUREMENTS)
    assert (one.target, one.idle_tail_h) == (place.target, pytest.approx(7 / 60))
    assert one.idle_tail_assumed_h == before.idle_tail_assumed_h
    assert one.idle_tail_assumed_h is not None


def test_idle_tail_with_running_nodes_is_measured_later(measured_run, guard_looks, tmp_path):
    measured_run()
    guard_looks(2, 2)
    assert learn(tmp_path, now=ENDED + timedelta(minutes=7)) == []
    guard_looks(2, 0, first=ENDED + timedelta(minutes=7))
    (message,) = learn(tmp_path)
    assert "stayed 9.5 minutes" in message


def test_nodes_ending_separately_give_mean_idle_tail(measured_run, guard_looks, tmp_path):
    measured_run()
    guard_looks(2, 2, 1, 0)
    assert "stayed 7 minutes" in learn(tmp_path)[0]


@pytest.mark.parametrize(
    "plan",
    [
        {**PLAN, "guardrails": {"ttl_h": 48}},
        {**PLAN, "guardrails": {"idle_minutes": 0}},
        {**PLAN, "target": {**PLAN["target"], "cluster": "shared"}},
    ],
)
def test_idle_tail_with_other_end_of_nodes_not_measured(measured_run, guard_looks, tmp_path, plan):
    measured_run(plan)
    guard_looks(2, 2, 0)
    assert learn(tmp_path) == []


def test_idle_tail_with_gap_in_guard_metrics_not_measured(measured_run, guard_looks, tmp_path):
    measured_run()
    guard_looks(2, 2)
    guard_looks(0, first=ENDED + timedelta(minutes=40))
    assert learn(tmp_path) == []


def test_idle_tail_with_later_run_not_measured(measured_run, guard_looks, tmp_path):
    (measured_run().path.parent / "20261120T230900Z").mkdir()
    guard_looks(2, 2, 2, 0)
    assert learn(tmp_path) == []


def test_idle_tail_without_account_access_reported(measured_run, tmp_path, monkeypatch):
    measured_run()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    (message,) = learn(tmp_path, environment={"AWS_PROFILE": "nobody"})
    assert "so later quotes cannot use it" in message
