"""The clusters that were deployed into a sandbox: their nodes and their schedulers.

The registry is part of the server's process. It owns the daemons and nodes, so that they end with the process.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from launcher.sandbox import processes
from launcher.sandbox.cluster.nodes import Node, NodeState
from launcher.sandbox.cluster.specification import ClusterFailedError, ClusterSpec, InstanceFleet, NodeGroup
from launcher.sandbox.keys import KeyRing
from launcher.sandbox.kubernetes.hosted import HostedKubernetes, PodNodeGroup
from launcher.sandbox.kubernetes.statuses import RefusedError
from launcher.sandbox.slurm import daemons, files
from launcher.sandbox.slurm.files import SlurmPlaces
from launcher.sandbox.slurm.local_slurm import LocalSlurm
from launcher.sandbox.slurm.scheduler import Scheduler, SlurmScheduler
from launcher.submit.jobs import SchedulerError

_MAX_NODES = 128
_LOSSES = {
    "interruption": ("spot interruption", "Server.SpotInstanceTermination"),
    "failure": ("instance failure", "Server.InternalError"),
}
"""The reason of a node's loss: the text for Slurm, and EC2's code for the instance."""
_REMOVED = "Client.UserInitiatedShutdown"
_DISMISSED = "instance deleted"
"""The reason for Slurm if a user deleted the instance."""
_REBOOTED = "Node unexpectedly rebooted"
"""Slurm's own reason for a node whose boot is newer than its last message (slurmctld, node_mgr.c of 22.05)."""
_WATCH_S = 3.0
"""Seconds between two looks for nodes that a user has marked as down; ParallelCluster's daemon takes a minute."""


class Cluster:
    """One cluster."""

    def __init__(
        self, spec: ClusterSpec, fleet: InstanceFleet, folder: Path, *, with_slurm: bool, mark: str, keys: KeyRing
    ) -> None:
        """Without `with_slurm`, the local scheduler answers Slurm's commands."""
        self.spec = spec
        self._fleet = fleet
        self._head_node = ""
        self._places = SlurmPlaces(folder=folder, nodes=folder / "n")
        self._nodes = {
            name: Node(group, name, self._places.nodes / name, fleet.region, keys)
            for group in spec.groups
            for name in group.node_names()
        }
        self._slurm = daemons.PrivateSlurm(self._places, spec, mark) if with_slurm else None
        self._mark = mark
        self._scheduler: Scheduler | None = None
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._rebooting: set[str] = set()

    def start(self) -> str:
        """Start the cluster; return the id of its head node's instance.

        Raises:
            ClusterFailedError: the scheduler does not start.
        """
        with self._lock:
            self._places.nodes.mkdir(parents=True, mode=0o700)
            self._head_node = self._fleet.run_head_node(self.spec)
            try:
                for node in self._nodes.values():
                    self._boot(node)
                self._scheduler = self._start_scheduler()
            except (daemons.SlurmError, OSError) as failure:
                self.stop()
                raise ClusterFailedError(f"the private Slurm of {self.spec.name} did not start: {failure}") from failure
            threading.Thread(target=self._watch, name="node-watch", daemon=True).start()
            return self._head_node

    def _start_scheduler(self) -> Scheduler:
        if self._slurm is not None:
            self._slurm.start()
            return SlurmScheduler(self._places.configuration)
        types = [(group.queue, group.instance_type) for group in self.spec.groups]
        return LocalSlurm(self._places.folder / "local", self.nodes, self._mark, dict(self.spec.settings), types)

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler. Access needs no cluster lock: the scheduler requests the nodes while it holds its own lock.

        Raises:
            RuntimeError: the cluster is not started.
        """
        if self._scheduler is None:
            raise RuntimeError(f"cluster {self.spec.name} is not started")
        return self._scheduler

    def nodes(self) -> tuple[NodeState, ...]:
        """The current nodes."""
        with self._lock:
            return tuple(node.view() for node in self._nodes.values() if node.life)

    def stop(self) -> None:
        """Stop the cluster and remove its instances."""
        self._over.set()
        if self._scheduler is not None:
            self._scheduler.stop()
        with self._lock:
            if self._slurm is not None:
                self._slurm.stop()
            for node in self._nodes.values():
                self._take_down(node, _REMOVED)
            if self._head_node:
                self._fleet.terminate(self._head_node, _REMOVED)
                self._head_node = ""

    def notify(self, name: str, action: str, in_seconds: float) -> str:
        """Give a node notice through its metadata service; return the time of its end."""
        return self.node(name).metadata.arm(action, in_seconds)

    def recommend_rebalance(self, name: str) -> None:
        """Recommend a rebalance to a node, through its metadata service."""
        self.node(name).metadata.recommend_rebalance()

    def lose(self, name: str, why: str) -> None:
        """Lose a node, by an interruption or a failure: its processes are killed and its disk is deleted."""
        advance_notice, code = _LOSSES[why]
        with self._lock:
            node = self._node(name)
            if self._slurm is not None:
                self._slurm.kill_node(name)
                # The operator of instances reports the loss; Slurm alone would wait for its own timeout.
                self._slurm.declare_down(name, advance_notice)
            self._take_down(node, code)

    def replace(self, name: str) -> None:
        """Replace a lost node by another instance with an empty disk."""
        with self._lock:
            self._boot(self._node(name))
            if self._slurm is not None:
                self._slurm.start_node(name)

    def dismiss(self, instance_ids: Collection[str]) -> None:
        """Remove instances because their service received such a request; the scheduler requeues their jobs."""
        with self._lock:
            for name, node in self._nodes.items():
                if node.up and node.instance_id in instance_ids:
                    if self._slurm is not None:
                        self._slurm.kill_node(name)
                        self._slurm.declare_down(name, _DISMISSED)
                    self._take_down(node, _REMOVED)
                    node.leave()

    def enlist(self, group: str, count: int) -> None:
        """Start instances of a group in place of removed ones.

        Raises:
            ClusterFailedError: the group has fewer free places than `count`, or a node does not start.
        """
        with self._lock:
            free = [name for name, node in self._nodes.items() if node.group.name == group and not node.up]
            if count > len(free):
                most = sum(node.group.name == group for node in self._nodes.values())
                raise ClusterFailedError(f"the sandbox's Slurm has {most} nodes in {group}, as many as at its start")
            for name in free[:count]:
                try:
                    self.replace(name)
                except (daemons.SlurmError, OSError) as failure:
                    raise ClusterFailedError(f"{name} does not come up: {failure}") from failure

    def restart(self, instance_ids: Collection[str]) -> None:
        """Reboot instances: their processes end, and the nodes come back with their disks; jobs are requeued."""
        with self._lock:
            names = [name for name, node in self._nodes.items() if node.up and node.instance_id in instance_ids]
            self._rebooting.update(names)
            for name in names:
                self._end_processes(name, _REBOOTED)
        threading.Thread(target=self._started_again, args=(names,), name="reboot", daemon=True).start()

    def renew(self, instance_ids: Collection[str]) -> None:
        """Replace instances by others with empty disks, as their service does on request; jobs are requeued."""
        with self._lock:
            names = [name for name, node in self._nodes.items() if node.up and node.instance_id in instance_ids]
            for name in names:
                self._end_processes(name, _DISMISSED)
                self._take_down(self._nodes[name], _REMOVED)
        threading.Thread(target=self._booted_again, args=(names,), name="replacement", daemon=True).start()

    def _end_processes(self, name: str, reason: str) -> None:
        if self._slurm is not None:
            self._slurm.kill_node(name)
            self._slurm.declare_down(name, reason)
        life = self._node(name).life
        processes.end(lambda: processes.with_descendants(processes.marked_processes(processes.NODE_MARK, life)))
        self.scheduler.node_lost(name)

    def _started_again(self, names: Sequence[str]) -> None:
        self._quietly(names, lambda name: self._slurm.start_node(name) if self._slurm is not None else None)
        with self._lock:
            self._rebooting.difference_update(names)

    def _booted_again(self, names: Sequence[str]) -> None:
        self._quietly(names, self.replace)

    def _quietly(self, names: Sequence[str], bring_up: Callable[[str], None]) -> None:
        """Bring nodes up in a thread of its own; one that does not come up stays down, and the log has the reason."""
        for name in names:
            try:
                with self._lock:
                    if self._over.is_set():
                        return
                    bring_up(name)
                self.scheduler.node_replaced(name)
            except (daemons.SlurmError, OSError) as failure:
                logging.getLogger(__name__).warning("%s does not come up: %s", name, failure)

    def _watch(self) -> None:
        """Reboot nodes on Slurm's request, and replace those that a user has marked as down, as clustermgtd does."""
        while not self._over.wait(_WATCH_S):
            with self._lock:
                for name in self._slurm.reboot_requested() if self._slurm is not None else ():
                    if self._nodes[name].up and self._slurm is not None:
                        self._slurm.reboot_node(name)
            with self._lock:
                # A node that is replaced meanwhile, by whom it may be, has another life then.
                lives = {name: node.life for name, node in self._nodes.items() if node.up}
            try:
                marked = self.scheduler.marked_down() if self._fleet.replaces_down else frozenset[str]()
            except SchedulerError:
                continue
            with self._lock:
                ids = [
                    node.instance_id
                    for name, node in self._nodes.items()
                    if name in marked - self._rebooting and node.up and node.life == lives.get(name)
                ]
            if ids and not self._over.is_set():
                self.renew(ids)

    def set_fleet(self, *, up: bool) -> None:
        """Remove all nodes, or start the removed nodes again."""
        with self._lock:
            if not up:
                self.dismiss([node.instance_id for node in self._nodes.values() if node.up])
                return
            for name, node in self._nodes.items():
                if not node.up:
                    self.replace(name)

    def node(self, name: str) -> Node:
        """A node by its name."""
        with self._lock:
            return self._node(name)

    def document(self) -> dict[str, Any]:
        """The facts about the cluster that the sandbox's owner needs, as JSON values."""
        with self._lock:
            nodes = [asdict(node) for node in self.nodes()]
            running = self._slurm is not None
            return {
                "name": self.spec.name,
                "scheduler": "slurm" if running else "local",
                "slurm_conf": str(self._places.configuration) if running else None,
                "attempts": str(self._places.attempts) if running else None,
                "head_node": self._head_node,
                "settings": dict(self.spec.settings),
                "nodes": nodes,
                "groups": [
                    {
                        "name": group.queue,
                        "instance_type": group.instance_type,
                        "capacity_type": group.capacity_type,
                        "maximum": group.max_count,
                    }
                    for group in self.spec.groups
                ],
                "left_out": list(self.spec.left_out),
            }

    def _node(self, name: str) -> Node:
        if name not in self._nodes:
            raise KeyError(f"no node {name!r} in cluster {self.spec.name}, there are: {', '.join(self._nodes)}")
        return self._nodes[name]

    def _boot(self, node: Node) -> None:
        group: NodeGroup = node.group
        subnet = self._fleet.subnet(group.subnet_id)
        node.boot(self._fleet.run_node(self.spec, group, node.name), subnet.zone if subnet is not None else "")
        variables = files.node_environment(metadata=node.metadata.endpoint, scratch=str(node.scratch), life=node.life)
        files.write_node_environment(self._places, node.name, variables)

    def _take_down(self, node: Node, reason: str) -> None:
        if not node.life:
            return
        processes.end(lambda: processes.with_descendants(processes.marked_processes(processes.NODE_MARK, node.life)))
        node.fail()
        self._fleet.terminate(node.instance_id, reason)


class Registry:
    """All clusters of a sandbox, by name. Thread-safe."""

    def __init__(
        self, folder: Path, mark: str, *, with_slurm: bool, pods: Callable[[str], Mapping[str, str]], keys: KeyRing
    ) -> None:
        self._pods, self._keys = pods, keys
        self._kubernetes: dict[str, HostedKubernetes] = {}
        self._charted: set[str] = set()
        self._folder = folder
        self._mark = mark
        self._with_slurm = with_slurm
        self._lock = threading.RLock()
        self._clusters: dict[str, Cluster] = {}
        self._made = 0

    def start(self, spec: ClusterSpec, fleet: InstanceFleet) -> str:
        """Start a cluster; return the id of its head node's instance.

        Raises:
            ClusterFailedError: the cluster's name is taken, it is too large for a sandbox, or it does not start.
        """
        _refuse_over(sum(group.max_count for group in spec.groups))
        with self._lock:
            if spec.name in self._clusters:
                raise ClusterFailedError(f"a cluster named {spec.name} already exists")
            # A number and not the name: the path of a socket below it is bounded.
            folder = self._folder / f"c{self._made}"
            self._made += 1
            folder.mkdir(mode=0o700)
            cluster = Cluster(spec, fleet, folder, with_slurm=self._with_slurm, mark=self._mark, keys=self._keys)
            head_node = cluster.start()
            self._clusters[spec.name] = cluster
            return head_node

    def host(self, name: str, region: str) -> str:
        """Start the Kubernetes of an EKS cluster; return the address of its API."""
        with self._lock:
            if name in self._clusters or name in self._kubernetes:
                raise ClusterFailedError(f"a cluster named {name} already exists")
            folder = self._folder / f"k{self._made}"
            self._made += 1
            environment = self._pods(region)
            hosted = HostedKubernetes(name, folder, mark=self._mark, environment=environment, keys=self._keys)
            self._kubernetes[name] = hosted
            return hosted.address

    def join(self, name: str, node_group: PodNodeGroup) -> None:
        """Add the instances of a node group to an EKS cluster."""
        _refuse_over(node_group.count)
        self.kubernetes_of(name).join(node_group)

    def install(self, name: str, operators: tuple[str, ...], objects: Sequence[Mapping[str, Any]], note: str) -> None:
        """Install the contents of a chart or an add-on in an EKS cluster."""
        try:
            self.kubernetes_of(name).install(operators, objects, note)
        except RefusedError as refused:
            raise ClusterFailedError(f"{name}: {refused}") from refused
        if objects:
            with self._lock:
                self._charted.add(name)

    def put(self, name: str, objects: Sequence[Mapping[str, Any]]) -> None:
        """Create or replace objects in an EKS cluster; raise ClusterFailedError if the cluster refuses an object."""
        try:
            self.kubernetes_of(name).put(objects)
        except RefusedError as refused:
            raise ClusterFailedError(f"{name}: {refused}") from refused

    def has_chart(self, name: str) -> bool:
        """Whether HyperPod's chart is installed in an EKS cluster."""
        with self._lock:
            return name in self._charted

    def leave(self, name: str, group: str) -> None:
        """Remove the instances of a node group; do nothing if its cluster is gone."""
        with self._lock:
            hosted = self._kubernetes.get(name)
        if hosted is not None:
            hosted.leave(group)

    def resize(self, name: str, group: str, count: int) -> None:
        """Set the number of instances in a node group of an EKS cluster.

        Raises:
            ClusterFailedError: the nodes exceed the sandbox's limit.
        """
        _refuse_over(count)
        self.kubernetes_of(name).resize(group, count)

    def kubernetes_of(self, name: str) -> HostedKubernetes:
        """The Kubernetes of an EKS cluster."""
        with self._lock:
            return self._kubernetes[name]

    def stop(self, name: str) -> None:
        """Stop a cluster; do nothing if no cluster has that name."""
        with self._lock:
            self._charted.discard(name)
            clusters = [self._clusters.pop(name, None), self._kubernetes.pop(name, None)]
            for cluster in clusters:
                if cluster is not None:
                    cluster.stop()

    def dismiss(self, name: str, instance_ids: Collection[str]) -> None:
        """Remove instances of a cluster; do nothing if no cluster has that name."""
        with self._lock:
            if name in self._clusters:
                self._clusters[name].dismiss(instance_ids)

    def restart(self, name: str, instance_ids: Collection[str]) -> None:
        """Reboot instances of a cluster."""
        self.cluster(name).restart(instance_ids)

    def renew(self, name: str, instance_ids: Collection[str]) -> None:
        """Replace instances of a cluster with Slurm."""
        with self._lock:
            cluster = self._clusters[name]
        cluster.renew(instance_ids)

    def renew_node(self, name: str, instance_id: str, new_id: str) -> None:
        """Replace the node of an instance in an EKS cluster by the node of another one."""
        self.kubernetes_of(name).renew(instance_id, new_id)

    def identify(self, name: str, group: str, instance_ids: Sequence[str]) -> None:
        """Give the nodes of a group in an EKS cluster their instances."""
        self.kubernetes_of(name).identify(group, instance_ids)

    def set_fleet(self, name: str, *, up: bool) -> None:
        """Remove all nodes of a cluster, or start them again; do nothing if no cluster has that name."""
        with self._lock:
            cluster = self._clusters.get(name)
        if cluster is not None:
            cluster.set_fleet(up=up)

    def enlist(self, name: str, group: str, count: int) -> None:
        """Start `count` instances of a cluster's group."""
        with self._lock:
            cluster = self._clusters[name]
        cluster.enlist(group, count)

    def stop_all(self) -> None:
        """Stop every cluster."""
        with self._lock:
            for name in (*self._clusters, *self._kubernetes):
                self.stop(name)

    def cluster(self, name: str) -> Cluster | HostedKubernetes:
        """A cluster by its name."""
        with self._lock:
            running: dict[str, Cluster | HostedKubernetes] = {**self._clusters, **self._kubernetes}
            if name not in running:
                raise KeyError(f"no cluster {name!r} in this sandbox, there are: {', '.join(running) or 'none'}")
            return running[name]

    def documents(self) -> list[dict[str, Any]]:
        """Every cluster, as JSON values."""
        with self._lock:
            clusters: list[Cluster | HostedKubernetes] = [*self._clusters.values(), *self._kubernetes.values()]
            return [cluster.document() for cluster in clusters]


def _refuse_over(count: int) -> None:
    if count > _MAX_NODES:
        raise ClusterFailedError(f"{count} nodes are more than the {_MAX_NODES} that a sandbox runs")
