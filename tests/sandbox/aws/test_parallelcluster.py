"""The ParallelCluster of the embedded AWS: its provider, its custom resource, its instances."""

import pytest

from tests.sandbox.aws.answers import REGION, SUBNET, VPC, events, outputs

PROVIDER = (
    f"https://{REGION}-aws-parallelcluster.s3.{REGION}.amazonaws.com"
    "/parallelcluster/3.16.1/templates/custom_resource/cluster.yaml"
)


def cluster_template(configuration=None, **properties):
    """A network, the provider and a cluster."""
    whole = {
        "Region": REGION,
        "Image": {"Os": "ubuntu2404"},
        "HeadNode": {"InstanceType": "m5.large", "Networking": {"SubnetId": {"Ref": "Subnet"}}},
        "Scheduling": {
            "Scheduler": "slurm",
            "SlurmQueues": [
                {
                    "Name": "gpu",
                    "CapacityType": "SPOT",
                    "Networking": {"SubnetIds": [{"Ref": "Subnet"}], "PlacementGroup": {"Enabled": True}},
                    "ComputeResources": [
                        {"Name": "p5", "InstanceType": "p5.48xlarge", "MaxCount": 2, "Efa": {"Enabled": True}}
                    ],
                }
            ],
        },
        "Tags": [{"Key": "team", "Value": "ml"}],
    }
    return {
        "Vpc": VPC,
        "Subnet": SUBNET,
        "Provider": {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": PROVIDER}},
        "Cluster": {
            "Type": "Custom::PclusterCluster",
            "Properties": {
                "ServiceToken": {"Fn::GetAtt": ["Provider", "Outputs.ServiceToken"]},
                "ClusterName": "demo",
                "ClusterConfiguration": whole | (configuration or {}),
                **properties,
            },
        },
    }


class TestParallelCluster:
    def test_deployed_cluster_has_ec2_nodes(self, stack, client, world_sandbox):
        deployed = stack(
            cluster_template(),
            outputs={
                "Head": {"Value": {"Fn::GetAtt": ["Cluster", "headNode.instanceId"]}},
                "Status": {"Value": {"Fn::GetAtt": ["Cluster", "clusterStatus"]}},
            },
        )
        assert deployed["StackStatus"] == "CREATE_COMPLETE"
        assert outputs(deployed)["Status"] == "CREATE_COMPLETE"
        filters = [{"Name": "tag:parallelcluster:cluster-name", "Values": ["demo"]}]
        instances = [
            instance
            for reservation in client("ec2").describe_instances(Filters=filters)["Reservations"]
            for instance in reservation["Instances"]
        ]
        head = [instance for instance in instances if instance["InstanceId"] == outputs(deployed)["Head"]]
        nodes = [instance for instance in instances if instance["InstanceType"] == "p5.48xlarge"]
        assert [instance["InstanceType"] for instance in head] == ["m5.large"]
        assert [node["InstanceLifecycle"] for node in nodes] == ["spot", "spot"]
        assert {"Key": "team", "Value": "ml"} in nodes[0]["Tags"]
        assert [node.name for node in world_sandbox.nodes("demo")] == ["gpu-dy-p5-1", "gpu-dy-p5-2"]
        assert {node.instance_id for node in world_sandbox.nodes("demo")} == {node["InstanceId"] for node in nodes}

    def test_deleted_cluster_terminates_nodes(self, stack, client, cloudformation, world_sandbox):
        deployed = stack(cluster_template())
        ids = [node.instance_id for node in world_sandbox.nodes("demo")]
        cloudformation.delete_stack(StackName=deployed["StackName"])
        assert world_sandbox.clusters() == ()
        reservations = client("ec2").describe_instances(InstanceIds=ids)["Reservations"]
        assert {instance["State"]["Name"] for one in reservations for instance in one["Instances"]} == {"terminated"}

    @pytest.mark.parametrize(
        "change, message",
        [
            ({"configuration": {"Image": {"Os": "windows"}}}, "Image.Os: got 'windows'"),
            ({"configuration": {"HeadNodes": {}}}, "HeadNodes: unknown key, did you mean HeadNode"),
            ({"ServiceToken": "arn:aws:lambda:x:1:function:other"}, "ServiceToken is not that of"),
            ({"ClusterName": "a_b"}, "ClusterName: got 'a_b'"),
            ({"ClusterConfiguration": "Region: x"}, "ClusterConfiguration must be a mapping"),
            ({"ClusterNmae": "x"}, "unknown properties: ClusterNmae"),
        ],
        ids=["os", "key", "token", "name", "text", "property"],
    )
    def test_invalid_cluster_configuration_fails_deployment(
        self, stack, cloudformation, world_sandbox, change, message
    ):
        deployed = stack(cluster_template(**change))
        assert deployed["StackStatus"] == "ROLLBACK_COMPLETE"
        reasons = [
            why
            for _, status, why in events(cloudformation, deployed["StackName"], "Cluster")
            if status == "CREATE_FAILED"
        ]
        assert message in reasons[0]
        assert world_sandbox.clusters() == ()

    def test_foreign_nested_stack_refused(self, stack, cloudformation):
        nested = {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": "https://example.com/t.yaml"}}
        deployed = stack({"Nested": nested})
        assert deployed["StackStatus"] == "ROLLBACK_COMPLETE"
        assert "example.com" in events(cloudformation, deployed["StackName"], "Nested")[1][2]

    def test_changed_cluster_is_recreated(self, stack, world_sandbox):
        stack(cluster_template())
        template = cluster_template()
        queue = template["Cluster"]["Properties"]["ClusterConfiguration"]["Scheduling"]["SlurmQueues"][0]
        queue["ComputeResources"][0]["MaxCount"] = 3
        assert stack(template)["StackStatus"] == "UPDATE_COMPLETE"
        assert len(world_sandbox.nodes("demo")) == 3
