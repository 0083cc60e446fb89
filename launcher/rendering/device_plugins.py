"""Device plugins that show chips and EFA interfaces to Kubernetes, for nodes without their own."""

from collections.abc import Sequence

from launcher.catalog import safe_yaml
from launcher.catalog.serving_images import load_images
from launcher.model.bundle import RenderedFile
from launcher.model.errors import ImpossibleError
from launcher.model.instance_type import InstanceType
from launcher.rendering.efa_rules import plugin_findings
from launcher.rendering.engine import rendered
from launcher.rendering.kubernetes_pod import NEURON
from launcher.rendering.node import is_nvidia

PLUGINS_FILE = "kubernetes/plugins.yaml"
NEURON_FILE = "kubernetes/device-plugin.yaml"
NVIDIA_PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"
EFA_PLUGIN = "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.20"
"""The versions that the charts of NVIDIA/k8s-device-plugin and aws/eks-charts install, in 2026; EKS's registry serves
nodes of all regions."""


def plugin_files(facts: InstanceType) -> list[RenderedFile]:
    """The device plugins that show a type's chips and interfaces to Kubernetes; empty for a type without either.

    Raises:
        ImpossibleError: with the current template, nodes would not show their EFA interfaces.
    """
    files = []
    shown = plugins_manifest((facts.name,), nvidia=is_nvidia(facts), efa=facts.efa_interfaces > 0)
    if shown is not None:
        files.append(RenderedFile(path=PLUGINS_FILE, text=shown))
    documents = [document for file in files for document in safe_yaml.documents(file.text)]
    lost = tuple(plugin_findings(documents, facts, where="templates/kubernetes/plugins.yaml.j2"))
    if lost:
        raise ImpossibleError(f"nodes of {facts.name} would show no EFA", findings=lost)
    plugin = neuron_plugin() if facts.neuron else None
    if plugin is not None:
        files.append(RenderedFile(path=NEURON_FILE, text=neuron_manifest(plugin, (facts.name,))))
    return files


def plugins_manifest(types: Sequence[str], *, nvidia: bool, efa: bool) -> str | None:
    """The manifest of device plugins for NVIDIA chips and EFA on nodes of these types; None if neither is needed."""
    if not (nvidia or efa):
        return None
    return rendered(
        "kubernetes/plugins.yaml.j2",
        nvidia_plugin=NVIDIA_PLUGIN if nvidia else None,
        efa_plugin=EFA_PLUGIN if efa else None,
        instance_types=types,
    )


def neuron_manifest(plugin: str, types: Sequence[str]) -> str:
    """The manifest of Neuron's device plugin for nodes of these types, by the image of the plugin."""
    return rendered("kubernetes/device-plugin.yaml.j2", resource=NEURON, device_plugin=plugin, neuron_types=types)


def neuron_plugin() -> str | None:
    """The image of Neuron's device plugin, the same for all Neuron chips; None if none is known."""
    image_names = (f"{image.repository}:{image.tag}" for image in load_images().images if image.role == "device-plugin")
    return next(image_names, None)
