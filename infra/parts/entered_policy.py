"""The permissions for sessions and commands of Systems Manager on a node, and for no other feature of that service."""

from aws_cdk import aws_iam as iam
from constructs import Construct

AGENT = ("ssm:UpdateInstanceInformation",)
CHANNELS = (
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
)
COMMANDS = (
    "ec2messages:AcknowledgeMessage",
    "ec2messages:DeleteMessage",
    "ec2messages:FailMessage",
    "ec2messages:GetEndpoint",
    "ec2messages:GetMessages",
    "ec2messages:SendReply",
)
"""For Run Command: agents before 3.3.40 need exactly these (Systems Manager user guide, ec2messages)."""


def entered_policy(scope: Construct, id_: str, *, path: str) -> str:
    """The ARN of a policy for nodes that users open shells on.

    AmazonSSMManagedInstanceCore has these actions too, but also reads every parameter of the account. No action
    supports a resource (service authorization reference).
    """
    statements = [
        iam.PolicyStatement(sid="Agent", actions=list(AGENT), resources=["*"]),
        iam.PolicyStatement(sid="Sessions", actions=list(CHANNELS), resources=["*"]),
        iam.PolicyStatement(sid="Commands", actions=list(COMMANDS), resources=["*"]),
    ]
    return iam.CfnManagedPolicy(
        scope,
        id_,
        path=path,
        # IAM cannot change a description: another one would replace the policy, and ParallelCluster refuses to exchange
        # the policies of login nodes while they run (launcher/catalog/data/pcluster_updates.csv).
        description="Slipway nodes: sessions and commands of Systems Manager",
        policy_document=iam.PolicyDocument(statements=statements),
    ).ref
