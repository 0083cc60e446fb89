"""Checks of a serving plan against the catalog: each returns its findings, and no check stops the others."""

import re
from collections.abc import Iterator
from datetime import date, timedelta

from launcher.catalog.bedrock import BedrockCatalog, profiles_of
from launcher.catalog.load import Catalog
from launcher.catalog.timezones import is_timezone
from launcher.model.enums import BedrockMode, BedrockProfile, PurchaseOption, Rollout, ServingTask
from launcher.model.finding import Finding, error, info, warning
from launcher.model.names import nearest_model, nearest_name
from launcher.model.request import PlanRequest
from launcher.model.schedule import SCHEDULE_FORM, hours_of_day, moment_of, parse_schedule, timezones
from launcher.model.workload import ModelDimensions, ServingWorkload
from launcher.planning.checks import check_dimensions, check_every_workload, unknown_targets
from launcher.planning.serving.reach import unserved_architecture, unserved_precision
from launcher.targets.registry import serving_targets, target_of

PATH = "workload.serve"
MAX_REQUESTS_PER_S = 1e6
MAX_TOKENS = 16_777_216
MAX_BATCH = 4096
MAX_INSTANCES = 10_000


def check(
    request: PlanRequest, serve: ServingWorkload, catalog: Catalog, bedrock: BedrockCatalog, today: date | None = None
) -> list[Finding]:
    """All findings on a serving plan that need no candidate; without `today` no time of its schedule is over."""
    findings = list(check_every_workload(request, catalog))
    findings += unknown_targets(request, serving_targets(), "serves nothing")
    findings += _model(serve, catalog, bedrock)
    findings += _lengths(serve, catalog)
    findings += _traffic(serve)
    findings += _instances(serve)
    findings += _schedule(request, serve, today)
    findings += _parallel(request, serve, catalog)
    findings += _purchase(request, serve, catalog, bedrock)
    findings += _unused_targets(request, serve, catalog)
    findings += _zones(request, serve, catalog)
    return findings


def _model(serve: ServingWorkload, catalog: Catalog, bedrock: BedrockCatalog) -> Iterator[Finding]:
    path = f"{PATH}.model"
    if serve.model is None:
        yield error("no-model", path, "a serving plan needs a model", "name one, or give {params_b: N}")
    elif isinstance(serve.model, ModelDimensions):
        yield from check_dimensions(serve.model, path)
    elif catalog.find_model(serve.model) is None and bedrock.find(serve.model) is None:
        hint = nearest_model(serve.model, (*catalog.models, *bedrock.rows)) or "or give {params_b: N}"
        yield error("unknown-model", path, f"no model {serve.model} in the catalog or on Bedrock", hint)
    elif reason := _unserved_reason(serve, catalog):
        hint = "deploy it by hand, or price its instances as a job: workload.train.hours with a pinned type"
        yield error("unserved-architecture", path, reason, hint)


def _unserved_reason(serve: ServingWorkload, catalog: Catalog) -> str | None:
    spec = catalog.find_model(serve.model) if isinstance(serve.model, str) else None
    return None if spec is None else unserved_architecture(spec.name, spec.architecture)


def _lengths(serve: ServingWorkload, catalog: Catalog) -> Iterator[Finding]:
    whole = serve.input_tokens + serve.answer_tokens
    if whole > MAX_TOKENS:
        yield error("too-long", f"{PATH}.input_tokens", f"must be at most {MAX_TOKENS:,}, got {whole:,}")
    if serve.task is ServingTask.CHAT and serve.output_tokens < 1:
        message = "a chat answer has at least 1 token, got 0"
        yield error("no-answer", f"{PATH}.output_tokens", message, "or set task to embedding")
    if serve.sequence_length is not None and serve.sequence_length < whole:
        message = f"{serve.sequence_length} is less than a request with its answer, {whole} tokens"
        yield error("sequence-too-short", f"{PATH}.sequence_length", message, f"set it to {whole} or more, or to auto")
    spec = catalog.find_model(serve.model) if isinstance(serve.model, str) else None
    longest = max(whole, serve.sequence_length or 0)
    if (
        spec is not None
        and spec.max_positions
        and longest > spec.max_positions
        # A model that is not served at all has that error alone.
        and not _unserved_reason(serve, catalog)
    ):
        message = f"{longest:,} tokens are more than the {spec.max_positions:,} positions of {spec.name}"
        yield error("beyond-the-context", f"{PATH}.input_tokens", message, "shorten the requests")
    if serve.asynchronous and serve.max_ttft_ms is not None:
        message = "an asynchronous request waits in a queue: the limit applies after the wait"
        yield warning("latency-in-a-queue", f"{PATH}.max_ttft_ms", message)


def _traffic(serve: ServingWorkload) -> Iterator[Finding]:
    """Findings unless the traffic is given exactly once, within plausible limits."""
    if serve.requests_per_s is not None and serve.hourly_requests_per_s is not None:
        path = f"{PATH}.hourly_requests_per_s"
        yield error("two-traffics", path, "requests_per_s and hourly_requests_per_s are both given", "keep one")
    if serve.requests_per_s is None and serve.hourly_requests_per_s is None:
        hint = "set requests_per_s, or hourly_requests_per_s with 24 numbers"
        yield error("no-traffic", f"{PATH}.requests_per_s", "no traffic is given", hint)
        return
    if max(serve.hourly) > MAX_REQUESTS_PER_S:
        message = f"must be at most {MAX_REQUESTS_PER_S:,.0f}, got {max(serve.hourly):,.12g}"
        yield error("too-much-traffic", f"{PATH}.requests_per_s", message)
    elif max(serve.hourly) == 0:
        yield warning("no-requests", f"{PATH}.requests_per_s", "0 requests: every running instance is idle")


def _instances(serve: ServingWorkload) -> Iterator[Finding]:
    path = f"{PATH}.min_instances"
    if serve.max_instances is not None and serve.min_instances > serve.max_instances:
        yield error("min-above-max", path, f"{serve.min_instances} is above max_instances {serve.max_instances}")
    if serve.min_instances > MAX_INSTANCES:
        yield error("too-many-instances", path, f"must be at most {MAX_INSTANCES:,}, got {serve.min_instances:,}")
    if serve.min_instances and serve.zones > serve.min_instances:
        message = f"{serve.min_instances} in {serve.zones} zones: one instance a zone is priced"
        yield info("instance-a-zone", path, message)
    if serve.min_instances == 0 and not serve.asynchronous:
        message = "0: requests fail while the first instance starts, for minutes"
        yield warning("cold-start", path, message, "set asynchronous to true: its requests wait in a queue")
    if serve.max_instances == 1 and serve.deployment in (Rollout.ROLLING, Rollout.CANARY):
        message = f"{serve.deployment} replaces a part of the instances, and there is one"
        yield error("rollout-of-one", f"{PATH}.deployment", message, "set it to all-at-once or auto")


def _schedule(request: PlanRequest, serve: ServingWorkload, today: date | None) -> Iterator[Finding]:
    """Findings for times and ranges that are invalid, or that nothing applies."""
    for index, line in enumerate(serve.schedule):
        path, change = f"{PATH}.schedule[{index}]", parse_schedule(line)
        if change is None:
            yield error("schedule-form", path, f"must be a time and a range of instances, got {line}", SCHEDULE_FORM)
        elif change.least > change.most:
            yield error("schedule-range", path, f"{change.least} is above {change.most}", SCHEDULE_FORM)
        elif serve.max_instances is not None and change.most > serve.max_instances:
            message = f"{change.most} instances are more than max_instances, {serve.max_instances}"
            yield error("schedule-above-max", path, message, f"set max_instances to {change.most}")
        elif change.timezone is not None and not is_timezone(change.timezone):
            yield error("schedule-zone", path, f"no time zone has the name {change.timezone}", SCHEDULE_FORM)
        elif today is not None and _is_over(change.when, today):
            yield error(
                "schedule-past", path, f"{change.when} is over: today is {today}", "remove it, or set a later date"
            )
    zones = timezones(serve.schedule)
    if zones and not hours_of_day(serve.schedule):
        message = f"none of its times ever comes, got {', '.join(serve.schedule)}"
        yield error("schedule-never", f"{PATH}.schedule", message, SCHEDULE_FORM)
    if len(zones) > 1:
        message = f"times in {', '.join(zones)}: the month is priced as if all were in {zones[0]}"
        yield warning("schedule-zones", f"{PATH}.schedule", message, "give all of them in one time zone")
    if (
        serve.schedule
        and request.target.kind is not None
        and not any(target_of(target_kind).is_managed for target_kind in request.target.kind)
    ):
        message = "not used: pods of a cluster have no schedule, and run at all hours"
        yield warning("schedule-unused", f"{PATH}.schedule", message, "remove it, or target.kind sagemaker-endpoint")


def _is_over(when: str, today: date) -> bool:
    """Whether a time never occurs again; time zones explain one day of difference."""
    once, years = moment_of(when), re.fullmatch(r"cron\(.* (\d{4})\)", when)
    return (once is not None and once.date() < today - timedelta(days=1)) or (
        years is not None and int(years[1]) < today.year
    )


def _parallel(request: PlanRequest, serve: ServingWorkload, catalog: Catalog) -> Iterator[Finding]:
    """Findings for tensor parallelism and formats that the software of the pinned chips does not support."""
    if serve.batch_size is not None and serve.batch_size > MAX_BATCH:
        yield error("too-large", f"{PATH}.batch_size", f"must be at most {MAX_BATCH:,}, got {serve.batch_size:,}")
    names = [type_name for type_name in request.target.instance_type or () if type_name in catalog.instance_types]
    named = [catalog.instance_types[type_name].accelerator for type_name in names]
    chips = [catalog.accelerators[type_name] for type_name in dict.fromkeys(named) if type_name is not None]
    degree = serve.tensor_parallel
    if degree is not None:
        taken = {chip.name: chip.serving_groups for chip in chips} or _degrees(catalog)
        if not any(degree in type_name for type_name in taken.values()):
            allowed = "; ".join(f"{', '.join(map(str, type_name))} on {name}" for name, type_name in taken.items())
            message = f"{degree} is not a supported degree of tensor parallelism there, allowed: {allowed}"
            yield error("tensor-parallel", f"{PATH}.tensor_parallel", message, "set it to one of these, or to auto")
    # A format that one of the chips runs is no error: candidates of the others are ruled out one by one.
    refused = [reason for chip in chips if (reason := unserved_precision(serve.weight_format, chip))]
    if refused and len(refused) == len(chips):
        yield error("precision", f"{PATH}.precision", refused[0])


def _degrees(catalog: Catalog) -> dict[str, tuple[int, ...]]:
    """The degrees of tensor parallelism of every chip that serves; all GPUs have the same."""
    known = (accelerator for accelerator in catalog.accelerators.values() if accelerator.serves)
    return {
        accelerator.name if accelerator.family == "neuron" else "GPUs": accelerator.serving_groups
        for accelerator in known
    }


def _unused_targets(request: PlanRequest, serve: ServingWorkload, catalog: Catalog) -> Iterator[Finding]:
    bedrock_only = isinstance(serve.model, str) and catalog.find_model(serve.model) is None
    if bedrock_only:
        reason = f"{serve.model} is not in the catalog of models, and runs on Bedrock"
    elif request.purchase.option == (PurchaseOption.BEDROCK,):
        reason = "purchase.option is bedrock"
    else:
        return
    named = {
        "instance_type": request.target.instance_type,
        "az_id": request.target.az_id,
        "nodes": request.target.nodes,
        "cluster": request.target.cluster,
    }
    for key, value in named.items():
        if value is not None:
            hint = "remove it" if bedrock_only else "remove it, or open purchase.option"
            yield warning("machines-unused", f"target.{key}", f"not used: {reason}", hint)
    for kind in request.target.kind or ():
        if kind in serving_targets()[1:]:
            yield warning("machines-unused", "target.kind", f"{kind} is not used: {reason}", "remove it")


def few_zones(serve: ServingWorkload, region: str, catalog: Catalog) -> int | None:
    """The number of zones of a region if known and lower than the plan's, else None."""
    known = len(catalog.regions[region].az_ids) if region in catalog.regions else 0
    return known if 1 < known < serve.zones else None


def _zones(request: PlanRequest, serve: ServingWorkload, catalog: Catalog) -> Iterator[Finding]:
    path = f"{PATH}.zones"
    if serve.zones > 1 and request.target.az_id is not None:
        yield error("zones-and-zone", path, f"{serve.zones} zones, and target.az_id pins one", "keep one of the two")
    regions = request.target.region or ()
    few = {region: count for region in regions if (count := few_zones(serve, region, catalog)) is not None}
    if few:
        known = ", ".join(f"{count} in {region}" for region, count in few.items())
        # Another region of the plan may have enough zones.
        say = error if len(few) == len(regions) else warning
        yield say("too-many-zones", path, f"{serve.zones} zones, but {known}", f"set it to {min(few.values())} or less")


def options_of(request: PlanRequest) -> tuple[PurchaseOption, ...] | None:
    """The purchase options that a serving plan allows; None if it leaves them open. A named training plan is one."""
    named = request.purchase.training_plan is not None
    return (PurchaseOption.TRAINING_PLAN,) if named and not request.purchase.option else request.purchase.option


def _purchase(
    request: PlanRequest, serve: ServingWorkload, catalog: Catalog, bedrock: BedrockCatalog
) -> Iterator[Finding]:
    options = request.purchase.option or ()
    known = isinstance(serve.model, ModelDimensions) or serve.model is None or catalog.find_model(serve.model)
    if not known and options and PurchaseOption.BEDROCK not in options:
        message = f"{serve.model} is not in the catalog of models, so only Bedrock has it, got {', '.join(options)}"
        hint = "set it to bedrock or any, or give the model's {params_b: N}"
        yield error("bedrock-only", "purchase.option", message, hint)
    if PurchaseOption.CAPACITY_BLOCK in options:
        # With another option in the plan there are still candidates.
        say = error if len(options) == 1 else warning
        message = f"{PurchaseOption.CAPACITY_BLOCK} ends after some days, but an endpoint keeps running"
        yield say("no-serving-option", "purchase.option", message, "set it to on-demand")
    if request.purchase.training_plan is not None and PurchaseOption.TRAINING_PLAN not in (options_of(request) or ()):
        message = f"purchase.training_plan is given, but the option is {', '.join(options)}"
        yield error("training-plan-unused", "purchase.option", message, "set it to training-plan, or remove the plan")
    yield from _sold_elsewhere(request)
    yield from _hosted_findings(request, serve, catalog, bedrock)


def _hosted_findings(
    request: PlanRequest, serve: ServingWorkload, catalog: Catalog, bedrock: BedrockCatalog
) -> Iterator[Finding]:
    settings, imports = serve.bedrock, serve.bedrock.mode is BedrockMode.CUSTOM_IMPORT
    if settings.model is not None and bedrock.find(settings.model) is None:
        hint = nearest_name(settings.model, bedrock.rows)
        message = f"Bedrock has no {settings.model} in the catalog"
        yield error("unknown-bedrock-model", f"{PATH}.bedrock.model", message, hint)
    elif request.purchase.option == (PurchaseOption.BEDROCK,) and settings.model is None:
        known = imports or settings.import_copies is not None or on_bedrock(serve, catalog, bedrock)
        if not known:
            message = "Bedrock has no model with these weights"
            hint = "name one in workload.serve.bedrock.model, or import yours: workload.serve.bedrock.import_copies"
            yield error("not-on-bedrock", "purchase.option", message, hint)
    regions = request.target.region or ()
    usable = {region: profiles_of(region) for region in regions}
    profile = settings.profile
    if (
        profile not in (None, BedrockProfile.NONE)
        and regions
        and not any(profile in profiles for profiles in usable.values())
    ):
        known_here = ", ".join(dict.fromkeys(name for profiles in usable.values() for name in profiles))
        message = f"{profile} is not a profile of {', '.join(regions)}, allowed: {known_here}, none, auto"
        yield error("bedrock-profile", f"{PATH}.bedrock.profile", message, "set it to one of these")
    if (imports or settings.import_copies is not None) and serve.model_uri is None:
        message = "custom model import reads weights from S3, and workload.serve.model_uri is not given"
        yield warning("import-without-uri", f"{PATH}.model_uri", message, "workload.serve.model_uri: s3://...")


def _sold_elsewhere(request: PlanRequest) -> Iterator[Finding]:
    """Findings for purchase options that only another target offers, not the plan's."""
    options, served = options_of(request) or (), serving_targets()
    kinds = [target_kind for target_kind in request.target.kind or () if target_kind in served] or served[:1]
    other = {
        option: [kind for kind in served if option in target_of(kind).serves]
        for option in options
        if not any(option in target_of(kind).serves for kind in kinds)
    }
    away = [region for region, having in other.items() if having]
    if away:
        # With another option in the plan there are still candidates.
        say = error if len(options) == len(away) else warning
        message = f"{' and '.join(kinds)} cannot be bought as {', '.join(away)}"
        hint = f"set target.kind to {' or '.join(other[away[0]])}, or purchase.option to on-demand"
        yield say("ec2-only", "purchase.option", message, hint)


def on_bedrock(serve: ServingWorkload, catalog: Catalog, bedrock: BedrockCatalog) -> str | None:
    """Bedrock's id of the model: the one that the plan names, one with equal weights, or a closed one of that name."""
    if serve.bedrock.model is not None:
        return bedrock.find(serve.bedrock.model)
    if not isinstance(serve.model, str):
        return None
    spec = catalog.find_model(serve.model)
    return bedrock.model_id(spec.name) if spec is not None else bedrock.find(serve.model)
