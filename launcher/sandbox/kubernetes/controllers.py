"""The base of all controllers: how they read a cluster and change it."""

import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from launcher.sandbox.kubernetes.api import Api
from launcher.sandbox.kubernetes.kinds import Kind
from launcher.sandbox.kubernetes.statuses import RefusedError
from launcher.sandbox.kubernetes.store import Object, now, owner_uids, update_condition

REPLACE_S = 1.0
"""Delay before a failed pod is replaced: in Kubernetes 10 s, doubled each time (pkg/controller/job); here 1 s."""


class ControlledCluster:
    """One cluster, with the operations that its controllers need."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._pauses: dict[tuple[str, int], float] = {}
        self._lock = threading.Lock()

    def kind(self, group: str, plural: str, version: str = "v1") -> Kind:
        """A served kind."""
        return self.api.kinds.at(group, version, plural)

    def every(self, group: str, plural: str, version: str = "v1") -> list[Object]:
        """All objects of a kind; empty if the cluster does not serve the kind."""
        try:
            return self.api.objects.every(self.kind(group, plural, version))[0]
        except RefusedError:
            return []

    def pods_of(self, namespace: str, uid: str) -> list[Object]:
        """The pods that an object owns, oldest first."""
        pods = self.api.objects.every(self.kind("", "pods"), namespace, lambda pod: uid in owner_uids(pod))[0]
        return sorted(pods, key=lambda pod: int(pod["metadata"]["resourceVersion"]))

    def create_pod(self, pod: Object, owner: Object) -> None:
        """Create a pod that an object owns; a refusal of the API becomes an event of the owner."""
        reference = {name: owner[name] for name in ("apiVersion", "kind")}
        reference |= {name: owner["metadata"][name] for name in ("name", "uid")}
        reference |= {"controller": True, "blockOwnerDeletion": True}
        created = {**pod, "metadata": {**pod["metadata"], "ownerReferences": [reference]}}
        try:
            self.api.create(self.kind("", "pods"), owner["metadata"]["namespace"], created)
        except RefusedError as refused:
            self.event(owner, "Warning", "FailedCreate", f"Error creating: {refused}")
            return
        self.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")

    def delete_pod(self, pod: Object, *, grace_s: int | None = None) -> None:
        """Delete a pod, unless its deletion has started."""
        if "deletionTimestamp" in pod["metadata"]:
            return
        options = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        try:
            self.api.delete(self.kind("", "pods"), pod["metadata"]["namespace"], pod["metadata"]["name"], options)
        except RefusedError:
            return

    def untrack(self, document: Object, finalizer: str) -> None:
        """Remove a finalizer from a pod."""

        def apply(before: Object) -> Object:
            remaining = [name for name in before["metadata"].get("finalizers", ()) if name != finalizer]
            return {**before, "metadata": {**before["metadata"], "finalizers": remaining}}

        metadata = document["metadata"]
        try:
            self.api.objects.update(self.kind("", "pods"), metadata["namespace"], apply, metadata["name"])
        except RefusedError:
            return

    def set_status(self, group: str, plural: str, document: Object, status: Object, version: str = "v1") -> None:
        """Write an object's status, unless the object is gone."""
        kind, metadata = self.kind(group, plural, version), document["metadata"]
        try:
            self.api.objects.update(
                kind, metadata.get("namespace", ""), lambda stored: {**stored, "status": status}, metadata["name"]
            )
        except RefusedError:
            return

    def event(self, about: Object, kind: str, reason: str, message: str, *, source: str = "controller") -> None:
        """Write an event, or count one that already exists."""
        metadata = about["metadata"]
        namespace, events = metadata.get("namespace", "default"), self.kind("", "events")
        reference = {"kind": about["kind"], "apiVersion": about["apiVersion"], "name": metadata["name"]}
        reference |= {"namespace": metadata.get("namespace", ""), "uid": metadata["uid"]}

        def same(event: Mapping[str, Any]) -> bool:
            reported = event["involvedObject"]["uid"], event["reason"], event["message"]
            return reported == (metadata["uid"], reason, message)

        existing, _ = self.api.objects.every(events, namespace, same)
        if existing:
            count = {"count": existing[0]["count"] + 1, "lastTimestamp": now()}
            self.api.objects.update(
                events, namespace, lambda event: {**event, **count}, existing[0]["metadata"]["name"]
            )
            return
        name = f"{metadata['name']}.{time.time_ns():x}"
        new_event: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name},
            "involvedObject": reference,
        }
        new_event |= {"type": kind, "reason": reason, "message": message, "count": 1, "source": {"component": source}}
        try:
            self.api.create(events, namespace, {**new_event, "firstTimestamp": now(), "lastTimestamp": now()})
        except RefusedError:
            return

    def replace_after(self, job: Object, index: int, *, delay: bool) -> None:
        """Record the time after which the pod of an index may be created again."""
        with self._lock:
            self._pauses[job["metadata"]["uid"], index] = time.monotonic() + (REPLACE_S if delay else 0.0)

    def may_replace(self, job: Object, index: int) -> bool:
        """Whether the pod of an index may be created again now."""
        with self._lock:
            return time.monotonic() >= self._pauses.get((job["metadata"]["uid"], index), 0.0)

    def seconds_since(self, text: str) -> float:
        """Seconds since a timestamp of an object."""
        then = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        return (datetime.now(UTC) - then).total_seconds()


def condition(document: Mapping[str, Any], kind: str) -> Object | None:
    """A condition of an object that is true."""
    conditions = document.get("status", {}).get("conditions", ())
    return next((row for row in conditions if row["type"] == kind and row["status"] == "True"), None)


def with_condition(status: Object, kind: str, reason: str, message: str) -> Object:
    """A job's status with one more condition; a condition that is already true does not change."""
    if condition({"status": status}, kind) is not None:
        return status
    return update_condition(status, kind, reason=reason, message=message, lastProbeTime=now())


def is_over(job: Mapping[str, Any]) -> bool:
    """Whether a job of any kind has ended."""
    return any(condition(job, kind) is not None for kind in ("Complete", "Failed", "Succeeded", "Completed"))
