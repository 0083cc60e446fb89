"""Checks of a request against the catalog: each returns its findings, and no check stops the others."""

import math
import re
from collections.abc import Callable, Iterator, Sequence

from launcher.agent.command_line import VARIABLES, names_in
from launcher.catalog.load import Catalog
from launcher.model.enums import CheckpointLayout, CheckpointMode, PurchaseOption, TargetKind
from launcher.model.finding import Finding, error, info, warning
from launcher.model.names import nearest_model, nearest_name
from launcher.model.request import CheckpointPolicy, PlanRequest, PurchaseRequest
from launcher.model.units import number_of
from launcher.model.workload import ModelDimensions, TrainingWorkload
from launcher.plan_file import yaml_tokens
from launcher.planning.amounts import MAX_HOURS, amount_findings
from launcher.planning.files import file_findings
from launcher.planning.kubernetes import key_findings
from launcher.planning.own_prices import own_price_findings
from launcher.planning.secrets import secret_findings
from launcher.planning.security import group_findings
from launcher.planning.shape import GENERATING, PAIRED
from launcher.planning.unexpanded import unexpanded_findings
from launcher.targets.registry import training_targets

OTHER_MODEL = (
    "name one of `slipway models`, or give {config: PATH} of its Hugging Face config.json (an id that is in the local"
    " cache is read there), or {params_b: N} (of a mixture also experts and top_k), or hours with a pinned type and"
    " number of nodes"
)
"""The other ways to price a model that the catalog does not know."""
LUSTRE_THROUGHPUT = (125, 250, 500, 1000)
LUSTRE_STEP_GIB = 2400
"""PERSISTENT_2 SSD capacity: 1,200 GiB, or a multiple of 2,400 (FSx for Lustre user guide, storage capacity)."""
COUNT_TOLERANCE = 0.15
"""Allowed deviation of params_b from rough dimensions, which omit the width of the MLP and its gating."""
SPOT_WITHOUT_CHECKPOINTS = "spot-without-checkpoints"
LEARNED = "learned"
"""Positions of a model that are weights: it reads no longer sequence."""
NOT_OFFERED = "zone-not-offered"
"""The code of a finding about a zone in which the catalog does not know a type."""
RATE = "throughput_samples_per_s"
MAX_NODES = 10_000
MAX_FEE_USD = 10**12


def check(request: PlanRequest, catalog: Catalog) -> tuple[Finding, ...]:
    """All findings on a request that need no candidate."""
    findings: list[Finding] = []
    for rule in (_target, _types, _workload, _places, _purchase, _network, _storage, _checkpoint, _run):
        findings.extend(rule(request, catalog))
    findings.extend(secret_findings(request))
    findings.extend(key_findings(request))
    return tuple(findings)


def check_every_workload(request: PlanRequest, catalog: Catalog) -> Iterator[Finding]:
    """The checks for every workload: types, regions, zones, the user's own prices, the network."""
    for rule in (_regions, _types, _places, _purchase, _network, _one_workload):
        yield from rule(request, catalog)


def _one_workload(request: PlanRequest, _catalog: Catalog) -> Iterator[Finding]:
    if request.workload.train and request.workload.serve:
        message = "train and serve are both given"
        yield error("two-workloads", "workload", message, "keep one; portfolio accepts several files")


def unknown_targets(request: PlanRequest, allowed: Sequence[TargetKind], why: str) -> Iterator[Finding]:
    """Targets of a request that are not among the allowed ones: an error if no target of the request is allowed."""
    kinds = request.target.kind or ()
    other = [kind for kind in kinds if kind not in allowed]
    if other:
        message = f"{', '.join(other)} {why}, allowed: {', '.join(allowed)}"
        yield (warning if len(other) < len(kinds) else error)("unknown-target", "target.kind", message)


def _target(request: PlanRequest, catalog: Catalog) -> Iterator[Finding]:
    """Findings for unknown targets and regions, and for an invalid number of nodes."""
    target = request.target
    if request.purchase.training_plan is None:
        yield from unknown_targets(request, training_targets(), "runs no training job")
    if target.nodes is not None and target.nodes.maximum > MAX_NODES:
        yield error("too-many-nodes", "target.nodes", f"must be at most {MAX_NODES:,}, got {target.nodes.maximum:,}")
    yield from _regions(request, catalog)


def _regions(request: PlanRequest, catalog: Catalog) -> Iterator[Finding]:
    named = [("target.region", region) for region in request.target.region or ()]
    if request.workload.train is not None and request.workload.train.data.region is not None:
        named.append(("workload.train.data.region", request.workload.train.data.region))
    for path, region in named:
        if region not in catalog.regions:
            hint = nearest_name(region, catalog.regions) or "the code of a region, such as us-east-1"
            yield error("unknown-region", path, f"no region {region} in the catalog", hint)


def type_hint(name: str, catalog: Catalog) -> str:
    """The fix for an unknown instance type: the nearest one, types of its family or chip, or the list of all."""
    own = name.removeprefix("ml.")
    if own != name and own in catalog.instance_types:
        return f"write {own}; SageMaker's name goes with target.kind sagemaker-training, hyperpod-slurm or hyperpod-eks"
    name = own
    family, dot, size = name.partition(".")
    # Another family of another size is no misspelling: p3.16xlarge is a type of EC2's, and not p5.4xlarge.
    near = [
        instance_type
        for instance_type in catalog.instance_types
        if not dot or family in instance_type or instance_type.endswith(f".{size}")
    ]
    if hint := nearest_name(name, near) if dot else "":
        return hint
    chips = {
        instance_type.name: instance_type.chip.name.lower()
        for instance_type in catalog.instance_types.values()
        if instance_type.chip is not None
    }
    if types := [type_name for type_name in chips if type_name.partition(".")[0] == family.lower()]:
        return f"types of {family}: {', '.join(types[:4])}"
    if types := [type_name for type_name, chip in chips.items() if chip.startswith(name.lower())]:
        return f"types with {name}: {', '.join(types[:4])}"
    return nearest_name(name, near) or "slipway prices show lists the types"


def _types(request: PlanRequest, catalog: Catalog) -> Iterator[Finding]:
    target = request.target
    for path, names in (("instance_type", target.instance_type or ()), ("fallback_types", target.fallback_types)):
        for name in names:
            unavailable = catalog.unavailable_type(name)
            if unavailable is not None:
                yield error(
                    "unavailable-type",
                    f"target.{path}",
                    f"{name} is not available: {unavailable.reason}",
                    unavailable.note,
                )
            elif name not in catalog.instance_types:
                hint = type_hint(name, catalog)
                yield error("unknown-instance-type", f"target.{path}", f"the catalog has no instance type {name}", hint)
            elif (chip := catalog.instance_types[name].chip) is None:
                if request.workload.train is not None and request.workload.train.by_tokens:
                    message = f"{name} has no accelerator: it only runs jobs of given hours and clusters without a job"
                    hint = "name a trn or p type, or give workload.train.hours instead of tokens"
                    yield error("no-accelerator", f"target.{path}", message, hint)
            elif request.workload.train and not chip.trains:
                message = f"no training software supports the {chip.name} of {name}"
                yield error("no-training-software", f"target.{path}", message, "name a trn or p type")


def _workload(request: PlanRequest, catalog: Catalog) -> Iterator[Finding]:
    workload = request.workload
    yield from _one_workload(request, catalog)
    if request.guardrails.ttl_h is not None and request.guardrails.ttl_h > MAX_HOURS:
        yield error(
            "too-long", "guardrails.ttl_h", f"must be at most {MAX_HOURS:,.0f}, got {request.guardrails.ttl_h:,.12g}"
        )
    if workload.serve:
        yield error("no-serving", "workload.serve", "a serving plan creates an endpoint, not a cluster")
    if workload.train:
        yield from _training(request, workload.train, catalog)


def _training(request: PlanRequest, train: TrainingWorkload, catalog: Catalog) -> Iterator[Finding]:
    """Findings on a training workload and its amount of work."""
    path = "workload.train"
    yield from amount_findings(train, _params_b(train, catalog), path)
    if (train.hours is not None or train.by_samples) and not _is_pinned(request):
        key, what = ("hours", "hours hold") if train.hours is not None else (RATE, "a measured rate of examples holds")
        yield error(
            "hours-not-pinned",
            f"{path}.{key}",
            f"{what} for one instance type only, so target.instance_type and target.nodes must be pinned",
            "name one type and one number of nodes, or give tokens_b",
        )
    if train.model is None and train.by_tokens:
        keys = [key for key in ("tokens_b", "tokens_per_example", "tokens_per_parameter") if getattr(train, key)]
        message, hint = f"{' and '.join(keys)} needs a model", "name one, or give {params_b: N}"
        yield error("no-model", f"{path}.model", message, hint)
    if isinstance(train.model, str) and catalog.find_model(train.model) is None:
        near = nearest_model(train.model, catalog.models)
        hint = f"{near} Else {OTHER_MODEL}" if near else OTHER_MODEL
        yield error("unknown-model", f"{path}.model", f"no model {train.model} in the catalog", hint)
    yield from _method(train, catalog, path)
    yield from _tensor_parallel(request, train, catalog)
    if isinstance(train.model, ModelDimensions):
        yield from check_dimensions(train.model, f"{path}.model")
    if train.throughput_tokens_per_s is not None and len(request.target.instance_type or ()) != 1:
        yield error(
            "throughput-not-pinned",
            f"{path}.throughput_tokens_per_s",
            "a measured throughput belongs to one instance type",
            "pin target.instance_type",
        )
    if train.global_batch_tokens is not None and train.global_batch_tokens < train.sequence_length:
        yield error(
            "batch-below-sequence",
            f"{path}.global_batch_tokens",
            f"a batch of {train.global_batch_tokens} tokens is less than one sequence of {train.sequence_length}",
        )
    spec = catalog.find_model(train.model) if isinstance(train.model, str) and train.by_tokens else None
    if spec is not None and spec.positions == LEARNED and 0 < spec.max_positions < train.sequence_length:
        message = (
            f"{train.sequence_length:,} tokens are more than the {spec.max_positions:,} positions of {spec.name}, which"
            " has no others"
        )
        hint = f"set sequence_length to {spec.max_positions} or less"
        yield warning("sequence-beyond-context", f"{path}.sequence_length", message, hint)


def _tensor_parallel(request: PlanRequest, train: TrainingWorkload, catalog: Catalog) -> Iterator[Finding]:
    """A matrix shared by more chips than the plan can have."""
    degree, nodes = train.tensor_parallel, request.target.nodes
    types = [
        catalog.instance_types[name] for name in request.target.instance_type or () if name in catalog.instance_types
    ]
    if degree is None or nodes is None or not types:
        return
    chips = max(facts.accelerators for facts in types) * nodes.maximum
    if degree > chips:
        message = f"{degree} chips cannot share a matrix: the plan has {chips} at most"
        yield error(
            "tensor-parallel", "workload.train.tensor_parallel", message, f"set it to {chips} or less, or to auto"
        )


def _params_b(train: TrainingWorkload, catalog: Catalog) -> float | None:
    """Billions of parameters of the model, None if the catalog does not know it."""
    if isinstance(train.model, ModelDimensions):
        return train.model.params_b
    spec = catalog.find_model(train.model) if train.model is not None else None
    return None if spec is None else spec.params_b


def _method(train: TrainingWorkload, catalog: Catalog, path: str) -> Iterator[Finding]:
    if not train.by_tokens:
        return
    if train.method in GENERATING and train.throughput_tokens_per_s is None:
        message = f"{train.method.value} spends much of its time on generation, which tokens_b does not price"
        hint = (
            f"{path}.hours with target.instance_type and target.nodes pinned, or {path}.throughput_tokens_per_s as"
            " slipway spike FILE measures it"
        )
        yield error("not-by-tokens", f"{path}.method", message, hint)
    spec = catalog.find_model(train.model) if isinstance(train.model, str) else None
    if spec is not None and spec.input != "text":
        message = f"{spec.name} reads {spec.input}: tokens do not say how long its training takes"
        hint = (
            f"{path}.hours, or examples with throughput_samples_per_s as slipway spike FILE measures it, with"
            " target.instance_type and target.nodes pinned"
        )
        yield error("not-by-tokens", f"{path}.tokens_b", message, hint)
    if train.method in PAIRED:
        message = f"tokens_b counts the chosen and the rejected answers of {train.method.value}, prompts in both"
        yield info("tokens-of-pairs", f"{path}.tokens_b", message)


def _is_pinned(request: PlanRequest) -> bool:
    """Whether the request names one type and one number of nodes; purchased capacity already has a number."""
    nodes, purchase = request.target.nodes, request.purchase
    bought = purchase.reservation is not None or purchase.training_plan is not None
    counted = bought or (nodes is not None and nodes.minimum == nodes.maximum)
    return len(request.target.instance_type or ()) == 1 and counted


def check_dimensions(model: ModelDimensions, path: str) -> Iterator[Finding]:
    """Findings for dimensions that contradict each other, when all are given."""
    if model.active_params_b is not None and model.active_params_b > model.params_b:
        yield error(
            "active-above-total",
            f"{path}.active_params_b",
            f"{model.active_params_b} is above params_b {model.params_b}",
        )
    if (model.experts is None) != (model.top_k is None):
        lacking, given = ("top_k", "experts") if model.top_k is None else ("experts", "top_k")
        message = f"a mixture needs both: got {given} {getattr(model, given)} and no {lacking}"
        yield error("half-a-mixture", f"{path}.{lacking}", message, "both are in the model's config.json")
    if model.experts is not None and model.top_k is not None and model.top_k > model.experts:
        message = f"{model.top_k} of {model.experts} experts for each token"
        yield error("top-k-above-experts", f"{path}.top_k", message, f"at most {model.experts}")
    if model.heads and model.kv_heads and (model.kv_heads > model.heads or model.heads % model.kv_heads):
        yield error("kv-heads", f"{path}.kv_heads", f"{model.kv_heads} does not divide heads {model.heads}")
    if model.attention_layers is not None and model.attention_layers > (model.layers or 0):
        message = f"{model.attention_layers} of {model.layers or 'unknown'} layers"
        yield error("attention-layers", f"{path}.attention_layers", message, "give layers, and at most as many")
    # Layers without full attention have other widths, so only a plain transformer has bounds.
    plain = model.attention_layers is None
    if plain and model.layers and model.hidden and model.vocab and model.heads and model.kv_heads:
        low, high = dense_parameters_b(model.layers, model.hidden, model.heads, model.kv_heads, model.vocab)
        if model.active_b < model.params_b:
            # The width of experts is not among the dimensions, so a mixture has no bounds of its own.
            low, high = 0.0, math.inf
        if not low * (1 - COUNT_TOLERANCE) <= model.params_b <= high * (1 + COUNT_TOLERANCE):
            yield error(
                "dimensions-contradict",
                f"{path}.params_b",
                f"{model.params_b:g} billion, but the dimensions give {low:.3g} to {high:.3g} billion",
                "correct one of them, or give only params_b",
            )


def dense_parameters_b(layers: int, hidden: int, heads: int, kv_heads: int, vocab: int) -> tuple[float, float]:
    """Billions of parameters of a dense transformer of these dimensions, least and most.

    The width of the MLP is not among the dimensions, so Slipway bounds it: two matrices of 4 x hidden with tied
    embeddings at least, three of 5.4 x hidden (the widest gated MLP of the catalog's dense models) with untied at most.

    >>> tuple(round(value, 2) for value in dense_parameters_b(32, 4096, 32, 8, 128256))
    (4.75, 11.09)
    """
    attention = 2 * hidden * hidden * (1 + kv_heads / heads)
    least = layers * (attention + 2 * 4 * hidden * hidden * 0.67) + vocab * hidden
    most = layers * (attention + 3 * 5.4 * hidden * hidden) + 2 * vocab * hidden
    return least / 1e9, most / 1e9


def _places(request: PlanRequest, catalog: Catalog) -> Iterator[Finding]:
    target = request.target
    types = [name for name in target.instance_type or () if name in catalog.instance_types]
    regions = [region for region in target.region or () if region in catalog.regions]
    bought = request.purchase.reservation is not None or request.purchase.training_plan is not None
    for name in types:
        if regions and not bought and not any(catalog.offers(name, region) for region in regions):
            places = ", ".join(sorted(catalog.regions_of(name))) or "no known region"
            message = f"{name} is not offered in {', '.join(regions)}"
            yield _error_unless_several(types)("not-offered", "target.region", message, f"it is offered in {places}")
    if target.az_id is not None:
        yield from _zone(request, target.az_id, catalog)
        for name in (*types, *(name for name in target.fallback_types if name in catalog.instance_types)):
            yield from _zone_of_type(name, target.az_id, catalog)


def _zone(request: PlanRequest, az_id: str, catalog: Catalog) -> Iterator[Finding]:
    region = catalog.region_of_az(az_id)
    if region is None:
        yield error(
            "unknown-zone",
            "target.az_id",
            f"the catalog has no zone ID {az_id}",
            "give a zone ID such as use2-az1, not a zone name",
        )
    elif request.target.region and region not in request.target.region:
        regions = ", ".join(request.target.region)
        yield error("zone-outside-region", "target.az_id", f"{az_id} lies in {region}, target.region is {regions}")


def _zone_of_type(name: str, az_id: str, catalog: Catalog) -> Iterator[Finding]:
    zones = other_zones(name, az_id, catalog)
    if zones:
        hint = f"target.az_id: {zones[0]}; slipway doctor FILE asks AWS for the zones of this account"
        yield warning(NOT_OFFERED, "target.az_id", zone_text(name, az_id, zones), hint)


def other_zones(name: str, az_id: str, catalog: Catalog) -> tuple[str, ...]:
    """The zones of a region with a type if the catalog does not know the type in this one of its zones; else empty.

    The catalog has the zones of one day, and AWS adds some: a reason for a warning only.
    """
    region = catalog.region_of_az(az_id)
    zones = tuple(zone for zone in catalog.instance_types[name].az_ids if catalog.region_of_az(zone) == region)
    return () if region is None or az_id in zones else zones


def zone_text(name: str, az_id: str, zones: Sequence[str]) -> str:
    """The zones that the catalog knows for a type, and the one that it does not."""
    return f"the catalog knows {name} in {', '.join(zones)}, not in {az_id}"


def _purchase(request: PlanRequest, catalog: Catalog) -> Iterator[Finding]:
    """Findings for purchase options that contradict each other or the rest of the request."""
    purchase = request.purchase
    options = purchase.option or ()
    yield from _reservation(request)
    if options == (PurchaseOption.SPOT,) and request.checkpoint.mode is CheckpointMode.NONE:
        yield spot_without_checkpoints()
    if options == (PurchaseOption.BEDROCK,) and request.workload.serve is None:
        allowed = ", ".join(option for option in PurchaseOption if option is not PurchaseOption.BEDROCK)
        message = f"Bedrock serves models and does not train them, allowed: {allowed}"
        yield error("bedrock-serves", "purchase.option", message, "workload.serve, or another purchase option")
    yield from _unsold_findings(request, catalog)
    yield from _windows(purchase)
    if purchase.term_years == 2:  # noqa: PLR2004 - between the two terms AWS sells
        yield error("term", "purchase.term_years", "AWS sells no term of 2 years, allowed: 1, 3")
    for path, reserved in (("reservation", purchase.reservation), ("training_plan", purchase.training_plan)):
        if reserved is not None and reserved.fee_usd is not None and reserved.fee_usd > MAX_FEE_USD:
            message = f"must be at most {MAX_FEE_USD:,} dollars, got {reserved.fee_usd}"
            yield error("too-dear", f"purchase.{path}.fee_usd", message)
    yield from own_price_findings(request, catalog)


def _unsold_findings(request: PlanRequest, catalog: Catalog) -> Iterator[Finding]:
    options = request.purchase.option or ()
    types = [name for name in request.target.instance_type or () if name in catalog.instance_types]
    say = _error_unless_several([(name, option) for name in types for option in options])
    for name in types:
        facts = catalog.instance_types[name]
        if PurchaseOption.SPOT in options and "spot" not in facts.usage_classes:
            yield say("no-spot", "purchase.option", f"{name} is not sold on spot")
        blocks = PurchaseOption.CAPACITY_BLOCK in options and request.purchase.reservation is None
        if blocks and "capacity-block" not in facts.usage_classes:
            yield say("no-capacity-block", "purchase.option", f"{name} is not sold in Capacity Blocks")


def _error_unless_several(choices: Sequence[object]) -> Callable[..., Finding]:
    return error if len(choices) == 1 else warning


def spot_without_checkpoints() -> Finding:
    """The refusal of spot for a job that never saves a checkpoint."""
    return error(
        SPOT_WITHOUT_CHECKPOINTS,
        "checkpoint.mode",
        "spot with checkpoint.mode none: 1 interruption loses all progress",
        "set checkpoint.mode to agent or own, or purchase.option to on-demand",
    )


def _reservation(request: PlanRequest) -> Iterator[Finding]:
    purchase = request.purchase
    if purchase.reservation is None:
        return
    if PurchaseOption.SPOT in (purchase.option or ()):
        yield error(
            "spot-with-reservation",
            "purchase.reservation",
            "spot instances cannot use a reservation",
            "set purchase.option to capacity-block, or remove the reservation",
        )
    if request.target.placement_group:
        yield error(
            "placement-with-reservation",
            "target.placement_group",
            "AWS refuses a launch with a placement group and a reservation",
            "set target.placement_group to auto",
        )
    nodes, count = request.target.nodes, purchase.reservation.count
    if nodes is not None and count is not None and nodes.minimum > count:
        yield error(
            "reservation-count", "target.nodes", f"{number_of(nodes.minimum, 'node')}, but the reservation has {count}"
        )
    if purchase.training_plan is not None:
        yield error("two-reservations", "purchase", "reservation and training_plan are both given", "keep one")


def _windows(purchase: PurchaseRequest) -> Iterator[Finding]:
    """Findings for purchased capacity that ends before it starts."""
    for path, bought in (("reservation", purchase.reservation), ("training_plan", purchase.training_plan)):
        if bought is None or bought.starts_at is None or bought.ends_at is None or bought.starts_at < bought.ends_at:
            continue
        message = f"must be after starts_at ({bought.starts_at.isoformat()}), got {bought.ends_at.isoformat()}"
        yield error("window-backwards", f"purchase.{path}.ends_at", message, "exchange the two, as AWS shows them")


def _network(request: PlanRequest, _catalog: Catalog) -> Iterator[Finding]:
    """Findings for an incomplete existing network."""
    network = request.network
    if network.vpc_id and not network.subnet_ids:
        yield error(
            "vpc-without-subnets",
            "network.subnet_ids",
            "network.vpc_id is given without a subnet",
            "name a private subnet",
        )
    if network.subnet_ids and not network.vpc_id:
        yield error(
            "subnets-without-vpc", "network.vpc_id", "network.subnet_ids is given without a VPC", "name the VPC"
        )
    yield from group_findings(request)


def _storage(request: PlanRequest, catalog: Catalog) -> Iterator[Finding]:
    """Findings for file system sizes that FSx does not sell, and for an unknown head node type."""
    storage = request.storage
    if storage.lustre_mb_s_per_tib not in LUSTRE_THROUGHPUT:
        allowed = ", ".join(str(throughput) for throughput in LUSTRE_THROUGHPUT)
        yield error(
            "lustre-throughput",
            "storage.lustre_mb_s_per_tib",
            f"must be one of {allowed}, got {storage.lustre_mb_s_per_tib}",
        )
    size = storage.lustre_gib
    if size and size != LUSTRE_STEP_GIB // 2 and size % LUSTRE_STEP_GIB:
        up = -(-size // LUSTRE_STEP_GIB) * LUSTRE_STEP_GIB
        yield error(
            "lustre-size", "storage.lustre_gib", f"must be 1200 or a multiple of 2400, got {size}", f"{up} is the next"
        )
    if storage.head_node and storage.head_node not in catalog.instance_types:
        message = f"the catalog has no instance type {storage.head_node}"
        yield error("unknown-instance-type", "storage.head_node", message, type_hint(storage.head_node, catalog))


def _run(request: PlanRequest, _catalog: Catalog) -> Iterator[Finding]:
    """Findings on the command; a list of one word with blanks would be run as one program name."""
    command = request.run.command
    if len(command) == 1 and len(command[0].split()) > 1:
        message = f"must be a program and its arguments, each a word of the list, got the one word {command[0]!r}"
        hint = (
            f"write [{arguments}]"
            if (arguments := yaml_tokens(command[0]))
            else "write each word of it as one of the list"
        )
        yield error("command-in-one-word", "run.command", message, f"{hint}, or no list: bash runs a string")
    yield from _outputs(request)
    yield from unexpanded_findings(request)
    direct = request.checkpoint.mode in (CheckpointMode.DCP, CheckpointMode.OWN)
    known = [name for name in VARIABLES if direct or name != "SLIPWAY_CHECKPOINT_URI"]
    known += [f"SLIPWAY_VOLUME_{number}" for number, _ in enumerate(request.run.volumes)]
    steps = (*request.run.before, *request.run.after)
    used = frozenset().union(*(names_in(words_list) for words_list in (command, *(step.command for step in steps))))
    for name in sorted(used.difference(known)):
        message = f"this job has no variable {name}, got ${{{name}}} in a list; allowed: {', '.join(known)}"
        yield error(
            "unknown-variable", "run.command", message, "bash fills in all variables if the command is a string"
        )


def _outputs(request: PlanRequest) -> Iterator[Finding]:
    if request.run.results:
        yield from _names_of_outputs(request)
    if request.run.outputs_gib is not None and not request.run.outputs:
        yield error("no-outputs", "run.outputs_gib", "run.outputs_gib is given without run.outputs", "name them")


def _names_of_outputs(request: PlanRequest) -> Iterator[Finding]:
    from launcher.agent.output_manifest import stored_name  # noqa: PLC0415 - with manifests, for jobs with outputs alone

    names: dict[str, str] = {}
    for index, output in enumerate(request.run.results):
        at, path, name = f"run.outputs[{index}]", output.path, stored_name(output.path)
        if not name:
            message = f"must be a path below the job's folder, or an absolute one, got {path!r}"
            yield error("not-an-output", at, message, "results/model, /fsx/results or ${SLIPWAY_CHECKPOINT_DIR}/final")
        elif name in names:
            message = f"{path} and {names[name]} would both be stored as {name}"
            yield error("two-outputs-of-a-name", at, message, "rename one of them")
        names.setdefault(name, path)


def _layout(policy: CheckpointPolicy) -> Iterator[Finding]:
    hint = r"for example llama_v3-(\d+)steps"
    if policy.pattern is not None:
        try:
            groups = re.compile(policy.pattern).groups
        except re.error as problem:
            yield error(
                "checkpoint-pattern",
                "checkpoint.pattern",
                f"{policy.pattern!r} is not a regular expression: {problem}",
                hint,
            )
        else:
            if groups > 1 or (not groups and policy.tracker is not None):
                fixed = "" if policy.tracker is not None else ", or none for fixed names"
                text = f"{policy.pattern!r} has {groups} groups; it must have one, the step{fixed}"
                yield error("checkpoint-pattern", "checkpoint.pattern", text, hint)
        if policy.layout is not CheckpointLayout.AUTO:
            text = f"checkpoint.layout {policy.layout} and checkpoint.pattern are both given"
            yield error("checkpoint-layout-twice", "checkpoint.layout", text, "keep one")
    if policy.tracker is not None:
        if policy.pattern is None:
            hint = "give the pattern, or a layout, whose tracker is known"
            yield error("checkpoint-tracker", "checkpoint.tracker", "checkpoint.tracker needs checkpoint.pattern", hint)
        if not {"{step}", "{name}"} & {*re.findall(r"\{\w+\}", policy.tracker.text)}:
            text = f"{policy.tracker.text!r} names no checkpoint"
            yield error("checkpoint-tracker", "checkpoint.tracker.text", text, "use {step} or {name} in it")


def _checkpoint(request: PlanRequest, _catalog: Catalog) -> Iterator[Finding]:
    if request.workload.train and request.checkpoint.mode is CheckpointMode.NONE:
        yield info("no-checkpoints", "checkpoint.mode", "none: the failure of 1 node loses all progress")
    yield from _layout(request.checkpoint)
    yield from file_findings(request)
