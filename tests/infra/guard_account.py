"""An account as a cluster's guard finds it, and the guard in it: fixtures of the tests of its code."""

import functools
import json
from datetime import UTC, datetime, timedelta

import boto3
import pytest
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


@pytest.fixture
def aws(monkeypatch):
    """An account with the cluster's fleet, a topic with a queue behind it, and the cluster's stack."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        yield Account()


class Account:
    """What the guard finds."""

    def __init__(self):
        self.ec2, self.cloudwatch = client("ec2"), client("cloudwatch")
        self.dynamodb = client("dynamodb")
        key = {"AttributeName": "Id"}
        self.dynamodb.create_table(
            TableName=TABLE,
            KeySchema=[{**key, "KeyType": "HASH"}],
            AttributeDefinitions=[{**key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.set_fleet("RUNNING")
        sns, self.sqs = client("sns"), client("sqs")
        self.topic = sns.create_topic(Name="slipway-tiny")["TopicArn"]
        self.queue = self.sqs.create_queue(QueueName="people")["QueueUrl"]
        sns.subscribe(TopicArn=self.topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:{REGION}:{ACCOUNT}:people")
        topic = {"Type": "AWS::SNS::Topic"}
        stacks = client("cloudformation")
        body = json.dumps({"Resources": {"Topic": topic}})
        self.stack = stacks.create_stack(StackName="slipway-tiny-training", TemplateBody=body)["StackId"]

    def set_fleet(self, status):
        value = {"M": {"status": {"S": status}, "lastStatusUpdatedTime": {"S": "before"}}}
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
        return [each["InstanceId"] for each in answer["Instances"]]

    def busy(self, instance, percent, *, mb=0.0, since=timedelta(hours=2)):
        """EC2's own metrics of an instance, every five minutes until now; megabytes in each."""
        for name, value in (("CPUUtilization", percent), ("NetworkIn", mb * 1e6), ("NetworkOut", 0.0)):
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
        return [each["Maximum"] for each in answer["Datapoints"]]

    @property
    def messages(self):
        answer = self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10)
        bodies = [json.loads(each["Body"]) for each in answer.get("Messages", [])]
        return [(each["Subject"], each["Message"]) for each in bodies]


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
