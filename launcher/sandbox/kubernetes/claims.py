"""PersistentVolumeClaims: their binding, and the pods that wait for them.

Messages and rules are those of Kubernetes 1.34: the controller pkg/controller/volume/persistentvolume, and the plugins
volumebinding and volumerestrictions of the scheduler. The API server's validation of a claim is in pod_rules.py.
Emulated: claims, existing volumes, and their binding. Not emulated: storage classes, so that no volume is created for a
claim.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.sandbox.kubernetes.controllers import ControlledCluster
from launcher.sandbox.kubernetes.pod_rules import quantity

Object = dict[str, Any]
_ONE_NODE, _ONE_POD = "ReadWriteOnce", "ReadWriteOncePod"
_NO_VOLUME = "no persistent volumes available for this claim and no storage class is set"


def bind(cluster: ControlledCluster) -> None:
    """Bind claims to matching volumes; report the reason for the other claims."""
    volumes = cluster.every("", "persistentvolumes")
    volume_of = {_name_of_claim(volume["spec"].get("claimRef", {})): volume for volume in volumes}
    for claim in cluster.every("", "persistentvolumeclaims"):
        if claim.get("status", {}).get("phase") == "Bound":
            continue
        metadata = claim["metadata"]
        place = metadata["namespace"], metadata["name"]
        volume = volume_of.get(place) or next((volume for volume in volumes if _fits(claim, volume)), None)
        if volume is None:
            if claim.get("status", {}).get("phase") != "Pending":
                cluster.set_status("", "persistentvolumeclaims", claim, {"phase": "Pending"})
                storage_class = claim["spec"].get("storageClassName")
                if storage_class:
                    text = f'storageclass.storage.k8s.io "{storage_class}" not found'
                    cluster.event(claim, "Warning", "ProvisioningFailed", text, source="persistentvolume-controller")
                else:
                    cluster.event(claim, "Normal", "FailedBinding", _NO_VOLUME, source="persistentvolume-controller")
            continue
        bound = {"phase": "Bound", "accessModes": volume["spec"]["accessModes"], "capacity": volume["spec"]["capacity"]}
        cluster.set_status("", "persistentvolumeclaims", claim, bound)
        cluster.set_status("", "persistentvolumes", volume, {"phase": "Bound"})
        volume["status"] = {"phase": "Bound"}


def _fits(claim: Object, volume: Object) -> bool:
    requested, spec = claim["spec"], volume["spec"]
    if volume.get("status", {}).get("phase") == "Bound" or "claimRef" in spec:
        return False
    if requested.get("volumeName"):
        return bool(requested["volumeName"] == volume["metadata"]["name"])
    return (
        requested.get("storageClassName", "") == spec.get("storageClassName", "")
        and {*requested["accessModes"]} <= {*spec["accessModes"]}
        and quantity(spec["capacity"]["storage"]) >= quantity(requested["resources"]["requests"]["storage"])
    )


def names_in(pod: Mapping[str, Any]) -> list[str]:
    """The claims that a pod uses."""
    volumes = (volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes", ()))
    return [volume["claimName"] for volume in volumes if volume is not None]


def unready(pod: Object, claims: Iterable[Object], pods: Iterable[Object]) -> str:
    """Why the scheduler does not accept a pod's claims yet; empty if the pod waits for no claim."""
    existing = {_name_of_claim(claim["metadata"]): claim for claim in claims}
    namespace = pod["metadata"]["namespace"]
    mounted = {name: existing.get((namespace, name)) for name in names_in(pod)}
    for name, claim in mounted.items():
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if "deletionTimestamp" in claim["metadata"]:
            return f'persistentvolumeclaim "{name}" is being deleted'
    if any(claim is not None and claim.get("status", {}).get("phase") != "Bound" for claim in mounted.values()):
        return "pod has unbound immediate PersistentVolumeClaims"
    single = {name for name, claim in mounted.items() if claim and _ONE_POD in claim["spec"]["accessModes"]}
    if any(single.intersection(names_in(other)) for other in _same_node(pod, pods)):
        return "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
    return ""


def attachment_refusal(pod: Object, claims: Iterable[Object], pods: Iterable[Object]) -> str:
    """Why a volume cannot be attached to a pod's node: a running pod of `pods` uses it on another node; else empty."""
    namespace, node = pod["metadata"]["namespace"], pod["spec"]["nodeName"]
    for claim in claims:
        name, modes = claim["metadata"]["name"], {*claim["spec"]["accessModes"]}
        if claim["metadata"]["namespace"] != namespace or name not in names_in(pod) or modes - {_ONE_NODE, _ONE_POD}:
            continue
        users_of_claim = (other for other in _same_node(pod, pods) if name in names_in(other))
        others = [other for other in users_of_claim if other["spec"]["nodeName"] != node]
        if others:
            volume = claim["spec"].get("volumeName") or name
            users = ", ".join(other["metadata"]["name"] for other in others)
            return f'Multi-Attach error for volume "{volume}" Volume is already used by pod(s) {users}'
    return ""


def _same_node(pod: Object, pods: Iterable[Object]) -> list[Object]:
    return [
        other
        for other in pods
        if other["metadata"]["uid"] != pod["metadata"]["uid"]
        and other["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and other["spec"].get("nodeName")
        and other.get("status", {}).get("phase") in ("Pending", "Running")
    ]


def _name_of_claim(reference: Mapping[str, Any]) -> tuple[str, str]:
    return str(reference.get("namespace", "")), str(reference.get("name", ""))


def standing(namespace: str, names: Iterable[str]) -> list[Object]:
    """Existing claims with their file systems: every node may write to them."""
    objects: list[Object] = []
    for number, name in enumerate(dict.fromkeys(names)):
        size, modes = {"storage": "1200Gi"}, ["ReadWriteMany"]
        csi = {"driver": "fsx.csi.aws.com", "volumeHandle": f"fs-{number:017x}"}
        volume = {"capacity": size, "accessModes": modes, "csi": csi, "persistentVolumeReclaimPolicy": "Retain"}
        claim = {"accessModes": modes, "resources": {"requests": size}, "volumeName": f"{namespace}-{name}"}
        objects += [
            _object("PersistentVolume", {"name": f"{namespace}-{name}"}, volume),
            _object("PersistentVolumeClaim", {"name": name, "namespace": namespace}, {**claim, "storageClassName": ""}),
        ]
    return objects


def _object(kind: str, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}
