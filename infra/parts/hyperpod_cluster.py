"""A HyperPod cluster, with Slurm or with EKS, from its rendered request."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import Fn
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from launcher.model.hyperpod import CONTROLLER, WORKERS


class HyperPodCluster(Construct):
    """The cluster.

    Properties that CloudFormation and the API name alike are copied unchanged; tags come from the stack.

    Attributes:
        resource: the cluster.
        cluster_id: the part of its ARN that names the cluster in sessions.
    """

    def __init__(self, scope: Construct, id_: str, *, request: Mapping[str, Any]) -> None:
        super().__init__(scope, id_)
        self._request = request
        self.resource = sagemaker.CfnCluster(self, "Cluster", cluster_name=request["ClusterName"])
        for key, value in request.items():
            if key not in ("ClusterName", "Tags"):
                self.resource.add_property_override(key, value)
        self.cluster_id = Fn.select(1, Fn.split("cluster/", self.resource.attr_cluster_arn))

    @property
    def workers(self) -> dict[str, Any]:
        """The jobs' instance group, as a request that creates its instances again after their deletion."""
        (worker_group,) = (group for group in self._request["InstanceGroups"] if group["InstanceGroupName"] == WORKERS)
        return dict(worker_group)

    def connect_command(self, region: str, document: str | None) -> str:
        """The command that opens a shell on the controller, with a session document if one is given."""
        name = self._request["ClusterName"]
        instance = (
            f"aws sagemaker list-cluster-nodes --region {region} --cluster-name {name}"
            f" --instance-group-name-contains {CONTROLLER}"
            " --query 'ClusterNodeSummaries[0].InstanceId' --output text"
        )
        target = f"sagemaker-cluster:{self.cluster_id}_{CONTROLLER}-$({instance})"
        command = f'aws ssm start-session --region {region} --target "{target}"'
        return command if document is None else f"{command} --document-name {document}"
