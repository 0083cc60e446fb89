"""The guard's Lambda function: its code, its permissions, and its callers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import NamedTuple

from aws_cdk import Aws, RemovalPolicy, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.parts.budget_stop import BudgetStop
from infra.parts.guard_folder import GuardFolder
from launcher.catalog.assets import asset
from launcher.model.monitoring import GUARD_MEMORY_MB, GUARD_STATES, NAMESPACE
from launcher.model.sizing import LOG_RETENTION_DAYS

_RUNTIME = "python3.14"
EMPTY_STATE = "{}"
"""The state of a guard that has counted nothing (templates/guard/state.py)."""
_TIMEOUT_S = 120
"""Long enough for every step of a check although some services may not respond (templates/guard/guard.py, CONFIG)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """The guard's settings; templates/guard/guard.py documents each one.

    Times are in hours and minutes, money in dollars.
    """

    cluster: str
    # The guard's module in templates/guard, and the environment variable for `name`, the cluster's name in its
    # service.
    module: str
    variable: str
    name: str
    topics: tuple[str, ...]
    # The guard never stops prepaid nodes.
    prepaid: bool
    # None without a limit.
    ttl_h: float | None
    idle_minutes: float
    hung_minutes: float
    # None without a rate.
    usd_per_node_hour: Decimal | None
    # When their service reclaims prepaid nodes, if no event announces it.
    ends_at: datetime | None = None
    # Encrypts the topic (None: SNS's default).
    key_arn: str | None = None
    # The spending limit that ends the job.
    stop: BudgetStop | None = None
    # The guard counts nodes at the current spot price if that is higher.
    spot: bool = False
    # The variables of the job's budget; empty where the guard does not compare each new instance with it.
    job: Mapping[str, str] = field(default_factory=dict)
    # The guard's folder in the store, None without jobs.
    folder: GuardFolder | None = None
    # Whether other clusters' jobs may write to that store.
    shared_store: bool = False
    # The variables of nodes that are billed even if none runs; empty without such nodes.
    reserved: Mapping[str, str] = field(default_factory=dict)


class Rights(NamedTuple):
    """The guard's target-specific permissions: actions that read (`reads`), and statements that stop.

    `variables` are the environment variables that the guard needs for both.
    """

    reads: tuple[str, ...]
    stop: tuple[iam.PolicyStatement, ...]
    variables: Mapping[str, str] = MappingProxyType({})


class GuardFunction(Construct):
    """The guard's function for one cluster.

    It belongs to the cluster's stack: it exists as long as the cluster, and is removed together with it.
    """

    def __init__(self, scope: Construct, id_: str, *, settings: GuardSettings, rights: Rights) -> None:
        super().__init__(scope, id_)
        log = logs.CfnLogGroup(self, "Log", retention_in_days=LOG_RETENTION_DAYS)
        log.apply_removal_policy(RemovalPolicy.DESTROY)
        state = ssm.CfnParameter(
            self,
            "State",
            name=f"{GUARD_STATES}/{Stack.of(self).stack_name}/guard",
            type="String",
            value=EMPTY_STATE,
            description=f"Slipway: counters of the guard of {settings.cluster}",
        )
        code = assets.Asset(self, "Code", path=str(asset("templates/guard")), exclude=["__pycache__"])
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Watches cluster {settings.cluster} and stops its nodes",
            inline_policies={"Watch": iam.PolicyDocument(statements=self._statements(settings, rights, log, state))},
        )
        self.function = lambda_.CfnFunction(
            self,
            "Function",
            code=lambda_.CfnFunction.CodeProperty(s3_bucket=code.s3_bucket_name, s3_key=code.s3_object_key),
            handler=f"{settings.module}.handler",
            runtime=_RUNTIME,
            architectures=["x86_64"],
            role=role.role_arn,
            description=f"Slipway: watches cluster {settings.cluster}",
            timeout=_TIMEOUT_S,
            memory_size=GUARD_MEMORY_MB,
            logging_config=lambda_.CfnFunction.LoggingConfigProperty(log_group=log.ref),
            environment=lambda_.CfnFunction.EnvironmentProperty(
                variables={**self._variables(settings), **rights.variables, "STATE": state.ref}
            ),
        )

        # A look that fails is made again by the schedule; Lambda's own two retries would count it three times.
        lambda_.CfnEventInvokeConfig(
            self, "Once", function_name=self.function.ref, qualifier="$LATEST", maximum_retry_attempts=0
        )

    def call_by(self, rule: events.CfnRule) -> None:
        """Let a rule of the same construct call the function."""
        rule.targets = [events.CfnRule.TargetProperty(arn=self.function.attr_arn, id="Guard")]
        lambda_.CfnPermission(
            self,
            f"By{rule.node.id}",
            action="lambda:InvokeFunction",
            function_name=self.function.attr_arn,
            principal="events.amazonaws.com",
            source_arn=rule.attr_arn,
        )

    @staticmethod
    def _variables(settings: GuardSettings) -> dict[str, str]:
        variables = {
            "CLUSTER": settings.cluster,
            settings.variable: settings.name,
            "STACK": Aws.STACK_ID,
            "TOPICS": " ".join(settings.topics),
            "PREPAID": "true" if settings.prepaid else "false",
            "IDLE_MINUTES": f"{settings.idle_minutes:g}",
            "HUNG_MINUTES": f"{settings.hung_minutes:g}",
        }
        if settings.ttl_h is not None:
            variables["TTL_HOURS"] = f"{settings.ttl_h:g}"
        if settings.usd_per_node_hour is not None:
            variables["USD_PER_NODE_HOUR"] = format(settings.usd_per_node_hour, "f")
        if settings.ends_at is not None:
            variables["ENDS_AT"] = settings.ends_at.isoformat()
        if settings.folder is not None:
            variables["FOLDER_URI"] = settings.folder.uri
            if settings.shared_store:
                variables["SHARED_STORE"] = "true"
        if settings.spot:
            variables["SPOT"] = "true"
        variables |= {**settings.reserved, **settings.job}
        return variables if settings.stop is None else {**variables, **settings.stop.variables}

    @staticmethod
    def _statements(
        settings: GuardSettings, rights: Rights, log: logs.CfnLogGroup, state: ssm.CfnParameter
    ) -> list[iam.PolicyStatement]:
        prices = ("ec2:DescribeSpotPriceHistory",) if settings.spot else ()
        actions = sorted((*rights.reads, *prices, "cloudwatch:GetMetricStatistics"))
        parameter = f"arn:{Aws.PARTITION}:ssm:{Aws.REGION}:{Aws.ACCOUNT_ID}:parameter{state.name}"
        return [
            # Neither EC2's descriptions nor CloudWatch's metrics can be allowed by resource.
            iam.PolicyStatement(sid="Describe", actions=actions, resources=["*"]),
            # The same for reporting metrics, which can be allowed by namespace.
            iam.PolicyStatement(
                sid="PutMetrics",
                actions=["cloudwatch:PutMetricData"],
                resources=["*"],
                conditions={"StringEquals": {"cloudwatch:namespace": NAMESPACE}},
            ),
            iam.PolicyStatement(
                sid="StoreState",
                actions=["ssm:GetParameter", "ssm:GetParameterHistory", "ssm:PutParameter"],
                resources=[parameter],
            ),
            iam.PolicyStatement(
                sid="DescribeOwnStack",
                actions=["cloudformation:DescribeStackEvents", "cloudformation:DescribeStacks"],
                resources=[Aws.STACK_ID],
            ),
            *rights.stop,
            iam.PolicyStatement(sid="Publish", actions=["sns:Publish"], resources=list(settings.topics)),
            *(settings.stop.statements if settings.stop is not None else ()),
            *(settings.folder.statements if settings.folder is not None else ()),
            *_key_use(settings.key_arn, stored=settings.folder is not None),
            iam.PolicyStatement(
                sid="WriteLog", actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log.attr_arn]
            ),
        ]


def _key_use(key_arn: str | None, *, stored: bool) -> tuple[iam.PolicyStatement, ...]:
    """The permissions to publish to a topic with a key (SNS developer guide, permissions for encrypted topics).

    `stored`: also the permissions to write an object with the key to a bucket.
    """
    if key_arn is None:
        return ()
    services = [f"{service}.*.{Aws.URL_SUFFIX}" for service in (("s3", "sns") if stored else ("sns",))]
    through = {"StringLike": {"kms:ViaService": services if stored else services[0]}}
    actions = ["kms:Decrypt", "kms:GenerateDataKey"]
    return (iam.PolicyStatement(sid="UseKey", actions=actions, resources=[key_arn], conditions=through),)
