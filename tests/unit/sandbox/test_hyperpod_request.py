"""Requests for a HyperPod cluster in the sandbox: the resulting cluster, and refusals."""

import re

import pytest

from launcher.sandbox.cluster.hyperpod_request import read
from launcher.sandbox.cluster.schema import RequestRefusedError
from tests.unit.sandbox.hyperpod_plans import ACCOUNT, REGION


def on_plan(name):
    return {"TrainingPlanArn": f"arn:aws:sagemaker:{REGION}:123456789012:training-plan/{name}"}


def request_with(worker=None, **whole):
    def group(name, type_, count, slurm, more):
        return {
            "InstanceGroupName": name,
            "InstanceType": type_,
            "InstanceCount": count,
            "ExecutionRole": "arn:aws:iam::123456789012:role/machines",
            "LifeCycleConfig": {"SourceS3Uri": "s3://assets/scripts", "OnInitComplete": "on_create.sh"},
            "SlurmConfig": slurm,
            **more,
        }

    compute = {"NodeType": "Compute", "PartitionNames": ["p5"]}
    return {
        "ClusterName": "pod",
        "InstanceGroups": [
            group("controller", "ml.m6i.xlarge", 1, {"NodeType": "Controller"}, {}),
            group("workers", "ml.p5.48xlarge", 2, compute, worker or {}),
        ],
        "VpcConfig": {"SecurityGroupIds": ["sg-efa"], "Subnets": ["subnet-1"]},
        "Orchestrator": {"Slurm": {"SlurmConfigStrategy": "Merge"}},
        **whole,
    }


def test_hyperpod_request_becomes_partitions_nodes_and_settings():
    spec = read(request_with(), ACCOUNT)
    (group,) = spec.groups
    assert [queue.name for queue in spec.queues] == ["p5"]
    assert group.node_names() == ("workers-1", "workers-2")
    assert (group.instance_type, group.gpus, group.capacity_type) == ("p5.48xlarge", 8, "ONDEMAND")
    assert spec.settings == (("RequeueExit", "75"),)


@pytest.mark.parametrize("name", ["p5", "later"])
def test_training_plan_limits_the_instances(name):
    spec = read(request_with(on_plan(name)), ACCOUNT)
    assert [group.max_count for group in spec.groups] == [2]
    assert any("the window of its training plan" in reason for reason in spec.left_out)


KEYED = {"RootVolume": True, "VolumeKmsKeyId": f"arn:aws:kms:{REGION}:123456789012:key/1234abcd"}
"""A root volume with a key of the account."""
ABSENT = {"DnsName": "fs-00000002.fsx.test", "MountName": "x"}
"""A file system that is not there."""


@pytest.mark.parametrize(
    "request_, message",
    [
        (request_with(NodeRecover="Automatic"), "extraneous key [NodeRecover] is not permitted"),
        (request_with(NodeRecovery="Sometimes"), "#/NodeRecovery: Sometimes is not a valid enum value"),
        (request_with(ClusterName="a_b"), "#/ClusterName: 'a_b' does not match pattern"),
        (request_with(VpcConfig={"SecurityGroupIds": ["sg-plain"], "Subnets": ["subnet-1"]}), "sg-plain does not"),
        (
            request_with(VpcConfig={"SecurityGroupIds": ["sg-efa", "sg-plain"], "Subnets": ["subnet-1"]}),
            "every security group to let all traffic in and out to itself, sg-plain does not",
        ),
        (request_with(VpcConfig={"SecurityGroupIds": ["sg-efa"], "Subnets": ["subnet-2"]}), "no subnet 'subnet-2'"),
        (request_with({"InstanceType": "p5.48xlarge"}), "InstanceType: p5.48xlarge is not a valid enum value"),
        (request_with({"InstanceCount": "2"}), "InstanceCount: expected type: integer, found: str"),
        (request_with({"SlurmConfig": {"NodeType": "Login"}}), "needs a Compute group"),
        (
            request_with({"SlurmConfig": {"NodeType": "Login", "PartitionNames": ["p"]}}),
            "Login groups have no partition",
        ),
        (request_with(Orchestrator={"Slurm": {}}), "Orchestrator.Slurm.SlurmConfigStrategy: missing"),
        (
            request_with({"LifeCycleConfig": {"SourceS3Uri": "s3://assets/old", "OnInitComplete": "on_create.sh"}}),
            "no object s3://assets/old/on_create.sh",
        ),
        (
            request_with(
                {"InstanceStorageConfigs": [{"FsxLustreConfig": {"DnsName": "fs-00000002.fsx.test", "MountName": "x"}}]}
            ),
            "no file system fs-00000002.fsx.test",
        ),
        (
            request_with({"InstanceStorageConfigs": [{"EbsVolumeConfig": KEYED}]}),
            "a customer managed key needs NodeProvisioningMode Continuous",
        ),
        (request_with(on_plan("none")), "no training plan arn:aws:sagemaker:us-east-2:123456789012:training-plan/none"),
        (request_with(on_plan("small")), "needs 2 instances, the training plan has 1"),
        (request_with(on_plan("other")), "the training plan has ml.p5en.48xlarge, got ml.p5.48xlarge"),
        (request_with(on_plan("elsewhere")), "the training plan is in use2-az3, the subnet in use2-az1"),
        (request_with(on_plan("over")), "the training plan is Expired, allowed: Scheduled, Active"),
    ],
)
def test_invalid_hyperpod_request_is_refused_with_the_reason(request_, message):
    with pytest.raises(RequestRefusedError, match=re.escape(message)):
        read(request_, ACCOUNT)
