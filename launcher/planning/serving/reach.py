"""The limits of the serving estimate: it refuses inputs outside its measurements, with the reason."""

from launcher.model.enums import ServingPrecision
from launcher.model.instance_type import Accelerator
from launcher.model.serving import ServedModel

DECODER = "decoder"
ENCODER = "encoder"


def beyond(model: ServedModel, accelerator: Accelerator, *, embedding: bool = False) -> str | None:
    """Why no estimate is possible for a model on a chip, or None."""
    return _beyond_chip(accelerator) or _beyond_model(model, accelerator, embedding=embedding)


def _beyond_chip(accelerator: Accelerator) -> str | None:
    name = accelerator.name
    if accelerator.serves:
        return None
    if accelerator.family == "neuron":
        return f"no serving estimate on {name}: its few published rows disagree with the estimate that fits Inferentia2"
    return f"no published serving row on {name} or on a chip of its generation was found"


def _beyond_model(model: ServedModel, accelerator: Accelerator, *, embedding: bool) -> str | None:
    if accelerator.family == "neuron" and model.mixture:
        return f"{model.name} is a mixture of experts: the estimate on Neuron covers dense models only"
    if accelerator.family == "neuron" and model.latent:
        return f"{model.name} has latent attention, which no measured row on Neuron has"
    if model.architecture == ENCODER and not embedding:
        return f"{model.name} is an encoder and generates no text: task embedding"
    return None


def unserved_architecture(name: str, architecture: str) -> str | None:
    """Why a model of an architecture cannot be served on any chip, or None."""
    if architecture in (DECODER, ENCODER):
        return None
    return f"{name} is an {architecture}: the estimate is for decoders and encoders"


def unserved_precision(precision: ServingPrecision, accelerator: Accelerator) -> str | None:
    """Why a format of the weights cannot be served on a chip, or None."""
    on_gpus = (ServingPrecision.FP8, ServingPrecision.INT4, ServingPrecision.MXFP4)
    if precision in on_gpus and accelerator.family == "neuron":
        return f"{precision} weights are not served on {accelerator.name}: bf16 or int8"
    return None
