"""Service control policies of organizations that demand tags, a VPC and encryption, and requests of stacks.

The requests are those that the caller or CloudFormation's role makes; service control policies do not apply to
service-linked roles (Organizations user guide, SCPs), such as those that start the instances of Auto Scaling groups.
EC2 evaluates a spot request's resource only if the request tags it (EC2 user guide for Linux, spot requests).
"""

from launcher.rendering.batch import JobSettings
from launcher.rendering.names import symbolic_names
from launcher.targets.sagemaker_training.files import request_of as training_request
from tests.infra.iam import ACCOUNT, allows
from tests.infra.role_policies import Stack

FULL = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
"""FullAWSAccess, which every account of an organization has beside its own policies."""
KEY = f"arn:aws:kms:us-east-2:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
TAGS = {"CostCenter": "ML-42", "environment": "dev"}
NETWORK = {"vpc_id": "vpc-0a1b2c3d", "subnet_ids": ("subnet-0a1b2c3d",), "security_group_ids": ("sg-0a1b2c3d",)}


def denied_without_tag(sid, action, *kinds):
    """The form of "Require a tag on specified created resources" (Organizations user guide, SCP examples)."""
    return {
        "Sid": sid,
        "Effect": "Deny",
        "Action": action,
        "Resource": [f"arn:aws:ec2:*:*:{kind}/*" for kind in kinds],
        "Condition": {"Null": {"aws:RequestTag/CostCenter": "true"}},
    }


TAGGED = [
    denied_without_tag("DenyRunInstanceWithNoCostCenterTag", "ec2:RunInstances", "instance", "volume"),
    denied_without_tag("DenyInterfaceWithNoTag", "ec2:RunInstances", "network-interface", "spot-instances-request"),
    denied_without_tag("DenyTemplateWithNoTag", "ec2:CreateLaunchTemplate", "launch-template"),
]
JOBS = ("sagemaker:CreateHyperParameterTuningJob", "sagemaker:CreateProcessingJob", "sagemaker:CreateTrainingJob")
ENCRYPTED = {
    "Sid": "SageMakerJobEnforceEncryption",
    "Effect": "Deny",
    "Action": [*JOBS, "sagemaker:CreateTransformJob"],
    "Resource": "*",
    "Condition": {"Null": {"sagemaker:VolumeKmsKey": "true"}},
}
TRAFFIC = {
    "Sid": "SageMakerEnforceInterContainerTrafficEncryption",
    "Effect": "Deny",
    "Action": ["sagemaker:CreateHyperParameterTuningJob", "sagemaker:CreateTrainingJob"],
    "Resource": "*",
    "Condition": {"Bool": {"sagemaker:InterContainerTrafficEncryption": "false"}},
}
IN_VPC = [
    {
        "Sid": f"SageMakerEnforceVPCDeployment{key}",
        "Effect": "Deny",
        # The guide's list, and the calls that have these keys too in the Service Authorization Reference.
        "Action": [*JOBS, "sagemaker:CreateModel", "sagemaker:CreateNotebookInstance", "sagemaker:CreateCluster"],
        "Resource": "*",
        "Condition": {"Null": {f"sagemaker:{key}": "true"}},
    }
    for key in ("VpcSubnets", "VpcSecurityGroupIds")
]
ENDPOINT_TAG = {
    "Sid": "SageMakerRequireEnvTag",
    "Effect": "Deny",
    "Action": "sagemaker:CreateEndpoint",
    "Resource": "arn:aws:sagemaker:*:*:endpoint/*",
    "Condition": {"StringNotEquals": {"aws:RequestTag/environment": "dev"}},
}
"""AWS whitepaper "Build a secure enterprise ML platform", governance and control."""


def refused(statements, requests):
    """The requests that policies of an organization refuse."""
    documents = [FULL, {"Statement": statements}]
    return [(action, arn) for action, arn, context in requests if not allows(documents, action, arn, **context)]


def tag_context(tags):
    entries = tags.items() if isinstance(tags, dict) else [(tag["Key"], tag["Value"]) for tag in tags]
    return {f"RequestTag/{key}": value for key, value in entries}


def launches(stack):
    """The launch templates of a stack, and the launches by them that EC2 tries out for their maker."""
    ec2 = f"arn:aws:ec2:us-east-2:{ACCOUNT}"
    for resource in stack.resources.values():
        if resource["Type"] == "AWS::EC2::LaunchTemplate":
            properties = resource["Properties"]
            own, given = (
                {each["ResourceType"]: tag_context(each["Tags"]) for each in holder.get("TagSpecifications", ())}
                for holder in (properties, properties["LaunchTemplateData"])
            )
            yield "ec2:CreateLaunchTemplate", f"{ec2}:launch-template/*", own.get("launch-template", {})
            for kind in ("instance", "volume", "network-interface", *(given.keys() & {"spot-instances-request"})):
                yield "ec2:RunInstances", f"{ec2}:{kind}/*", given.get(kind, {})
        if resource["Type"] == "AWS::EC2::Instance":
            tags = tag_context(resource["Properties"]["Tags"])
            to_volumes = resource["Properties"]["PropagateTagsToVolumeOnCreation"]
            yield "ec2:RunInstances", f"{ec2}:instance/*", tags
            yield "ec2:RunInstances", f"{ec2}:volume/*", tags if to_volumes else {}
            # CloudFormation tags no interface of an instance (its user guide, AWS::EC2::Instance): nat: instance.
            yield "ec2:RunInstances", f"{ec2}:network-interface/*", {}


def in_vpc(properties):
    """The condition keys of a request's VpcConfig."""
    given = properties.get("VpcConfig") or {}
    keys = {"VpcSubnets": given.get("Subnets"), "VpcSecurityGroupIds": given.get("SecurityGroupIds")}
    return {key: value for key, value in keys.items() if value}


def sagemaker_requests(stack):
    """SageMaker's calls that a stack causes, with the condition keys of the Service Authorization Reference."""
    for resource in stack.resources.values():
        service, _, kind = resource["Type"].removeprefix("AWS::").partition("::")
        if service == "SageMaker":
            properties = resource["Properties"]
            arn = f"arn:aws:sagemaker:us-east-2:{ACCOUNT}:{kind.lower()}/x"
            yield f"sagemaker:Create{kind}", arn, {**tag_context(properties.get("Tags", [])), **in_vpc(properties)}


def job_request(plan, catalog):
    """CreateTrainingJob of a launch."""
    body = training_request(
        plan,
        instances=catalog.instance_types,
        names=symbolic_names(plan),
        job=JobSettings(run="r", checkpoint_interval_s=600.0),
    )
    key = body["ResourceConfig"].get("VolumeKmsKeyId")
    context = {
        **tag_context(body["Tags"]),
        **in_vpc(body),
        "InterContainerTrafficEncryption": str(body.get("EnableInterContainerTrafficEncryption", False)).lower(),
        **({} if key is None else {"VolumeKmsKey": key}),
    }
    return "sagemaker:CreateTrainingJob", f"arn:aws:sagemaker:us-east-2:{ACCOUNT}:training-job/x", context


def stacks_of(assembly):
    return [Stack(file.removesuffix(".template.json"), template) for file, template in assembly.templates.items()]
