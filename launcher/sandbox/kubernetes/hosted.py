"""The Kubernetes of one EKS cluster in the sandbox: its API server, and the nodes of its node groups.

It has the same interface as the clusters with Slurm (launcher/sandbox/cluster/registry.py). A spot notice drains the
node, as managed node groups do (EKS user guide, managed node groups, Spot capacity type).
"""

import secrets
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from launcher.sandbox.cluster.nodes import NodeState
from launcher.sandbox.keys import KeyRing
from launcher.sandbox.kubernetes.api import Api
from launcher.sandbox.kubernetes.cluster import KubernetesCluster
from launcher.sandbox.kubernetes.kinds import Kind, shipped_kinds
from launcher.sandbox.kubernetes.statuses import RefusedError

SCHEDULER = "kubernetes"
_LIVING = ("Pending", "Running")
_DRAIN_S, _POLL_S = 900.0, 0.2
"""Seconds that a managed node group waits for a drained node: 15 minutes (EKS user guide, update behaviour)."""
_ENDS = {"Complete": "COMPLETED", "Failed": "FAILED"}


def create(api: Api, document: Mapping[str, Any]) -> None:
    """Create an object in its own namespace.

    Raises:
        RefusedError: the object is refused, or its kind is not served.
    """
    kind, space, created = _locate_object(api, document)
    api.create(kind, space, created)


def put(api: Api, document: Mapping[str, Any]) -> None:
    """Create an object; replace an existing one.

    Raises:
        RefusedError: the object is refused, or its kind is not served.
    """
    kind, space, created = _locate_object(api, document)
    name = created["metadata"]["name"]
    if api.objects.find(kind, space, name) is None:
        api.create(kind, space, created)
    else:
        api.replace(kind, space, name, created)


def _locate_object(api: Api, document: Mapping[str, Any]) -> tuple[Kind, str, dict[str, Any]]:
    identity = document.get("apiVersion"), document.get("kind")
    kind = next((candidate for candidate in api.kinds if identity == (candidate.api_version, candidate.kind)), None)
    if kind is None:
        raise RefusedError("NotFound", f"no matches for {identity[0]}, Kind={identity[1]}")
    metadata = dict(document.get("metadata", {}))
    # The API server drops the namespace of cluster-scoped objects (apiserver, rest/meta.go).
    space = metadata.get("namespace", "default") if kind.namespaced else ""
    stored_metadata = metadata if space else {name: value for name, value in metadata.items() if name != "namespace"}
    return kind, space, {**document, "metadata": stored_metadata}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNodeGroup:
    """The instances of a node group, all of the same kind."""

    group: str
    count: int
    instance_type: str
    capacity_type: str
    zone: str
    zone_id: str
    # The resources of each instance for pods, in addition to devices.
    room: Mapping[str, str]
    # The resources that the device plugins of an instance report.
    devices: Mapping[str, str]
    labels: Mapping[str, str]
    # Whether they are a managed node group of EKS.
    managed: bool = True

    @property
    def node_labels(self) -> dict[str, str]:
        """The node labels of EKS and the kubelet; HyperPod's nodes are in no node group of EKS."""
        labels = {
            "node.kubernetes.io/instance-type": self.instance_type,
            "topology.kubernetes.io/zone": self.zone,
            "topology.k8s.aws/zone-id": self.zone_id,
        }
        if self.managed:
            labels |= {
                "eks.amazonaws.com/nodegroup": self.group,
                "eks.amazonaws.com/capacityType": self.capacity_type,
            }
        return {**labels, **self.labels}


class HostedKubernetes:
    """One cluster, which is its own scheduler."""

    name = SCHEDULER

    def __init__(self, cluster: str, folder: Path, *, mark: str, environment: Mapping[str, str], keys: KeyRing) -> None:
        self._name, self._folder = cluster, folder
        self._kubernetes = KubernetesCluster(
            folder, name=cluster, mark=mark, environment=environment, keys=keys, operators=()
        ).__enter__()
        self._node_groups: dict[str, PodNodeGroup] = {}
        self._groups: list[str] = []
        self._nodes: dict[str, NodeState] = {}
        self._words: list[str] = []
        self._lock = threading.RLock()

    @property
    def address(self) -> str:
        """The address of the API."""
        return self._kubernetes.server.address

    @property
    def scheduler(self) -> "HostedKubernetes":
        """The scheduler of the cluster: this object."""
        return self

    def join(self, node_group: PodNodeGroup) -> None:
        """Add the instances of a node group."""
        with self._lock:
            self._node_groups[node_group.group] = node_group
            self._groups.append(node_group.group)
        self.resize(node_group.group, node_group.count)

    def resize(self, group: str, count: int) -> None:
        """Set the number of instances of a node group. Removed nodes are drained first, as managed node groups do.

        A pod that runs longer than the drain time is removed with its node.
        """
        with self._lock:
            node_group = self._node_groups[group]
            present = [node.name for node in self._nodes.values() if node.partition == group]
            more = [self._name_of(node_group, number) for number in range(len(present) + count)]
            for name in [name for name in more if name not in present][: max(0, count - len(present))]:
                self._enlist(node_group, name)
            going = present[count:]
        for node in going:
            self._kubernetes.drain(node)
        if going:
            threading.Thread(target=self._dismiss, args=(going,), name="node-group", daemon=True).start()

    def _name_of(self, node_group: PodNodeGroup, number: int) -> str:
        place = 1 + self._groups.index(node_group.group)
        return f"ip-10-0-{place}-{number + 1}.{node_group.zone[:-1]}.compute.internal"

    def _enlist(self, node_group: PodNodeGroup, name: str) -> None:
        self._nodes[name] = NodeState(
            name=name,
            partition=node_group.group,
            instance_type=node_group.instance_type,
            capacity_type=node_group.capacity_type,
            instance_id="",
            generation=0,
            life="",
            scratch=str(self._folder / name),
            metadata="",
            cpus=int(node_group.room.get("cpu", "1")),
        )
        self.replace(name)

    def _dismiss(self, names: Sequence[str]) -> None:
        """Remove nodes when their pods have ended, or when the drain time is over."""
        deadline = time.monotonic() + _DRAIN_S
        for name in names:
            while self.busy(name) and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            self._forget(name)

    def _forget(self, name: str) -> None:
        with self._lock:
            node = self._nodes.pop(name, None)
        if node is not None and node.life:
            self._kubernetes.take_node(name)

    def install(self, operators: tuple[str, ...], objects: Sequence[Mapping[str, Any]], note: str) -> None:
        """Serve the kinds of operators, and create objects."""
        for kind in shipped_kinds(operators):
            self._kubernetes.api.kinds.add(kind)
        for object_ in objects:
            create(self._kubernetes.api, object_)
        with self._lock:
            self._words += [note] if note else []

    def put(self, objects: Sequence[Mapping[str, Any]]) -> None:
        """Create objects; replace existing ones."""
        for object_ in objects:
            put(self._kubernetes.api, object_)

    def leave(self, group: str) -> None:
        """Remove the instances of a node group, with their pods."""
        with self._lock:
            self._node_groups.pop(group, None)
            leaving = [node.name for node in self._nodes.values() if node.partition == group]
        for name in leaving:
            self._forget(name)

    def nodes(self) -> tuple[NodeState, ...]:
        """The current nodes."""
        with self._lock:
            return tuple(node for node in self._nodes.values() if node.life)

    def notify(self, node: str, action: str, in_seconds: float) -> str:
        """Give notice of an interruption: drain the node. A pod has its own grace period, independent of EC2's."""
        del action, in_seconds
        self._node(node)
        self._kubernetes.drain(node)
        return ""

    def recommend_rebalance(self, node: str) -> None:
        """Recommend a rebalance: a managed node group drains the node."""
        self.notify(node, "terminate", 0.0)

    def lose(self, node: str, why: str) -> None:
        """Lose a node with its disk and all its processes."""
        del why
        running = self._node(node)
        self._kubernetes.take_node(node)
        with self._lock:
            self._nodes[node] = replace(running, life="")

    def replace(self, node: str) -> None:
        """Start another instance in place of a node, with an empty disk."""
        with self._lock:
            running = self._node(node)
            node_group = self._node_groups[running.partition]
            fresh = replace(
                running,
                instance_id=f"i-{secrets.token_hex(9)[:17]}",
                generation=running.generation + 1,
                life=secrets.token_hex(8),
            )
            self._nodes[node] = fresh
        self._kubernetes.add_node(
            node,
            allocatable=node_group.room,
            labels=node_group.node_labels,
            devices=node_group.devices,
            provider_id=_provider_id(node_group, fresh.instance_id),
        )

    def identify(self, group: str, instance_ids: Sequence[str]) -> None:
        """Give the nodes of a group the instances that run for them."""
        with self._lock:
            nodes = [node for node in self._nodes.values() if node.partition == group and node.life]
            taken = {node.instance_id for node in nodes} & set(instance_ids)
            free = [id_ for id_ in instance_ids if id_ not in taken]
            for node in nodes:
                if node.instance_id not in taken and free:
                    self._identify(node, free.pop(0))

    def _identify(self, node: NodeState, instance_id: str) -> None:
        self._nodes[node.name] = replace(node, instance_id=instance_id)
        provider_id = _provider_id(self._node_groups[node.partition], instance_id)
        self._kubernetes.set_provider(node.name, provider_id)

    def restart(self, instance_ids: Collection[str]) -> None:
        """Reboot instances: what runs on their nodes ends."""
        for node in self.nodes():
            if node.instance_id in instance_ids:
                self._kubernetes.restart_node(node.name)

    def renew(self, instance_id: str, new_id: str) -> None:
        """Replace the node of an instance by the node of another one; do nothing if no node has the instance."""
        name = next((node.name for node in self.nodes() if node.instance_id == instance_id), None)
        if name is not None:
            self.lose(name, "")
            self.replace(name)
            with self._lock:
                self._identify(self._node(name), new_id)

    def environment(self, path: str) -> dict[str, str]:
        """Return only PATH: clients reach the cluster by its API."""
        return {"PATH": path}

    def busy(self, node: str) -> bool:
        """Whether a pod runs on a node, or will start there."""
        return any(pod.get("status", {}).get("phase") in _LIVING for pod in self._kubernetes.pods(node))

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs of the cluster: `id`, `name` and `state`."""
        return [
            {"id": job["metadata"]["name"], "name": job["metadata"]["name"], "state": _state(job)}
            for job in self._kubernetes.jobs()
        ]

    def node_lost(self, node: str) -> None:
        """Do nothing: the cluster detects the loss."""

    def node_replaced(self, node: str) -> None:
        """Do nothing: the new node has joined the cluster."""

    def document(self) -> dict[str, Any]:
        """The facts about the cluster that the sandbox's owner needs, as JSON values."""
        return {
            "name": self._name,
            "scheduler": SCHEDULER,
            "slurm_conf": None,
            "attempts": None,
            "head_node": "",
            "settings": {},
            "nodes": [asdict(node) for node in self.nodes()],
            "left_out": list(self._words),
        }

    def answer(self, *, up: bool) -> None:
        """Start or stop the API; nodes and pods continue to run."""
        (self._kubernetes.server.start if up else self._kubernetes.server.stop)()

    def stop(self) -> None:
        """End the cluster and all pods."""
        self._kubernetes.stop()

    def _node(self, name: str) -> NodeState:
        with self._lock:
            if name not in self._nodes:
                raise KeyError(f"no node {name!r} in cluster {self._name}, there are: {', '.join(self._nodes)}")
            return self._nodes[name]


def _provider_id(node_group: PodNodeGroup, instance_id: str) -> str:
    """The node's instance as the cloud provider writes it: `aws:///ZONE/i-...`; HyperPod has a path between."""
    between = "" if node_group.managed else "sagemaker/cluster/hyperpod-"
    return f"aws:///{node_group.zone}/{between}{instance_id}"


def _state(job: Mapping[str, Any]) -> str:
    status = job.get("status", {})
    ended = [condition["type"] for condition in status.get("conditions", ()) if condition["status"] == "True"]
    state = next((name for kind, name in _ENDS.items() if kind in ended), None)
    return state or ("RUNNING" if status.get("active") else "PENDING")
