"""Jobs that are held back: what Kueue's webhook does to a new one that names a queue, and the flag that it sets."""

from launcher.sandbox.kubernetes.store import Object

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def held_back(document: Object) -> Object:
    """A new job as the webhook leaves it: suspended, where it names a queue."""
    if QUEUE_LABEL not in document.get("metadata", {}).get("labels", {}) or "spec" not in document:
        return document
    return suspended(document, held=True)


def suspended(job: Object, *, held: bool) -> Object:
    """A job with its flag set: a Job has it in its spec, operators' jobs in their policy."""
    spec = job["spec"]
    if job["kind"] == "Job":
        return {**job, "spec": {**spec, "suspend": held}}
    return {**job, "spec": {**spec, "runPolicy": {**spec.get("runPolicy", {}), "suspend": held}}}
