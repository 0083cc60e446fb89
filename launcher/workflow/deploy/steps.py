"""What a deployment creates: the files of its run folder, and lines that describe it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from launcher.agent import safe_json
from launcher.catalog.load import Catalog, load
from launcher.cdk.commands import Assembly
from launcher.model.bundle import Bundle
from launcher.model.document import document
from launcher.model.enums import CheckpointMode, Egress
from launcher.model.errors import ImpossibleError
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.request import PlanRequest
from launcher.planning.nat import egress, interface_endpoints
from launcher.records.quote_document import quote_document
from launcher.records.run_folder import RunFolder
from launcher.rendering.efa_rules import stack_findings
from launcher.targets.clusters import cluster_of
from launcher.targets.registry import target_of
from launcher.workflow.deploy.render import UNSUBMITTED, render_any, show_bundle

OUTPUT_OF_NODES = "NotifyTopicArn"
"""An output that a Kubernetes stack does not have before its nodes (launcher/cdk/control_part.py)."""


def record(
    folder: RunFolder,
    quoted: Quote,
    rank: int,
    catalog: Catalog,
    base: Path,
    *,
    run: str = UNSUBMITTED,
    figures: Callable[[RunFolder], Mapping[str, float]] | None = None,
) -> Bundle:
    """Write the decision into the run folder: the plan, its quote and the files.

    Returns the files to deploy and submit, with blanks for values that are not known yet. `figures` computes the
    figures of the quote that the agent gets (launcher/agent/forecast.py); None: none.
    """
    plan = document(quoted.plan.request)
    plan["run"]["workdir"] = str((base / quoted.plan.request.run.workdir).resolve())
    folder.write_json("plan.json", plan)
    folder.write_json("quote.json", quote_document(quoted, rank, catalog.instance_types))
    bundle = render_any(quoted, catalog, run=run, quoted=figures(folder) if figures is not None else None)
    folder.write_bundle(show_bundle(bundle, quoted.plan))
    return bundle


def refuse_without_efa(plan: Plan, assembly: Assembly, instances: Mapping[str, InstanceType]) -> None:
    """Refuse stacks whose nodes would not get the EFA interfaces of their type, if the target attaches them.

    Raises:
        ImpossibleError: interfaces are missing; the error lists every reason.
    """
    if plan.place.nodes == 1 and not target_of(plan.place.target).efa_on_one_node:
        return
    templates = (safe_json.load(path) for path in assembly.templates.values())
    facts = instances[plan.place.instance_type]
    lost = [finding for template in templates for finding in stack_findings(template, facts)]
    if lost:
        raise ImpossibleError(f"{plan.name}: its nodes would have no EFA", findings=lost)


def _subnet(plan: Plan, chosen: Egress | None) -> str:
    if chosen is Egress.PUBLIC_ADDRESSES:
        return "a public subnet, no inbound rules"
    if chosen is not Egress.ENDPOINTS:
        return f"a private subnet, {chosen or Egress.NAT_GATEWAY}"
    services = interface_endpoints(plan.request, target_of(plan.place.target), chosen)
    return f"a private subnet, {', '.join(services)} endpoints" if services else "a private subnet"


def _checkpoint_place(request: PlanRequest) -> str:
    policy = request.checkpoint
    if policy.mode is CheckpointMode.NONE and request.workload.train is not None:
        return "none are stored (checkpoint.mode is none)"
    if policy.mode is CheckpointMode.OWN:
        return f"stored by the trainer itself{f' in {policy.own_uri}' if policy.own_uri else ''}"
    return policy.store_uri or f"the cluster's bucket, which slipway down {request.name} keeps"


def plan_lines(plan: Plan) -> list[str]:
    """What a deployment creates, from the plan."""
    place, request = plan.place, plan.request
    where = place.az_id or place.region
    instances = f"{place.nodes} x {place.instance_type}, {place.option.value.replace('-', ' ')}, in {where}"
    head = target_of(place.target).head_instance(place.nodes, request.storage.head_node)
    lines = [cluster_of(plan).describe(plan, head, instances)]
    egress_mode = egress(request, place, load().instance_types)
    if request.network.vpc_id is not None:
        lines.append(f"network {request.network.vpc_id}, unchanged")
    elif egress_mode is None and target_of(place.target).in_service_network:
        lines.append("network: the service's own")
    else:
        lines.append(f"network {request.network.cidr}: {_subnet(plan, egress_mode)}, S3 endpoint")
    lines.append(f"checkpoints: {_checkpoint_place(request)}")
    return lines
