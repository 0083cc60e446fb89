"""The operators of custom jobs: the training operator for PyTorchJobs, HyperPod's for HyperPodPyTorchJobs.

PyTorchJob after kubeflow/training-operator@855e096, which HyperPod's chart installs, to v1.9.0 (controller.v1/common
job.go and pod.go, pytorch, core/job.go): names, labels, variables, restarts, and the end of a job. HyperPodPyTorchJob:
fields are known, the operator's code is not published. Its documentation (SageMaker, "Using the training operator to
run jobs", 2026-11-23) limits restarts of processes by `jobMaxRetryCount` and restarts of the complete job by
`maxFullJobRestarts`; here every restart is a restart of the complete job and counts as both.
"""

from collections.abc import Callable
from typing import Any

from launcher.sandbox.kubernetes import job_controller
from launcher.sandbox.kubernetes.controllers import ControlledCluster, is_over, with_condition
from launcher.sandbox.kubernetes.store import Object, now

_GROUP, _PLURAL = "kubeflow.org", "pytorchjobs"
_HYPERPOD = "sagemaker.amazonaws.com", "hyperpodpytorchjobs"
_PORT = "23456"
_RETRYABLE = 128
"""Exit codes from here on mean a signal, or count as one (training-operator, util/train/train_util.go)."""
_MADE_AGAIN = ("OnFailure", "Always")
"""Restart policies that recreate a failed pod, also an evicted one, with any exit code."""


def reconcile_pytorch(cluster: ControlledCluster, job: Object) -> None:
    """Reconcile a PyTorchJob once."""
    metadata = job["metadata"]
    if "deletionTimestamp" in metadata:
        return
    pods = {pod["metadata"]["name"]: pod for pod in cluster.pods_of(metadata["namespace"], metadata["uid"])}
    if is_over(job):
        if job["spec"].get("runPolicy", {}).get("cleanPodPolicy", "None") in ("All", "Running"):
            for other in pods.values():
                if other.get("status", {}).get("phase") == "Running":
                    cluster.delete_pod(other)
        return
    status: Object = {**job.get("status", {}), "startTime": job.get("status", {}).get("startTime", now())}
    status = with_condition(status, "Created", "PyTorchJobCreated", f"PyTorchJob {metadata['name']} is created.")
    if job["spec"].get("runPolicy", {}).get("suspend"):
        _suspend(cluster, pods)
        cluster.set_status(_GROUP, _PLURAL, job, status)
        return
    failure = None
    replicas = _replicas(job)
    for role, index, spec in replicas:
        name = f"{metadata['name']}-{role.lower()}-{index}"
        _service(cluster, job, name, role, index)
        pod = pods.get(name)
        if pod is None:
            cluster.create_pod(_pod(job, name, (role, index), spec, len(replicas)), job)
        elif pod.get("status", {}).get("phase") == "Failed":
            status, why = _recreate_failed_pod(cluster, job, pod, spec, status)
            failure = failure or why
    status = _status_of(cluster, job, pods, status, failure)
    cluster.set_status(_GROUP, _PLURAL, job, status)


def _suspend(cluster: ControlledCluster, pods: dict[str, Object]) -> None:
    """Delete the pods of a suspended job, also the ended ones, so that they do not count."""
    for pod in pods.values():
        cluster.delete_pod(pod)


def _recreate_failed_pod(
    cluster: ControlledCluster, job: Object, pod: Object, spec: Object, status: Object
) -> tuple[Object, str | None]:
    """Recreate a failed pod if its policy and exit code permit; else return the reason for the end of the job."""
    code, policy = _exit_code(pod), spec.get("restartPolicy", "OnFailure")
    name = job["metadata"]["name"]
    if policy in _MADE_AGAIN or (policy == "ExitCode" and code >= _RETRYABLE):
        cluster.delete_pod(pod, grace_s=0)
        text = f"PyTorchJob {name} is restarting because replica(s) failed."
        cluster.event(job, "Warning", "PyTorchJobRestarting", text)
        others = [condition for condition in status["conditions"] if condition["type"] not in ("Restarting", "Running")]
        return with_condition({**status, "conditions": others}, "Restarting", "PyTorchJobRestarting", text), None
    return status, f"PyTorchJob {name} is failed because a replica ended with exit code {code}."


def _status_of(
    cluster: ControlledCluster, job: Object, pods: dict[str, Object], status: Object, failure: str | None
) -> Object:
    name, specs = job["metadata"]["name"], job["spec"]["pytorchReplicaSpecs"]
    limit = job["spec"].get("runPolicy", {}).get("backoffLimit")
    restarts = sum(
        status["restartCount"]
        for pod in pods.values()
        if pod.get("status", {}).get("phase") == "Running"
        for part in ("initContainerStatuses", "containerStatuses")
        for status in pod["status"].get(part, ())
    )
    failed = any(pod.get("status", {}).get("phase") == "Failed" for pod in pods.values())
    if limit is not None and (restarts >= max(limit, 1) or (limit == 0 and failed)):
        failure = f"PyTorchJob {name} has failed because it has reached the specified backoff limit"
    deadline = job["spec"].get("runPolicy", {}).get("activeDeadlineSeconds")
    if deadline is not None and cluster.seconds_since(status["startTime"]) >= deadline:
        failure = f"PyTorchJob {name} has failed because it was active longer than specified deadline"
    if failure is not None:
        return with_condition(status, "Failed", "PyTorchJobFailed", failure)
    first = f"{name}-{'master' if 'Master' in specs else 'worker'}-0"
    phases = {key: pod.get("status", {}).get("phase") for key, pod in pods.items()}
    if phases.get(first) == "Succeeded":
        text = f"PyTorchJob {name} is successfully completed."
        return {**with_condition(status, "Succeeded", "PyTorchJobSucceeded", text), "completionTime": now()}
    if phases and set(phases.values()) == {"Running"}:
        others = [condition for condition in status["conditions"] if condition["type"] != "Restarting"]
        return with_condition(
            {**status, "conditions": others}, "Running", "PyTorchJobRunning", f"PyTorchJob {name} is running."
        )
    return status


def _replicas(job: Object) -> list[tuple[str, int, Object]]:
    specs = job["spec"]["pytorchReplicaSpecs"]
    roles = [role for role in ("Master", "Worker") if role in specs]
    return [(role, index, specs[role]) for role in roles for index in range(specs[role].get("replicas", 1))]


def _pod(job: Object, name: str, place: tuple[str, int], spec: Object, total: int) -> Object:
    role, index = place
    template, job_name = spec["template"], job["metadata"]["name"]
    rank = index + (1 if role == "Worker" and "Master" in job["spec"]["pytorchReplicaSpecs"] else 0)
    first = "master" if "Master" in job["spec"]["pytorchReplicaSpecs"] else "worker"
    per_node = job["spec"].get("nprocPerNode", "1")
    workers = int(per_node) if per_node.isdigit() else 1
    values = {
        "PYTHONUNBUFFERED": "1",
        "MASTER_PORT": _PORT,
        "PET_MASTER_PORT": _PORT,
        "MASTER_ADDR": f"{job_name}-{first}-0",
        "PET_MASTER_ADDR": f"{job_name}-{first}-0",
        "WORLD_SIZE": str(total * workers),
        "RANK": str(rank),
        "PET_NODE_RANK": str(rank),
        "PET_NPROC_PER_NODE": per_node,
        "PET_NNODES": str(total),
    }
    policy = spec.get("restartPolicy", "OnFailure")
    pod = {**template["spec"], "restartPolicy": "Never" if policy == "ExitCode" else policy}
    pod["containers"] = [
        _with_variables(container, values) if container["name"] == "pytorch" else container
        for container in pod["containers"]
    ]
    labels = {**template.get("metadata", {}).get("labels", {}), **_labels(job, role, index)}
    metadata = {"name": name, "labels": labels, "annotations": template.get("metadata", {}).get("annotations", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}


def _labels(job: Object, role: str, index: int) -> dict[str, str]:
    return {
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/job-name": job["metadata"]["name"],
        "training.kubeflow.org/replica-type": role.lower(),
        "training.kubeflow.org/replica-index": str(index),
    }


def _with_variables(container: Object, values: dict[str, str]) -> Object:
    """A container with added variables; the template's own variables come later and take precedence."""
    existing = {variable["name"] for variable in container.get("env", ())}
    more = [{"name": name, "value": value} for name, value in values.items() if name not in existing]
    return {**container, "env": [*more, *container.get("env", ())]}


def _service(cluster: ControlledCluster, job: Object, name: str, role: str, index: int) -> None:
    """Create the headless service of a replica, by whose name other replicas find it."""
    kind, namespace = cluster.kind("", "services"), job["metadata"]["namespace"]
    if cluster.api.objects.find(kind, namespace, name) is not None:
        return
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": job["metadata"]["name"]}
    owner |= {"uid": job["metadata"]["uid"], "controller": True}
    labels = _labels(job, role, index)
    spec: dict[str, Any] = {
        "clusterIP": "None",
        "selector": labels,
        "ports": [{"name": "pytorchjob-port", "port": int(_PORT)}],
    }
    metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
    cluster.api.create(kind, namespace, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})


def _exit_code(pod: Object) -> int:
    codes = [
        status["state"]["terminated"]["exitCode"]
        for status in pod["status"].get("containerStatuses", ())
        if "terminated" in status["state"]
    ]
    return max(codes, default=1)


def reconcile_hyperpod(cluster: ControlledCluster, job: Object) -> None:
    """Reconcile a HyperPodPyTorchJob once: create all its pods, and restart all of them if one has failed."""
    metadata, spec = job["metadata"], job["spec"]
    if "deletionTimestamp" in metadata or is_over(job):
        return
    pods = {pod["metadata"]["name"]: pod for pod in cluster.pods_of(metadata["namespace"], metadata["uid"])}
    status: Object = {**job.get("status", {}), "startTime": job.get("status", {}).get("startTime", now())}
    status = with_condition(status, "Created", "Created", "the job is created")
    expected = [
        (replica_spec["name"], index, replica_spec)
        for replica_spec in spec["replicaSpecs"]
        for index in range(replica_spec.get("replicas", 1))
    ]
    phases = [pod.get("status", {}).get("phase") for pod in pods.values()]
    leaving = [pod for pod in pods.values() if "deletionTimestamp" in pod["metadata"]]
    policy = spec.get("runPolicy", {})
    most = policy.get("jobMaxRetryCount", 0)
    most = min(most, policy.get("restartPolicy", {}).get("maxFullJobRestarts", most))
    if spec.get("runPolicy", {}).get("suspend"):
        _suspend(cluster, pods)
    elif "Failed" in phases and not leaving:
        status = _restart_job(cluster, pods, status, most)
    elif len(phases) == len(expected) and set(phases) == {"Succeeded"}:
        status = with_condition(status, "Completed", "JobCompleted", "all pods have succeeded")
    elif not leaving and "Failed" not in phases:
        for rank, (name, index, template) in enumerate(expected):
            pod = f"{metadata['name']}-{name}-{index}"
            if pod not in pods:
                cluster.create_pod(_hyperpod_pod(pod, job, template, rank, len(expected)), job)
        if phases and set(phases) == {"Running"}:
            status = with_condition(status, "Running", "JobRunning", "all pods run")
    cluster.set_status(*_HYPERPOD, job, status)


def _restart_job(cluster: ControlledCluster, pods: dict[str, Object], status: Object, most: int) -> Object:
    """Restart a job with a failed pod completely, or fail the job after `most` restarts."""
    if status.get("restartCount", 0) >= most:
        return with_condition(status, "Failed", "JobMaxRetryCountReached", f"the job was restarted {most} times")
    for pod in pods.values():
        cluster.delete_pod(pod)
    return {**status, "restartCount": status.get("restartCount", 0) + 1}


def _hyperpod_pod(name: str, job: Object, spec: Object, rank: int, total: int) -> Object:
    template = spec["template"]
    values = {"RANK": str(rank), "WORLD_SIZE": str(total), "HYPERPOD_JOB_NAME": job["metadata"]["name"]}
    pod = {**template["spec"], "restartPolicy": "Never"}
    pod["containers"] = [_with_variables(container, values) for container in pod["containers"]]
    template_metadata = template.get("metadata", {})
    labels = {
        **template_metadata.get("labels", {}),
        "hyperpodpytorchjob.sagemaker.amazonaws.com/job-name": job["metadata"]["name"],
    }
    metadata = {"name": name, "labels": labels, "annotations": template_metadata.get("annotations", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}


CONTROLLERS: tuple[tuple[str, str, Callable[[ControlledCluster, Object], None]], ...] = (
    ("batch", "jobs", job_controller.reconcile),
    (_GROUP, _PLURAL, reconcile_pytorch),
    (*_HYPERPOD, reconcile_hyperpod),
)
"""The reconcile function of each kind of job, by its API group and plural."""
