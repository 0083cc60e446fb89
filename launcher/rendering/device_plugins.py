"""What shows chips and EFA interfaces to Kubernetes, for nodes that bring nothing of their own for it."""

from launcher.catalog import safe_yaml
from launcher.catalog.serving_images import load_images
from launcher.model.bundle import RenderedFile
from launcher.model.errors import ImpossibleError
from launcher.model.instance_type import InstanceType
from launcher.rendering.contexts import PluginsContext
from launcher.rendering.efa_rules import plugin_findings
from launcher.rendering.engine import rendered
from launcher.rendering.kubernetes_pod import resource_name
from launcher.rendering.node import is_nvidia

PLUGINS_FILE = "kubernetes/plugins.yaml"
NEURON_FILE = "kubernetes/device-plugin.yaml"
NVIDIA_PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"
EFA_PLUGIN = "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.20"
"""What the charts of NVIDIA/k8s-device-plugin and aws/eks-charts install, in 2026; EKS's registry answers nodes of all
regions."""


def plugin_files(facts: InstanceType) -> list[RenderedFile]:
    """What shows a type's chips and interfaces to Kubernetes; nothing for a type without either.

    Raises:
        ImpossibleError: as the template is written, nodes would not show their EFA interfaces.
    """
    context = _plugins(facts)
    files = []
    if context.nvidia_plugin or context.efa_plugin:
        files.append(RenderedFile(path=PLUGINS_FILE, text=rendered("kubernetes/plugins.yaml.j2", context)))
    shown = [each for file in files for each in safe_yaml.documents(file.text)]
    lost = tuple(plugin_findings(shown, facts, where="templates/kubernetes/plugins.yaml.j2"))
    if lost:
        raise ImpossibleError(f"nodes of {facts.name} would show no EFA", findings=lost)
    if context.device_plugin:
        files.append(RenderedFile(path=NEURON_FILE, text=rendered("kubernetes/device-plugin.yaml.j2", context)))
    return files


def _plugins(facts: InstanceType) -> PluginsContext:
    """The plugins that a type's nodes need."""
    neuron = neuron_plugin() if facts.neuron else None
    return PluginsContext(
        resource=resource_name(facts) or "",
        nvidia_plugin=NVIDIA_PLUGIN if is_nvidia(facts) else None,
        efa_plugin=EFA_PLUGIN if facts.efa_interfaces else None,
        device_plugin=neuron,
        instance_types=(facts.name,),
        neuron_types=(facts.name,) if facts.neuron else (),
    )


def neuron_plugin() -> str | None:
    """Neuron's device plugin, which is one for all of its chips; None where none is known."""
    found = (f"{each.repository}:{each.tag}" for each in load_images().images if each.role == "device-plugin")
    return next(found, None)
