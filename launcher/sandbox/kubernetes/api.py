"""The operations of the API server: create, read, change and delete objects, as strictly as Kubernetes does."""

import base64
import binascii
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.agent import safe_json
from launcher.sandbox.kubernetes import kinds, patches, selectors, structure
from launcher.sandbox.kubernetes.held_jobs import held_back, refuse_unqueued
from launcher.sandbox.kubernetes.kinds import Kind, Kinds
from launcher.sandbox.kubernetes.pod_defaults import with_job_defaults, with_pod_defaults
from launcher.sandbox.kubernetes.statuses import RefusedError
from launcher.sandbox.kubernetes.store import Object, ObjectStore, now, update_condition
from launcher.sandbox.kubernetes.validation import validate

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Letters at the end of a generated name (apimachinery, util/rand)."""
_GENERATED, _LONGEST = 5, 63
_DEFAULTS: Mapping[str, Callable[[Object], Object]] = {"Pod": with_pod_defaults, "Job": with_job_defaults}
_WITH_STATUS = frozenset({"Job", "Node", "Pod", "Service", "Namespace"})
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_OURS = ("uid", "creationTimestamp", "generation", "namespace", "deletionTimestamp", "deletionGracePeriodSeconds")
"""Members of an object's metadata that clients cannot set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One cluster's API, without HTTP."""

    objects: ObjectStore = field(default_factory=ObjectStore)
    kinds: Kinds = field(default_factory=Kinds)

    def __post_init__(self) -> None:
        for name in ("default", "kube-system"):
            self.create(
                self.kinds.at("", "v1", "namespaces"),
                "",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            )

    def create(self, kind: Kind, namespace: str, document: Object) -> Object:
        """Create an object."""
        metadata = dict(document.get("metadata") or {})
        if metadata.get("namespace", namespace) != namespace:
            text = "the namespace of the provided object does not match the namespace sent on the request"
            raise RefusedError("BadRequest", text)
        space = self.objects.find(self.kinds.at("", "v1", "namespaces"), "", namespace) if kind.namespaced else None
        if kind.namespaced and space is None:
            raise RefusedError("NotFound", f'namespaces "{namespace}" not found')
        if "resourceVersion" in metadata:
            raise RefusedError("BadRequest", "resourceVersion should not be set on objects to be created")
        if "name" not in metadata and "generateName" in metadata:
            ending = "".join(secrets.choice(_LETTERS) for _ in range(_GENERATED))
            metadata["name"] = f"{metadata['generateName'][: _LONGEST - _GENERATED]}{ending}"
        created = {name: value for name, value in document.items() if name != "status"} | {"metadata": metadata}
        if any(kind_served.plural == "localqueues" for kind_served in self.kinds):
            created = held_back(created)
        validate(kind, created, None)
        refuse_unqueued(created, {} if space is None else space["metadata"].get("labels", {}))
        if kind.schema is not None:
            created = structure.with_defaults(kind.schema, created)
        if kind.kind == "CustomResourceDefinition":
            for defined in kinds.defined_kinds(created):
                self.kinds.add(defined)
        return self.objects.create(kind, namespace, _DEFAULTS.get(kind.kind, dict)(created))

    def page(self, kind: Kind, namespace: str, query: Mapping[str, str]) -> Object:
        """A list of objects, complete or in pages.

        Raises:
            RefusedError: a selector or a continue token cannot be read, or the token has expired.
        """
        listed, version = self.objects.every(kind, namespace, matching(kind, query))
        position, limit = query.get("continue", ""), int(query.get("limit") or 0)
        if position:
            try:
                after, version = safe_json.loads(base64.urlsafe_b64decode(position))
            except (ValueError, binascii.Error) as problem:
                raise RefusedError("BadRequest", "continue key is not valid") from problem
            self.objects.since(int(version), kind)
            listed = [row for row in listed if _place(row) > after]
        metadata: Object = {"resourceVersion": str(version)}
        if limit and len(listed) > limit:
            metadata["remainingItemCount"] = len(listed) - limit
            listed = listed[:limit]
            mark = json.dumps([_place(listed[-1]), version]).encode()
            metadata["continue"] = base64.urlsafe_b64encode(mark).decode()
        items = [{name: row[name] for name in row if name not in ("apiVersion", "kind")} for row in listed]
        return {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata, "items": items}

    def replace(self, kind: Kind, namespace: str, name: str, document: Object, part: str = "") -> Object:
        """Replace an object, or its status.

        Raises:
            RefusedError: the object does not exist, has changed in the meantime, or is refused.
        """
        return self._change_object(kind, namespace, name, lambda _: document, part)

    def patch(self, kind: Kind, namespace: str, name: str, patch: Any, *, form: str, part: str = "") -> Object:
        """Change an object, or its status.

        Raises:
            RefusedError: the object does not exist, the patch has an unknown form, or its result is refused.
        """
        if form not in patches.FORMS or (form.startswith("application/strategic") and kind.schema is not None):
            allowed = ", ".join(sorted(patches.FORMS))
            text = f"the body of the request was in an unknown format - accepted media types include: {allowed}"
            raise RefusedError("UnsupportedMediaType", text)
        return self._change_object(kind, namespace, name, lambda stored: patches.FORMS[form](stored, patch), part)

    def _change_object(
        self, kind: Kind, namespace: str, name: str, change: Callable[[Object], Object], part: str
    ) -> Object:
        if part == "status" and kind.schema is None and kind.kind not in _WITH_STATUS:
            raise RefusedError("NotFound", "the server could not find the requested resource")

        def apply(before: Object) -> Object:
            changed = change(before)
            metadata = changed.get("metadata", {})
            if metadata.get("resourceVersion") not in (None, before["metadata"]["resourceVersion"]):
                text = "the object has been modified; please apply your changes to the latest version and try again"
                raise RefusedError("Conflict", f'Operation cannot be fulfilled on {kind.plural} "{name}": {text}')
            if part == "status":
                return {**before, "status": changed.get("status", {})}
            if metadata.get("name", name) != name:
                raise RefusedError("BadRequest", "the name of the object does not match the name on the URL")
            fixed = {key: before["metadata"][key] for key in _OURS if key in before["metadata"]}
            free = {key: value for key, value in metadata.items() if key not in _OURS}
            updated = {**changed, "metadata": {**free, **fixed}}
            updated = {**updated, "status": before["status"]} if "status" in before else updated
            validate(kind, updated, before)
            return updated

        return self.objects.update(kind, namespace, apply, name)

    def delete(self, kind: Kind, namespace: str, name: str, options: Mapping[str, Any]) -> Object:
        """Delete an object: immediately, or when its finalizers and its grace period permit.

        Raises:
            RefusedError: the object does not exist, or its identity is not the requested one.
        """
        preconditions, policy = options.get("preconditions") or {}, options.get("propagationPolicy")
        seconds = options.get("gracePeriodSeconds")

        def mark(before: Object) -> Object:
            metadata = before["metadata"]
            for key in ("uid", "resourceVersion"):
                if preconditions.get(key) not in (None, metadata[key]):
                    text = f"the {key} in the precondition ({preconditions[key]}) does not match the {key} in record"
                    raise RefusedError("Conflict", f'Operation cannot be fulfilled on {kind.plural} "{name}": {text}')
            more = {"Orphan": [_ORPHAN], "Foreground": [_FOREGROUND]}.get(str(policy), [])
            finalizers = [
                *metadata.get("finalizers", []),
                *(finalizer for finalizer in more if finalizer not in metadata.get("finalizers", [])),
            ]
            marked = {**metadata, **({"finalizers": finalizers} if finalizers else {})}
            marked.setdefault("deletionTimestamp", now())
            if kind.kind == "Pod":
                marked["deletionGracePeriodSeconds"] = _grace(before, marked, seconds)
            return {**before, "metadata": marked}

        return self.objects.update(kind, namespace, mark, name)

    def evict(self, namespace: str, name: str, options: Mapping[str, Any]) -> Object:
        """Evict a pod from its node, as a drain does (policy/v1 Eviction)."""
        pods = self.kinds.at("", "v1", "pods")
        disrupt(self.objects, pods, (namespace, name), "EvictionByEvictionAPI", "Eviction API: evicting")
        self.delete(pods, namespace, name, options)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def disrupt(objects: ObjectStore, pods: Kind, place: tuple[str, str], reason: str, message: str) -> None:
    """Mark a pod as disrupted from outside (condition DisruptionTarget)."""

    def apply(stored: Object) -> Object:
        return {
            **stored,
            "status": update_condition(stored.get("status", {}), "DisruptionTarget", reason=reason, message=message),
        }

    objects.update(pods, place[0], apply, place[1])


def _grace(before: Object, metadata: Object, seconds: int | None) -> int:
    """The grace period of a pod in seconds. It only gets shorter; 0 for a pod that has no node or has ended."""
    grace_s = before["spec"].get("terminationGracePeriodSeconds", 30) if seconds is None else seconds
    phase = before.get("status", {}).get("phase", "Pending")
    if not before["spec"].get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    return int(min(grace_s, metadata.get("deletionGracePeriodSeconds", grace_s)))


def matching(kind: Kind, query: Mapping[str, str]) -> selectors.Match:
    """A function that checks whether an object matches the selectors of a request.

    Raises:
        RefusedError: a selector cannot be read.
    """
    by_label = selectors.labels(query.get("labelSelector", ""))
    by_field = selectors.fields(query.get("fieldSelector", ""), kind.kind)
    return lambda document: by_label(document) and by_field(document)


def _place(document: Object) -> list[str]:
    return [document["metadata"].get("namespace", ""), document["metadata"]["name"]]
