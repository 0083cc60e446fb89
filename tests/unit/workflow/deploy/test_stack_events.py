"""A deployment by the lines of `cdk deploy` (aws-cdk 2.1148, events): stacks, what is in progress, its cost."""

from decimal import Decimal

import pytest

from launcher.model.stages import Stage
from launcher.workflow.deploy.stack_events import StackEvents
from launcher.workflow.doctor.rates import hourly_rate, running_rates

RATES = {"slipway-x-training": {"ClusterDefault1A2B": Decimal("0.18")}}


class Person:
    """A listener that keeps what it is shown."""

    def __init__(self):
        self.messages, self.shown, self.open = [], [], 0

    def __call__(self, text):
        self.messages.append(text)

    def stage(self, words):
        self(words)
        person, self.open = self, self.open + 1

        class Shown(Stage):
            def now(self, words="", *, share=None, parts=()):
                person.shown.append((words() if callable(words) else words, share, [one.description for one in parts]))

            def detail(self, text):
                pass

            def end(self):
                person.open -= 1

        return Shown(self)


def line(stack, count, state, kind, path):
    return f"{stack} | {count} | 10:07:45 AM | {state:<20} | {kind} | {path}"


CLUSTER = ("Custom::PclusterCluster", "ParallelCluster/Cluster/Default (ClusterDefault1A2B)")
TRAINING = "slipway-x-training"


@pytest.fixture
def person():
    return Person()


def follow(person, lines, seconds):
    times = iter(seconds)
    now = [0.0]
    with StackEvents(person, RATES, lambda: now[0]) as events:
        for output_line in lines:
            now[0] = next(times)
            events.line(output_line)
        yield events
    assert person.open == 0


def test_stack_is_one_line_and_resources_are_shown_during_creation(person):
    stack = ("AWS::CloudFormation::Stack", "slipway-x-network User Initiated")
    nat = ("AWS::EC2::NatGateway", "Network/Nat (NetworkNat33)")
    lines = [
        "slipway-x-network: deploying... [1/2]",
        line("slipway-x-network", "0/3", "CREATE_IN_PROGRESS", *stack),
        line("slipway-x-network", "0/3", "CREATE_IN_PROGRESS", *nat),
        line("slipway-x-network", "0/3", "CREATE_IN_PROGRESS", nat[0], f"{nat[1]} Resource creation Initiated"),
        line("slipway-x-network", "1/3", "CREATE_COMPLETE", *nat),
        line(TRAINING, "0/2", "CREATE_IN_PROGRESS", *CLUSTER),
    ]
    for _ in follow(person, lines, range(10)):
        pass
    assert person.messages == ["stack slipway-x-network: 2 resources", f"stack {TRAINING}: 1 resource"]
    assert [parts for _, _, parts in person.shown] == [
        [],
        ["Network/Nat  AWS::EC2::NatGateway"],
        ["Network/Nat  AWS::EC2::NatGateway"],
        [],
        ["ParallelCluster/Cluster/Default  Custom::PclusterCluster"],
    ]
    assert person.shown[3][:2] == ("1 of 3", pytest.approx(1 / 3))


def test_billed_resource_counts_from_the_creation_event(person):
    lines = [line(TRAINING, "0/2", "CREATE_IN_PROGRESS", *CLUSTER), line(TRAINING, "1/2", "CREATE_COMPLETE", *CLUSTER)]
    for _ in follow(person, lines, [100, 100 + 2 * 3600]):
        pass
    assert [text for text, _, _ in person.shown] == [
        "0 of 2, at most $0.00 so far at $0.18 an hour",
        "1 of 2, at most $0.36 so far at $0.18 an hour",
    ]


def test_update_of_an_existing_resource_adds_no_cost(person):
    for _ in follow(person, [line(TRAINING, "0/2", "UPDATE_IN_PROGRESS", *CLUSTER)], [0]):
        pass
    assert person.shown[0][0] == "0 of 2"


def test_failed_resource_is_reported_in_every_view(person):
    lines = [
        line(TRAINING, "0/2", "CREATE_IN_PROGRESS", *CLUSTER),
        line(TRAINING, "0/2", "CREATE_FAILED", CLUSTER[0], f"{CLUSTER[1]} Received response status [FAILED]"),
    ]
    for _ in follow(person, lines, [0, 1]):
        pass
    assert person.messages[1].split() == ["CREATE_FAILED", "Custom::PclusterCluster", "ParallelCluster/Cluster/Default"]
    assert person.shown[-1][2] == []


def test_line_output_has_one_line_per_resource():
    messages = []
    lines = [line(TRAINING, "0/2", "CREATE_IN_PROGRESS", *CLUSTER), line(TRAINING, "1/2", "CREATE_COMPLETE", *CLUSTER)]
    with StackEvents(messages.append, {}, lambda: 0.0) as events:
        for output_line in lines:
            events.line(output_line)
    assert [message.split()[0] for message in messages] == ["stack", "CREATE_COMPLETE"]


@pytest.mark.parametrize("least, usd", [(0, "0.192"), (2, "40.192")])
def test_nodes_started_by_a_job_are_not_billed_before_the_job(catalog, least, usd):
    queue = {"ComputeResources": [{"InstanceType": "p5.48xlarge", "MinCount": least, "MaxCount": 2}]}
    cluster = {"HeadNode": {"InstanceType": "m6i.xlarge"}, "Scheduling": {"SlurmQueues": [queue]}}
    guard = {"Environment": {"Variables": {"USD_PER_NODE_HOUR": "20"}}}
    template = {
        "Resources": {
            "Cluster": {"Type": "Custom::PclusterCluster", "Properties": {"ClusterConfiguration": cluster}},
            "Guard": {"Type": "AWS::Lambda::Function", "Properties": guard},
        }
    }
    assert running_rates(template, catalog, "us-east-1") == {"Cluster": Decimal(usd)}
    assert hourly_rate([template], catalog, "us-east-1").usd == Decimal("40.192")
