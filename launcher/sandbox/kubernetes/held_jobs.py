"""Suspended jobs: the effect of Kueue's webhook and HyperPod's policy on a new job, and the field that suspends it."""

from collections.abc import Mapping

from launcher.sandbox.kubernetes.statuses import RefusedError
from launcher.sandbox.kubernetes.store import Object

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
JOBS = frozenset({"Job", "PyTorchJob", "HyperPodPyTorchJob"})
"""The kinds that Kueue manages here. Kueue leaves the pods of such jobs, which may have the label too, to the jobs."""
_GOVERNED = {
    "sagemaker.amazonaws.com/activate-quota": "Enabled",
    "sagemaker.amazonaws.com/sagemaker-managed-queue": "true",
}
_POLICY, _OWNER = "hyperpod-task-governance-admission-policy", "sagemaker.amazonaws.com/"
_REVIEWED_KINDS = JOBS | {"Pod", "Deployment", "StatefulSet"}


def held_back(document: Object) -> Object:
    """A new job after the webhook: suspended if it names a queue."""
    labels = document.get("metadata", {}).get("labels", {})
    if document.get("kind") not in JOBS or QUEUE_LABEL not in labels or "spec" not in document:
        return document
    return with_suspend(document, is_held=True)


def refuse_unqueued(document: Object, namespace: Mapping[str, str]) -> None:
    """Refuse an object without a queue in a namespace where a queue is required.

    The policy is that of HyperPod's task governance (awslabs/ai-on-sagemaker-hyperpod, pre-flight checks, and one
    account of 2026-10): it applies to pods too, except those of HyperPod's training operator.

    Raises:
        RefusedError: the object names no queue, and a queue is required.
    """
    metadata = document.get("metadata", {})
    owners = (str(reference.get("apiVersion", "")) for reference in metadata.get("ownerReferences", ()))
    governed = document.get("kind") in _REVIEWED_KINDS and namespace.items() >= _GOVERNED.items()
    exempt = any(owner.startswith(_OWNER) for owner in owners)
    if governed and not exempt and not metadata.get("labels", {}).get(QUEUE_LABEL):
        text = f"The label '{QUEUE_LABEL}' is either missing or does not have a value set."
        raise RefusedError("Invalid", f"ValidatingAdmissionPolicy '{_POLICY}' denied request: {text}")


def governed_namespace(name: str) -> Object:
    """The namespace of a team, as task governance creates it."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(_GOVERNED)}}


def with_suspend(job: Object, *, is_held: bool) -> Object:
    """A job with its suspend flag set: in the spec of a Job, in the run policy of operators' jobs."""
    spec = job["spec"]
    if job["kind"] == "Job":
        return {**job, "spec": {**spec, "suspend": is_held}}
    return {**job, "spec": {**spec, "runPolicy": {**spec.get("runPolicy", {}), "suspend": is_held}}}
