"""Device plugins: a node's devices become allocatable only after their plugin runs on it.

A plugin is recognised by its image (NVIDIA/k8s-device-plugin, aws/eks-charts aws-efa-k8s-device-plugin, Neuron's
documentation). If its DaemonSet would place a pod on the node, the node's devices become allocatable.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.sandbox.kubernetes import placing

Object = dict[str, Any]
_SHOWS = {
    "/nvidia/k8s-device-plugin": "nvidia.com/gpu",
    "/aws-efa-k8s-device-plugin": "vpc.amazonaws.com/efa",
    "/neuron-device-plugin": "aws.amazon.com/neuron",
}


def advertised_resources(daemon_sets: Iterable[Mapping[str, Any]], node: Object) -> frozenset[str]:
    """The resources whose device plugins run on a node."""
    images = [
        str(container.get("image", ""))
        for daemon_set in daemon_sets
        if placing.admits(daemon_set["spec"]["template"], node)
        for container in daemon_set["spec"]["template"]["spec"]["containers"]
    ]
    return frozenset(name for part, name in _SHOWS.items() if any(part in image for image in images))


def fresh(daemon_sets: Iterable[Mapping[str, Any]], node: Object, carried: Mapping[str, str]) -> dict[str, str]:
    """The devices of a node that its plugins report and that pods cannot request yet."""
    room = node.get("status", {}).get("allocatable", {})
    return {
        name: carried[name] for name in advertised_resources(daemon_sets, node) if name in carried and name not in room
    }
