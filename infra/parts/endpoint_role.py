"""The permissions of an endpoint's containers, and those of its callers."""

from collections.abc import Sequence

from aws_cdk import Aws, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.parts.endpoint_store import CAPTURED, FAILURES, INPUT, OUTPUT, EndpointStore
from infra.parts.node_policy import OWN_PATH, key_grant_statement
from infra.parts.registry import pull_statements
from infra.parts.vpc_access import vpc_statements
from launcher.model.endpoint import Endpoint, EndpointMode

_METRICS = ("/aws/sagemaker/Endpoints", "/aws/sagemaker/InferenceComponents")
"""Namespaces of the instances' own metrics: processors, memory, accelerators."""


class EndpointRole(Construct):
    """The execution role, one statement per purpose: pull the image, load the model, log, and read its alarms.

    Attributes:
        role: the role.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        endpoint: Endpoint,
        log: logs.CfnLogGroup,
        rollback: Sequence[cloudwatch.CfnAlarm],
        store: EndpointStore | None,
        kms_key_arn: str | None,
        named_arn: str | None = None,
    ) -> None:
        """`named_arn` is used unchanged; None: a role is created.

        `store` is None if the endpoint stores no requests; `kms_key_arn` None: S3's own key.
        """
        super().__init__(scope, id_)
        if named_arn is not None:
            self.role: iam.IRole = iam.Role.from_role_arn(self, "Named", named_arn, mutable=False)
            return
        statements = [
            *pull_statements(endpoint.image),
            *self._model(endpoint.model_uri),
            iam.PolicyStatement(
                sid="WriteLog",
                actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
                resources=[log.attr_arn],
            ),
            # Metrics can be allowed by namespace, not by resource.
            iam.PolicyStatement(
                sid="PutMetrics",
                actions=["cloudwatch:PutMetricData"],
                resources=["*"],
                conditions={"StringEquals": {"cloudwatch:namespace": list(_METRICS)}},
            ),
            iam.PolicyStatement(
                sid="DescribeAlarms",
                actions=["cloudwatch:DescribeAlarms"],
                resources=[alarm.attr_arn for alarm in rollback],
            ),
        ]
        statements += [] if store is None else self._store(store, endpoint)
        statements += [] if kms_key_arn is None else self._key(kms_key_arn)
        statements += vpc_statements() if endpoint.subnet_ids else ()
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "sagemaker.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
            ),
            description=f"Containers of endpoint {endpoint.name}",
            inline_policies={"Serve": iam.PolicyDocument(statements=statements)},
        )

    @staticmethod
    def _key(arn: str) -> list[iam.PolicyStatement]:
        """Permissions to read and write with the key, and to grant it to SageMaker for the volumes of its instances."""
        return [
            iam.PolicyStatement(sid="UseKey", actions=["kms:Decrypt", "kms:GenerateDataKey"], resources=[arn]),
            key_grant_statement(arn),
        ]

    @staticmethod
    def _model(uri: str | None) -> list[iam.PolicyStatement]:
        if uri is None:
            return []
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        arn, folder = f"arn:{Aws.PARTITION}:s3:::{bucket}", prefix.strip("/")
        return [
            iam.PolicyStatement(
                sid="ListModel",
                actions=["s3:ListBucket"],
                resources=[arn],
                conditions={"StringLike": {"s3:prefix": [f"{folder}/*" if folder else "*"]}},
            ),
            iam.PolicyStatement(
                sid="LoadModel", actions=["s3:GetObject"], resources=[f"{arn}/{folder}/*" if folder else f"{arn}/*"]
            ),
        ]

    @staticmethod
    def _store(store: EndpointStore, endpoint: Endpoint) -> list[iam.PolicyStatement]:
        bucket = store.bucket
        if endpoint.mode is not EndpointMode.ASYNCHRONOUS:
            captured = bucket.arn_for_objects(f"{CAPTURED}/*")
            return [iam.PolicyStatement(sid="Capture", actions=["s3:PutObject"], resources=[captured])]
        answers = [bucket.arn_for_objects(f"{folder}/*") for folder in (OUTPUT, FAILURES)]
        requests = bucket.arn_for_objects(f"{INPUT}/*")
        return [
            iam.PolicyStatement(sid="ReadRequests", actions=["s3:GetObject"], resources=[requests]),
            # A long answer is uploaded in parts.
            iam.PolicyStatement(
                sid="WriteResponses", actions=["s3:AbortMultipartUpload", "s3:PutObject"], resources=answers
            ),
        ]


def invoke_policy(
    scope: Construct, id_: str, *, endpoint: Endpoint, store: EndpointStore | None
) -> iam.CfnManagedPolicy:
    """A managed policy for the endpoint's callers, for signed requests or a bearer token."""
    kinds = ["endpoint", *(["inference-component"] if endpoint.mode is EndpointMode.COMPONENTS else [])]
    region = Stack.of(scope).region
    targets = [f"arn:{Aws.PARTITION}:sagemaker:{region}:{Aws.ACCOUNT_ID}:{kind}/{endpoint.name}" for kind in kinds]
    queued = endpoint.mode is EndpointMode.ASYNCHRONOUS
    statements = [
        iam.PolicyStatement(
            sid="Invoke",
            actions=["sagemaker:InvokeEndpointAsync" if queued else "sagemaker:InvokeEndpoint"],
            resources=targets,
        )
    ]
    if queued and store is not None:
        bucket = store.bucket
        answers = [bucket.arn_for_objects(f"{folder}/*") for folder in (OUTPUT, FAILURES)]
        requests = bucket.arn_for_objects(f"{INPUT}/*")
        statements += [
            iam.PolicyStatement(sid="WriteRequests", actions=["s3:PutObject"], resources=[requests]),
            iam.PolicyStatement(sid="Read", actions=["s3:GetObject"], resources=answers),
        ]
    else:
        # A token is checked before it is known which endpoint it is for (developer guide, OpenAI-compatible APIs).
        statements.append(
            iam.PolicyStatement(sid="BearerToken", actions=["sagemaker:CallWithBearerToken"], resources=["*"])
        )
    return iam.CfnManagedPolicy(
        Construct(scope, id_),
        "Policy",
        path=OWN_PATH,
        description=f"Slipway: callers of endpoint {endpoint.name}",
        policy_document=iam.PolicyDocument(statements=statements),
    )
