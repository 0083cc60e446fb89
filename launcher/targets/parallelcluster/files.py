"""Renders a ParallelCluster: every decision of its configuration, for the preview and for the deployment."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.catalog import safe_yaml
from launcher.model import sizing
from launcher.model.bundle import RenderedFile
from launcher.model.enums import EfaLayout, Egress, PurchaseOption, TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.idle import NEVER_MINUTES, idle_minutes
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.planning.nat import egress
from launcher.planning.targets import unnamed_capacity
from launcher.rendering.cluster import (
    CLUSTER_FILE,
    notify_findings,
    queue_name,
    repeated_types,
    tags,
    unknown_types,
)
from launcher.rendering.engine import render_template
from launcher.rendering.image import image_files
from launcher.rendering.names import ClusterNames
from launcher.rendering.node import OLD_KERNELS, boot_reports, is_nvidia, metrics_script, node_arguments, node_script
from launcher.rendering.target_files import TargetFiles
from launcher.targets.parallelcluster.target import ParallelCluster

NODE_FILE = "node.sh"
METRICS_FILE = "metrics.py"
_CAPACITY_TYPES = {
    PurchaseOption.ON_DEMAND: "ONDEMAND",
    PurchaseOption.SPOT: "SPOT",
    PurchaseOption.CAPACITY_BLOCK: "CAPACITY_BLOCK",
    # A commitment changes the bill, not the launch.
    PurchaseOption.SAVINGS_PLAN: "ONDEMAND",
    PurchaseOption.RESERVED: "ONDEMAND",
}


def agent_findings(plan: Plan) -> Iterator[Finding]:
    """The refusal of an unreachable head node: an image of ParallelCluster without the Systems Manager agent.

    Slipway assumes that a user's own image has the agent. Rendering proceeds anyway: jobs can be sent over ssh.
    """
    target = plan.request.target
    if target.os in OLD_KERNELS and target.ami is None:
        message = (
            f"ParallelCluster's AMI for {target.os} has no Systems Manager agent, which is the only way to connect"
        )
        hint = "set target.os to ubuntu2404, or target.ami to your own AMI with amazon-ssm-agent"
        yield error("os-without-agent", "target.os", message, hint)


def cluster_yaml(plan: Plan, *, instances: Mapping[str, InstanceType], names: ClusterNames) -> str:
    """The text of a plan's cluster configuration.

    `names` are ids, or CDK tokens in their place.

    Raises:
        ImpossibleError: Slipway cannot write a configuration, with all reasons.
    """
    problems = ParallelClusterFiles().findings(plan, instances)
    if problems:
        raise ImpossibleError(f"{plan.name} does not create a ParallelCluster configuration", findings=problems)
    request = plan.request
    queues = [_queue(plan, instances[plan.place.instance_type], names)]
    queues += [_fallback_queue(plan, instances[name], names) for name in request.target.fallback_types]
    storage, train = request.storage, request.workload.train
    public = egress(request, plan.place, instances) is Egress.PUBLIC_ADDRESSES
    types = (plan.place.instance_type, *request.target.fallback_types)
    with_efa = any(instances[name].efa_interfaces for name in types)
    return render_template(
        "parallelcluster/cluster.yaml.j2",
        region=plan.place.region,
        os=request.target.os.value,
        ami=request.target.ami,
        subnet_id=names.subnet_id,
        public_addresses=public,
        security_group_ids=(names.security_group_id, *request.network.security_group_ids),
        node_policy_arn=names.node_policy_arn,
        entered_policy_arn=names.entered_policy_arn,
        session_log_policy_arn=names.session_log_policy_arn,
        head_role_arn=request.security.roles.head_node,
        login_role_arn=request.security.roles.login_nodes,
        node_role_arn=request.security.roles.nodes,
        node_setup_uri=names.node_setup_uri,
        head_node_type=ParallelCluster().head_instance(plan.place.nodes, request.storage.head_node),
        head_root_gib=sizing.HEAD_ROOT_GIB,
        compute_root_gib=sizing.COMPUTE_ROOT_GIB,
        idle_minutes=max(1, math.ceil(idle_minutes(request) or NEVER_MINUTES)),
        queues=queues,
        storage=storage,
        # The training data below /fsx/data.
        data_uri=train.data.uri if train is not None else None,
        login_node_type=sizing.LOGIN_NODE,
        permissions_boundary_arn=request.security.permissions_boundary_arn,
        # An instance with several interfaces gets no public address, and `efa-only` is a second one even on one card
        # (ParallelCluster 3.16.1, MultiNetworkInterfacesInstancesValidator).
        combined_efa=(public and with_efa) or request.target.efa_layout is EfaLayout.CLASSIC,
        log_retention_days=sizing.LOG_RETENTION_DAYS,
        tags=tags(plan),
    )


def _queue(plan: Plan, facts: InstanceType, names: ClusterNames) -> dict[str, Any]:
    place, reservation = plan.place, plan.request.purchase.reservation
    block = place.option is PurchaseOption.CAPACITY_BLOCK
    placement_wanted = plan.request.target.placement_group
    # With a reservation a placement group makes EC2 answer "insufficient capacity" (terraform-aws-eks#3730).
    placement = (
        False if reservation is not None else facts.efa_interfaces > 0 if placement_wanted is None else placement_wanted
    )
    return _compute_resource(
        plan,
        facts,
        names,
        capacity_type=_CAPACITY_TYPES[place.option],
        # A block is prepaid and cannot grow: ParallelCluster wants all of it up, all the time.
        min_count=place.nodes if block else 0,
        max_count=place.nodes,
        placement_group=placement,
        reservation_id=reservation.id if reservation is not None else None,
    )


def _fallback_queue(plan: Plan, facts: InstanceType, names: ClusterNames) -> dict[str, Any]:
    """A fallback queue: spot if the plan's own type is on spot, else on demand; empty until a job requests it."""
    placement_wanted = plan.request.target.placement_group
    return _compute_resource(
        plan,
        facts,
        names,
        capacity_type="SPOT" if plan.place.option is PurchaseOption.SPOT else "ONDEMAND",
        min_count=0,
        max_count=plan.place.nodes,
        placement_group=facts.efa_interfaces > 0 if placement_wanted is None else placement_wanted,
        reservation_id=None,
    )


def _compute_resource(
    plan: Plan,
    facts: InstanceType,
    names: ClusterNames,
    *,
    capacity_type: str,
    min_count: int,
    max_count: int,
    placement_group: bool,
    reservation_id: str | None,
) -> dict[str, Any]:
    target = plan.request.target
    sockets, cores = facts.sockets or (None, None)
    setup = node_arguments(
        facts, target.os, baked=target.ami is not None, cluster=plan.cluster_name, metrics_uri=names.node_metrics_uri
    )
    return {
        "name": queue_name(facts.name),
        "compute_resource": "nodes",
        "capacity_type": capacity_type,
        "instance_type": facts.name,
        "min_count": min_count,
        "max_count": max_count,
        "efa": facts.efa_interfaces > 0,
        "placement_group": placement_group,
        "reservation_id": reservation_id,
        "scratch": facts.nvme_gb > 0,
        "gpu_health_check": is_nvidia(facts),
        "sockets": sockets,
        "cores_per_socket": cores,
        "threads_per_core": facts.vcpus // (sockets * cores) if sockets and cores else None,
        "node_setup": (*boot_reports(names.message_uri), *setup) if setup else (),
    }


def cluster_configuration(plan: Plan, *, instances: Mapping[str, InstanceType], names: ClusterNames) -> dict[str, Any]:
    """The cluster configuration as typed data, parsed from the text of the preview."""
    configuration: dict[str, Any] = safe_yaml.loads(cluster_yaml(plan, instances=instances, names=names))
    return configuration


class ParallelClusterFiles(TargetFiles):
    """A ParallelCluster, and jobs of Slurm."""

    def findings(self, plan: Plan, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
        """Why Slipway cannot write a ParallelCluster configuration for a plan; empty if it can."""
        place, purchase = plan.place, plan.request.purchase
        problems: list[Finding] = []
        if place.target is not TargetKind.PARALLELCLUSTER:
            problems.append(
                error("not-parallelcluster", "target.kind", f"{place.target} cannot be built from these stacks")
            )
        if place.option not in _CAPACITY_TYPES:
            allowed = ", ".join(_CAPACITY_TYPES)
            message = f"{place.option} buys no ParallelCluster nodes, allowed: {allowed}"
            problems.append(error("option-without-nodes", "purchase.option", message))
        problems += unnamed_capacity(plan.request, plan.place)
        if place.option is PurchaseOption.SPOT and purchase.reservation is not None:
            message = "spot instances cannot use a reservation"
            problems.append(error("spot-with-reservation", "purchase.reservation", message, "remove one of the two"))
        return (*problems, *unknown_types(plan, instances), *repeated_types(plan), *notify_findings(plan))

    def cluster_files(
        self, plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames
    ) -> list[RenderedFile]:
        """The cluster's configuration, and the files that set up its nodes."""
        return [
            RenderedFile(path=CLUSTER_FILE, text=cluster_yaml(plan, instances=instances, names=names)),
            RenderedFile(path=NODE_FILE, text=node_script(), executable=True),
            RenderedFile(path=METRICS_FILE, text=metrics_script()),
            *(RenderedFile(path=path, text=text) for path, text in image_files(plan, instances).items()),
        ]
