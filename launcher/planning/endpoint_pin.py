"""The one plan of a serving request that pins type, region and purchase option: what `cdk synth` builds."""

from collections.abc import Iterator
from dataclasses import replace

from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.load import Catalog
from launcher.model.document import plan_at
from launcher.model.enums import Level, ServingTask
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.fleet import fleet, hosting_of
from launcher.model.plan import Place, Plan
from launcher.model.request import PlanRequest
from launcher.model.serving import Layout, ServingEstimate, ServingFacts
from launcher.model.workload import ServingWorkload
from launcher.planning.endpoint import ServingPlan
from launcher.planning.endpoint_checks import layout_findings
from launcher.planning.serving.checks import check
from launcher.planning.serving.layout import layouts
from launcher.planning.serving.reach import beyond, unserved_precision
from launcher.planning.serving.resolve import kinds_of, model_of


def pinned_serving(request: PlanRequest, catalog: Catalog, bedrock: BedrockCatalog, facts: ServingFacts) -> Plan:
    """The plan of a serving request, with the layout that costs least to run where the request leaves it open.

    The number of instances is the request's own, its most, or its least: only a quote knows how many the traffic needs.

    Args:
        request: a plan file as read, with a serving workload.
        catalog: what exists.
        bedrock: Bedrock's models, for the checks.
        facts: what the layouts are compared by.

    Raises:
        ImpossibleError: something must be pinned first, nothing fits, or the request has errors; with all findings.
    """
    serve = request.workload.serve
    if serve is None:
        found = [error("nothing-to-serve", "workload.serve", f"{request.name} serves nothing", "give workload.serve")]
        raise ImpossibleError(f"{request.name} is not one plan yet", findings=found)
    found = [each for each in check(request, serve, catalog, bedrock) if each.level is Level.ERROR]
    found += _open(request)
    estimates = None if found else _estimates(request, serve, catalog, facts)
    if isinstance(estimates, Finding):
        found.append(estimates)
    if found or not isinstance(estimates, tuple):
        raise ImpossibleError(f"{request.name} is not one plan yet", findings=found)
    plans = [(_with(each.layout, request, serve), each) for each in estimates]
    return min(plans, key=lambda each: _order(each[0], each[1], catalog))[0]


def _with(layout: Layout, request: PlanRequest, serve: ServingWorkload) -> Plan:
    """The plan with a layout."""
    decided = replace(
        serve, tensor_parallel=layout.tensor_parallel, batch_size=layout.batch, sequence_length=layout.sequence
    )
    return plan_at(replace(request, workload=replace(request.workload, serve=decided)), _place(request, serve))


def _order(plan: Plan, told: ServingEstimate, catalog: Catalog) -> tuple[bool, float]:
    """What can be deployed first, then the fewest instance-hours with those of deployments; of equal ones the fastest.

    That is the quote's choice too, where every instance-hour costs the same.
    """
    served = ServingPlan(plan=plan, catalog=catalog)
    refused = served.managed and any(each.level is Level.ERROR for each in layout_findings(served))
    copies = told.layout.copies
    hosting = hosting_of(served.serve, endpoint=served.managed, neuron=served.neuron, copies=copies)
    load = fleet(served.serve, told.requests_per_s, hosting)
    return refused, load.hours + load.deployment_hours


def _open(request: PlanRequest) -> Iterator[Finding]:
    """One finding for each choice that is still open."""
    pins = (
        ("target.instance_type", request.target.instance_type, "inf2.48xlarge"),
        ("target.region", request.target.region, "us-east-1"),
        ("purchase.option", request.purchase.option, "on-demand"),
    )
    for path, values, example in pins:
        if values is None or len(values) != 1:
            got = "any" if values is None else ", ".join(values)
            yield error("not-pinned", path, f"must be one value, got {got}", f"pin it, for instance {example}")


def _estimates(
    request: PlanRequest, serve: ServingWorkload, catalog: Catalog, facts: ServingFacts
) -> tuple[ServingEstimate, ...] | Finding:
    """The layouts of the pinned type, or why it has none."""
    assert request.target.instance_type is not None  # noqa: S101 - _open
    name = request.target.instance_type[0]
    kind = catalog.instance_types[name]
    model = model_of(serve, catalog)
    if model is None or kind.accelerator is None:
        return error("nothing-fits", "target.instance_type", f"{serve.model} is served on no {name}")
    chip = catalog.accelerators[kind.accelerator]
    reason = beyond(model, chip, embedding=serve.task is ServingTask.EMBEDDING)
    reason = reason or unserved_precision(serve.precision, chip)
    choice = layouts(serve, model, kind, chip, facts) if reason is None else None
    if choice is not None and choice.estimates:
        return choice.estimates
    reason = reason or (choice.reason if choice is not None else "")
    return error(
        "nothing-fits", "target.instance_type", f"{name}: {reason}", "another instance type, or a smaller shape"
    )


def _place(request: PlanRequest, serve: ServingWorkload) -> Place:
    """Where a request with nothing open is put."""
    target, purchase = request.target, request.purchase
    assert target.instance_type is not None and target.region is not None and purchase.option is not None  # noqa: S101, PT018 - _open
    nodes = target.nodes.minimum if target.nodes is not None else serve.max_instances or max(1, serve.min_instances)
    return Place(
        target=kinds_of(request)[0],
        instance_type=target.instance_type[0],
        nodes=nodes,
        region=target.region[0],
        az_id=target.az_id,
        option=purchase.option[0],
        plan_kind=purchase.plan_kind,
        term_years=purchase.term_years,
    )
