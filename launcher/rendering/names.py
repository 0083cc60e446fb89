"""Names in rendered files: ids of a deployed cluster, or placeholders before it exists."""

from collections.abc import Mapping
from dataclasses import dataclass

from launcher.model.budget_stop import is_joined, stops_at
from launcher.model.monitoring import BUDGET_FOLDER, COMPILED_FOLDER, GUARD_FOLDER, JOURNAL_FOLDER, MESSAGE_FOLDER
from launcher.model.plan import Plan
from launcher.planning.networks import subnet_id

FRESH_FOLDER = ".fresh"
"""Below a plan's first checkpoints: the checkpoints of each launch that started from scratch, by its key."""
OUTPUTS: Mapping[str, str] = {
    "subnet_id": "PrivateSubnetId",
    "security_group_id": "NodeSecurityGroupId",
    "node_policy_arn": "NodePolicyArn",
    "store_uri": "StoreUri",
    "node_setup_uri": "NodeSetupUri",
    "node_metrics_uri": "NodeMetricsUri",
    "entered_policy_arn": "NodeAccessPolicyArn",
    "session_log_policy_arn": "SessionLogPolicyArn",
    "stop_uri": "StopUri",
    "message_uri": "GuardMessageUri",
}
"""The training stack's output for each name."""
HYPERPOD_OUTPUTS: Mapping[str, str] = {
    "role_arn": "RoleArn",
    "lifecycle_uri": "LifecycleUri",
    "lustre_dns_name": "LustreDnsName",
    "lustre_mount_name": "LustreMountName",
    "eks_arn": "EksArn",
}
"""The training stack's output for each name that only HyperPod uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNames:
    """The ids that a cluster configuration and a job refer to.

    In infra they are CDK tokens, after a deployment the stack's outputs, before it the words of `symbolic_names`.
    """

    subnet_id: str
    security_group_id: str
    node_policy_arn: str
    # The S3 folder that the cluster's nodes may write to, `s3://bucket/prefix`.
    store_uri: str
    # The nodes' set-up script, and the script that reports accelerator use; None if nodes need neither.
    node_setup_uri: str | None = None
    node_metrics_uri: str | None = None
    # Permits Systems Manager sessions on ParallelCluster nodes.
    entered_policy_arn: str | None = None
    # Lets nodes to which users log in write the log of their sessions; None if no log is retained.
    session_log_policy_arn: str | None = None
    # At which the guard notifies a job that the budget is used up; None if it does not.
    stop_uri: str | None = None
    # Of a job's messages to the guard for users.
    message_uri: str | None = None
    # The role of SageMaker's instances.
    role_arn: str | None = None
    # HyperPod's alone: the S3 folder of its nodes' scripts, the two names of its file system, and the control plane
    # that its nodes join.
    lifecycle_uri: str | None = None
    lustre_dns_name: str | None = None
    lustre_mount_name: str | None = None
    eks_arn: str | None = None


STORE_STACK, NETWORK_STACK, TRAINING_STACK, SERVING_STACK = "checkpoints", "network", "training", "serving"
"""The last word of the names of a plan's stacks."""


def stack_name(plan: Plan, part: str) -> str:
    """The name of a stack of a plan: `slipway-<cluster>-<part>`; for a shared network `slipway-<name>-shared-network`.

    Args:
        plan: the plan.
        part: one of the words above.
    """
    shared = plan.request.network.name
    if part == NETWORK_STACK and shared is not None:
        return f"slipway-{shared}-shared-network"
    return f"slipway-{plan.cluster_name}-{part}"


def symbolic_names(plan: Plan) -> ClusterNames:
    """Descriptive names in the form of the real ones, for files of a preview.

    Names that the plan gives remain unchanged.
    """
    cluster = f"slipway-{plan.cluster_name}"
    policy = plan.request.checkpoint
    named = policy.foreign_store_uri if is_joined(plan.request) else policy.store_uri
    store_uri = named or f"s3://{cluster}-checkpoints/jobs"
    stops = stops_at(plan.request, plan.place.option) is not None and not is_joined(plan.request)
    return ClusterNames(
        subnet_id=subnet_id(plan) or "subnet-private0subnet000",
        security_group_id="sg-node0security0000",
        node_policy_arn=f"arn:aws:iam::000000000000:policy/parallelcluster/{cluster}",
        store_uri=store_uri,
        stop_uri=f"{store_uri.rstrip('/')}/{BUDGET_FOLDER}/stop.json" if stops else None,
        message_uri=None if is_joined(plan.request) else f"{store_uri.rstrip('/')}/{GUARD_FOLDER}/{MESSAGE_FOLDER}",
        node_setup_uri=f"s3://{cluster}-assets/node.sh",
        node_metrics_uri=f"s3://{cluster}-assets/metrics.py",
        entered_policy_arn=f"arn:aws:iam::000000000000:policy/parallelcluster/{cluster}-entered",
        session_log_policy_arn=(
            f"arn:aws:iam::000000000000:policy/parallelcluster/{cluster}-sessions"
            if plan.request.security.session_log
            else None
        ),
        role_arn=plan.request.security.roles.nodes or f"arn:aws:iam::000000000000:role/{cluster}",
        lifecycle_uri=f"s3://{cluster}-assets/lifecycle",
        lustre_dns_name=f"fs-00000000000000000.fsx.{plan.place.region}.amazonaws.com",
        lustre_mount_name="fsx00000",
        eks_arn=f"arn:aws:eks:{plan.place.region}:000000000000:cluster/{cluster}",
    )


def deployed_names(outputs: Mapping[str, str]) -> ClusterNames:
    """The names in the outputs of a training stack.

    Raises:
        KeyError: an output that every training stack has is missing.
    """
    return ClusterNames(
        # Instances that start for one job may be in their service's own network.
        subnet_id=outputs.get(OUTPUTS["subnet_id"], ""),
        security_group_id=outputs.get(OUTPUTS["security_group_id"], ""),
        node_policy_arn=outputs[OUTPUTS["node_policy_arn"]],
        store_uri=outputs[OUTPUTS["store_uri"]],
        node_setup_uri=outputs.get(OUTPUTS["node_setup_uri"]),
        node_metrics_uri=outputs.get(OUTPUTS["node_metrics_uri"]),
        entered_policy_arn=outputs.get(OUTPUTS["entered_policy_arn"]),
        session_log_policy_arn=outputs.get(OUTPUTS["session_log_policy_arn"]),
        stop_uri=outputs.get(OUTPUTS["stop_uri"]),
        message_uri=outputs.get(OUTPUTS["message_uri"]),
        **{name: outputs.get(output) for name, output in HYPERPOD_OUTPUTS.items()},
    )


def checkpoint_uri(plan: Plan, names: ClusterNames) -> str:
    """The URI of a plan's checkpoints: the URI that the plan names, or its own folder of the cluster's store."""
    named = plan.request.checkpoint.store_uri
    return named.rstrip("/") if named is not None else f"{names.store_uri}/{plan.name}"


def journal_uri(checkpoints: str, run: str) -> str:
    """The journal of a run whose nodes share no folder, within its plan's checkpoints: pods may write only there.

    >>> journal_uri("s3://bucket/jobs/small", "small-20261120t120000z-0a1b2c3d")
    's3://bucket/jobs/small/.runs/small-20261120t120000z-0a1b2c3d'
    """
    return f"{checkpoints}/{JOURNAL_FOLDER}/{run}"


def compile_cache_uri(names: ClusterNames) -> str:
    """Compiled programs of a cluster, shared by its jobs; no plan's name begins with a dot."""
    return f"{names.store_uri.rstrip('/')}/{COMPILED_FOLDER}"
