"""The Python side of Neuron: TorchNeuron for trn2, PyTorch/XLA for trn1, each pinned to one release of the SDK."""

from dataclasses import dataclass

from launcher.model.enums import OperatingSystem
from launcher.model.instance_type import InstanceType
from launcher.rendering.contexts import NeuronContext
from launcher.rendering.engine import rendered
from launcher.rendering.node import PYTHONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A way to train on Neuron: its template, the release of the SDK, and the packages of its environment."""

    template: str
    release: str
    packages: tuple[str, ...]


TORCH_NEURON = Stack(
    template="neuron/torchneuron.sh.j2",
    release="2.33",
    packages=("torch-neuronx==2.14.3.0.*", "neuronx-cc==2.28.7631.*", "nki==0.7.*"),
)
"""PyTorch's native backend, a public beta. Source: Neuron documentation v2.33.0, release-notes/releasecontent and
components/torchneuron (2026-10-19)."""
XLA = Stack(
    template="neuron/xla.sh.j2",
    release="2.28",
    packages=(
        "torch-neuronx==2.9.0.2.12.22436",
        "neuronx-cc==2.23.6484.0",
        "libneuronxla==2.2.15515.0",
        "neuronx_distributed==0.17.26814",
    ),
)
"""PyTorch 2.9 on XLA, the last that AWS supports for training. Source: Neuron documentation v2.28.1,
release-notes/releasecontent (2026-02-26)."""
_STACK_OF_FAMILY = {"trn1": XLA, "trn1n": XLA, "trn2": TORCH_NEURON, "trn2u": TORCH_NEURON}


def neuron_stack(facts: InstanceType) -> Stack | None:
    """How a type is trained on; None where it is not Neuron's, or not for training."""
    return _STACK_OF_FAMILY.get(facts.family)


def environment_script(facts: InstanceType, os: OperatingSystem) -> str | None:
    """The script that makes a type's Python environment; None where the user brings it."""
    stack = neuron_stack(facts)
    if stack is None:
        return None
    context = NeuronContext(release=stack.release, python=PYTHONS[os], packages=stack.packages)
    return rendered(stack.template, context)
