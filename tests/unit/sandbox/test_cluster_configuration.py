import copy
import dataclasses
from dataclasses import dataclass, field

import pytest

from launcher.sandbox.cluster.configuration import read
from launcher.sandbox.cluster.schema import RequestRefusedError
from launcher.sandbox.cluster.specification import EmulatedSubnet, TypeFacts

P5 = TypeFacts(vcpus=192, memory_mib=2097152, gpus=8, efa=True, network_cards=32)
SMALL = TypeFacts(vcpus=2, memory_mib=8192, gpus=0, efa=False, network_cards=1)


@dataclass
class Aws:
    """An AWS with a few things in it."""

    region: str = "us-east-1"
    types: dict = field(default_factory=lambda: {"p5.48xlarge": P5, "m5.large": SMALL})
    subnets: dict = field(
        default_factory=lambda: {
            "subnet-0private": EmulatedSubnet(zone="us-east-1a", gives_public_addresses=False),
            "subnet-00public": EmulatedSubnet(zone="us-east-1a", gives_public_addresses=True),
        }
    )
    groups: dict = field(default_factory=lambda: {"sg-00000efa": True, "sg-000plain": False})
    objects: frozenset = frozenset({("assets", None), ("assets", "node.sh")})

    def instance_type(self, name):
        return self.types.get(name)

    def subnet(self, subnet_id):
        return self.subnets.get(subnet_id)

    def admits_itself(self, group_id):
        return self.groups.get(group_id)

    def has_object(self, bucket, key):
        return (bucket, key) in self.objects


def configuration():
    return {
        "Region": "us-east-1",
        "Image": {"Os": "ubuntu2404"},
        "HeadNode": {"InstanceType": "m5.large", "Networking": {"SubnetId": "subnet-0private"}},
        "Scheduling": {
            "Scheduler": "slurm",
            "SlurmSettings": {"CustomSlurmSettings": [{"JobRequeue": 1}, {"RequeueExit": 75}]},
            "SlurmQueues": [
                {
                    "Name": "p5-48xlarge",
                    "CapacityType": "SPOT",
                    "JobExclusiveAllocation": True,
                    "Networking": {
                        "SubnetIds": ["subnet-0private"],
                        "SecurityGroups": ["sg-00000efa"],
                        "PlacementGroup": {"Enabled": True},
                    },
                    "ComputeResources": [
                        {
                            "Name": "nodes",
                            "InstanceType": "p5.48xlarge",
                            "MinCount": 1,
                            "MaxCount": 3,
                            "Efa": {"Enabled": True},
                        }
                    ],
                }
            ],
        },
    }


def block(queue):
    queue["CapacityType"] = "CAPACITY_BLOCK"
    queue["Networking"]["PlacementGroup"] = {"Enabled": False}
    resource = queue["ComputeResources"][0]
    resource |= {"MinCount": 2, "MaxCount": 2, "CapacityReservationTarget": {"CapacityReservationId": "cr-1"}}


def refusals(document, name="demo", aws=None):
    with pytest.raises(RequestRefusedError) as refused:
        read(name, document, aws or Aws())
    return [str(problem) for problem in refused.value.problems]


class TestRead:
    def test_spot_queue_is_read_with_nodes_and_settings(self):
        spec = read("demo", configuration(), Aws())
        (group,) = spec.groups
        assert (group.instance_type, group.capacity_type, group.efa, group.placement_group) == (
            "p5.48xlarge",
            "SPOT",
            True,
            True,
        )
        assert (group.cpus, group.memory_mib, group.gpus) == (192, 2097152, 8)
        assert group.node_names() == ("p5-48xlarge-st-nodes-1", "p5-48xlarge-dy-nodes-1", "p5-48xlarge-dy-nodes-2")
        assert spec.queues[0].exclusive
        assert spec.settings == (("JobRequeue", "1"), ("RequeueExit", "75"))

    def test_capacity_block_queue_has_static_nodes(self):
        document = configuration()
        block(document["Scheduling"]["SlurmQueues"][0])
        (group,) = read("demo", document, Aws()).groups
        assert group.node_names() == ("p5-48xlarge-st-nodes-1", "p5-48xlarge-st-nodes-2")

    def test_disabled_multithreading_halves_the_processors(self):
        document = configuration()
        document["Scheduling"]["SlurmQueues"][0]["ComputeResources"][0]["DisableSimultaneousMultithreading"] = True
        assert read("demo", document, Aws()).groups[0].cpus == 96

    @pytest.mark.parametrize(
        "kind, refused", [(None, True), ("efa-only", True), ("efa", False)], ids=["default", "efa-only", "combined"]
    )
    def test_public_nodes_on_one_card_refused_with_a_second_interface(self, kind, refused):
        document = configuration()
        queue = document["Scheduling"]["SlurmQueues"][0]
        queue["Networking"]["AssignPublicIp"] = True
        if kind is not None:
            document["DevSettings"] = {"EfaInterfaceType": kind}
        aws = Aws()
        aws.types["p5.48xlarge"] = dataclasses.replace(P5, network_cards=1)
        if refused:
            assert any("an efa-only interface beside its first one" in each for each in refusals(document, aws=aws))
        else:
            assert read("demo", document, aws).groups[0].efa

    def test_unsupported_settings_are_listed_as_left_out(self):
        document = configuration() | {"Monitoring": {"DetailedMonitoring": True}}
        assert set(read("demo", document, Aws()).left_out) == {"Monitoring", "queue p5-48xlarge: EFA interfaces"}


def change(document, path, value):
    """Set, or with None remove, what is at a path."""
    *parents, last = path
    for step in parents:
        document = document[step]
    if value is None:
        del document[last]
    else:
        document[last] = value


QUEUE = ("Scheduling", "SlurmQueues", 0)
RESOURCE = (*QUEUE, "ComputeResources", 0)


class TestRefusals:
    @pytest.mark.parametrize(
        "path, value, message",
        [
            (("Image",), None, "Image: missing"),
            (("Image", "Os"), "ubuntu2004", "Image.Os: got 'ubuntu2004'"),
            (("Image", "CustomAmi"), "ami-1", "Image.CustomAmi: got 'ami-1'"),
            (("Region",), "eu-west-1", "Region: got 'eu-west-1'"),
            (("HeadNode", "InstanceType"), "m5.tiny", "EC2 has no instance type 'm5.tiny'"),
            (("HeadNode", "Networking", "SubnetId"), "subnet-0000gone", "no subnet 'subnet-0000gone'"),
            (("HeadNode", "Netwrking"), {}, "HeadNode.Netwrking: unknown key, did you mean Networking"),
            (("Scheduling", "Scheduler"), "awsbatch", "Scheduling.Scheduler: got 'awsbatch'"),
            (("Scheduling", "SlurmQueues"), [], "at least 1 queue is required"),
            (("Scheduling", "SlurmSettings", "CustomSlurmSettings"), [{"TaskPlugin": "x"}], "sets it itself"),
            ((*QUEUE, "Name"), "P5", "got 'P5', allowed: a lower-case letter"),
            ((*QUEUE, "CapacityType"), "spot", "CapacityType: got 'spot', allowed: CAPACITY_BLOCK, ONDEMAND, SPOT"),
            ((*QUEUE, "Networking", "SecurityGroups"), ["sg-000plain"], "EFA needs a security group"),
            ((*QUEUE, "Networking", "SecurityGroups"), ["sg-0000gone"], "no security group 'sg-0000gone'"),
            ((*QUEUE, "Networking", "PlacementGroup"), None, "EFA needs an explicit placement group setting"),
            ((*QUEUE, "Networking", "SubnetIds"), ["subnet-00public"], "several network cards, and EC2 gives"),
            ((*QUEUE, "CustomActions"), {"OnNodeConfigured": {"Script": "node.sh"}}, "allowed: s3://bucket/key"),
            ((*QUEUE, "CustomActions"), {"OnNodeStart": {"Script": "s3://assets/gone.sh"}}, "no object s3://assets"),
            ((*QUEUE, "Iam"), {"S3Access": [{"BucketName": "gone"}]}, "no bucket gone"),
            ((*RESOURCE, "MinCount"), 4, "MinCount 4, MaxCount 3: needs 0 <= MinCount <= MaxCount"),
            ((*RESOURCE, "MaxCount"), "3", "MaxCount: got '3', allowed: a whole number"),
            ((*RESOURCE, "Efa", "Enabled"), "true", "Efa.Enabled: got 'true', allowed: true or false"),
            ((*RESOURCE, "InstanceType"), "m5.large", "m5.large has no EFA"),
            ((*RESOURCE, "InstanceType"), None, "needs either InstanceType or Instances"),
            ((*RESOURCE, "CustomSlurmSettings"), {"Gres": "gpu:1"}, "ParallelCluster sets it itself"),
        ],
    )
    def test_wrong_setting_is_refused_with_the_path(self, path, value, message):
        document = configuration()
        change(document, path, value)
        assert any(message in problem for problem in refusals(document))

    @pytest.mark.parametrize(
        "path, value, message",
        [
            ((*RESOURCE, "MinCount"), 0, "a Capacity Block needs both equal and above 0"),
            ((*RESOURCE, "CapacityReservationTarget"), None, "CapacityReservationTarget.CapacityReservationId"),
            ((*QUEUE, "Networking", "PlacementGroup", "Enabled"), True, "must not have a placement group"),
        ],
    )
    def test_capacity_block_with_partial_settings_is_refused(self, path, value, message):
        document = configuration()
        block(document["Scheduling"]["SlurmQueues"][0])
        change(document, path, value)
        assert any(message in problem for problem in refusals(document))

    def test_lustre_capacity_between_steps_is_refused(self):
        storage = {"Name": "fsx", "MountDir": "/fsx", "StorageType": "FsxLustre"}
        document = configuration() | {"SharedStorage": [storage | {"FsxLustreSettings": {"StorageCapacity": 5000}}]}
        assert "got 5000, allowed: 1200 or a multiple of 2400 GiB" in refusals(document)[0]

    def test_all_wrong_settings_are_reported_together(self):
        document = configuration()
        document["Image"]["Os"] = "windows"
        document["Scheduling"]["ScalingStrategy"] = "some"
        assert len(refusals(document)) == 2
        document = configuration()
        document["HeadNode"]["InstanceType"] = "m5.tiny"
        document["Region"] = "us-west-9"
        assert len(refusals(document)) == 2

    @pytest.mark.parametrize("name", ["1st", "a_b", "x" * 61, ""])
    def test_invalid_cluster_name_is_refused(self, name):
        assert "ClusterName" in refusals(configuration(), name=name)[0]

    def test_two_queues_of_one_name_are_refused(self):
        document = configuration()
        queues = document["Scheduling"]["SlurmQueues"]
        queues.append(copy.deepcopy(queues[0]))

        assert any("p5-48xlarge is used twice" in problem for problem in refusals(document))


class TestHeadNodeInPublicSubnet:
    def test_head_node_without_elastic_address_is_refused(self):
        public = configuration()
        public["HeadNode"]["Networking"]["SubnetId"] = "subnet-00public"
        with pytest.raises(RequestRefusedError, match="the head node gets no"):
            read("c", public, Aws())

    def test_head_node_with_elastic_address_is_accepted(self):
        public = configuration()
        public["HeadNode"]["Networking"] |= {"SubnetId": "subnet-00public", "ElasticIp": True}
        assert read("c", public, Aws()).head_subnet_id == "subnet-00public"
