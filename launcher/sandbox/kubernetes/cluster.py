"""A Kubernetes cluster on this computer: the API server, nodes, a scheduler and kubelets.

with KubernetesCluster(folder, name="slipway-eks", mark=mark, environment=environ) as cluster:
    cluster.add_node("ip-10-0-0-1", allocatable={"nvidia.com/gpu": "8"}, labels={...})
    ...                              # a client talks to cluster.server.address
    cluster.drain("ip-10-0-0-1")
"""

import shutil
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from launcher.sandbox.keys import KeyRing
from launcher.sandbox.kubernetes import claims, device_plugins, job_controller, kueue, operators, placing
from launcher.sandbox.kubernetes.api import Api, disrupt
from launcher.sandbox.kubernetes.channels import Spawn
from launcher.sandbox.kubernetes.controllers import ControlledCluster
from launcher.sandbox.kubernetes.kinds import shipped_kinds
from launcher.sandbox.kubernetes.kubelet import FORCED_GRACE_S, PodRun
from launcher.sandbox.kubernetes.server import Server
from launcher.sandbox.kubernetes.statuses import RefusedError
from launcher.sandbox.kubernetes.store import Object, now, owner_uids, update_condition
from launcher.sandbox.kubernetes.tokens import Tokens

_POLL_S = 0.2
_ROOM = {"cpu": "192", "memory": "2000Gi", "ephemeral-storage": "500Gi", "pods": "110", "hugepages-2Mi": "10Gi"}
"""A node's default resources in addition to its devices."""


def read_log(pod: Mapping[str, Any], log: Callable[[str], Path] | None, query: Mapping[str, str]) -> bytes:
    """The lines of a container's log.

    `log` is None before the pod has started; `query`: container, timestamps, sinceTime, tailLines, limitBytes.

    Raises:
        RefusedError: the container does not exist, must be named, or has not started.
    """
    name, spec = pod["metadata"]["name"], pod["spec"]
    names = [container["name"] for part in ("containers", "initContainers") for container in spec.get(part, ())]
    container = query.get("container") or (names[0] if len(spec["containers"]) == 1 else "")
    if not container:
        text = f"a container name must be specified for pod {name}, choose one of: {names}"
        raise RefusedError("BadRequest", text)
    if container not in names:
        raise RefusedError("BadRequest", f"container {container} is not valid for pod {name}")
    path = log(container) if log is not None else None
    if path is None or not path.is_file():
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return b""
        text = f'container "{container}" in pod "{name}" is waiting to start: PodInitializing'
        raise RefusedError("BadRequest", text)
    lines = path.read_bytes().splitlines(keepends=True)
    if query.get("sinceTime"):
        since = datetime.fromisoformat(query["sinceTime"])
        lines = [line for line in lines if _time(line) >= since]
    if query.get("tailLines"):
        lines = lines[-int(query["tailLines"]) :] if int(query["tailLines"]) else []
    if query.get("timestamps") not in ("1", "true", "True"):
        lines = [line.partition(b" ")[2] for line in lines]
    content = b"".join(lines)
    return content[: int(query["limitBytes"])] if query.get("limitBytes") else content


def _time(line: bytes) -> datetime:
    stamp = line.partition(b" ")[0].decode().removesuffix("000Z")
    return datetime.fromisoformat(f"{stamp}+00:00")


class KubernetesCluster:
    """One cluster. `server` is its API, which can be stopped and started while pods run."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str,
        mark: str,
        environment: Mapping[str, str],
        keys: KeyRing,
        operators: tuple[str, ...] = ("training-operator", "hyperpod", "kueue"),
    ) -> None:
        self.name = name
        self.api = Api()
        for kind in shipped_kinds(operators):
            self.api.kinds.add(kind)
        self.tokens = Tokens(name, keys)
        self.server = Server(self.api, allows=self.tokens.allows, log=self.log, spawner=self.spawner)
        self._cluster = ControlledCluster(self.api)
        self._folder, self._mark, self._environment = folder, mark, dict(environment)
        self._runs: dict[str, PodRun] = {}
        self._unattached: dict[str, str] = {}
        self._devices: dict[str, Mapping[str, str]] = {}
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._control, name="kube-controllers", daemon=True)

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.server.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End all pods and servers; a second call does nothing."""
        if self._over.is_set():
            return
        self._over.set()
        self.api.objects.wake()
        self._thread.join()
        self.server.stop()
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            run.lose()
        for run in runs:
            run.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def add_node(
        self,
        name: str,
        *,
        allocatable: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        taints: tuple[Mapping[str, str], ...] = (),
        devices: Mapping[str, str] | None = None,
        provider_id: str = "",
    ) -> None:
        """Add a node to the cluster; `provider_id` names its instance.

        Pods can request `devices` once their device plugin is in the cluster.
        """
        self._devices[name] = dict(devices or {})
        room = {**_ROOM, **(allocatable or {})}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "spec": {
                **({"taints": [dict(taint) for taint in taints]} if taints else {}),
                **({"providerID": provider_id} if provider_id else {}),
            },
        }
        kind = self._cluster.kind("", "nodes")
        node_object = self.api.create(kind, "", node)
        status = update_condition({"allocatable": room, "capacity": room}, "Ready", reason="KubeletReady", message="")
        self._cluster.set_status("", "nodes", node_object, status)

    def nodes(self) -> list[Object]:
        """The nodes that have reported a status: a new node exists for a moment before its status."""
        return [node for node in self._cluster.every("", "nodes") if "status" in node]

    def jobs(self) -> list[Object]:
        """The Jobs of Kubernetes' own kind."""
        return self._cluster.every("batch", "jobs")

    def pods(self, node: str | None = None) -> list[Object]:
        """The pods; those of one node if `node` is set."""
        pods = self._cluster.every("", "pods")
        return pods if node is None else [pod for pod in pods if pod["spec"].get("nodeName") == node]

    def cordon(self, name: str) -> None:
        """Mark a node as unschedulable."""
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": now()}

        def apply(stored: Object) -> Object:
            taints = [row for row in stored["spec"].get("taints", ()) if row["key"] != taint["key"]]
            return {**stored, "spec": {**stored["spec"], "unschedulable": True, "taints": [*taints, taint]}}

        self.api.objects.update(self._cluster.kind("", "nodes"), "", apply, name)

    def drain(self, name: str) -> None:
        """Evict a node's pods, as `kubectl drain` and the spot handling of managed node groups do."""
        self.cordon(name)
        for pod in self.pods(name):
            if pod.get("status", {}).get("phase") in ("Pending", "Running"):
                self.api.evict(pod["metadata"]["namespace"], pod["metadata"]["name"], {})

    def taint(self, name: str, key: str, *, value: str = "", effect: str = "NoExecute") -> None:
        """Taint a node; with NoExecute, pods that do not tolerate the taint are evicted."""

        def apply(stored: Object) -> Object:
            taints = [row for row in stored["spec"].get("taints", ()) if row["key"] != key]
            new_taint = {"key": key, "effect": effect, "timeAdded": now(), **({"value": value} if value else {})}
            return {**stored, "spec": {**stored["spec"], "taints": [*taints, new_taint]}}

        self.api.objects.update(self._cluster.kind("", "nodes"), "", apply, name)

    def set_provider(self, name: str, provider_id: str) -> None:
        """Name the instance of a node."""

        def apply(stored: Object) -> Object:
            return {**stored, "spec": {**stored["spec"], "providerID": provider_id}}

        self.api.objects.update(self._cluster.kind("", "nodes"), "", apply, name)

    def restart_node(self, name: str) -> None:
        """End what runs on a node, as a reboot of its instance does; the node object stays, also cordoned."""
        with self._lock:
            # Its kubelet dies first: nothing reports the end of what ran there.
            runs = [
                self._runs[pod["metadata"]["uid"]] for pod in self.pods(name) if pod["metadata"]["uid"] in self._runs
            ]
        for run in runs:
            run.lose()
        for run in runs:
            run.join()

    def take_node(self, name: str) -> None:
        """Remove a node immediately, with its disk and all its processes."""
        self.restart_node(name)
        shutil.rmtree(self._folder / name, ignore_errors=True)
        self.api.objects.remove(self._cluster.kind("", "nodes"), "", name)

    def _control(self) -> None:
        """Run all controllers, after every change and periodically."""
        try:
            while not self._over.is_set():
                version = self.api.objects.version
                self._step()
                self.api.objects.wait(max(version, 0), _POLL_S)
        except Exception as problem:  # noqa: BLE001 - nothing is brought on any more, whatever it was
            self.server.fail("Kubernetes controllers", problem)

    def _step(self) -> None:
        kueue.reconcile(self._cluster)
        for group, plural, bring_on in operators.CONTROLLERS:
            for document in self._cluster.every(group, plural):
                bring_on(self._cluster, document)
        self._collect()
        self._clean_nodes()
        # The device plugins: pods can request a node's devices if their plugin runs on it
        daemon_sets = self._cluster.every("apps", "daemonsets")
        for node in self.nodes() if daemon_sets else ():
            carried = self._devices.get(node["metadata"]["name"], {})
            fresh = device_plugins.fresh(daemon_sets, node, carried)
            if fresh:
                room = {**node["status"]["allocatable"], **fresh}
                self._cluster.set_status("", "nodes", node, {**node["status"], "allocatable": room, "capacity": room})
        claims.bind(self._cluster)
        self._place()
        self._run()

    def _collect(self) -> None:
        """Collect garbage: delete objects whose owners are gone; release objects that wait for dependents."""
        headers = self.api.objects.headers()
        uids = {header["metadata"]["uid"] for _, header in headers}
        for kind, header in headers:
            metadata = header["metadata"]
            place = metadata.get("namespace", ""), metadata["name"]
            owners = list(owner_uids(header))
            if owners and not any(owner in uids for owner in owners) and "deletionTimestamp" not in metadata:
                self._quietly(lambda kind=kind, place=place: self.api.delete(kind, place[0], place[1], {}))
            if kind.kind == "Pod" and owners and not any(owner in uids for owner in owners):
                self._cluster.untrack(header, job_controller.TRACKED)
            if "deletionTimestamp" in metadata and "foregroundDeletion" in metadata.get("finalizers", ()):
                self._foreground(header, kind)

    def _foreground(self, header: Object, kind: Any) -> None:
        metadata = header["metadata"]
        dependents = [(of, other) for of, other in self.api.objects.headers() if metadata["uid"] in owner_uids(other)]
        for of, dependent in dependents:
            where = dependent["metadata"].get("namespace", ""), dependent["metadata"]["name"]
            self._cluster.untrack(dependent, job_controller.TRACKED) if of.kind == "Pod" else None
            if "deletionTimestamp" not in dependent["metadata"]:
                self._quietly(lambda of=of, where=where: self.api.delete(of, where[0], where[1], {}))
        if not dependents:
            without = [name for name in metadata["finalizers"] if name != "foregroundDeletion"]

            def apply(stored: Object) -> Object:
                return {**stored, "metadata": {**stored["metadata"], "finalizers": without}}

            self._quietly(lambda: self.api.objects.update(kind, metadata.get("namespace", ""), apply, metadata["name"]))

    def _clean_nodes(self) -> None:
        """Fail and delete the pods of a removed node (PodGC); evict pods that do not tolerate a taint."""
        nodes = {node["metadata"]["name"]: node for node in self.nodes()}
        for pod in self.pods():
            where, metadata = pod["spec"].get("nodeName"), pod["metadata"]
            if where is None:
                continue
            place = metadata["namespace"], metadata["name"]
            run = self._runs.get(metadata["uid"])
            # A replacement node under the name of a removed one runs none of its pods.
            if where not in nodes or (run is not None and run.lost):
                self._quietly(lambda place=place, pod=pod: self._delete_orphan(place, pod))
                continue
            evicting = [taint for taint in nodes[where]["spec"].get("taints", ()) if taint["effect"] == "NoExecute"]
            if any(not placing.tolerates(pod, taint) for taint in evicting) and "deletionTimestamp" not in metadata:
                text = "Taint manager: deleting due to NoExecute taint"
                self._quietly(lambda place=place, text=text: self._evict(place, text))

    def _evict(self, place: tuple[str, str], text: str) -> None:
        namespace, name = place
        pods = self._cluster.kind("", "pods")
        disrupt(self.api.objects, pods, (namespace, name), "DeletionByTaintManager", text)
        self.api.delete(pods, namespace, name, {})

    def _delete_orphan(self, place: tuple[str, str], pod: Object) -> None:
        namespace, name = place
        pods = self._cluster.kind("", "pods")
        if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            disrupt(self.api.objects, pods, (namespace, name), "DeletionByPodGC", "PodGC: node no longer exists")
            self.api.objects.update(
                pods, namespace, lambda stored: {**stored, "status": {**stored["status"], "phase": "Failed"}}, name
            )
        self.api.delete(pods, namespace, name, {"gracePeriodSeconds": 0})

    def _place(self) -> None:
        nodes, pods = self.nodes(), self.pods()
        living = [pod for pod in pods if pod.get("status", {}).get("phase") in ("Pending", "Running")]
        for pod in living:
            metadata = pod["metadata"]
            if pod["spec"].get("nodeName") or "deletionTimestamp" in metadata or pod["spec"].get("schedulingGates"):
                continue
            volume_claims = self._cluster.every("", "persistentvolumeclaims") if claims.names_in(pod) else []
            node, why = placing.choose(pod, nodes, living, unready=claims.unready(pod, volume_claims, living))
            if node is None:
                self._report_unplaced(pod, why)
                continue
            pod["spec"]["nodeName"] = node
            self._quietly(
                lambda metadata=metadata, node=node: self._bind(metadata["namespace"], metadata["name"], node)
            )
            text = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {node}"
            self._cluster.event(pod, "Normal", "Scheduled", text, source="default-scheduler")

    def _bind(self, namespace: str, name: str, node: str) -> None:

        def apply(stored: Object) -> Object:
            status = update_condition(stored["status"], "PodScheduled")
            return {**stored, "spec": {**stored["spec"], "nodeName": node}, "status": status}

        self.api.objects.update(self._cluster.kind("", "pods"), namespace, apply, name)

    def _report_unplaced(self, pod: Object, why: str) -> None:
        """Report why a pod has no node, once while the reason is the same."""
        conditions = pod["status"].get("conditions", [])
        if any(condition["type"] == "PodScheduled" and condition.get("message") == why for condition in conditions):
            return
        status = update_condition(pod["status"], "PodScheduled", is_true=False, reason="Unschedulable", message=why)
        self._cluster.set_status("", "pods", pod, status)
        self._cluster.event(pod, "Warning", "FailedScheduling", why, source="default-scheduler")

    def _run(self) -> None:
        pods = self.pods()
        self._end_orphans({pod["metadata"]["uid"] for pod in pods})
        for pod in pods:
            uid, metadata = pod["metadata"]["uid"], pod["metadata"]
            if not pod["spec"].get("nodeName"):
                continue
            with self._lock:
                run = self._runs.get(uid)
                ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
                if run is None and not ended and "deletionTimestamp" not in metadata and self._has_volumes(pod, pods):
                    run = self._runs[uid] = self._pod_run(pod)
                    run.start()
            if "deletionTimestamp" not in metadata:
                continue
            if run is not None and run.is_alive():
                run.terminate(float(metadata.get("deletionGracePeriodSeconds", 30)))
            elif metadata.get("deletionGracePeriodSeconds"):
                self._quietly(lambda metadata=metadata: self._let_go(metadata["namespace"], metadata["name"]))

    def _has_volumes(self, pod: Object, pods: list[Object]) -> bool:
        """Whether a pod's volumes are attached to its node; report a reason once while it is the same."""
        if not claims.names_in(pod):
            return True
        uid = pod["metadata"]["uid"]
        running = [pod for pod in pods if (run := self._runs.get(pod["metadata"]["uid"])) and run.is_alive()]
        why = claims.attachment_refusal(pod, self._cluster.every("", "persistentvolumeclaims"), running)
        if why and self._unattached.get(uid) != why:
            self._cluster.event(pod, "Warning", "FailedAttachVolume", why, source="attachdetach-controller")
        self._unattached[uid] = why
        return not why

    def _end_orphans(self, uids: set[str]) -> None:
        """End the processes of pods that the API no longer has: they were deleted by force."""
        with self._lock:
            orphans = [run for uid, run in self._runs.items() if uid not in uids and run.is_alive()]
        for orphan in orphans:
            orphan.terminate(FORCED_GRACE_S)

    def _let_go(self, namespace: str, name: str) -> None:
        def apply(stored: Object) -> Object:
            return {**stored, "metadata": {**stored["metadata"], "deletionGracePeriodSeconds": 0}}

        self.api.objects.update(self._cluster.kind("", "pods"), namespace, apply, name)

    def _pod_run(self, pod: Object) -> PodRun:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        services = self._cluster.every("", "services")
        node = self.api.objects.find(self._cluster.kind("", "nodes"), "", pod["spec"]["nodeName"]) or {}
        # All nodes are this computer, so its boot id cannot identify them.
        boot = {"SLIPWAY_BOOT_ID": str(node.get("metadata", {}).get("uid", ""))}

        def find(plural: str, name: str) -> Object | None:
            return self.api.objects.find(self._cluster.kind("", plural), namespace, name)

        def report(status: Object) -> None:
            def apply(stored: Object) -> Object | None:
                if stored["metadata"]["uid"] != pod["metadata"]["uid"]:
                    return None  # another one of its name
                return {**stored, "status": {**stored.get("status", {}), **status}}

            pods = self._cluster.kind("", "pods")
            self._quietly(lambda: self.api.objects.update(pods, namespace, apply, name))

        return PodRun(
            pod,
            self._folder / pod["spec"]["nodeName"] / pod["metadata"]["uid"],
            claims=self._folder / ".claims" / namespace,
            environment={**self._environment, **boot},
            mark=self._mark,
            find=find,
            services=frozenset(service["metadata"]["name"] for service in services),
            report=report,
            fail=lambda problem: self.server.fail(f"kubelet of pod {name}", problem),
            event=lambda kind, reason, text: self._cluster.event(pod, kind, reason, text, source="kubelet"),
        )

    def log(self, namespace: str, pod: str, query: Mapping[str, str]) -> bytes:
        """The output of a container.

        Raises:
            RefusedError: the pod or container does not exist or has not started.
        """
        document, run = self._run_of(namespace, pod)
        return read_log(document, run.log if run is not None else None, query)

    def spawner(self, namespace: str, pod: str) -> Spawn:
        """A function that starts programs in the container of a running pod.

        Raises:
            RefusedError: the pod does not exist or does not run.
        """
        document, run = self._run_of(namespace, pod)
        if run is None or document.get("status", {}).get("phase") != "Running":
            raise RefusedError("BadRequest", f"cannot exec into a container of pod {pod}: it does not run")
        return run.start_program

    def _run_of(self, namespace: str, name: str) -> tuple[Object, PodRun | None]:
        pod = self.api.objects.get(self._cluster.kind("", "pods"), namespace, name)
        with self._lock:
            return pod, self._runs.get(pod["metadata"]["uid"])

    @staticmethod
    def _quietly(call: Any) -> None:
        """Make a call; ignore a refusal: the next round processes objects that are gone or have changed."""
        try:
            call()
        except RefusedError:
            return
