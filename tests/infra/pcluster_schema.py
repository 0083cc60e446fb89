"""ParallelCluster's own validation of cluster configurations; run with .venv-pcluster's interpreter, never imported.

Reads requests from standard input, one JSON list a line: the operation and the files. Answers with one line each: a
JSON object with a list for each file, or the traceback as a JSON string. Operations:

    schema      the schema's errors: no AWS, no mocks
    image       the same for configurations of images
    full        the messages of all validators, on AWS emulated by moto
    interfaces  the network interfaces of the nodes
    templates   the CloudFormation templates of the cluster, nested stacks included
    stop        the fleet's status before and after the guard (the file) stops a running fleet
    policies    the update policy of each key of the schema; the file is not read
    update      whether each change of an update is allowed: {old, new, fleet, logins}

`full`, `interfaces` and `templates` replace ids of subnets, groups, images and policies by emulated ones.
"""

import importlib.util
import json
import os
import socket
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import yaml

REGION = "us-east-2"
ACCOUNT = "123456789012"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Set when it runs and not when it is loaded: pytest loads every file in search of doctests."""


def schema(configuration):
    """The schema's messages; empty when the file is valid."""
    from pcluster.schemas.cluster_schema import ClusterSchema

    return said_by(ClusterSchema(cluster_name="slipway"), configuration)


def image(configuration):
    """What the schema of images says."""
    from pcluster.schemas.imagebuilder_schema import ImageBuilderSchema

    return said_by(ImageBuilderSchema(), configuration)


def said_by(judge, configuration):
    """What a schema says; it may ask nobody."""
    with mock.patch.object(socket.socket, "connect", side_effect=AssertionError("the schema asked the network")):
        errors = judge.validate(configuration)
    return [json.dumps(errors, default=str, sort_keys=True)] if errors else []


class Play:
    """An AWS that has what a configuration refers to."""

    def __init__(self, configuration):
        import boto3

        self.ec2 = boto3.client("ec2", REGION)
        self.queues = configuration["Scheduling"]["SlurmQueues"]
        self.configuration = configuration
        vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        for attribute in ("EnableDnsSupport", "EnableDnsHostnames"):
            self.ec2.modify_vpc_attribute(VpcId=vpc, **{attribute: {"Value": True}})
        self.zone = f"{REGION}c"
        self.subnet = self.ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.128.0/17", AvailabilityZone=self.zone)["Subnet"]
        self.route_out(vpc)
        self.group = self.ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
        itself = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": self.group}]}
        self.ec2.authorize_security_group_ingress(GroupId=self.group, IpPermissions=[itself])
        self.ec2.authorize_security_group_egress(GroupId=self.group, IpPermissions=[itself])
        statement = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*"}
        self.policy = boto3.client("iam", REGION).create_policy(
            PolicyName="nodes",
            Path="/parallelcluster/",
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
        )["Policy"]["Arn"]
        s3 = boto3.client("s3", REGION)
        for bucket in ("set-up", "data"):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_object(Bucket="set-up", Key="node.sh", Body=b"#!/bin/bash\n")
        self.key = boto3.client("kms", REGION).create_key()["KeyMetadata"]["Arn"]

    def route_out(self, vpc):
        """The private subnet's way out, as a new network has it."""
        table = self.ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
        self.ec2.associate_route_table(RouteTableId=table, SubnetId=self.subnet["SubnetId"])
        address = self.ec2.allocate_address(Domain="vpc")["AllocationId"]
        nat = self.ec2.create_nat_gateway(SubnetId=self.subnet["SubnetId"], AllocationId=address)["NatGateway"]
        self.ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat["NatGatewayId"])

    def cast(self):
        """The configuration with ids of this AWS."""
        cast = json.loads(json.dumps(self.configuration))
        cast["Region"] = REGION
        for machine in [
            cast["HeadNode"],
            *cast["Scheduling"]["SlurmQueues"],
            *cast.get("LoginNodes", {}).get("Pools", []),
        ]:
            self.cast_machine(machine)
        if "CustomAmi" in cast["Image"]:
            cast["Image"]["CustomAmi"] = self.image()["ImageId"]
        if "Iam" in cast:
            cast["Iam"]["PermissionsBoundary"] = self.policy
        for storage in cast.get("SharedStorage", []):
            settings = storage["FsxLustreSettings"]
            if "KmsKeyId" in settings:
                settings["KmsKeyId"] = self.key
            for association in settings.get("DataRepositoryAssociations", []):
                association["DataRepositoryPath"] = "s3://data/tokens"
        return cast

    def cast_machine(self, machine):
        """The same for one kind of machine."""
        networking = machine["Networking"]
        if "SubnetId" in networking:
            networking["SubnetId"] = self.subnet["SubnetId"]
        else:
            networking["SubnetIds"] = [self.subnet["SubnetId"]]
        if "AdditionalSecurityGroups" in networking:
            networking["AdditionalSecurityGroups"] = [self.group]
        for policy in machine["Iam"]["AdditionalIamPolicies"]:
            if "parallelcluster/" in policy["Policy"]:
                policy["Policy"] = self.policy
        if "CustomActions" in machine:
            machine["CustomActions"]["OnNodeConfigured"]["Script"] = "s3://set-up/node.sh"

    def image(self):
        """An image for x86_64 machines with a small root volume."""
        return {
            "ImageId": "ami-0123456789abcdef0",
            "Architecture": "x86_64",
            "State": "available",
            "Tags": [
                {"Key": "parallelcluster:version", "Value": "3.16.1"},
                {"Key": "parallelcluster:build_status", "Value": "available"},
                {"Key": "parallelcluster:os", "Value": self.configuration["Image"]["Os"]},
            ],
            "BlockDeviceMappings": [
                {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 45, "SnapshotId": "snap-01234567"}}
            ],
        }

    def reservations(self, ids):
        """The Capacity Blocks and reservations that the queues name, as bought for exactly them."""
        reserved = []
        for queue in self.queues:
            for resource in queue["ComputeResources"]:
                target = resource.get("CapacityReservationTarget", {}).get("CapacityReservationId")
                if target in ids:
                    block = queue["CapacityType"] == "CAPACITY_BLOCK"
                    reserved.append(
                        {
                            "CapacityReservationId": target,
                            "InstanceType": resource["InstanceType"],
                            "AvailabilityZone": self.zone,
                            "ReservationType": "capacity-block" if block else "default",
                            "State": "active",
                            "InstancePlatform": "Linux/UNIX",
                            "TotalInstanceCount": resource["MaxCount"],
                            "OwnerId": ACCOUNT,
                        }
                    )
        return reserved


def load_requests(configuration, then):
    """`then` of the configuration as ParallelCluster's own object, in a played AWS."""
    from moto import mock_aws
    from pcluster.aws.aws_api import AWSApi
    from pcluster.aws.aws_resources import CapacityReservationInfo, ImageInfo
    from pcluster.aws.ec2 import Ec2Client
    from pcluster.schemas.cluster_schema import ClusterSchema

    AWSApi.reset()
    with mock_aws():
        play = Play(configuration)
        shims = {
            "describe_capacity_reservations": lambda _, ids: [
                CapacityReservationInfo(r) for r in play.reservations(ids)
            ],
            "get_official_image_id": lambda *_, **__: play.image()["ImageId"],
            "describe_image": lambda *_, **__: ImageInfo(play.image()),
            "describe_images": lambda *_, **__: [ImageInfo(play.image())],
            "run_instances": lambda *_, **__: {},
        }
        with mock.patch.multiple(Ec2Client, **shims):
            cast = play.cast()
            cluster = ClusterSchema(cluster_name="slipway").load(cast)
            cluster.source_config = cast
            return then(cluster)


def full(configuration):
    """The messages of every validator, without informational ones."""

    def judge(cluster):
        results = cluster.validate()
        return [f"{r.level.name} {r.validator_type}: {r.message}" for r in results if r.level.name != "INFO"]

    return load_requests(configuration, judge)


def interfaces(configuration):
    """For each queue: its instance type, and the kind of each interface with its card and device number."""
    from pcluster.templates.queues_stack import add_network_interfaces
    from pcluster.utils import get_attr

    def lay_out(cluster):
        kind = get_attr(cluster, "dev_settings.efa_interface_type")
        layouts = []
        for queue in cluster.scheduling.queues:
            for resource in queue.compute_resources:
                network_interfaces = add_network_interfaces(queue, resource, ["sg-01234567"], efa_interface_type=kind)
                kinds = [
                    [interface.interface_type or "interface", interface.network_card_index, interface.device_index]
                    for interface in network_interfaces
                ]
                public = [interface.associate_public_ip_address for interface in network_interfaces]
                layouts.append({"type": resource.instance_types[0], "interfaces": kinds, "public": any(public)})
        return layouts

    return load_requests(configuration, lay_out)


def templates(configuration):
    """The template of the cluster and those of its nested stacks."""
    from pcluster.models.s3_bucket import S3Bucket
    from pcluster.templates.cdk_builder import CDKTemplateBuilder

    def build(cluster):
        bucket = S3Bucket(name="set-up", service_name="slipway", stack_name="slipway", artifact_directory="slipway")
        cluster.cluster_name = "slipway"
        template, assets = CDKTemplateBuilder().build_cluster_template(cluster, bucket, "slipway", "/aws/slipway")
        return [template, *(asset["content"] for asset in assets)]

    return load_requests(configuration, build)


def stop(path):
    """The fleet's status by ParallelCluster's own reading, before and after the guard's code has asked for a stop."""
    import boto3
    from moto import mock_aws
    from pcluster.aws.aws_api import AWSApi
    from pcluster.models.compute_fleet_status_manager import JsonComputeFleetStatusManager

    sys.path.insert(0, str(Path(path).parent))  # what it imports lies beside it, as in Lambda
    specification = importlib.util.spec_from_file_location("guard", path)
    guard = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(guard)
    variables = {"CLUSTER": "tiny", "PARALLELCLUSTER": "slipway-tiny", "STACK": "s", "TOPICS": "", "PREPAID": "false"}
    variables |= {"AWS_REGION": REGION, "STATE": "/slipway/s/guard", "IDLE_MINUTES": "60"}
    settings = guard.Settings.of(variables)
    AWSApi.reset()
    with mock_aws():
        manager = JsonComputeFleetStatusManager("slipway-tiny")
        boto3.client("dynamodb", REGION).create_table(
            TableName=manager._table_name,
            KeySchema=[{"AttributeName": "Id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "Id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        item = {"Id": manager.DB_KEY, manager.DB_DATA: {"status": "RUNNING", "lastStatusUpdatedTime": "now"}}
        boto3.resource("dynamodb", REGION).Table(manager._table_name).put_item(Item=item)
        before = str(manager.get_status())
        guard.Guard(settings, boto3.client, datetime.now(UTC)).stop("a test", 2)
        return [before, str(manager.get_status())]


def policies(_):
    """Of every key: its path, the key that tells the items of a list apart, its policy."""
    from pcluster.config.update_policy import UpdatePolicy
    from pcluster.schemas.cluster_schema import ClusterSchema

    def walk(section, before):
        for name, field in section.declared_fields.items():
            path = before + (field.data_key or name)
            listed = field.metadata.get("update_key", "") if getattr(field, "many", False) else ""
            yield [path, listed or "", field.metadata.get("update_policy", UpdatePolicy.UNSUPPORTED).name]
            if hasattr(field, "nested"):
                yield from walk(field.schema, f"{path}/")

    return list(walk(ClusterSchema(cluster_name="slipway"), ""))


def update(state):
    """The keys that differ, with the path of each and whether it may be updated now."""
    from pcluster.config.config_patch import ConfigPatch

    cluster = mock.Mock(
        has_running_capacity=lambda: state["fleet"], has_running_login_nodes=lambda **_: state["logins"]
    )
    cluster.name = "slipway"
    patch = ConfigPatch(cluster, state["old"], state["new"])
    verdicts = [(change, change.update_policy.check(change, patch)[0].value) for change in patch.changes]
    return sorted([".".join([*change.path, change.key]), verdict == "SUCCEEDED"] for change, verdict in verdicts)


OPERATIONS = {
    operation.__name__: operation for operation in (schema, image, full, interfaces, templates, policies, update)
}


def answered(operation, path):
    """The result of one operation on one file."""
    if operation == "stop":
        return stop(path)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return OPERATIONS[operation](yaml.load(Path(path).read_text(encoding="utf-8"), loader))  # noqa: S506 - a safe one


def share_descriptions():
    """Read each description of a service once: ParallelCluster's sessions, one for every client, would read it anew."""
    import botocore.session

    loader = botocore.session.create_loader()
    botocore.session.create_loader = lambda _=None: loader


def main():
    """Answer requests until standard input ends."""
    os.environ.update(ENVIRONMENT)
    share_descriptions()
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    for line in sys.stdin:
        operation, *paths = json.loads(line)
        try:
            answer = {path: answered(operation, path) for path in paths}
        except Exception:  # noqa: BLE001 - the test fails with it
            answer = traceback.format_exc()
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
