"""PersistentVolumeClaims: how they are bound, and which pods wait for them.

Words and rules are those of Kubernetes 1.34: the controller pkg/controller/volume/persistentvolume, and the plugins
volumebinding and volumerestrictions of the scheduler. What the API server asks of a claim is in pod_rules.py. Emulated:
claims, volumes that exist, and their binding. Not emulated: storage classes, so that no volume is made for a claim.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.sandbox.kubernetes.controllers import Cluster
from launcher.sandbox.kubernetes.pod_rules import quantity

Object = dict[str, Any]
_ONE_NODE, _ONE_POD = "ReadWriteOnce", "ReadWriteOncePod"
_NO_VOLUME = "no persistent volumes available for this claim and no storage class is set"


def bind(cluster: Cluster) -> None:
    """Bind the claims for which there is a volume; of the others it is said why not."""
    volumes = cluster.every("", "persistentvolumes")
    taken = {_name_of_claim(each["spec"].get("claimRef", {})): each for each in volumes}
    for claim in cluster.every("", "persistentvolumeclaims"):
        if claim.get("status", {}).get("phase") == "Bound":
            continue
        metadata = claim["metadata"]
        place = metadata["namespace"], metadata["name"]
        volume = taken.get(place) or next((each for each in volumes if _fits(claim, each)), None)
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
    wanted, spec = claim["spec"], volume["spec"]
    if volume.get("status", {}).get("phase") == "Bound" or "claimRef" in spec:
        return False
    if wanted.get("volumeName"):
        return bool(wanted["volumeName"] == volume["metadata"]["name"])
    return (
        wanted.get("storageClassName", "") == spec.get("storageClassName", "")
        and {*wanted["accessModes"]} <= {*spec["accessModes"]}
        and quantity(spec["capacity"]["storage"]) >= quantity(wanted["resources"]["requests"]["storage"])
    )


def names_in(pod: Mapping[str, Any]) -> list[str]:
    """The claims that a pod uses."""
    volumes = (volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes", ()))
    return [volume["claimName"] for volume in volumes if volume is not None]


def unready(pod: Object, claims: Iterable[Object], pods: Iterable[Object]) -> str:
    """Why the scheduler finds a pod's claims not ready; empty where it waits for none."""
    there = {_name_of_claim(each["metadata"]): each for each in claims}
    namespace = pod["metadata"]["namespace"]
    found = {name: there.get((namespace, name)) for name in names_in(pod)}
    for name, claim in found.items():
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if "deletionTimestamp" in claim["metadata"]:
            return f'persistentvolumeclaim "{name}" is being deleted'
    if any(each is not None and each.get("status", {}).get("phase") != "Bound" for each in found.values()):
        return "pod has unbound immediate PersistentVolumeClaims"
    single = {name for name, each in found.items() if each is not None and _ONE_POD in each["spec"]["accessModes"]}
    if any(single.intersection(names_in(other)) for other in _beside(pod, pods)):
        return "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
    return ""


def unattached(pod: Object, claims: Iterable[Object], pods: Iterable[Object]) -> str:
    """Why a volume cannot be attached to a pod's node: one of `pods`, which run, has it at another; else empty."""
    namespace, node = pod["metadata"]["namespace"], pod["spec"]["nodeName"]
    for claim in claims:
        name, modes = claim["metadata"]["name"], {*claim["spec"]["accessModes"]}
        if claim["metadata"]["namespace"] != namespace or name not in names_in(pod) or modes - {_ONE_NODE, _ONE_POD}:
            continue
        others = [each for each in _beside(pod, pods) if name in names_in(each) and each["spec"]["nodeName"] != node]
        if others:
            volume = claim["spec"].get("volumeName") or name
            users = ", ".join(other["metadata"]["name"] for other in others)
            return f'Multi-Attach error for volume "{volume}" Volume is already used by pod(s) {users}'
    return ""


def _beside(pod: Object, pods: Iterable[Object]) -> list[Object]:
    return [
        each
        for each in pods
        if each["metadata"]["uid"] != pod["metadata"]["uid"]
        and each["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and each["spec"].get("nodeName")
        and each.get("status", {}).get("phase") in ("Pending", "Running")
    ]


def _name_of_claim(reference: Mapping[str, Any]) -> tuple[str, str]:
    return str(reference.get("namespace", "")), str(reference.get("name", ""))


def standing(namespace: str, names: Iterable[str]) -> list[Object]:
    """Claims that are there, with the file systems behind them: every node may write to them."""
    found: list[Object] = []
    for number, name in enumerate(dict.fromkeys(names)):
        size, modes = {"storage": "1200Gi"}, ["ReadWriteMany"]
        csi = {"driver": "fsx.csi.aws.com", "volumeHandle": f"fs-{number:017x}"}
        volume = {"capacity": size, "accessModes": modes, "csi": csi, "persistentVolumeReclaimPolicy": "Retain"}
        claim = {"accessModes": modes, "resources": {"requests": size}, "volumeName": f"{namespace}-{name}"}
        found += [
            _object("PersistentVolume", {"name": f"{namespace}-{name}"}, volume),
            _object("PersistentVolumeClaim", {"name": name, "namespace": namespace}, {**claim, "storageClassName": ""}),
        ]
    return found


def _object(kind: str, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}
