"""What a request for a HyperPod cluster becomes in the sandbox, and what is refused of it."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from launcher.sandbox.cluster.hyperpod_request import Account, RequestRefusedError, read
from launcher.sandbox.cluster.specification import SubnetFacts, TypeFacts
from launcher.sandbox.cluster.training_plan import TrainingPlan

REGION = "us-east-2"


class Aws:
    """An AWS with a few things in it."""

    region = REGION

    def instance_type(self, name):
        return {
            "m6i.xlarge": TypeFacts(vcpus=4, memory_mib=16384, gpus=0, efa=False, network_cards=1),
            "p5.48xlarge": TypeFacts(vcpus=192, memory_mib=2097152, gpus=8, efa=True, network_cards=32),
        }.get(name)

    def subnet(self, subnet_id):
        facts = SubnetFacts(zone="us-east-2a", gives_public_addresses=False, zone_id="use2-az1")
        return facts if subnet_id == "subnet-1" else None

    def admits_itself(self, group_id):
        return {"sg-efa": True, "sg-plain": False}.get(group_id)

    def has_object(self, bucket, key):
        return (bucket, key) == ("assets", "scripts/on_create.sh")


def bought(**changes):
    name, now = changes.pop("name", "p5"), datetime.now(UTC)
    known = {
        "arn": f"arn:aws:sagemaker:{REGION}:123456789012:training-plan/{name}",
        "instance_type": "ml.p5.48xlarge",
        "count": 2,
        "zone_id": "use2-az1",
        "starts_at": now - timedelta(days=1),
        "ends_at": now + timedelta(days=1),
        "fee_usd": None,
    }
    return TrainingPlan(**{**known, **changes})


PLANS = (
    bought(),
    bought(name="later", starts_at=datetime.now(UTC) + timedelta(hours=1)),
    bought(name="small", count=1),
    bought(name="other", instance_type="ml.p5en.48xlarge"),
    bought(name="elsewhere", zone_id="use2-az3"),
    bought(name="over", ends_at=datetime.now(UTC) - timedelta(hours=1)),
)
ACCOUNT = Account(
    aws=Aws(),
    script="    add_setting RequeueExit 75\n",
    file_systems=frozenset({"fs-1.fsx"}),
    training_plans={each.arn: each for each in PLANS},
)


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


def test_a_request_becomes_partitions_nodes_and_the_settings_of_the_script():
    spec = read(request_with(), ACCOUNT)
    (group,) = spec.groups
    assert [each.name for each in spec.queues] == ["p5"]
    assert group.node_names() == ("workers-1", "workers-2")
    assert (group.instance_type, group.gpus, group.capacity_type) == ("p5.48xlarge", 8, "ONDEMAND")
    assert spec.settings == (("RequeueExit", "75"),)


@pytest.mark.parametrize("name", ["p5", "later"])
def test_a_training_plan_gives_its_instances(name):
    spec = read(request_with(on_plan(name)), ACCOUNT)
    assert [each.max_count for each in spec.groups] == [2]
    assert any("the window of its training plan" in each for each in spec.left_out)


ABSENT = {"DnsName": "fs-00000002.fsx.test", "MountName": "x"}
"""A file system that is not there."""


@pytest.mark.parametrize(
    "request_, told",
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
            request_with({"LifeCycleConfig": {"SourceS3Uri": "s3://assets/old", "OnInitComplete": "on_create.sh"}}),
            "no object s3://assets/old/on_create.sh",
        ),
        (
            request_with(
                {"InstanceStorageConfigs": [{"FsxLustreConfig": {"DnsName": "fs-00000002.fsx.test", "MountName": "x"}}]}
            ),
            "no file system fs-00000002.fsx.test",
        ),
        (request_with(on_plan("none")), "no training plan arn:aws:sagemaker:us-east-2:123456789012:training-plan/none"),
        (request_with(on_plan("small")), "takes 2 instances, the training plan has 1"),
        (request_with(on_plan("other")), "the training plan has ml.p5en.48xlarge, got ml.p5.48xlarge"),
        (request_with(on_plan("elsewhere")), "the training plan is in use2-az3, the subnet in use2-az1"),
        (request_with(on_plan("over")), "the training plan is Expired, allowed: Scheduled, Active"),
    ],
)
def test_a_broken_request_is_refused_with_the_reason(request_, told):
    with pytest.raises(RequestRefusedError, match=re.escape(told)):
        read(request_, ACCOUNT)
