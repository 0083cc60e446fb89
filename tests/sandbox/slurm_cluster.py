"""The Slurm configuration of a small cluster with one group of nodes."""

import json

from launcher.sandbox.cluster.specification import ClusterSpec, NodeGroup, Queue
from tests.sandbox.clients import client

GROUP = NodeGroup(
    queue="gpu",
    name="p5",
    instance_type="p5.48xlarge",
    capacity_type="SPOT",
    min_count=1,
    max_count=2,
    subnet_id="subnet-1",
    security_groups=(),
    efa=True,
    placement_group=True,
    cpus=192,
    memory_mib=2097152,
    gpus=8,
    settings={"Sockets": "2", "CoresPerSocket": "48", "ThreadsPerCore": "2"},
)
SPEC = ClusterSpec(
    name="demo",
    head_instance_type="m5.large",
    head_subnet_id="subnet-1",
    head_security_groups=(),
    queues=(Queue(name="gpu", exclusive=True, settings={}),),
    groups=(GROUP,),
    settings=(("JobRequeue", "1"), ("RequeueExit", "75")),
    tags={},
    left_out=(),
)
PROVIDER = (
    "https://us-east-1-aws-parallelcluster.s3.us-east-1.amazonaws.com"
    "/parallelcluster/3.16.1/templates/custom_resource/cluster.yaml"
)
TEMPLATE = {
    "Resources": {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "Subnet": {
            "Type": "AWS::EC2::Subnet",
            "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.0.0/24", "AvailabilityZone": "us-east-1a"},
        },
        "Provider": {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": PROVIDER}},
        "Cluster": {
            "Type": "Custom::PclusterCluster",
            "Properties": {
                "ServiceToken": {"Fn::GetAtt": ["Provider", "Outputs.ServiceToken"]},
                "ClusterName": "demo",
                "ClusterConfiguration": {
                    "Region": "us-east-1",
                    "Image": {"Os": "ubuntu2404"},
                    "HeadNode": {"InstanceType": "m5.large", "Networking": {"SubnetId": {"Ref": "Subnet"}}},
                    "Scheduling": {
                        "Scheduler": "slurm",
                        "SlurmSettings": {"CustomSlurmSettings": [{"JobRequeue": 1}, {"RequeueExit": 75}]},
                        "SlurmQueues": [
                            {
                                "Name": "a-queue-of-longest-naming",
                                "CapacityType": "SPOT",
                                "JobExclusiveAllocation": True,
                                "Networking": {"SubnetIds": [{"Ref": "Subnet"}]},
                                "ComputeResources": [
                                    {"Name": "a-resource-of-long-naming", "InstanceType": "m5.xlarge", "MaxCount": 1}
                                ],
                            }
                        ],
                    },
                },
            },
        },
    }
}


def deploy(sandbox):
    """Deploy the cluster to the sandbox."""
    cloudformation = client(sandbox, "cloudformation")
    cloudformation.create_stack(StackName="train", TemplateBody=json.dumps(TEMPLATE))
    (stack,) = cloudformation.describe_stacks(StackName="train")["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"


def script_in(folder, text):
    script = folder / "job.sh"
    lines = "#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --exclusive\n#SBATCH --output=out\n"
    script.write_text(f"#!/bin/bash\n{lines}{text}\n")
    return script
