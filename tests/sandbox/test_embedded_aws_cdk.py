"""The real CDK CLI against the embedded AWS: bootstrap, deploy, a failed deployment, destroy."""

import json
import os
import subprocess
import sys

import pytest

from launcher.cdk import toolchain
from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from tests.sandbox import clients
from tests.warm_app import WITHOUT_VALIDATION

REGION = "us-east-2"
pytestmark = pytest.mark.xdist_group("embedded-cdk")

APP = """
import sys
import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2, aws_iam as iam, aws_s3 as s3, aws_s3_assets as assets

app = cdk.App()
env = cdk.Environment(account="123456789012", region="us-east-2")

net = cdk.Stack(app, "net", env=env)
vpc = ec2.Vpc(net, "Vpc", max_azs=2, nat_gateways=1, ip_addresses=ec2.IpAddresses.cidr("10.0.0.0/16"),
              restrict_default_security_group=True)
efa = ec2.CfnSecurityGroup(net, "Efa", group_description="efa", vpc_id=vpc.vpc_id)
ec2.CfnSecurityGroupIngress(net, "In", group_id=efa.attr_group_id, ip_protocol="-1",
                            source_security_group_id=efa.attr_group_id)
ec2.CfnSecurityGroupEgress(net, "Out", group_id=efa.attr_group_id, ip_protocol="-1",
                           destination_security_group_id=efa.attr_group_id)
vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)

store = cdk.Stack(app, "store", env=env, termination_protection=True)
bucket = s3.Bucket(store, "Checkpoints", versioned=True, enforce_ssl=True, encryption=s3.BucketEncryption.S3_MANAGED,
                   block_public_access=s3.BlockPublicAccess.BLOCK_ALL)
bucket.add_lifecycle_rule(expiration=cdk.Duration.days(7), tag_filters={"slipway": "superseded"})
cdk.CfnOutput(store, "Bucket", value=bucket.bucket_name)

train = cdk.Stack(app, "train", env=env)
script = assets.Asset(train, "Script", path="node.sh")
role = iam.Role(train, "Node", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
bucket.grant_read_write(role)
url = "https://us-east-2-aws-parallelcluster.s3.us-east-2.amazonaws.com/parallelcluster/3.16.1/templates/custom_resource/cluster.yaml"
provider = cdk.CfnStack(train, "Provider", template_url=url)
subnet = vpc.private_subnets[0].subnet_id
queue = {
    "Name": "gpu",
    "CapacityType": app.node.try_get_context("capacity") or "SPOT",
    "Networking": {"SubnetIds": [subnet], "PlacementGroup": {"Enabled": True}},
    "CustomActions": {"OnNodeConfigured": {"Script": script.s3_object_url}},
    "ComputeResources": [{"Name": "p4d", "InstanceType": "p4d.24xlarge", "MaxCount": 2, "Efa": {"Enabled": True}}],
}
cluster = cdk.CustomResource(train, "Cluster", resource_type="Custom::PclusterCluster",
    service_token=provider.get_att("Outputs.ServiceToken").to_string(),
    properties={"ClusterName": "demo", "ClusterConfiguration": {
        "Region": "us-east-2", "Image": {"Os": "ubuntu2404"},
        "HeadNode": {"InstanceType": "m5.large", "Networking": {"SubnetId": subnet}},
        "Scheduling": {"Scheduler": "slurm", "SlurmQueues": [queue]}}})
cdk.CfnOutput(train, "Head", value=cluster.get_att_string("headNode.instanceId"))
app.synth()
"""


@pytest.fixture(scope="module")
def cdk(sandbox, tmp_path_factory):
    """Runs the CDK CLI in a folder with the app, and with its stacks as they are synthesised once in `assembly`."""
    folder = tmp_path_factory.mktemp("app")
    (folder / "app.py").write_text(APP)
    (folder / "node.sh").write_text("#!/bin/sh\ntrue\n")
    (folder / "cdk.json").write_text(json.dumps({"app": f"{sys.executable} app.py"}))
    environment = sandbox.process_environment(toolchain.environment(os.environ)) | WITHOUT_VALIDATION

    def run(*arguments):
        command = [*toolchain.cdk_command(), "--no-color", *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    for arguments in (
        ("synth", "--quiet", "--output", "assembly"),
        ("bootstrap", f"aws://{ACCOUNT}/{REGION}", "--app", "assembly"),
    ):
        done = run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
    return run


@pytest.fixture(scope="module")
def deploy(cdk):
    options = ("--require-approval", "never", "--concurrency", "2", "--outputs-file", "outputs.json")
    return cdk("deploy", "--app", "assembly", "--all", *options)


@pytest.fixture
def cdk_client(sandbox):
    def make(service):
        return clients.client(sandbox, service, region_name=REGION)

    return make


def statuses(client):
    return {stack["StackName"]: stack["StackStatus"] for stack in client("cloudformation").describe_stacks()["Stacks"]}


class TestDeployment:
    def test_deploy_creates_every_stack(self, deploy, cdk_client):
        assert deploy.returncode == 0, deploy.stdout + deploy.stderr
        assert set(statuses(cdk_client).items()) >= {(name, "CREATE_COMPLETE") for name in ("net", "store", "train")}

    def test_deploy_reports_each_resource(self, deploy):
        output = deploy.stdout + deploy.stderr
        assert "Custom::PclusterCluster" in output
        assert "AWS::EC2::NatGateway" in output

    def test_protected_stack_has_termination_protection(self, deploy, cdk_client):
        (stack,) = cdk_client("cloudformation").describe_stacks(StackName="store")["Stacks"]
        assert stack["EnableTerminationProtection"] is True

    def test_bucket_has_lifecycle_policy_and_versioning_of_app(self, deploy, cdk_client):
        (stack,) = cdk_client("cloudformation").describe_stacks(StackName="store")["Stacks"]
        name = next(output["OutputValue"] for output in stack["Outputs"] if output["OutputKey"] == "Bucket")
        rules = cdk_client("s3").get_bucket_lifecycle_configuration(Bucket=name)["Rules"]
        assert rules[0]["Filter"] == {"Tag": {"Key": "slipway", "Value": "superseded"}}
        assert "aws:SecureTransport" in cdk_client("s3").get_bucket_policy(Bucket=name)["Policy"]
        assert cdk_client("s3").get_bucket_versioning(Bucket=name)["Status"] == "Enabled"

    def test_private_subnets_assign_no_public_addresses(self, deploy, cdk_client, sandbox):
        (vpc,) = [resource.physical_id for resource in sandbox.resources() if resource.type == "AWS::EC2::VPC"]
        subnets = cdk_client("ec2").describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"]
        assert sorted(subnet["MapPublicIpOnLaunch"] for subnet in subnets) == [False, False, True, True]

    def test_deployed_cluster_has_nodes(self, deploy, sandbox):
        assert [node.name for node in sandbox.nodes("demo")] == ["gpu-dy-p4d-1", "gpu-dy-p4d-2"]

    def test_unemulated_resources_are_named(self, deploy, sandbox):
        names = sandbox.not_emulated({"net", "store", "train"})
        assert "Custom::VpcRestrictDefaultSG" in names
        assert "cluster demo: queue gpu: CustomActions (not run)" in names


class TestEnd:
    def test_broken_cluster_fails_deployment_with_reason(self, deploy, cdk, cdk_client):
        failed = cdk("deploy", "train", "--exclusively", "--require-approval", "never", "-c", "capacity=BLOCK")
        assert failed.returncode != 0
        assert "CapacityType: got 'BLOCK', allowed: CAPACITY_BLOCK, ONDEMAND, SPOT" in failed.stdout + failed.stderr
        assert statuses(cdk_client)["train"] == "UPDATE_ROLLBACK_COMPLETE"

    def test_destroy_removes_all_stacks_except_protected(self, deploy, cdk, cdk_client, sandbox):
        refused = cdk("destroy", "--app", "assembly", "--all", "--force")
        assert refused.returncode != 0
        assert "cannot be deleted while TerminationProtection is enabled" in refused.stdout + refused.stderr
        assert set(statuses(cdk_client)) == {"CDKToolkit", "store"}
        assert sandbox.clusters() == ()
