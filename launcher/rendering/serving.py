"""A serving plan as files: the decided endpoint, the job that compiles its model, or the pods of an EKS cluster."""

import json
from collections.abc import Mapping
from dataclasses import asdict

from launcher.model.bundle import Bundle, RenderedFile
from launcher.model.enums import Level, ServingTask
from launcher.model.errors import ImpossibleError
from launcher.model.serving import ServingFacts
from launcher.planning.endpoint import HOST_SHARE, MODEL_FOLDER, ServingDeployment, ServingPlan
from launcher.planning.endpoint_checks import deployment_findings
from launcher.planning.serving.footprint import compiler_gib
from launcher.rendering.device_plugins import NEURON_FILE, neuron_manifest, neuron_types
from launcher.rendering.engine import render_template
from launcher.rendering.kubernetes_pod import NEURON

SERVICE_FILE = "kubernetes/service.yaml"
PORT = 8080
"""The only port that the Neuron image supports (docker/vllm/Dockerfile); Slipway sets it for the GPU image."""
START_UP_S, PROBE_EVERY_S = 3600, 10
DRAIN_S, GRACE_S = 90, 120
"""Seconds for a pod to finish its responses, and its total before it is killed: spot's two-minute notice."""
SHARED_MEMORY_GIB = 8
"""For NCCL and vLLM; Docker's 64 MiB are too few (vLLM documentation, deployment on Kubernetes)."""
PREFIX = "SM_VLLM_"
NEIGHBOURS = "my-scheduler"
"""The second scheduler that Neuron's Helm chart installs for its extension (Neuron documentation, multiple schedulers;
aws-neuron/neuron-helm-charts). Chips of a pod must be neighbours, or the runtime fails (aws/containers-roadmap#1735).
Kubernetes' own scheduler does not know of this, and EKS's cannot be extended."""
ENDPOINT_FILE = "endpoint.json"
COMPILE_FILE = "compile.sh"
TASKS = {ServingTask.CHAT: "text-generation", ServingTask.EMBEDDING: "feature-extraction"}
WORK_GIB = 40
"""GiB in addition to the weights: the image and the compiler's own files. Assumed."""
TIMES_STORED = 3
"""Copies of the weights on disk during compilation: downloaded, sharded, and the compiler's data. Assumed."""


def kubernetes_files(served: ServingDeployment) -> dict[str, str]:
    """The manifests of a plan for EKS by their path; they pass the strict schemas of Kubernetes.

    Raises:
        ValueError: no image, or no model to load.
    """
    plan, serve, facts, image = served.plan, served.serve, served.facts, served.image
    model = served.model_source
    if image is None or model is None:
        message = f"{plan.name} makes no service"
        raise ValueError(message)
    chips, copies = served.chips, served.copies
    variables = served.environment(model, replicas=1)
    plugin = served.images.device_plugin(served.chip.name)
    bucket, _, prefix = (served.model_uri or "").removeprefix("s3://").partition("/")
    replicas = plan.place.nodes * copies
    resource = NEURON if served.neuron else "nvidia.com/gpu"
    device_plugin = None if plugin is None else served.images.uri(plugin, plan.place.region)
    service = render_template(
        "kubernetes/service.yaml.j2",
        plan=plan,
        served=served,
        name=f"slipway-{plan.name}",
        caller_label=f"slipway/calls-{plan.name}",
        zone_skew=_zone_skew(plan.place.nodes, serve.zones, copies),
        replicas=replicas,
        image=image,
        registry=image.partition("/")[0],
        environment={name: value for name, value in variables.items() if not name.startswith(PREFIX)},
        arguments=_arguments(variables),
        port=PORT,
        resource=resource,
        cpus=max(1, int(facts.vcpus * HOST_SHARE / copies)),
        memory_gib=max(1, int(facts.memory_gib * HOST_SHARE / copies)),
        shared_memory_gib=min(SHARED_MEMORY_GIB, max(1, int(facts.memory_gib / copies / 4))),
        device_plugin=device_plugin,
        scheduler=NEIGHBOURS if served.neuron and 1 < chips < facts.accelerators else None,
        bucket=bucket or None,
        mount_options=_mount_options(plan.place.region, prefix.strip("/")),
        model_gib=max(1, round(2 * served.weights_gb * 1e9 / 2.0**30)),
        model_folder=MODEL_FOLDER,
        start_up_s=START_UP_S,
        start_up_probes=START_UP_S // PROBE_EVERY_S,
        probe_every_s=PROBE_EVERY_S,
        drain_s=DRAIN_S,
        grace_s=GRACE_S,
        surge=0 if replicas > 1 else 1,
        unavailable=max(1, replicas // 4) if replicas > 1 else 0,
    )
    if device_plugin is None:
        return {SERVICE_FILE: service}
    types = neuron_types(served.catalog.instance_types)
    return {SERVICE_FILE: service, NEURON_FILE: neuron_manifest(device_plugin, types)}


def _zone_skew(nodes: int, zones: int, copies: int) -> int:
    """The allowed difference in pods between zones: one node's pods if the zones cannot have equally many nodes.

    A smaller skew would leave pods pending indefinitely.

    >>> _zone_skew(nodes=3, zones=2, copies=3), _zone_skew(nodes=4, zones=2, copies=3)
    (3, 1)
    """
    return copies if nodes % zones else 1


def _mount_options(region: str, prefix: str) -> tuple[str, ...]:
    """The mount options for Mountpoint for Amazon S3: one folder, read-only."""
    options = ("read-only", "allow-other", f"region {region}")
    return (*options, f"prefix {prefix}/") if prefix else options


def _arguments(variables: Mapping[str, str]) -> tuple[str, ...]:
    """The options of `vllm serve`, which the image for EC2 does not derive from its variables; empty on Neuron."""
    arguments: list[str] = []
    for name, value in variables.items():
        if name == f"{PREFIX}MODEL":
            arguments.insert(0, value)
        elif name.startswith(PREFIX):
            arguments += [f"--{name.removeprefix(PREFIX).lower().replace('_', '-')}", value]
    return (*arguments, "--port", str(PORT)) if arguments else ()


def render_serving(served: ServingDeployment, facts: ServingFacts) -> Bundle:
    """The files of a serving plan with a decided layout; nothing is executed.

    Raises:
        ImpossibleError: Slipway cannot deploy the plan, with all reasons.
    """
    problems = deployment_findings(served, facts)
    errors = [finding for finding in problems if finding.level is Level.ERROR]
    if errors:
        raise ImpossibleError(f"{served.plan.name} cannot be rendered", findings=errors)
    files = []
    if served.is_managed:
        # The endpoint that the stack makes, to read.
        text = json.dumps(asdict(served.endpoint), indent=2) + "\n"
        files.append(RenderedFile(path=ENDPOINT_FILE, text=text))
    else:
        files += [RenderedFile(path=path, text=text) for path, text in kubernetes_files(served).items()]
    script = compile_script(served)
    if script is not None:
        files.append(RenderedFile(path=COMPILE_FILE, text=script, executable=True))
    return Bundle(digest=served.plan.digest, files=tuple(files))


def compile_script(served: ServingDeployment) -> str | None:
    """The script that compiles a plan's model for its shape; None if the chip needs none, or the model has no source.

    The script stores the model where the plan expects it, or next to the weights under a name that contains the shape.
    """
    plan, serve, image = served.plan, served.serve, served.image
    source = serve.model_uri or served.hub_id
    destination = serve.artifacts_uri or (f"{serve.model_uri.rstrip('/')}-{shape(served)}" if serve.model_uri else None)
    target = served.chip.compiler_target
    if not target or image is None or source is None or destination is None:
        return None
    return render_template(
        "serving/compile.sh.j2",
        plan=plan,
        name=f"compile-{plan.name}",
        model=serve.model if isinstance(serve.model, str) else plan.name,
        source=source.rstrip("/"),
        from_hub=serve.model_uri is None,
        destination=destination.rstrip("/"),
        image=image,
        registry=image.partition("/")[0],
        task=TASKS[serve.task],
        target=target,
        tensor_parallel=serve.tensor_parallel or 1,
        batch_size=serve.batch_size or 1,
        sequence_length=serve.sequence_length or 1,
        memory_gib=round(compiler_gib(served.weights_gb)),
        disk_gib=round(WORK_GIB + TIMES_STORED * served.weights_gb * 1e9 / 2.0**30),
    )


def shape(served: ServingPlan) -> str:
    """A name for a compiled model: chip, tensor parallelism, batch and length, such as inf2-tp8-b32-s2048."""
    serve, target = served.serve, served.chip.compiler_target or "gpu"
    return f"{target}-tp{serve.tensor_parallel}-b{serve.batch_size}-s{serve.sequence_length}"
