"""HyperPod's chart in an EKS cluster: a function in the cluster's network that installs it, and its resource."""

from aws_cdk import Aws, CfnResource, FileAssetLocation, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from infra.parts.eks_cluster import EksCluster
from launcher.catalog.assets import asset
from launcher.catalog.hyperpod_chart import ChartPins
from launcher.model.monitoring import CHART_MEMORY_MB
from launcher.model.sizing import LOG_RETENTION_DAYS

RELEASE, NAMESPACE = "hyperpod-dependencies", "kube-system"
"""The names in AWS's own guide."""
KIND = "Custom::HyperPodChart"
_RUNTIME = "python3.14"
_SECONDS = 900
INTERFACES = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
)
"""The actions that Lambda needs to attach a function to a subnet (Lambda developer guide, VPC)."""


class HyperPodChart(Construct):
    """The installed chart. The API may be private, so the function runs in the nodes' network.

    Attributes:
        function: the function that installs the chart.
        resource: the installation; nodes depend on it.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        cluster: EksCluster,
        pins: ChartPins,
        chart: FileAssetLocation,
        layer: FileAssetLocation,
        values: str,
        subnet_id: str,
        security_group_id: str,
    ) -> None:
        """`pins` are the digests of chart and layer; `values` is YAML.

        `subnet_id` needs a route to S3, and the control plane must accept `security_group_id`.
        """
        super().__init__(scope, id_)
        self._cluster, self._pins, self._chart = cluster, pins, chart
        log = logs.CfnLogGroup(self, "Log", retention_in_days=LOG_RETENTION_DAYS)
        log.apply_removal_policy(RemovalPolicy.DESTROY)
        role = self._role(log, chart)
        # Charts make roles of Kubernetes, which administrators alone may.
        entry = cluster.admit(self, "Entry", role)
        place = lambda_.CfnFunction.VpcConfigProperty(subnet_ids=[subnet_id], security_group_ids=[security_group_id])
        self.function = self._function(role, log, layer, place)
        self.resource = self._release(values)
        # Without role, entry and log the function could not do its work yet, or, at the end, any more.
        self.resource.node.add_dependency(role, entry, log)

    def _function(
        self,
        role: iam.Role,
        log: logs.CfnLogGroup,
        layer: FileAssetLocation,
        place: lambda_.CfnFunction.VpcConfigProperty,
    ) -> lambda_.CfnFunction:
        helm = lambda_.CfnLayerVersion(
            self,
            "Helm",
            layer_name=f"{Stack.of(self).stack_name}-helm",
            description="helm, from the layer that the CDK's own charts use",
            compatible_architectures=["x86_64"],
            content=lambda_.CfnLayerVersion.ContentProperty(s3_bucket=layer.bucket_name, s3_key=layer.object_key),
        )
        function = function_in(
            self,
            self._cluster,
            role,
            log,
            place,
            does=f"installs HyperPod's chart into {self._cluster.name}, counts its pods for the guard",
            seconds=_SECONDS,
            memory_mb=CHART_MEMORY_MB,
        )
        function.layers = [helm.ref]
        return function

    def _release(self, values: str) -> CfnResource:
        cluster, chart = self._cluster, self._chart
        return CfnResource(
            self,
            "Release",
            type=KIND,
            properties={
                "ServiceToken": self.function.attr_arn,
                "ServiceTimeout": str(_SECONDS + 60),
                "Bucket": chart.bucket_name,
                "Key": chart.object_key,
                "Sha256": self._pins.sha256,
                "Release": RELEASE,
                "Namespace": NAMESPACE,
                "Values": values,
                "Cluster": cluster.resource.ref,
                "Endpoint": cluster.resource.attr_endpoint,
                "Authority": cluster.resource.attr_certificate_authority_data,
            },
        )

    def _role(self, log: logs.CfnLogGroup, chart: FileAssetLocation) -> iam.Role:
        return iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description="Installs HyperPod's chart",
            inline_policies={
                "Install": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(
                            sid="GetChart",
                            actions=["s3:GetObject"],
                            resources=[f"arn:{Aws.PARTITION}:s3:::{chart.bucket_name}/{chart.object_key}"],
                        ),
                        # Lambda refuses a function in a subnet whose role is limited to interfaces that exist.
                        iam.PolicyStatement(sid="AttachToSubnet", actions=list(INTERFACES), resources=["*"]),
                        iam.PolicyStatement(
                            sid="WriteLog",
                            actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                            resources=[log.attr_arn],
                        ),
                    ]
                )
            },
        )


def function_in(
    scope: Construct,
    cluster: EksCluster,
    role: iam.Role,
    log: logs.CfnLogGroup,
    place: lambda_.CfnFunction.VpcConfigProperty,
    *,
    does: str,
    seconds: int,
    memory_mb: int,
) -> lambda_.CfnFunction:
    """A function of templates/chart in a cluster's network, with the cluster's API in its environment."""
    code = assets.Asset(scope, "Code", path=str(asset("templates/chart")), exclude=["__pycache__"])
    return lambda_.CfnFunction(
        scope,
        "Function",
        code=lambda_.CfnFunction.CodeProperty(s3_bucket=code.s3_bucket_name, s3_key=code.s3_object_key),
        handler="chart.handler",
        runtime=_RUNTIME,
        architectures=["x86_64"],
        role=role.role_arn,
        description=f"Slipway: {does}",
        timeout=seconds,
        memory_size=memory_mb,
        logging_config=lambda_.CfnFunction.LoggingConfigProperty(log_group=log.ref),
        vpc_config=place,
        environment=lambda_.CfnFunction.EnvironmentProperty(variables=cluster.variables),
    )
