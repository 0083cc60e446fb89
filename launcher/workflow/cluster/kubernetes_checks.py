"""Whether a job can run on an existing Kubernetes cluster: one check for each requirement, with its fix."""

from collections.abc import Iterator, Mapping, Sequence

from launcher.model import eks
from launcher.model.administrator import by_administrator
from launcher.model.diagnosis import Check, Outcome, advice, failed_check, ok, unknown
from launcher.model.enums import PurchaseOption
from launcher.model.errors import ImpossibleError
from launcher.model.finding import error
from launcher.model.instance_type import InstanceType
from launcher.model.kubernetes import EFA, HUGE_PAGES, JOB_KINDS
from launcher.model.names import nearest_name
from launcher.model.plan import Plan
from launcher.model.stages import Notify
from launcher.rendering import kubernetes_pod as pod
from launcher.rendering.kubernetes_job import namespace_of
from launcher.rendering.names import checkpoint_uri
from launcher.submit.kubernetes.existing import KubernetesNode, short
from launcher.targets.registry import billed_name, target_of
from launcher.workflow.cluster.kubernetes_cluster import Inspection
from launcher.workflow.cluster.pod_identity import by_hand

_TO_KARPENTER = {"capacity-block": "reserved"}
"""Karpenter's name of a purchase option, if EKS uses another name."""
_PLUGINS = {
    "nvidia.com/gpu": "install NVIDIA's device plugin: helm repo nvdp, chart nvidia-device-plugin",
    "aws.amazon.com/neuron": "install Neuron's device plugin: public.ecr.aws/neuron/neuron-helm-chart",
    EFA: "install EFA's device plugin: helm repo eks, chart aws-efa-k8s-device-plugin",
}
_NOT_READ = "these credentials cannot read it there"
_MAX_NAMED = 3


def checks(plan: Plan, facts: InstanceType, inspection: Inspection) -> tuple[Check, ...]:
    """All checks of an existing cluster for a plan's job."""
    results = (
        *_rights(plan, inspection),
        *_nodes(plan, facts, inspection),
        *_devices(plan, facts, inspection),
        *_operator(plan, inspection),
        *_queue(plan, inspection),
        *_notices(plan, inspection),
        *_role(plan, inspection),
    )
    return tuple(results)


def refuse_unless_well(plan: Plan, results: Sequence[Check], notify: Notify) -> None:
    """Refuse if the job would fail on a known problem; report checks that did not pass.

    Raises:
        ImpossibleError: checks failed; the error lists all of them.
    """
    wrong = [check for check in results if check.result is Outcome.FAILED]
    if wrong:
        errors = [error(check.name.replace(" ", "-"), "", f"{check.asked}: {check.got}", check.fix) for check in wrong]
        message = f"target.cluster: {plan.cluster_name} lacks what the job needs"
        raise ImpossibleError(message, findings=errors)
    for check in results:
        if check.result is not Outcome.OK:
            notify(f"  {'!' if check.result is Outcome.ADVICE else '?'} {check.name}: {check.asked}: {check.got}")


def _rights(plan: Plan, inspection: Inspection) -> Iterator[Check]:
    namespace = namespace_of(plan)
    requirement = f"the caller may create, follow and delete jobs in namespace {namespace}"
    if not inspection.missing_rights:
        yield ok("cluster rights", requirement, "the cluster allows it")
        return
    fix = (
        "aws eks associate-access-policy --policy-arn"
        " arn:aws:eks::aws:cluster-access-policy/AmazonEKSEditPolicy --access-scope"
        f" type=namespace,namespaces={namespace} --cluster-name {inspection.existing.eks or 'CLUSTER'}"
        " --principal-arn YOUR_ROLE"
    )
    fix = by_administrator(fix, "who also creates the namespace if it does not exist")
    yield failed_check("cluster rights", requirement, f"not allowed: {', '.join(inspection.missing_rights)}", fix)


def _nodes(plan: Plan, facts: InstanceType, inspection: Inspection) -> Iterator[Check]:
    place, cluster = plan.place, inspection.cluster
    zone = f" in {place.az_id}" if place.az_id is not None else ""
    requirement = f"{place.nodes} x {billed_name(place)}{zone}, {place.option.value.replace('-', ' ')}"
    if cluster.nodes is None:
        yield unknown("cluster nodes", requirement, _NOT_READ)
        return
    # A node without a zone label may be in any zone.
    fitting = [node for node in cluster.nodes if node.zone_id in (None, place.az_id) or place.az_id is None]
    fitting = [node for node in fitting if _bought_so(node, place.option)]
    if fitting and not any(set(node.taints) <= set(pod.toleration_keys(facts)) for node in fitting if node.takes_pods):
        taints = ", ".join(sorted({taint for node in fitting for taint in node.taints})) or "not ready, or cordoned"
        fix = (
            "free the nodes, or use only taints that pods with accelerators tolerate: nvidia.com/gpu, "
            "aws.amazon.com/neuron"
        )
        if not inspection.cluster.pools:
            yield failed_check(
                "cluster nodes", requirement, f"none of the {len(fitting)} nodes accepts the job's pods: {taints}", fix
            )
            return
    if len(fitting) >= place.nodes:
        yield ok("cluster nodes", requirement, f"{len(fitting)} found")
    elif cluster.pools:
        got = f"{len(fitting)} found; node pool {', '.join(cluster.pools[:_MAX_NAMED])} of Karpenter may add more"
        yield ok("cluster nodes", requirement, got)
    elif _makes_again(plan, inspection):
        got = f"{len(fitting)} are running; the node group adds the others when the job starts"
        yield ok("cluster nodes", requirement, got)
    else:
        present = _node_text(cluster.nodes, cluster.types)
        fix = "set what the cluster has: target.instance_type, target.nodes, target.az_id, purchase.option"
        yield failed_check("cluster nodes", requirement, f"{len(fitting)} found; the cluster has {present}", fix)


def _makes_again(plan: Plan, inspection: Inspection) -> bool:
    """Whether the node group of Slipway's own cluster has enough such nodes, though a guard stopped them."""
    if inspection.group is None:
        return False
    state, instance_type = inspection.group
    bought = state.capacity_type == eks.CAPACITY_TYPES.get(plan.place.option)
    return bought and instance_type == plan.place.instance_type and state.maximum >= plan.place.nodes


def _bought_so(node: KubernetesNode, option: PurchaseOption) -> bool:
    """Whether a node's purchase option is the plan's, as far as its labels say."""
    capacity_type = eks.CAPACITY_TYPES.get(option, "ON_DEMAND").lower().replace("_", "-")
    return node.bought in ("", capacity_type, _TO_KARPENTER.get(capacity_type, capacity_type))


def _node_text(nodes: Sequence[KubernetesNode], types: Mapping[str, int]) -> str:
    if nodes:
        kinds = sorted({f"{node.instance_type} {node.bought} {node.zone_id or ''}".strip() for node in nodes})
        return f"{len(nodes)}: {', '.join(kinds)}"
    return ", ".join(f"{count} x {name}" for name, count in sorted(types.items())) or "no nodes"


def _devices(plan: Plan, facts: InstanceType, inspection: Inspection) -> Iterator[Check]:
    nodes = inspection.cluster.nodes
    if not nodes or (inspection.existing.by_slipway and not target_of(plan.place.target).is_managed):
        # A missing object cannot be inspected; on Slipway's own cluster the plugins are created with the job.
        return
    devices = {}
    resource = pod.resource_name(facts)
    if resource is not None:
        devices[resource] = facts.accelerators
    if interfaces := facts.required_efa(plan.place.nodes):
        devices[EFA] = interfaces
    for name, count in devices.items():
        requirement = f"each node shows {count} x {name}"
        less = short(nodes, name, count)
        if not less:
            yield ok("node devices", requirement, f"all {len(nodes)} nodes")
        # The scheduler places the pods on the nodes that have the devices.
        elif len(nodes) - len(less) >= plan.place.nodes:
            yield advice(
                "node devices", requirement, f"{len(nodes) - len(less)} nodes do, {len(less)} do not", _PLUGINS[name]
            )
        else:
            why = ": pods would use TCP instead of EFA" if name == EFA else ""
            got = f"{', '.join(less[:_MAX_NAMED])} show{'s' if len(less) == 1 else ''} fewer{why}"
            yield failed_check("node devices", requirement, got, _PLUGINS[name])
    if (
        EFA in devices
        and pod.huge_pages_mib(facts)
        and all(node.allocatable.get(HUGE_PAGES, "0") == "0" for node in nodes)
    ):
        fix = "use EKS's accelerated images, or set vm.nr_hugepages=5128 on the nodes before the kubelet starts"
        yield failed_check("node devices", f"nodes have huge pages ({HUGE_PAGES})", "none has", fix)


def _operator(plan: Plan, inspection: Inspection) -> Iterator[Check]:
    requirement = f"run.operator: {plan.request.run.operator or 'auto'}"
    served = ", ".join(operator.value for operator in inspection.cluster.operators)
    if inspection.operator in inspection.cluster.operators:
        yield ok(
            "operator",
            requirement,
            f"the job is a {JOB_KINDS[inspection.operator].kind}; the cluster supports {served}",
        )
    else:
        fix = "install the operator there, or run.operator: job, which every cluster has"
        yield failed_check("operator", requirement, f"the cluster supports {served}", fix)


def _queue(plan: Plan, inspection: Inspection) -> Iterator[Check]:
    target, namespace = plan.request.target, namespace_of(plan)
    if target.queue is None:
        return
    name, queues = target.queue.rpartition("/")[2], inspection.cluster.queues
    requirement = f"queue {name} in namespace {namespace}"
    if queues is None:
        fix = "install Kueue (on HyperPod: task governance), or remove target.queue"
        yield failed_check("queue", requirement, f"the cluster has no Kueue, or {_NOT_READ}", fix)
    elif name not in queues:
        near = nearest_name(name, queues) or f"queues there: {', '.join(sorted(queues)) or 'none'}"
        yield failed_check("queue", requirement, "it is missing", f"target.queue: {near}")
    # A stopped queue takes the job, which then waits.
    elif queues[name]:
        yield advice(
            "queue",
            requirement,
            f"the queue admits no jobs now: {queues[name]}",
            "the queue's administrator resumes it",
        )
    else:
        yield ok("queue", requirement, "it exists")
    if target.priority is not None:
        requirement = f"priority class {target.priority}"
        if inspection.cluster.priority is False:
            yield failed_check(
                "priority", requirement, "it is missing", "kubectl get workloadpriorityclasses lists them"
            )
        elif inspection.cluster.priority is None:
            yield unknown("priority", requirement, _NOT_READ)
        else:
            yield ok("priority", requirement, "it exists")


def _notices(plan: Plan, inspection: Inspection) -> Iterator[Check]:
    """Which component drains a node that EC2 reclaims: pods receive no notice."""
    nodes, option = inspection.cluster.nodes or (), plan.place.option
    if option is not PurchaseOption.SPOT or not nodes:
        return
    requirement = "a component drains nodes on a spot notice (pods receive no notice)"
    # Managed node groups and Karpenter drain their own nodes.
    alone = [node.name for node in nodes if not node.keeper]
    if not alone:
        keepers = ", ".join(sorted({node.keeper for node in nodes}))
        also = "; Karpenter does if its interruption queue is configured" if "Karpenter" in keepers else ""
        yield ok("spot notices", requirement, f"{keepers}{also}")
    elif inspection.cluster.drains:
        yield ok("spot notices", requirement, "AWS Node Termination Handler is installed")
    else:
        got = (
            f"{len(alone)} nodes are not managed ({', '.join(alone[:_MAX_NAMED])}): each lost node costs the "
            "work since the last checkpoint"
        )
        fix = "install AWS Node Termination Handler (helm repo eks), or let Karpenter create the nodes"
        if inspection.cluster.drains is None:
            yield unknown("spot notices", requirement, f"{got}, unless Node Termination Handler is installed", fix)
        else:
            yield advice("spot notices", requirement, got, fix)


def _role(plan: Plan, inspection: Inspection) -> Iterator[Check]:
    namespace, existing = namespace_of(plan), inspection.existing
    account = existing.account(plan)
    requirement = f"pods of {namespace}/{account} have a role for {existing.names.store_uri}"
    if existing.pod_identity is not None:
        yield _bound_role(plan, inspection, requirement)
        return
    if inspection.granted:
        yield ok("pods' role", requirement, "a role is granted; its permissions are checked only when the pods start")
        return
    fix = by_administrator(by_hand(existing.eks or "CLUSTER", namespace, account, "ROLE"))
    if inspection.granted is None:
        yield unknown("pods' role", requirement, "the EKS API could not be read", fix)
    else:
        yield advice("pods' role", requirement, "no role is granted: the pods have only the nodes' role", fix)


def _bound_role(plan: Plan, inspection: Inspection, requirement: str) -> Check:
    names, title = inspection.existing.names, "pods' role"
    writable_uri, checkpoints = f"{names.store_uri}/{plan.name}", checkpoint_uri(plan, names)
    if f"{checkpoints}/".startswith(f"{writable_uri}/"):
        state = "the role is granted" if inspection.granted else "a launch grants the role to the pods"
        return ok(title, requirement, f"{state}, for {writable_uri} only")
    got = f"the role may write to {writable_uri} only, but the job writes to {checkpoints}"
    if f"{checkpoints}/".startswith(f"{names.store_uri}/"):
        return failed_check(title, requirement, got, "remove checkpoint.uri, or name the plan like that folder")
    return advice(title, requirement, got, "remove checkpoint.uri, or allow the pods' role to write there")
