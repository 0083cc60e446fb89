"""The outputs of stacks: what each means, in the words of the console."""

from collections.abc import Mapping

from aws_cdk import CfnOutput
from constructs import Construct

from launcher.model.ec2 import GROUP_OUTPUT
from launcher.model.training_job import JOBS_OUTPUT
from launcher.rendering.names import HYPERPOD_OUTPUTS, OUTPUTS

_OF_NAMES: Mapping[str, str] = {
    "subnet_id": "Subnet of all nodes",
    "security_group_id": "Security group of the nodes",
    "node_policy_arn": "IAM policy of the nodes' role: the plan's part of the checkpoint bucket",
    "store_uri": "S3 folder of the plan's checkpoints and jobs",
    "node_setup_uri": "S3 object of the script that sets up a node",
    "node_metrics_uri": "S3 object of the script that reports accelerator metrics of a node",
    "entered_policy_arn": "IAM policy of nodes for Session Manager access",
    "session_log_policy_arn": "IAM policy of nodes for writing the log of Session Manager sessions",
    "stop_uri": "S3 object that tells jobs to save a checkpoint and end: the budget is used up",
    "message_uri": "S3 folder of messages from jobs to the guard",
    "role_arn": "Execution role of the SageMaker instances",
    "lifecycle_uri": "S3 folder of the lifecycle scripts",
    "lustre_dns_name": "DNS name of the FSx for Lustre file system",
    "lustre_mount_name": "Mount name of the FSx for Lustre file system",
    "eks_arn": "ARN of the EKS cluster that orchestrates the HyperPod cluster",
}
DESCRIPTIONS: Mapping[str, str] = {
    **{{**OUTPUTS, **HYPERPOD_OUTPUTS}[field]: text for field, text in _OF_NAMES.items()},
    GROUP_OUTPUT: "Auto Scaling group of the instances",
    JOBS_OUTPUT: "Tag of the SageMaker training jobs",
    "AccessRoleArn": "Role that is assumed to submit jobs to the Kubernetes API",
    "AnswersUri": "S3 folder of the responses",
    "BucketName": "The checkpoint bucket",
    "ClusterArn": "ARN of the cluster",
    "ClusterEndpoint": "URL of the Kubernetes API",
    "ClusterId": "Id of the HyperPod cluster in Session Manager targets",
    "ClusterName": "Name of the cluster",
    "Connect": "Command that connects to the cluster",
    "DashboardUrl": "CloudWatch dashboard of this stack",
    "EndpointConfigName": "Endpoint configuration to run; another one means that the update was rolled back",
    "EndpointName": "The endpoint in SageMaker",
    "GuardrailSummary": "Limits that the guard enforces",
    "HeadNodeInstanceId": "EC2 instance of the head node",
    "Image": "Container image of the endpoint",
    "InferenceComponentName": "The inference component in SageMaker",
    "InvokePolicyArn": "IAM policy for callers of the endpoint",
    "LoginGroupId": "Compute node group of the login node",
    "Mode": "How the endpoint serves: real time, inference components or asynchronous",
    "ModelName": "The model in SageMaker",
    "NotifyTopicArn": "SNS topic of all notifications",
    "OpenAiUrl": "Base URL for OpenAI clients; leave the model's name empty",
    "PcsClusterId": "Id of the cluster in PCS",
    "PlanDigest": "Digest of the plan that was deployed",
    "PodRoleArn": "Role of the pods of each job",
    "Region": "Region of the stack",
    "RequestsUri": "S3 folder of the requests",
    "SessionDocument": "Session Manager document whose sessions are logged",
    "ShellOnANode": "Command that opens a logged shell; the providerID of a node ends with its instance id",
    "StartFleet": "Command that starts the nodes again after the guard stopped them",
}


def add_output(scope: Construct, name: str, value: str) -> None:
    """Add an output to a stack, with its description."""
    CfnOutput(scope, name, value=value, description=DESCRIPTIONS[name])
