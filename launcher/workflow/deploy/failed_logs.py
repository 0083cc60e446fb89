"""The last lines of what did not start, read while CloudFormation reports it: the rollback deletes some logs.

SageMaker's reason for an endpoint that did not start names no line of its container, and EKS's reason for nodes that
did not join names none of their kubelets.
"""

from dataclasses import dataclass, field

from launcher.aws import log_groups, stacks
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.errors import DeploymentFailedError, SlipwayError
from launcher.model.monitoring import BOOTS_FOLDER, GUARD_FOLDER, JOBS_PREFIX, MESSAGE_FOLDER
from launcher.model.plan import Plan
from launcher.rendering.cluster import cluster_name
from launcher.rendering.names import STORE_STACK, TRAINING_STACK, stack_name
from launcher.workflow.cluster.guard_stop import LINES, last_lines

GROUPS = {
    "AWS::SageMaker::Endpoint": "/aws/sagemaker/Endpoints/{name}",
    "AWS::SageMaker::InferenceComponent": "/aws/sagemaker/InferenceComponents/{name}",
    "AWS::SageMaker::Cluster": "/aws/sagemaker/Clusters/{name}/",
}
"""The log group of a resource type, or its beginning: SageMaker adds the id of a HyperPod cluster."""
STREAMS = {"AWS::SageMaker::Cluster": "LifecycleConfig/"}
"""How the streams of what did not start begin: HyperPod's health agent writes to the same group (SageMaker developer
guide, "SageMaker HyperPod health-monitoring agent")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedLogs:
    """Reads logs of a plan's failed resources during one deployment."""

    session: Session
    plan: Plan
    lines: list[str] = field(default_factory=list)

    def read(self, type_: str) -> None:
        """Read the last lines of a resource of this type, which has failed; other types have none."""
        try:
            if type_ in GROUPS:
                group = GROUPS[type_].format(name=cluster_name(self.plan))
                self.lines[:] = self._group_lines(group, STREAMS.get(type_, ""))
            elif type_ == "AWS::EKS::Nodegroup":
                self.lines[:] = self._boot_lines()
        except SlipwayError as problem:
            self.lines[:] = [f"its log could not be read: {problem.message}"]

    def explain(self, failure: DeploymentFailedError) -> DeploymentFailedError:
        """The failure with these lines, if there are any."""
        if not self.lines:
            return failure
        text = "\n  ".join(("the last lines of what did not start:", *self.lines))
        return DeploymentFailedError(f"{failure.message}\n{text}", hint=failure.hint)

    def _group_lines(self, prefix: str, streams: str) -> list[str]:
        groups = log_groups.log_groups(self.session, prefix)
        groups = tuple(group for group in groups if prefix.endswith("/") or group.name == prefix)
        if not groups:
            return []
        newest = max(groups, key=lambda group: group.created)
        return list(log_groups.newest_lines(self.session, newest.name, LINES, streams=streams))

    def _boot_lines(self) -> list[str]:
        """The last lines of the newest node that did not join its cluster, as it reported them to the guard."""
        stack = stacks.find(self.session, stack_name(self.plan, TRAINING_STACK))
        store = stacks.find(self.session, stack_name(self.plan, STORE_STACK))
        uri = self.plan.request.checkpoint.store_uri
        if uri is None and store is not None:
            uri = f"s3://{store.outputs['BucketName']}/{JOBS_PREFIX}"
        if stack is None or uri is None:
            return []
        folder = f"{GUARD_FOLDER}/{stack.id.split('/')[2]}/{MESSAGE_FOLDER}/{BOOTS_FOLDER}"
        return last_lines(Objects.at(self.session, f"{uri.rstrip('/')}/{folder}"))
