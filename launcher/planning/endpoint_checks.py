"""Obstacles to creating a serving plan's endpoint or starting its pods: findings, each with a fix."""

import re
from collections.abc import Iterator
from dataclasses import replace

from launcher.catalog.registry import missing_types
from launcher.model.endpoint import LARGEST_QUEUE, EndpointMode, base_instances, most_instances, rollout_of
from launcher.model.enums import Level, PurchaseOption, Rollout
from launcher.model.finding import Finding, error, warning
from launcher.model.fleet import hosting_of, update_instances
from launcher.model.names import ECR
from launcher.model.plan import Plan
from launcher.model.schedule import parse_schedule
from launcher.model.serving import UNNAMED_PLAN, UNTIL_DEPLOYED, WITHOUT_URI, ServingEstimate, ServingFacts
from launcher.model.units import number_of
from launcher.model.workload import ServingWorkload
from launcher.planning.endpoint import MAX_VOLUME_GIB, ServingDeployment, ServingPlan
from launcher.planning.registry import COMPONENT, budget_findings, registry_findings
from launcher.planning.security import security_findings
from launcher.planning.serving.footprint import compiler_gib
from launcher.planning.serving.layout import layouts
from launcher.planning.serving.measured import parts
from launcher.planning.serving.reach import beyond
from launcher.targets.registry import target_of

PATH = "workload.serve"
FIRST_WITHOUT_INFERENTIA = (2, 29)
"""Neuron SDK whose inference library no longer runs on Inferentia2 and Trainium1 (Neuron release notes, NxD Inference
0.9, 2026-04-09: "pin to release 2.28"); 2.30 needs a driver that SageMaker's AMI does not have."""
SDK = re.compile(r"sdk(\d+)\.(\d+)")
ANSWER_S = 60.0
"""Seconds in which a container must answer an invocation without streaming (SageMaker developer guide)."""
ZERO_REFUSED = ("eu-west-3",)
ZERO_SEEN = ("us-east-1",)
"""Regions in which MinInstanceCount 0 was refused and accepted (stdapi-ai/stdapi.ai#43, 2026-08-27)."""
FEWEST_TO_ROLL = 2
"""A rolling step or a canary replaces 5 to 50 % of the instances."""


def endpoint_findings(served: ServingDeployment, facts: ServingFacts) -> tuple[Finding, ...]:
    """All findings on a plan's endpoint, warnings included; the endpoint can be created if none is an error.

    Args:
        served: the deployment of a serving plan.
        facts: the inputs of the response-time estimate.
    """
    findings = list(container_findings(served))
    if not served.is_managed:
        message = f"{served.plan.place.target} is not a SageMaker endpoint"
        findings.append(error("not-an-endpoint", "target.kind", message))
    # Where the weights are changes nothing of what follows.
    if any(finding.level is Level.ERROR and finding.code != WITHOUT_URI for finding in findings):
        return tuple(findings)
    findings += _purchase_findings(served)
    findings += registry_findings(served.plan.request, served.plan.place, served.catalog)
    findings += budget_findings(served.plan.request, served.plan.place.region)
    findings += layout_findings(served)
    findings += _zero(served)
    findings += _instance_count_findings(served.plan, served.serve)
    findings += _answer(served, facts)
    findings += _storage(served)
    return tuple(findings)


def layout_findings(served: ServingPlan) -> tuple[Finding, ...]:
    """The findings on how copies run on an instance; another layout may have none of them."""
    return (*_mode(served), *_rollout(served.serve, served.mode))


def quoted_findings(served: ServingDeployment, facts: ServingFacts) -> tuple[Finding, ...]:
    """The deployment findings of a quote; missing weights or an unnamed training plan are only warnings here.

    Users ask for the cost before they copy the weights to S3 or buy a training plan; a deployment is refused then.
    """
    findings = deployment_findings(served, facts)
    return tuple(
        replace(finding, level=Level.WARNING) if finding.code in UNTIL_DEPLOYED else finding for finding in findings
    )


def deployment_findings(served: ServingDeployment, facts: ServingFacts) -> tuple[Finding, ...]:
    """All findings on a serving plan for its target, warnings included."""
    return endpoint_findings(served, facts) if served.is_managed else container_findings(served)


def container_findings(served: ServingDeployment) -> tuple[Finding, ...]:
    """The findings on a plan's container, the same on an endpoint and on Kubernetes."""
    plan, catalog = served.plan, served.catalog
    if plan.request.workload.serve is None:
        return (error("nothing-to-serve", "workload.serve", f"{plan.name} serves nothing", "give workload.serve"),)
    if plan.place.instance_type not in catalog.instance_types:
        message = f"no instance type {plan.place.instance_type or '(none)'} in the catalog"
        return (error("unknown-instance-type", "target.instance_type", message),)
    if catalog.instance_types[plan.place.instance_type].accelerator is None:
        message = f"{plan.place.instance_type} has no accelerator"
        return (error("no-accelerator", "target.instance_type", message, "a type such as inf2.48xlarge"),)
    findings = list(_layout(served))
    if plan.cluster_name.endswith("-") or plan.name.endswith("-"):
        message = f"endpoints and pods have names that end in a letter or a digit, got {plan.name}"
        findings.append(error("name-with-dash", "name", message, "remove the dash at its end"))
    if not findings:
        findings += _image(served)
        findings += _model(served)
    return tuple(findings)


def _layout(served: ServingPlan) -> Iterator[Finding]:
    serve = served.serve
    for name in ("tensor_parallel", "batch_size", "sequence_length"):
        if getattr(serve, name) is None:
            yield error("shape-open", f"{PATH}.{name}", "must be a number, got auto", "`slipway plan FILE` decides it")
    degree = serve.tensor_parallel
    if degree is None:
        return
    chip, facts = served.chip, served.facts
    cores = parts(facts, chip)
    allowed = [group for group in chip.serving_groups if group <= cores]
    path = f"{PATH}.tensor_parallel"
    if degree not in allowed:
        message = f"must be one of {', '.join(map(str, allowed))} on {facts.name}, got {degree}"
        yield error("tensor-parallel", path, message, f"set it to {max(option for option in allowed)}, or to auto")
    elif degree < chip.cores:
        message = f"{degree} core is half of a chip of {facts.name}, and containers are given whole chips"
        yield error("half-a-chip", path, message, f"set it to {chip.cores}")


def _image(served: ServingDeployment) -> Iterator[Finding]:
    """Findings if no image fits the chip, task, model and region; of a user's own image only the SDK is checked."""
    chip, serve, path = served.chip, served.serve, f"{PATH}.image"
    if serve.image is not None:
        yield from _own_image(serve.image, chip.name, neuron=served.neuron)
        return
    pinned = served.engine_image
    if pinned is None:
        message = f"no pinned image serves {serve.task} on {chip.name}"
        yield error("no-image", path, message, "use another instance type, or set your own image")
        return
    yield from _architecture(served, pinned.families, pinned.repository)
    if served.image is None:
        regions = ", ".join(pinned.regions) or "the regions of AWS's registry"
        message = f"{pinned.repository} is not in {served.plan.place.region}, but in {regions}"
        yield error("image-not-in-region", "target.region", message, "use one of these, or set your own image")


def _own_image(image: str, chip: str, *, neuron: bool) -> Iterator[Finding]:
    path = f"{PATH}.image"
    sdk = SDK.search(image.rpartition(":")[2])
    if neuron and sdk is None:
        message = f"the tag of {image} names no Neuron SDK: {chip} needs one before 2.29"
        yield warning("image-sdk-unknown", path, message)
    elif neuron and sdk is not None and (int(sdk[1]), int(sdk[2])) >= FIRST_WITHOUT_INFERENTIA:
        message = f"Neuron SDK {sdk[1]}.{sdk[2]} no longer serves on {chip}, got {image}"
        yield error("image-sdk", path, message, "an image of SDK 2.28 or earlier, or auto (2.26.1)")


def _architecture(served: ServingPlan, families: tuple[str, ...], image: str) -> Iterator[Finding]:
    serve, model, path = served.serve, served.model, f"{PATH}.model"
    spec = served.catalog.find_model(serve.model) if isinstance(serve.model, str) else None
    if model is None:
        message = f"{serve.model} is not in the catalog of models: only Bedrock can serve it"
        yield error("bedrock-only", path, message, "purchase.option: bedrock, or give {params_b: N} of open weights")
    elif spec is not None and families and spec.family not in families:
        message = f"{spec.name} is of the family {spec.family}; {image} serves only {', '.join(families)}"
        yield error("wrong-architecture", path, message, "use another model, a GPU type, or your own image")
    elif (reason := beyond(model, served.chip, embedding=not serve.answer_tokens)) is not None:
        yield error("wrong-architecture", path, reason, "another model or instance type")


def _model(served: ServingPlan) -> Iterator[Finding]:
    serve = served.serve
    if serve.artifacts_uri is not None and not served.neuron:
        message = f"{served.facts.name} takes weights, and nothing that was compiled for Neuron"
        yield error("compiled-for-neuron", f"{PATH}.artifacts_uri", message, "give model_uri instead")
        return
    if served.model_uri is None:
        name, path = served.hub_id, f"{PATH}.model_uri"
        if name is None:
            message = f"the weights of {serve.model} are given with a token, which an endpoint would show to everybody"
            yield error(WITHOUT_URI, path, message, "copy them to S3 and give model_uri or artifacts_uri")
            return
        message = f"every start fetches {name} from the Hugging Face hub, over the internet"
        yield warning(
            "model-from-hub", path, message, "copy it to S3 and give model_uri: starts are faster and private"
        )
    if served.neuron and serve.artifacts_uri is None:
        shape = f"tensor parallel {serve.tensor_parallel}, batch {serve.batch_size}, {serve.sequence_length} tokens"
        message = (
            f"{shape}: neither compiled nor known to be in Hugging Face's cache;"
            " compiling in the container takes up to an hour, and the start may take 60 minutes at most"
        )
        hint = "run the compile job that `slipway render FILE -o DIR` writes, and give artifacts_uri"
        yield warning("shape-not-compiled", f"{PATH}.artifacts_uri", message, hint)
        yield from _compiler_host(served)


def _compiler_host(served: ServingPlan) -> Iterator[Finding]:
    """A warning if the container's compiler needs more memory than the host has: the kernel kills it."""
    need, facts = compiler_gib(served.weights_gb), served.facts
    if need <= facts.memory_gib:
        return
    message = (
        f"compiling in the container needs about {need:.0f} GiB of host memory, {facts.name} has {facts.memory_gib:g}"
    )
    larger = min(
        (
            other
            for other in served.catalog.instance_types.values()
            if other.chip == facts.chip and other.memory_gib >= need
        ),
        key=lambda other: other.memory_gib,
        default=None,
    )
    where = f" on {larger.name}" if larger is not None else ""
    hint = f"run the compile job of `slipway render FILE -o DIR`{where}, and give artifacts_uri"
    yield warning("compiler-memory", f"{PATH}.artifacts_uri", message, hint)


def _purchase_findings(served: ServingPlan) -> Iterator[Finding]:
    plan, image = served.plan, served.serve.image
    if image is not None and not ECR.match(image):
        message = f"SageMaker pulls images from private ECR registries only, got {image}"
        hint = "push it to <account>.dkr.ecr.<region>.amazonaws.com, or set it to auto"
        yield error("image-not-in-ecr", f"{PATH}.image", message, hint)
    target = target_of(plan.place.target)
    if plan.place.option not in target.serves:
        message = f"SageMaker sells no endpoint as {plan.place.option}, but as {', '.join(target.serves)}"
        yield error("ec2-only", "purchase.option", message, "set target.kind to eks, or purchase.option to on-demand")
    yield from target.refusals(plan.request, plan.place, served.catalog.instance_types)
    if plan.place.option is PurchaseOption.TRAINING_PLAN:
        yield from _training_plan(served)
    yield from _network(served)
    yield from security_findings(plan.request, plan.place)


def _training_plan(served: ServingPlan) -> Iterator[Finding]:
    """Findings for an endpoint that runs in a training plan only: its end, its zone, and room for an update."""
    bought, path = served.plan.request.purchase.training_plan, "purchase.training_plan"
    if bought is None:
        message = "an endpoint on a training plan needs the ARN of the purchased plan, whose target is endpoint"
        yield error(UNNAMED_PLAN, path, message, f"give {path}.arn")
        return
    if bought.ends_at is None:
        # Developer guide, "Using training plans for SageMaker inference endpoints" (2026-11).
        message = "its end is not given; from then on the endpoint answers no request, and the guard cannot warn of it"
        yield warning("training-plan-end", f"{path}.ends_at", message, "set it")
    if served.serve.zones > 1:
        message = f"{served.serve.zones} zones, but the instances of a training plan are where the plan is"
        yield warning("training-plan-zones", f"{PATH}.zones", message, "set it to 1")
    hosting = hosting_of(served.serve, endpoint=True, neuron=served.neuron, copies=served.copies)
    most = most_instances(served.serve, served.plan.place.nodes)
    needed = most + update_instances(served.serve, hosting, most)
    if bought.count is not None and most <= bought.count < needed:
        message = (
            f"an update at {most} running instances needs {needed}, old and new version together, and the training plan"
            f" has {bought.count}: the update fails"
        )
        remove = f"slipway down {served.plan.name}"
        hint = f"a training plan of {needed} or more, or `{remove}` before the deployment of a change"
        yield warning("training-plan-update", f"{path}.count", message, hint)


def _network(served: ServingPlan) -> Iterator[Finding]:
    """Findings for the containers' network: SageMaker's own, or subnets and groups of an existing VPC."""
    network = served.plan.request.network
    if network.name is not None:
        message = "an endpoint shares no network of clusters: it is in SageMaker's own, or in the subnets that you name"
        yield error("network-unused", "network.name", message, "remove it, or name network.vpc_id")
    if network.vpc_id is None:
        return
    for key, given in (("subnet_ids", network.subnet_ids), ("security_group_ids", network.security_group_ids)):
        if not given:
            message = f"containers with an interface in {network.vpc_id} need {key}, got none"
            yield error("endpoint-network", f"network.{key}", message, f"name them: network.{key}: [...]")
    if not served.is_isolated:
        message = (
            f"the containers reach the Hugging Face hub and S3 through {network.vpc_id} only, by its routes and the"
            " rules of these security groups"
        )
        hint = "the subnets need a route to the internet (NAT) and to S3, and the groups an outbound rule"
        yield warning("endpoint-network-route", "network.subnet_ids", message, hint)


def _mode(served: ServingPlan) -> Iterator[Finding]:
    serve, copies = served.serve, served.copies
    yield from _components(served)
    if served.mode is not EndpointMode.ASYNCHRONOUS:
        return
    if served.neuron and copies > 1:
        message = f"{copies} copies an instance are components, which take nothing from a queue"
        whole = max(group for group in served.chip.serving_groups if group <= copies * (serve.tensor_parallel or 1))
        hint = f"set it to {whole}, or take a smaller type: one copy an instance"
        yield error("copies-behind-a-queue", f"{PATH}.tensor_parallel", message, hint)
    if serve.data_capture:
        message = "an asynchronous endpoint always stores requests and answers in S3"
        yield error("capture-of-a-queue", f"{PATH}.data_capture", message, "set it to false")
    if (serve.batch_size or 1) * copies > LARGEST_QUEUE:
        message = f"{serve.batch_size} x {copies} concurrent requests are more than {LARGEST_QUEUE}"
        yield error("too-many-at-once", f"{PATH}.batch_size", message, f"set it to {LARGEST_QUEUE // copies} or less")


def _components(served: ServingPlan) -> Iterator[Finding]:
    """The refusal of components in a region whose registry lacks them; one copy an instance is a plain variant."""
    serve, region = served.serve, served.plan.place.region
    if served.mode is not EndpointMode.COMPONENTS or not missing_types((COMPONENT,), region):
        return
    message = f"CloudFormation has no {COMPONENT} in {region}"
    if serve.min_instances == 0:
        hint = "set min_instances to 1, or asynchronous to true: both need no component"
        yield error("components-not-in-region", f"{PATH}.min_instances", f"{message}, which 0 instances need", hint)
    else:
        whole = max(group for group in served.chip.serving_groups if group <= parts(served.facts, served.chip))
        hint = f"set it to {whole} or to auto for one copy an instance, or take a smaller type or another region"
        path = f"{PATH}.tensor_parallel"
        yield error("components-not-in-region", path, f"{message}, which {served.copies} copies an instance need", hint)


def _zero(served: ServingPlan) -> Iterator[Finding]:
    region = served.plan.place.region
    if base_instances(served.serve) > 0 or served.mode is EndpointMode.ASYNCHRONOUS:
        return
    path, hint = f"{PATH}.min_instances", "set asynchronous to true (requests are queued), or min_instances to 1"
    if region in ZERO_REFUSED:
        yield error("zero-refused", path, f"{region} refuses components without an instance, got 0", hint)
    elif region not in ZERO_SEEN:
        confirmed = ", ".join(ZERO_SEEN)
        message = f"0 was seen to work in {confirmed}; no report for {region}"
        yield warning("zero-unconfirmed", path, message, hint)


def _instance_count_findings(plan: Plan, serve: ServingWorkload) -> Iterator[Finding]:
    """Findings for contradicting numbers of instances, including those of a schedule."""
    if serve.max_instances is not None and serve.max_instances < plan.place.nodes:
        message = f"the plan has {number_of(plan.place.nodes, 'instance')}, max_instances is {serve.max_instances}"
        yield error("max-instances", f"{PATH}.max_instances", message, f"raise it to {plan.place.nodes}")
    ceiling = serve.max_instances or plan.place.nodes
    for index, line in enumerate(serve.schedule):
        path, change = f"{PATH}.schedule[{index}]", parse_schedule(line)
        if change is None:
            continue  # the plan itself is refused for it, before there is a deployment
        if change.most > ceiling:
            allowed = number_of(ceiling, "instance")
            message = f"the schedule asks for {change.most} at {change.when}, the plan allows {allowed}"
            yield error("schedule-above-max", path, message, f"set max_instances to {change.most}")
        elif change.least == 0 and base_instances(serve) > 0:
            message = f"0 instances at {change.when}, but min_instances is {serve.min_instances}"
            yield error("schedule-below-min", path, message, "set min_instances to 0, or the range to 1 and more")


def _rollout(serve: ServingWorkload, mode: EndpointMode) -> Iterator[Finding]:
    path = f"{PATH}.deployment"
    if serve.deployment is Rollout.CANARY and mode is EndpointMode.COMPONENTS:
        message = "components are replaced in steps, and have no canary"
        yield error("canary-of-components", path, message, "set it to rolling or auto")
    elif serve.deployment is Rollout.ALL_AT_ONCE and mode is EndpointMode.COMPONENTS:
        message = "components are replaced in steps, and not all at once"
        yield error("components-in-steps", path, message, "set it to rolling or auto")
    elif (
        rollout_of(serve) in (Rollout.CANARY, Rollout.ROLLING)
        and mode is not EndpointMode.COMPONENTS
        and base_instances(serve) < FEWEST_TO_ROLL
    ):
        count = max(1, base_instances(serve))
        message = f"{rollout_of(serve)} replaces a part of the instances, and there may be {count}"
        yield error("rollout-of-one", path, message, "set it to all-at-once or auto, or min_instances to 2")


def answer_seconds(serve: ServingWorkload, estimate: ServingEstimate) -> float:
    """Seconds of a complete answer on a full instance: the first token, then one after the other."""
    return ((estimate.ttft_ms or 0.0) + serve.answer_tokens * (estimate.tpot_ms or 0.0)) / 1000


def _answer(served: ServingPlan, facts: ServingFacts) -> Iterator[Finding]:
    """A finding if an answer exceeds SageMaker's response time."""
    serve, model = served.serve, served.model
    if serve.streaming or serve.asynchronous or model is None:
        return
    estimate = layouts(serve, model, served.facts, served.chip, facts).estimate
    if estimate is not None and (seconds := answer_seconds(serve, estimate)) > ANSWER_S:
        most = int((ANSWER_S * 1000 - (estimate.ttft_ms or 0.0)) / estimate.tpot_ms) if estimate.tpot_ms else 0
        message = (
            f"{serve.output_tokens} tokens take {seconds:.0f} s on a full {served.facts.name};"
            f" an answer that is not streamed has {ANSWER_S:.0f} s, {most} tokens"
        )
        yield error("answer-too-slow", f"{PATH}.output_tokens", message, "set streaming or asynchronous to true")


def _storage(served: ServingPlan) -> Iterator[Finding]:
    size = served.volume_gib
    if size is not None and size > MAX_VOLUME_GIB:
        message = f"{size} GiB for the image and the model twice over are more than SageMaker's {MAX_VOLUME_GIB}"
        yield error("volume-too-large", f"{PATH}.model", message, "use a type with local disks, or target.kind eks")
    chips, available = served.chips * served.copies, served.facts.accelerators
    if chips < available:
        message = f"{available - chips} of {available} chips of {served.facts.name} are left unused and paid for"
        yield warning("chips-unused", f"{PATH}.tensor_parallel", message)
