"""Task governance of a HyperPod cluster with EKS: priorities of jobs, and one team's queue for all its instances."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import Acknowledgment, CfnResource, Validations
from aws_cdk import aws_eks as eks
from constructs import Construct

from infra.parts.hyperpod_cluster import HyperPodCluster
from launcher.catalog import safe_yaml
from launcher.targets.hyperpod_eks.render import GovernanceContext, governance_text

_UNKNOWN_TYPE = "CloudFormation-Validate::F3006"
_WHY_UNKNOWN = (
    "aws-cdk-lib 2.275 carries a registry without AWS::SageMaker::ComputeQuota, which 2.276 has; a plan is refused"
    " where CloudFormation is not known to have both types"
)


class TaskGovernance(Construct):
    """The cluster's policy and the team's quota, as their rendered requests say.

    The add-on brings Kueue and nothing else; the policy makes the priority classes, the quota a namespace with its
    queue. Both are written by SageMaker through the access entry that it has in the cluster.

    Attributes:
        policy: the priorities.
        quota: what the team has.
    """

    def __init__(
        self, scope: Construct, id_: str, *, context: GovernanceContext, cluster: HyperPodCluster, addon: eks.CfnAddon
    ) -> None:
        """Make both.

        Args:
            scope: the stack.
            id_: construct id.
            context: what was rendered.
            cluster: whose instances they are.
            addon: brings Kueue, which has to be there first.
        """
        super().__init__(scope, id_)
        self._arn = cluster.resource.attr_cluster_arn
        told = safe_yaml.loads(governance_text(context))
        self.policy = self._made("ClusterSchedulerConfig", told)
        self.policy.node.add_dependency(addon)
        self.quota = self._made("ComputeQuota", told)
        # The classes are there before the first job can ask for one.
        self.quota.node.add_dependency(self.policy)

    def _made(self, kind: str, told: Mapping[str, Any]) -> CfnResource:
        """One of them; aws-cdk-lib 2.275 has no construct for quotas, 2.276 has."""
        properties = {**told[kind], "ClusterArn": self._arn}
        made = CfnResource(self, kind, type=f"AWS::SageMaker::{kind}", properties=properties)
        Validations.of(made).acknowledge(Acknowledgment(id=_UNKNOWN_TYPE, reason=_WHY_UNKNOWN))
        return made
