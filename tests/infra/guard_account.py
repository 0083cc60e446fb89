"""AWS accounts for the guards' tests."""

import functools
import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import boto3
from botocore.stub import Stubber
from cryptography.hazmat.primitives.asymmetric import rsa
from moto import mock_aws
from moto.ec2.models import ec2_backends
from moto.sns.models import Subscription

REGION, ACCOUNT = "us-east-2", "123456789012"
NOW = datetime(2026, 11, 20, 12, 2, tzinfo=UTC)
STATE = "/slipway/slipway-tiny-training/guard"
TABLE = "parallelcluster-slipway-tiny"
LISTED = {"ClusterName": "slipway-tiny", "InstanceGroupNameContains": "workers"}
client = functools.cache(boto3.client)
"""Clients, cached: their creation takes longest, and moto also serves clients that were created before its start."""


@functools.cache
def signing_key():
    """The key that signs the messages of every subscription: moto computes one for each, in most of its time."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@contextmanager
def account_of(monkeypatch, kind):
    """An account of a kind, with moto for everything except stubbed services."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setattr(Subscription, "private_key", lambda _: signing_key())
    with mock_aws():
        account = kind()
        try:
            yield account
            if isinstance(account, ManagedAccount):
                account.stub.assert_no_pending_responses()
        finally:
            if isinstance(account, ManagedAccount):
                account.stub.deactivate()


class Account:
    """The common account of all guards: CloudWatch, a topic with a queue, and the guarded cluster's stack."""

    def __init__(self, stack="slipway-tiny-training"):
        self.cloudwatch, sns, self.sqs = client("cloudwatch"), client("sns"), client("sqs")
        self.topic = sns.create_topic(Name="slipway-tiny")["TopicArn"]
        self.queue = self.sqs.create_queue(QueueName="people")["QueueUrl"]
        sns.subscribe(TopicArn=self.topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:{REGION}:{ACCOUNT}:people")
        client("ssm").put_parameter(Name=STATE, Value="{}", Type="String")
        body = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
        self.stack = client("cloudformation").create_stack(StackName=stack, TemplateBody=body)["StackId"]

    def settings(self, module, **variables):
        """The settings of a guard in this account."""
        defaults = {
            "CLUSTER": "tiny",
            "STACK": self.stack,
            "TOPICS": self.topic,
            "AWS_REGION": REGION,
            "STATE": STATE,
            "PREPAID": "false",
        }
        return module.Settings.of({**defaults, **variables})

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

    def earlier(self, name, *values, namespace="Slipway/Nodes/tiny"):
        """Write past values of a metric, one every five minutes until now; by default as nodes do."""
        for step, value in enumerate(reversed(values)):
            self.cloudwatch.put_metric_data(
                Namespace=namespace,
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
    """An account whose node service responds through the Stubber."""

    service = "sagemaker"
    client = staticmethod(client)

    def __init__(self, stack="slipway-tiny-training"):
        super().__init__(stack)
        self.stub = Stubber(client(self.service))
        self.stub.activate()


class HyperPodAccount(ManagedAccount):
    """An account with the nodes of a HyperPod cluster."""

    def answers(self, *nodes, times=1):
        for _ in range(times):
            self.stub.add_response("list_cluster_nodes", {"ClusterNodeSummaries": list(nodes)}, LISTED)


def hyperpod_node(number, *, group="workers", status="Running", age_h=5.0):
    return {
        "InstanceGroupName": group,
        "InstanceId": f"i-{number:017x}",
        "InstanceType": "ml.p5.48xlarge",
        "LaunchTime": NOW - timedelta(hours=age_h),
        "InstanceStatus": {"Status": status},
    }


def started(count=1, **tags):
    """Start instances with these tags; return their ids."""
    tagged = {"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
    answer = client("ec2").run_instances(
        ImageId="ami-12345678", InstanceType="p5.48xlarge", MinCount=count, MaxCount=count, TagSpecifications=[tagged]
    )
    return [instance["InstanceId"] for instance in answer["Instances"]]


def launch_as(node, at, *, ended, **tags):
    """Launch an instance with that ID and launch time, if EC2 does not know it yet; `ended`: terminate it."""
    backend = ec2_backends[ACCOUNT][REGION]
    if any(instance.id == node for instance in backend.all_instances()):
        return
    (id_,) = started(1, **tags)
    if ended:
        client("ec2").terminate_instances(InstanceIds=[id_])
    (instance,) = (instance for instance in backend.all_instances() if instance.id == id_)
    backend.tags[node] = backend.tags[id_]
    instance.id, instance.launch_time = node, f"{at:%Y-%m-%dT%H:%M:%S.000Z}"


class SlurmAccount(Account):
    """An account with the fleet of a ParallelCluster."""

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
        tags = {"parallelcluster:cluster-name": cluster, "parallelcluster:node-type": node_type}
        return started(count, **tags)

    def busy(self, instance, percent, *, mb=0.0, since=timedelta(hours=2), until=timedelta(0), network=True):
        """Write EC2's own metrics of an instance, every five minutes until then; `mb` megabytes in each."""
        values = [("CPUUtilization", percent), *([("NetworkIn", mb * 1e6), ("NetworkOut", 0.0)] if network else [])]
        for name, value in values:
            data = [
                {
                    "MetricName": name,
                    "Dimensions": [{"Name": "InstanceId", "Value": instance}],
                    "Timestamp": NOW - since + timedelta(minutes=5 * step),
                    "Value": value,
                }
                for step in range(int((since - until) / timedelta(minutes=5)))
            ]
            self.cloudwatch.put_metric_data(Namespace="AWS/EC2", MetricData=data)


def dated_listing(store, dates):
    """Listings of objects with the times in `dates`, by key: moto dates objects by the computer's clock."""
    list_objects = store.list_objects_v2

    def dated(**request):
        page = list_objects(**request)
        for entry in page.get("Contents", []):
            entry["LastModified"] = dates.get(entry["Key"], entry["LastModified"])
        return page

    return dated
