"""Device plugins that show chips and EFA interfaces to Kubernetes, for nodes without their own."""

from collections.abc import Callable, Mapping, Sequence

from launcher.catalog import safe_yaml
from launcher.catalog.serving_images import load_images
from launcher.model.bundle import RenderedFile
from launcher.model.errors import ImpossibleError
from launcher.model.instance_type import InstanceType
from launcher.rendering.efa_rules import plugin_findings
from launcher.rendering.engine import render_template
from launcher.rendering.kubernetes_pod import NEURON
from launcher.rendering.node import is_nvidia

PLUGINS_FILE = "kubernetes/plugins.yaml"
NEURON_FILE = "kubernetes/device-plugin.yaml"
NVIDIA_PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"
EFA_PLUGIN = "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.20"
"""The versions that the charts of NVIDIA/k8s-device-plugin and aws/eks-charts install, in 2026; EKS's registry serves
nodes of all regions."""


def plugin_files(facts: InstanceType, instances: Mapping[str, InstanceType]) -> list[RenderedFile]:
    """The device plugins that show a type's chips and interfaces to Kubernetes; empty for a type without either.

    They run on all types of the catalog, because a later plan may change the type and keeps the cluster's plugins.

    Raises:
        ImpossibleError: with the current template, nodes would not show their EFA interfaces.
    """
    files = []
    nvidia = _types(instances, is_nvidia) if is_nvidia(facts) else ()
    efa = _types(instances, _is_accelerated_with_efa) if facts.efa_interfaces else ()
    shown = plugins_manifest(nvidia=nvidia, efa=efa)
    if shown is not None:
        files.append(RenderedFile(path=PLUGINS_FILE, text=shown))
    documents = [document for file in files for document in safe_yaml.documents(file.text)]
    lost = tuple(plugin_findings(documents, facts, where="templates/kubernetes/plugins.yaml.j2"))
    if lost:
        raise ImpossibleError(f"nodes of {facts.name} would show no EFA", findings=lost)
    plugin = neuron_plugin() if facts.neuron else None
    if plugin is not None:
        files.append(RenderedFile(path=NEURON_FILE, text=neuron_manifest(plugin, neuron_types(instances))))
    return files


def _types(instances: Mapping[str, InstanceType], has: Callable[[InstanceType], bool]) -> tuple[str, ...]:
    return tuple(sorted(name for name, facts in instances.items() if has(facts)))


def _is_accelerated_with_efa(facts: InstanceType) -> bool:
    return facts.efa_interfaces > 0 and (facts.neuron or is_nvidia(facts))


def neuron_types(instances: Mapping[str, InstanceType]) -> tuple[str, ...]:
    """The instance types with Neuron chips."""
    return _types(instances, lambda facts: facts.neuron)


def plugins_manifest(*, nvidia: Sequence[str], efa: Sequence[str]) -> str | None:
    """The manifest of device plugins for nodes of the types with NVIDIA chips and with EFA; None without types."""
    if not (nvidia or efa):
        return None
    return render_template(
        "kubernetes/plugins.yaml.j2",
        nvidia_plugin=NVIDIA_PLUGIN if nvidia else None,
        efa_plugin=EFA_PLUGIN if efa else None,
        nvidia_types=nvidia,
        efa_types=efa,
    )


def neuron_manifest(plugin: str, types: Sequence[str]) -> str:
    """The manifest of Neuron's device plugin for nodes of these types, by the image of the plugin."""
    return render_template(
        "kubernetes/device-plugin.yaml.j2", resource=NEURON, device_plugin=plugin, neuron_types=types
    )


def neuron_plugin() -> str | None:
    """The image of Neuron's device plugin, the same for all Neuron chips; None if none is known."""
    image_names = (f"{image.repository}:{image.tag}" for image in load_images().images if image.role == "device-plugin")
    return next(image_names, None)
