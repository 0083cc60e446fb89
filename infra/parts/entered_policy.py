"""What lets a machine be entered by Systems Manager, and take commands by it: nothing else of that service."""

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
"""Run Command's, which agents before 3.3.40 take by these alone (Systems Manager user guide, ec2messages)."""


def entered_policy(scope: Construct, id_: str, *, path: str) -> str:
    """The ARN of a policy for machines that are entered.

    AmazonSSMManagedInstanceCore has these too, and reads every parameter of the account. None takes a resource (service
    authorization reference).
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
        description="Slipway machines that people enter: sessions and commands of Systems Manager",
        policy_document=iam.PolicyDocument(statements=statements),
    ).ref
