"""From a serving plan to its options: instance types with their throughput, ways to buy them, and Bedrock."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from functools import partial

from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.load import Catalog
from launcher.model.candidate_group import CandidateGroup
from launcher.model.enums import BedrockMode, Level, PurchaseOption, ServingPrecision, ServingTask, TargetKind
from launcher.model.finding import Finding, error, info, warning
from launcher.model.instance_type import InstanceType
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.serving import ServedModel, ServingChoices, ServingEstimate, ServingFacts
from launcher.model.units import GB_PER_GIB, number_of
from launcher.model.workload import ModelDimensions, ServingWorkload
from launcher.planning.serving import checks
from launcher.planning.serving.layout import LayoutChoice, layouts, weights_gb
from launcher.planning.serving.model import model_of
from launcher.planning.serving.reach import beyond, unserved_precision
from launcher.planning.targets import is_sold, locations_of, terms_of
from launcher.targets.registry import serving_targets, target_of

SUGGESTED = 4
"""Maximum number of types in a hint."""
NARROWER = (ServingPrecision.FP8, ServingPrecision.INT8)
"""Formats to which a server or a compiler converts 16-bit weights itself, for a hint."""


@record
class ServingResolution:
    """The options that can serve a plan; `closed` means that only Bedrock has the model."""

    considered: int
    findings: tuple[Finding, ...]
    choices: ServingChoices
    closed: bool


def resolve_serving(
    request: PlanRequest,
    serve: ServingWorkload,
    catalog: Catalog,
    bedrock: BedrockCatalog,
    *,
    facts: ServingFacts,
    today: date | None = None,
) -> ServingResolution:
    """The options of a serving plan; none for a plan with errors, and an error with the reason if nothing can serve it.

    Args:
        request: the plan.
        serve: its workload.
        catalog: types and regions.
        bedrock: Bedrock's models.
        facts: coefficients and measured rows.
        today: the UTC day; None: no time of the schedule is over.
    """
    findings = checks.check(request, serve, catalog, bedrock, today)
    hosted = checks.on_bedrock(serve, catalog, bedrock)
    model = model_of(serve, catalog)
    findings += _format_findings(request.name, serve, model, facts)
    stopped = any(finding.level is Level.ERROR for finding in findings)
    choices = {} if stopped or model is None else _choices(request, serve, model, catalog, facts)
    estimates = {name: entry.estimates for name, entry in choices.items() if entry.estimates}
    groups = tuple(_groups(request, serve, catalog, estimates))
    purchase_options = checks.options_of(request)
    modes = hosted_modes(serve, hosted=hosted is not None)
    usable = bool(modes) and (purchase_options is None or PurchaseOption.BEDROCK in purchase_options)
    if not stopped:
        findings += _remarks(request, serve, model, choices, estimates)
        if not groups and model is not None and _wants_instances(request, serve, hosted=usable):
            findings.append(
                _none_left(request, serve, choices, catalog, partial(_fitting, request, serve, model, catalog, facts))
            )
        elif not groups and not usable:
            findings.append(_nothing_sold(request))
        elif not estimates and choices:
            name, choice = next(iter(choices.items()))
            message = f"no instance type can serve it: {name}: {choice.reason}; Bedrock is left"
            findings.append(warning("no-machine", "target", message))
    return ServingResolution(
        considered=sum(group.combinations for group in groups) + (len(modes) if usable else 0),
        findings=tuple(findings),
        choices=ServingChoices(
            serve=serve,
            groups=groups,
            estimates=estimates,
            weights_gb=0.0 if model is None else weights_gb(model, serve.weight_format),
            bedrock_id=hosted if usable and not stopped else None,
            bedrock_modes=modes if usable and not stopped else (),
        ),
        closed=model is None,
    )


def _format_findings(
    name: str, serve: ServingWorkload, model: ServedModel | None, facts: ServingFacts
) -> Iterator[Finding]:
    """Findings on a number format that the model has no weights in, or that needs more memory than published."""
    path = f"{checks.PATH}.precision"
    if model is None:
        return
    if serve.weight_format is ServingPrecision.MXFP4 and not model.mixture:
        message = f"{serve.weight_format} is a format of experts, and {model.name} has none"
        yield error("precision", path, message, "precision: bf16 or fp8")
    published, unknown = _published_precision(serve, model, facts)
    if unknown is not None:
        message = f"the weights are published as {unknown}, which has no estimate: quoted in {serve.weight_format}"
        hint = "serve weights in another format, or set workload.serve.precision to the nearest one"
        yield warning("unknown-format", f"{checks.PATH}.model", message, hint)
    if serve.weight_format is ServingPrecision.INT4:
        given = "" if published is serve.weight_format else "; the weights that you serve must be in 4 bits already"
        message = f"no published row of vLLM with 4-bit integers: the range is wide towards slow kernels{given}"
        yield warning("int4-unmeasured", path, message, f"measure before you commit: slipway endpoint load {name}")
    if published not in (None, ServingPrecision.BF16) and serve.precision is ServingPrecision.BF16:
        sizes = [weights_gb(model, precision) / GB_PER_GIB for precision in (serve.weight_format, published)]
        message = (
            f"{model.name} was published in {published}: {sizes[1]:.0f} GiB of weights, in bf16 {sizes[0]:.0f} GiB"
        )
        yield warning("published-format", path, message, f"precision: {published}")


def _published_precision(
    serve: ServingWorkload, model: ServedModel, facts: ServingFacts
) -> tuple[ServingPrecision | None, str | None]:
    """The format in which a model's weights were published, or the name of one that has no estimate."""
    if not isinstance(serve.model, ModelDimensions):
        return facts.formats.get(model.name), None
    stated = serve.model.published_format
    known = next((precision for precision in ServingPrecision if precision == stated), None)
    if known is ServingPrecision.MXFP4 and not model.mixture:
        known = None
    return known, stated if known is None else None


def hosted_modes(serve: ServingWorkload, *, hosted: bool) -> tuple[BedrockMode, ...]:
    """The Bedrock modes that a plan leaves open.

    Batch needs asynchronous requests, provisioned throughput needs its hourly price in the plan, and imported weights
    need the number of copies.

    Args:
        serve: the load.
        hosted: whether Bedrock has the model itself.
    """
    settings = serve.bedrock
    if settings.mode is not None:
        return (settings.mode,) if hosted or settings.mode is BedrockMode.CUSTOM_IMPORT else ()
    batch = (BedrockMode.BATCH,) if serve.asynchronous else ()
    hours = (BedrockMode.PROVISIONED,) if settings.provisioned_usd_per_hour is not None else ()
    imported = (BedrockMode.CUSTOM_IMPORT,) if settings.import_copies is not None else ()
    return ((BedrockMode.ON_DEMAND, *batch, *hours) if hosted else ()) + imported


def with_catalog_model(
    request: PlanRequest, serve: ServingWorkload, catalog: Catalog, bedrock: BedrockCatalog
) -> tuple[PlanRequest, ServingWorkload]:
    """The request with the catalog's model where it names a Bedrock id of open weights; the id stays for Bedrock."""
    if not isinstance(serve.model, str) or catalog.find_model(serve.model) is not None:
        return request, serve
    model_id = bedrock.find(serve.model)
    name = None if model_id is None else bedrock.same_weights.get(model_id)
    if name is None:
        return request, serve
    settings = replace(serve.bedrock, model=serve.bedrock.model or model_id)
    named = replace(serve, model=name, bedrock=settings)
    return replace(request, workload=replace(request.workload, serve=named)), named


def with_precision(
    request: PlanRequest, serve: ServingWorkload, catalog: Catalog, facts: ServingFacts
) -> tuple[PlanRequest, ServingWorkload]:
    """The request with the number format in which its model was published, where the plan leaves the format open."""
    if serve.precision is not None:
        return request, serve
    model = model_of(serve, catalog)
    published = None if model is None else _published_precision(serve, model, facts)[0]
    served = replace(serve, precision=published or serve.weight_format)
    return replace(request, workload=replace(request.workload, serve=served)), served


def _choices(
    request: PlanRequest, serve: ServingWorkload, model: ServedModel, catalog: Catalog, facts: ServingFacts
) -> dict[str, LayoutChoice]:
    """The layouts of every allowed type, or the reason why it cannot serve."""
    choices = {}
    for type_ in _types(request, catalog):
        chip = catalog.accelerators[type_.accelerator or ""]
        reason = beyond(model, chip, embedding=serve.task is ServingTask.EMBEDDING)
        reason = reason or unserved_precision(serve.weight_format, chip)
        choices[type_.name] = layouts(serve, model, type_, chip, facts) if reason is None else LayoutChoice((), reason)
    return choices


def kinds_of(request: PlanRequest) -> tuple[TargetKind, ...]:
    """The targets to try: those that the plan names, else the first serving target."""
    named = tuple(target_kind for target_kind in request.target.kind or () if target_kind in serving_targets())
    return named or serving_targets()[:1]


def _types(request: PlanRequest, catalog: Catalog) -> Iterator[InstanceType]:
    kinds = {target_kind.value for target_kind in kinds_of(request)}
    named = request.target.instance_type
    for instance_type in (
        catalog.instance_types.values() if named is None else (catalog.instance_types[name] for name in named)
    ):
        if instance_type.accelerator is not None and kinds & set(instance_type.targets):
            yield instance_type


def _groups(
    request: PlanRequest, serve: ServingWorkload, catalog: Catalog, estimates: Mapping[str, tuple[ServingEstimate, ...]]
) -> Iterator[CandidateGroup]:
    options = checks.options_of(request)
    for name in estimates:
        facts = catalog.instance_types[name]
        known = [region for region in catalog.regions_of(name) if checks.few_zones(serve, region, catalog) is None]
        for kind in kinds_of(request):
            named = request.purchase.plan_kind
            plans = [plan for plan in target_of(kind).savings_plans if named in (None, plan)]
            for option in target_of(kind).serves:
                # A training plan ends: it is compared with an endpoint that runs on only where the plan file asks.
                requested = option in options if options is not None else option is not PurchaseOption.TRAINING_PLAN
                built = kind.value in facts.targets
                locations = tuple(locations_of(request, catalog, name, option, known)) if built else ()
                bought = request.purchase.training_plan if request.target.region is None else None
                if bought is not None:
                    locations = tuple(place for place in locations if place[0] == bought.region)
                terms = tuple(terms_of(request, option, plans))
                if requested and is_sold(facts, option, kind) and locations and terms:
                    yield CandidateGroup(kind, name, option, locations, (1,), terms)


def _remarks(
    request: PlanRequest,
    serve: ServingWorkload,
    model: ServedModel | None,
    choices: Mapping[str, LayoutChoice],
    estimates: Mapping[str, tuple[ServingEstimate, ...]],
) -> Iterator[Finding]:
    if model is None:
        message = f"{serve.model} is not in the catalog of models, so only Bedrock is priced"
        yield info("bedrock-only", f"{checks.PATH}.model", message, "if its weights are open, give {params_b: N}")
        return
    if model.assumed:
        message = f"{', '.join(model.assumed)} not given: scaled from a 7 B model, with 8 key-value heads"
        yield warning("dimensions-assumed", f"{checks.PATH}.model", message, "give them, or name a known model")
    if serve.task is ServingTask.EMBEDDING and estimates:
        message = "no published row of an embedding model: the estimate is that of a prompt without an answer"
        yield warning("embedding-unmeasured", f"{checks.PATH}.task", message, "measure before you commit")
    for name in request.target.instance_type or ():
        if name in choices and name not in estimates and estimates:
            yield warning("type-left-out", "target.instance_type", f"{name}: {choices[name].reason}")


def _wants_instances(request: PlanRequest, serve: ServingWorkload, *, hosted: bool) -> bool:
    """Whether the plan requires an instance: it names one, or latency limits that Bedrock does not publish."""
    if request.purchase.option == (PurchaseOption.BEDROCK,):
        return False
    limited = serve.max_ttft_ms is not None or serve.max_tpot_ms is not None
    return not hosted or limited or request.target.instance_type is not None


def _none_left(
    request: PlanRequest,
    serve: ServingWorkload,
    choices: Mapping[str, LayoutChoice],
    catalog: Catalog,
    fitting: Callable[[], str],
) -> Finding:
    """Why no instance type is left, and which would work."""
    if not choices or any(item.estimates for item in choices.values()):
        return _nothing_sold(request)
    fast = {name: item.fastest for name, item in choices.items() if item.fastest is not None}
    if fast:
        first = serve.max_ttft_ms is not None
        name, (ttft, tpot) = min(fast.items(), key=lambda item: item[1] if first else item[1][::-1])
        path = f"{checks.PATH}.max_ttft_ms" if first else f"{checks.PATH}.max_tpot_ms"
        message = f"no candidate keeps the latency limits: {name}: {choices[name].reason}"
        hint = f"the fastest, {name}, has its first token after {ttft:.0f} ms and takes {tpot:.1f} ms a token"
        return error("latency-out-of-reach", path, message, hint)
    name, choice = max(choices.items(), key=lambda item: _memory_gib(catalog, item[0]))
    more = f" (and {number_of(len(choices) - 1, 'more type')})" if len(choices) > 1 else ""
    message = f"no candidate is left: {name}: {choice.reason}{more}"
    return error("nothing-fits", "target.instance_type", message, fitting())


def _fitting(
    request: PlanRequest, serve: ServingWorkload, model: ServedModel, catalog: Catalog, facts: ServingFacts
) -> str:
    """The types that could serve the model, for a hint."""
    wide = replace(request, target=replace(request.target, instance_type=None))
    kin = {choice.partition(".")[0] for choice in request.target.instance_type or ()}
    narrower = [precision for precision in NARROWER if precision is not serve.weight_format]
    for precision in (serve.weight_format, *narrower):
        choices = _choices(wide, replace(serve, precision=precision), model, catalog, facts)
        names = [name for name, choice in choices.items() if choice.estimates]
        ordered = sorted(names, key=lambda name: (name.partition(".")[0] not in kin, _size(name), name))
        if ordered:
            with_format = "" if precision is serve.weight_format else f" with precision: {precision}"
            return f"it fits on {', '.join(ordered[:SUGGESTED])}{with_format}"
    return "another model: nothing here serves it in any number format"


def _nothing_sold(request: PlanRequest) -> Finding:
    options = ", ".join(request.purchase.option or ()) or "any option"
    kinds = ", ".join(kinds_of(request))
    message = f"no candidate is left: nothing in this plan is sold as {options} for {kinds}"
    return error("nothing-offered", "target", message, "open target.region, target.instance_type or purchase.option")


def _memory_gib(catalog: Catalog, name: str) -> tuple[bool, float]:
    """A key for the type with the most memory among those with an estimate, whose reason the message shows."""
    facts = catalog.instance_types[name]
    chip = catalog.accelerators[facts.accelerator or ""]
    return chip.serves, facts.accelerators * chip.memory_gib


def _size(name: str) -> int:
    """The number in a size such as 48xlarge, to order hints from small to large."""
    digits = "".join(letter for letter in name.partition(".")[2] if letter.isdecimal())
    return int(digits or 1)
