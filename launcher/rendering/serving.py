"""A serving plan as files: the decided endpoint, the job that compiles its model, or the pods of an EKS cluster."""

import json
from dataclasses import asdict

from launcher.model.bundle import Bundle, RenderedFile
from launcher.model.enums import Level, ServingTask
from launcher.model.errors import ImpossibleError
from launcher.model.serving import ServingFacts
from launcher.planning.endpoint import ServingDeployment, ServingPlan
from launcher.planning.endpoint_checks import deployment_findings
from launcher.rendering.engine import rendered
from launcher.rendering.serving_kubernetes import kubernetes_files

ENDPOINT_FILE = "endpoint.json"
COMPILE_FILE = "compile.sh"
TASKS = {ServingTask.CHAT: "text-generation", ServingTask.EMBEDDING: "feature-extraction"}
WORK_GIB = 40
"""Beside the weights: the image and the compiler's own files. Assumed."""
TIMES_STORED = 3
"""Weights on the disk while they are compiled: as fetched, as sharded, and what the compiler holds. Assumed."""


def render_serving(served: ServingDeployment, facts: ServingFacts) -> Bundle:
    """The files of a serving plan whose layout is decided; nothing is executed.

    Args:
        served: a plan for a SageMaker endpoint or for EKS.
        facts: what the time of an answer is estimated by.

    Raises:
        ImpossibleError: it cannot be deployed, with all reasons.
    """
    found = deployment_findings(served, facts)
    errors = [each for each in found if each.level is Level.ERROR]
    if errors:
        raise ImpossibleError(f"{served.plan.name} cannot be rendered", findings=errors)
    files = []
    if served.managed:
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
    """The job that compiles a plan's model for its shape; None where the chip needs none, or the model has no source.

    It stores the model where the plan looks for it, or beside the weights under a name that tells the shape.
    """
    plan, serve, image = served.plan, served.serve, served.image
    source = serve.model_uri or served.hub_id
    destination = serve.artifacts_uri or (f"{serve.model_uri.rstrip('/')}-{shape(served)}" if serve.model_uri else None)
    target = served.chip.compiler_target
    if not target or image is None or source is None or destination is None:
        return None
    return rendered(
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
        disk_gib=round(WORK_GIB + TIMES_STORED * served.weights_gb * 1e9 / 2.0**30),
    )


def shape(served: ServingPlan) -> str:
    """A name for what is compiled: chip, tensor parallelism, batch and length, such as inf2-tp8-b32-s2048."""
    serve, target = served.serve, served.chip.compiler_target or "gpu"
    return f"{target}-tp{serve.tensor_parallel}-b{serve.batch_size}-s{serve.sequence_length}"
