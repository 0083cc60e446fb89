"""A ParallelCluster, made by AWS's own CloudFormation provider for it."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import CfnStack, CustomResource
from constructs import Construct

from infra.parts.published import published_template


class ParallelCluster(Construct):
    """The provider, a stack that AWS publishes in every region, and the cluster as its custom resource.

    The cluster is a stack of its own beside this one. An update does not stop the running nodes by itself; the
    configuration's QueueUpdateStrategy says what happens to them.

    Attributes:
        resource: the custom resource; its attributes are those of `pcluster describe-cluster`, and a wrong one fails
            the deployment.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        name: str,
        configuration: Mapping[str, Any],
        provider_parameters: Mapping[str, str],
    ) -> None:
        """Make provider and cluster.

        Args:
            scope: the stack.
            id_: construct id.
            name: the cluster's name, which must differ from this stack's; it can never change.
            configuration: the cluster configuration as typed data; tokens allowed.
            provider_parameters: parameters of the provider's stack.
        """
        super().__init__(scope, id_)
        self.provider = CfnStack(
            self,
            "Provider",
            template_url=published_template(self, "custom_resource/cluster.yaml"),
            parameters=dict(provider_parameters) or None,
        )
        self.resource = CustomResource(
            self,
            "Cluster",
            resource_type="Custom::PclusterCluster",
            service_token=self.provider.get_att("Outputs.ServiceToken").to_string(),
            properties={"ClusterName": name, "ClusterConfiguration": configuration},
        )
