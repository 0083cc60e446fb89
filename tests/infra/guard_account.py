"""An account as a cluster's guard finds it, and the guard in it: fixtures of the tests of its code."""

import functools
import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from tests.infra.guard_modules import guard_module

REGION, ACCOUNT = "us-east-2", "123456789012"
NOW = datetime(2026, 11, 20, 12, 2, tzinfo=UTC)
TABLE = "parallelcluster-slipway-tiny"
client = functools.cache(boto3.client)
"""moto answers clients that were made before it began, and making them takes longest."""


@pytest.fixture(scope="module")
def module():
    with guard_module("guard") as loaded:
        yield loaded


@contextmanager
def account_of(monkeypatch, kind):
    """An account of a kind, with moto for all that is not answered through a stub."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        account = kind()
        yield account
        if isinstance(account, ManagedAccount):
            account.stub.assert_no_pending_responses()


@pytest.fixture
def aws(monkeypatch):
    """An account with the cluster's fleet, a topic with a queue behind it, and the cluster's stack."""
    with account_of(monkeypatch, SlurmAccount) as account:
        yield account


class Account:
    """What every guard finds: CloudWatch, a topic with a queue behind it, and the stack of what it guards."""

    def __init__(self, stack="slipway-tiny-training"):
        self.cloudwatch, sns, self.sqs = client("cloudwatch"), client("sns"), client("sqs")
        self.topic = sns.create_topic(Name="slipway-tiny")["TopicArn"]
        self.queue = self.sqs.create_queue(QueueName="people")["QueueUrl"]
        sns.subscribe(TopicArn=self.topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:{REGION}:{ACCOUNT}:people")
        body = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
        stacks = client("cloudformation")
        self.stack = stacks.create_stack(StackName=stack, TemplateBody=body)["StackId"]

    def metric(self, name):
        answer = self.cloudwatch.get_metric_statistics(
            Namespace="Slipway",
            MetricName=name,
            Dimensions=[{"Name": "Cluster", "Value": "tiny"}],
            StartTime=NOW - timedelta(minutes=1),
            EndTime=NOW + timedelta(minutes=1),
            Period=60,
            Statistics=["Maximum"],
        )
        return [datapoint["Maximum"] for datapoint in answer["Datapoints"]]

    def earlier(self, name, *values):
        """What the guard wrote of a metric every five minutes until now."""
        for step, value in enumerate(reversed(values)):
            self.cloudwatch.put_metric_data(
                Namespace="Slipway",
                MetricData=[
                    {
                        "MetricName": name,
                        "Dimensions": [{"Name": "Cluster", "Value": "tiny"}],
                        "Timestamp": NOW - timedelta(minutes=5 * (step + 1)),
                        "Value": value,
                    }
                ],
            )

    @property
    def messages(self):
        answer = self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10)
        bodies = [json.loads(message["Body"]) for message in answer.get("Messages", [])]
        return [(body["Subject"], body["Message"]) for body in bodies]


class ManagedAccount(Account):
    """One where SageMaker answers through the Stubber."""

    def __init__(self, stack="slipway-tiny-training"):
        super().__init__(stack)
        self.sagemaker = boto3.client("sagemaker")
        self.stub = Stubber(self.sagemaker)
        self.stub.activate()

    def client(self, name):
        return self.sagemaker if name == "sagemaker" else client(name)


class SlurmAccount(Account):
    """One with the fleet of a ParallelCluster."""

    def __init__(self):
        super().__init__()
        self.ec2, self.dynamodb = client("ec2"), client("dynamodb")
        key = {"AttributeName": "Id"}
        self.dynamodb.create_table(
            TableName=TABLE,
            KeySchema=[{**key, "KeyType": "HASH"}],
            AttributeDefinitions=[{**key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.set_fleet("RUNNING")

    def set_fleet(self, status, at="before"):
        value = {"M": {"status": {"S": status}, "lastStatusUpdatedTime": {"S": at}}}
        self.dynamodb.put_item(TableName=TABLE, Item={"Id": {"S": "COMPUTE_FLEET"}, "Data": value})

    @property
    def fleet(self):
        item = self.dynamodb.get_item(TableName=TABLE, Key={"Id": {"S": "COMPUTE_FLEET"}})["Item"]
        return item["Data"]["M"]["status"]["S"]

    def nodes(self, count, cluster="slipway-tiny", node_type="Compute"):
        tags = [
            {"Key": "parallelcluster:cluster-name", "Value": cluster},
            {"Key": "parallelcluster:node-type", "Value": node_type},
        ]
        answer = self.ec2.run_instances(
            ImageId="ami-03cf127a",
            InstanceType="p5.48xlarge",
            MinCount=count,
            MaxCount=count,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )
        return [instance["InstanceId"] for instance in answer["Instances"]]

    def busy(self, instance, percent, *, mb=0.0, since=timedelta(hours=2), network=True):
        """EC2's own metrics of an instance, every five minutes until now; megabytes in each."""
        values = [("CPUUtilization", percent), *([("NetworkIn", mb * 1e6), ("NetworkOut", 0.0)] if network else [])]
        for name, value in values:
            data = [
                {
                    "MetricName": name,
                    "Dimensions": [{"Name": "InstanceId", "Value": instance}],
                    "Timestamp": NOW - since + timedelta(minutes=5 * step),
                    "Value": value,
                }
                for step in range(int(since / timedelta(minutes=5)))
            ]
            self.cloudwatch.put_metric_data(Namespace="AWS/EC2", MetricData=data)


@pytest.fixture
def guard_of(module, aws):
    """The guard at a moment, in a cluster that was deployed so many hours ago."""

    def make(*, age_h=1.0, now=NOW, **variables):
        settings = {
            "CLUSTER": "tiny",
            "PARALLELCLUSTER": "slipway-tiny",
            "STACK": aws.stack,
            "TOPICS": aws.topic,
            "AWS_REGION": REGION,
            "PREPAID": "false",
            "IDLE_MINUTES": "60",
            **variables,
        }
        guard = module.Guard(module.Settings.of(settings), client, now)
        guard.deployed_at = lambda: now - timedelta(hours=age_h)
        return guard

    return make
