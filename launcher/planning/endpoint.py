"""From a serving plan whose layout is decided to its endpoint: containers, copies, capacity. Pure."""

import re
from collections.abc import Mapping

from launcher.catalog.load import Catalog
from launcher.model.endpoint import (
    Endpoint,
    EndpointMode,
    ScheduledRange,
    endpoint_mode,
    endpoint_volume_gib,
    least_instances,
    rollout_of,
)
from launcher.model.enums import ServingPrecision, ServingTask
from launcher.model.instance_type import Accelerator
from launcher.model.plan import Plan
from launcher.model.serving_image import ServingImage, ServingImages
from launcher.model.target import target_of
from launcher.model.workload import ServingWorkload
from launcher.planning.serving.layout import WEIGHT_BYTES
from launcher.planning.serving.measured import parts
from launcher.planning.serving.resolve import model_of

MOST_VOLUME_GIB = 512
"""SageMaker's limit on an instance's volume (API reference, ProductionVariant)."""
MODEL_FOLDER = "/opt/ml/model"
"""Where SageMaker puts the model (developer guide, hosting code)."""
HOST_SHARE = 0.75
"""Of the host's memory that copies reserve; the rest is the system's. Assumed: SageMaker publishes no figure."""
MIB_PER_GIB = 1024
OPEN_LICENSES = ("apache-2.0", "mit")
"""Of models that the hub gives to anybody; the others ask for a token, which no endpoint can keep secret."""
SCHEDULE = re.compile(
    r"(?P<when>(?:cron|rate|at)\([^()]+\)) (?P<least>\d{1,4})-(?P<most>\d{1,4})(?: (?P<timezone>[A-Za-z0-9_+/-]+))?"
)
SCHEDULE_FORM = "cron(0 7 ? * MON-FRI *) 2-6 Europe/Berlin"
"""Times as Application Auto Scaling takes them, a range of instances, and a time zone or nothing for UTC."""


def serving_of(plan: Plan) -> ServingWorkload:
    """The workload of a serving plan.

    Raises:
        ValueError: it serves nothing.
    """
    serve = plan.request.workload.serve
    if serve is None:
        message = f"{plan.name} has no workload.serve"
        raise ValueError(message)
    return serve


def chip_of(plan: Plan, catalog: Catalog) -> Accelerator:
    """The accelerator of a plan's type."""
    return catalog.accelerators[catalog.instance_types[plan.place.instance_type].accelerator or ""]


def engine_image(plan: Plan, catalog: Catalog, images: ServingImages) -> ServingImage | None:
    """The pinned image of a plan's chip and task, whatever image the plan names."""
    return images.engine(plan.place.target, chip_of(plan, catalog).name, serving_of(plan).task)


def image_uri(plan: Plan, catalog: Catalog, images: ServingImages) -> str | None:
    """The image that is pulled: the plan's own, or the pinned one; None where there is none in the region."""
    named = serving_of(plan).image
    if named is not None:
        return named
    pinned = engine_image(plan, catalog, images)
    return images.uri(pinned, plan.place.region) if pinned is not None else None


def copies_of(plan: Plan, catalog: Catalog) -> int:
    """Copies of the model on an instance; 0 where one does not fit."""
    facts = catalog.instance_types[plan.place.instance_type]
    return parts(facts, chip_of(plan, catalog)) // (serving_of(plan).tensor_parallel or 1)


def chips_of(plan: Plan, catalog: Catalog) -> int:
    """Chips of a copy: two NeuronCores are one, and less than a chip cannot be given to a container.

    NumberOfAcceleratorDevicesRequired counts devices, and a Neuron device is a chip; not seen on AWS.
    """
    degree = serving_of(plan).tensor_parallel or 1
    return -(-degree // chip_of(plan, catalog).cores)


def mode_of(plan: Plan, catalog: Catalog) -> EndpointMode:
    """How the endpoint of a plan works."""
    neuron = chip_of(plan, catalog).family == "neuron"
    return endpoint_mode(serving_of(plan), neuron=neuron, copies=copies_of(plan, catalog))


def hub_id(plan: Plan, catalog: Catalog) -> str | None:
    """The name of a plan's model on the Hugging Face hub; None where it needs a token or is not known."""
    model = serving_of(plan).model
    spec = catalog.find_model(model) if isinstance(model, str) else None
    if spec is None or spec.license not in OPEN_LICENSES:
        return None
    return next((each for each in spec.aliases if "/" in each), None)


def model_uri(serve: ServingWorkload) -> str | None:
    """The folder in S3 that a container is given: the compiled model, which holds its weights, or the weights."""
    return serve.artifacts_uri or serve.model_uri


def environment(plan: Plan, catalog: Catalog, *, model: str, replicas: int) -> Mapping[str, str]:
    """The variables that the pinned images turn into options of their server.

    Sources: optimum-neuron docker/vllm/Dockerfile (SM_ON_X=v becomes --x v, an empty value a flag) and the Deep
    Learning Containers' vLLM configuration (SM_VLLM_X=v).

    Args:
        plan: a plan whose layout is decided.
        catalog: what exists.
        model: folder or name on the hub.
        replicas: copies in one container; the Neuron image takes one.
    """
    neuron = chip_of(plan, catalog).family == "neuron"
    return _neuron(plan, model) if neuron else _gpu(plan, model, replicas)


def _neuron(plan: Plan, model: str) -> dict[str, str]:
    serve = serving_of(plan)
    found = {
        "SM_ON_MODEL": model,
        "SM_ON_SERVED_MODEL_NAME": plan.name,
        "SM_ON_TENSOR_PARALLEL_SIZE": str(serve.tensor_parallel),
        "SM_ON_BATCH_SIZE": str(serve.batch_size),
        "SM_ON_SEQUENCE_LENGTH": str(serve.sequence_length),
    }
    if serve.task is ServingTask.EMBEDDING:
        found["SM_ON_TASK"] = "embed"
    if serve.artifacts_uri is None:
        found["SM_ON_ALLOW_NON_CACHED_MODEL"] = ""
    return found


def _gpu(plan: Plan, model: str, replicas: int) -> dict[str, str]:
    serve = serving_of(plan)
    found = {
        "SM_VLLM_MODEL": model,
        "SM_VLLM_SERVED_MODEL_NAME": plan.name,
        "SM_VLLM_TENSOR_PARALLEL_SIZE": str(serve.tensor_parallel),
        "SM_VLLM_MAX_NUM_SEQS": str(serve.batch_size),
        "SM_VLLM_MAX_MODEL_LEN": str(serve.sequence_length),
    }
    if replicas > 1:
        found["SM_VLLM_DATA_PARALLEL_SIZE"] = str(replicas)
    if serve.task is ServingTask.EMBEDDING:
        found["SM_VLLM_RUNNER"] = "pooling"
    if serve.precision is ServingPrecision.FP8:
        found["SM_VLLM_QUANTIZATION"] = "fp8"
    if model.startswith("/"):
        found["HF_HUB_OFFLINE"] = "1"
    return found


def scheduled(line: str) -> ScheduledRange | None:
    """One line of `schedule`; None where it is not of the form.

    >>> scheduled("cron(0 19 * * ? *) 0-2").most, scheduled("at night: 2")
    (2, None)
    """
    found = SCHEDULE.fullmatch(line.strip())
    if found is None:
        return None
    return ScheduledRange(
        when=found["when"], least=int(found["least"]), most=int(found["most"]), timezone=found["timezone"]
    )


def volume_gib(plan: Plan, catalog: Catalog) -> int | None:
    """GiB of an instance's volume; None where the type has disks of its own."""
    serve = serving_of(plan)
    model = model_of(serve, catalog)
    weights_gb = model.params_b * WEIGHT_BYTES[serve.precision] if model is not None else 0.0
    return endpoint_volume_gib(catalog.instance_types[plan.place.instance_type], weights_gb)


def endpoint(plan: Plan, catalog: Catalog, images: ServingImages) -> Endpoint:
    """The endpoint of a plan that `launcher.planning.endpoint_checks.endpoint_findings` has nothing against.

    Raises:
        ValueError: no image, or no model to load.
    """
    serve, target = serving_of(plan), target_of(plan.place.target)
    image = image_uri(plan, catalog, images)
    source = model_uri(serve)
    model = MODEL_FOLDER if source is not None else hub_id(plan, catalog)
    if image is None or model is None or not target.managed:
        message = f"{plan.name} makes no endpoint"
        raise ValueError(message)
    pinned = engine_image(plan, catalog, images)
    mode, copies = mode_of(plan, catalog), copies_of(plan, catalog)
    facts = catalog.instance_types[plan.place.instance_type]
    compiles = chip_of(plan, catalog).family == "neuron" and serve.artifacts_uri is None
    ranges = (scheduled(each) for each in serve.schedule)
    return Endpoint(
        name=f"slipway-{plan.cluster_name}",
        mode=mode,
        instance_type=target.billed_name(plan.place.instance_type),
        image=image,
        ami=pinned.ami if pinned is not None else None,
        model_uri=source,
        environment=environment(plan, catalog, model=model, replicas=1 if mode is EndpointMode.COMPONENTS else copies),
        # A container that compiles looks its shape up in the hub's cache first.
        isolated=source is not None and not compiles,
        copies=copies,
        chips=chips_of(plan, catalog),
        memory_mb=int(facts.memory_gib * MIB_PER_GIB * HOST_SHARE / copies),
        concurrency=serve.batch_size or 1,
        least=least_instances(serve),
        most=max(serve.max_instances or plan.place.nodes, 1),
        volume_gib=volume_gib(plan, catalog),
        rollout=rollout_of(serve, mode),
        schedule=tuple(each for each in ranges if each is not None),
    )
