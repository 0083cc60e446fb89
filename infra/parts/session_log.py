"""The log of Session Manager's shells on a cluster's nodes, with its document: who opened a shell, and its output."""

from aws_cdk import Aws, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.parts.node_policy import OWN_PATH
from infra.parts.outputs import add_output
from launcher.model.plan import Plan
from launcher.model.sizing import LOG_RETENTION_DAYS


class SessionLog(Construct):
    """A log group, the session document that writes to it, and the policy for the nodes that write.

    The agent on the node writes during the session, with the node's own role (Systems Manager user guide, "Logging
    session activity"). The group outlives the stack: the record of sessions remains after `slipway down`.

    Attributes:
        document: the document's name.
        policy_arn: the policy that the nodes' roles need.
    """

    def __init__(self, scope: Construct, id_: str, *, keyed: bool, path: str) -> None:
        """`keyed`: the group is encrypted with the plan's key.

        Only with a key does the agent accept `cloudWatchEncryptionEnabled`; without a key, it refuses the session.
        """
        super().__init__(scope, id_)
        log = logs.CfnLogGroup(self, "Log", retention_in_days=LOG_RETENTION_DAYS)
        log.apply_removal_policy(RemovalPolicy.RETAIN)
        self.document = ssm.CfnDocument(
            self,
            "Document",
            document_type="Session",
            document_format="JSON",
            # The schema of session documents (Systems Manager user guide, "Session document schema").
            content={
                "schemaVersion": "1.0",
                "description": "A shell whose input and output are logged",
                "sessionType": "Standard_Stream",
                "inputs": {
                    "cloudWatchLogGroupName": log.ref,
                    "cloudWatchEncryptionEnabled": keyed,
                    "cloudWatchStreamingEnabled": True,
                },
            },
        ).ref
        self.policy_arn = iam.CfnManagedPolicy(
            self,
            "Policy",
            path=path,
            # As it is deployed: another description would replace the policy (entered_policy.py).
            description="Slipway nodes: the log of Session Manager sessions",
            policy_document=iam.PolicyDocument(
                statements=[
                    iam.PolicyStatement(
                        sid="WriteSessions",
                        actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
                        resources=[f"arn:{Aws.PARTITION}:logs:{Aws.REGION}:{Aws.ACCOUNT_ID}:log-group:{log.ref}:*"],
                    ),
                    # The agent lists groups to check that this one exists; the call takes no resource.
                    iam.PolicyStatement(sid="DescribeLogGroups", actions=["logs:DescribeLogGroups"], resources=["*"]),
                ]
            ),
        ).ref

    def outputs(self, region: str | None = None, target: str = "INSTANCE_ID") -> None:
        """Name the document in the stack's outputs; with a region, also the command of a shell on one of many nodes."""
        stack = Stack.of(self)
        add_output(stack, "SessionDocument", self.document)
        if region is not None:
            add_output(
                stack,
                "ShellOnANode",
                f"aws ssm start-session --region {region} --document-name {self.document} --target {target}",
            )


def session_log(scope: Construct, plan: Plan, path: str = OWN_PATH) -> SessionLog | None:
    """The session log of a plan's stack, None if the plan retains no log; `path` is the path of its policy."""
    if not plan.request.security.session_log:
        return None
    return SessionLog(scope, "SessionLog", keyed=plan.request.storage.kms_key_arn is not None, path=path)
