"""The sandbox of `launch` and `deploy`: a temporary one, or one that already runs."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.cdk.commands import toolkit_stack
from launcher.cdk.runner import SubprocessRunner
from launcher.emulation import chart_files, create_prerequisites, find_sandbox, temporary
from launcher.model.eks import CAPACITY_TYPES
from launcher.model.emulator import EMULATED_ACCOUNT
from launcher.model.enums import Operator
from launcher.model.hyperpod import ml_name
from launcher.model.plan import Plan
from launcher.model.reach import reached_locations
from launcher.model.stages import Notify, stage
from launcher.planning.networks import subnet_id
from launcher.planning.pin import zone
from launcher.pricing.priced import Priced
from launcher.rendering.kubernetes_job import namespace_of, operator_of
from launcher.rendering.names import stack_name
from launcher.targets.registry import billed_name, target_of
from launcher.workflow.cluster.readback.reading import QueueState, StackVerification
from launcher.workflow.cluster.readback.training import COMPLETE
from launcher.workflow.deploy.chart import cached_files
from launcher.workflow.deploy.context import DeployContext, DeployOptions

if TYPE_CHECKING:
    from launcher.emulation import Sandbox


@contextmanager
def sandbox_for(
    region: str, scheduler: str, given: "Sandbox | None", notify: Notify, environment: Mapping[str, str]
) -> "Iterator[Sandbox]":
    """The given or running sandbox, which keeps running afterwards; else a new one, which ends with the block."""
    if given is not None:
        yield given
        return
    sandbox = find_sandbox(environment, region)
    if sandbox is not None:
        notify("in the running sandbox: slipway sandbox status")
        yield sandbox
        return
    with ExitStack() as stack:
        with stage(notify, "starting an emulated AWS on this computer"):
            sandbox = stack.enter_context(temporary(region, scheduler))
        yield sandbox


def prerequisites_for(sandbox: "Sandbox", plan: Plan) -> tuple[str, ...]:
    """Create the existing resources that a plan names: VPC, buckets, training plan, Kubernetes cluster."""
    network, request = plan.request.network, plan.request
    # Without a zone in the plan file the sandbox takes one of the region.
    unknown: dict[str, str | None] = dict.fromkeys(network.subnet_ids)
    zones = {**unknown, **{subnet.id: subnet.az_id for subnet in network.subnets}}
    node_subnet = subnet_id(plan)
    if node_subnet is not None and zones.get(node_subnet) is None:
        zones[node_subnet] = plan.place.az_id
    train = request.workload.train
    serve = request.workload.serve
    uris = [request.checkpoint.store_uri, train.data.uri if train is not None else None]
    uris += [reach.uri for reach in reached_locations(request)]
    uris += [serve.model_uri, serve.artifacts_uri] if serve is not None else []
    buckets = [uri.removeprefix("s3://").partition("/")[0] for uri in uris if uri is not None]
    return create_prerequisites(
        sandbox,
        vpc_id=network.vpc_id,
        zones=zones,
        security_groups=network.security_group_ids,
        buckets=buckets,
        training_plans=_bought_plans(plan),
        cluster=_existing(sandbox, plan),
    )


def _existing(sandbox: "Sandbox", plan: Plan) -> Mapping[str, Any] | None:
    """The Kubernetes cluster that a plan names; None without one, or for a cluster that was deployed here.

    A plan without its own store is refused, as on AWS: only a cluster that Slipway deployed has a store.
    """
    place, request = plan.place, plan.request
    row, target = target_of(place.target), request.target
    if target.cluster is None or not row.pods or request.checkpoint.foreign_store_uri is None:
        return None
    if stack_name(plan, "training") in {stack["name"] for stack in sandbox.stacks()}:
        return None
    return {
        "name": plan.cluster_name,
        "managed": row.is_managed,
        "instance_type": billed_name(place),
        "count": place.nodes,
        "capacity_type": CAPACITY_TYPES.get(place.option, "ON_DEMAND"),
        "zone_id": place.az_id or "",
        "namespace": namespace_of(plan),
        "operators": _operators(plan),
        "queue": None if target.queue is None else target.queue.rpartition("/")[2],
        "priority": target.priority,
        "claims": tuple(volume.claim for volume in request.run.volumes),
    }


def _operators(plan: Plan) -> tuple[str, ...]:
    """The operators that a plan's job needs, by their names in the sandbox."""
    operators = {Operator.PYTORCHJOB: ("training-operator",), Operator.HYPERPOD_PYTORCHJOB: ("hyperpod",)}
    return (*operators.get(operator_of(plan), ()), *(("kueue",) if plan.request.target.queue is not None else ()))


def _bought_plans(plan: Plan) -> list[Mapping[str, Any]]:
    place, named = plan.place, plan.request.purchase.training_plan
    if named is None:
        return []
    bought = {
        "arn": named.arn,
        "instance_type": ml_name(place.instance_type),
        "count": named.count or place.nodes,
        "zone_id": place.az_id,
        "starts_at": named.starts_at,
        "ends_at": named.ends_at,
        "fee_usd": None if named.fee_usd is None else f"{named.fee_usd:f}",
        "target": target_of(place.target).planned_for,
    }
    return [bought]


def context_in(sandbox: "Sandbox", priced: Priced, plan: Plan, options: DeployOptions) -> DeployContext:
    """The context of a deployment into a sandbox; other commands may deploy to a running sandbox at the same time."""
    environment = sandbox.process_environment(options.environment)
    session = Session(environment=environment, region=plan.place.region)
    toolkit = stacks.find(session, toolkit_stack(plan.request.security.qualifier))
    return DeployContext(
        runner=SubprocessRunner(),
        environment=environment,
        account=None if toolkit is not None and toolkit.status in COMPLETE else EMULATED_ACCOUNT,
        zone=zone(plan.place, priced.catalog),
        catalog=priced.catalog,
        queues=lambda name: tuple(QueueState(**group) for group in sandbox.groups(name)),
        notify=options.notify,
        max_usd=priced.context.rules.max_usd,
        approve=options.approve,
        # Only a sandbox that outlives this command can have another deployment at the same time.
        root=None if options.running_sandbox(plan.place.region) is None else options.root,
        pinned=lambda: _chart_in_sandbox(options),
    )


def _chart_in_sandbox(options: DeployOptions) -> Mapping[str, bytes]:
    """HyperPod's chart and the layer with helm if they are cached, else the sandbox's own small ones."""
    files = cached_files(options.environment)
    if files is not None:
        options.notify("the cache contains HyperPod's chart: the sandbox renders it")
        return files
    options.notify("the cache does not contain HyperPod's chart: the sandbox uses its own small chart")
    return chart_files()


def left_out(sandbox: "Sandbox", checked: StackVerification | None, prerequisites: Iterable[str]) -> tuple[str, ...]:
    """Resources that the sandbox did not create or that were not read back, each with the reason."""
    assumed = dict.fromkeys(prerequisites, "emulated; your own is not read")
    if checked is None:
        return tuple(f"{name}: {reason}" for name, reason in sorted(assumed.items()))
    known = sandbox.not_emulated([stack.name for stack in checked.stacks])
    return tuple(f"{name}: {reason}" for name, reason in sorted({**checked.unread, **known, **assumed}.items()))
