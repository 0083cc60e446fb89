"""Jobs on Kubernetes: submit once, poll, read output, cancel. The counterpart of the Slurm module."""

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from signal import Signals
from typing import Any

from launcher.agent.attempt_state import NO_PROGRESS, STATE_FILE, AttemptState, parse_attempt_state
from launcher.agent.exits import GAVE_UP, INTERRUPTED, NEVER_AGAIN
from launcher.model.enums import Operator
from launcher.model.job import JobFacts, JobState, SchedulerAttempt, Submitted
from launcher.model.kubernetes import JOB_KINDS, JOB_LABEL, RUN_ANNOTATION
from launcher.model.units import number_of
from launcher.submit.jobs import Chunk, SchedulerError, UnreachableError
from launcher.submit.kubernetes import journal, words
from launcher.submit.kubernetes.connection import ApiRefusedError, Connection
from launcher.submit.kubernetes.journal import Pieces
from launcher.submit.kubernetes.nodes import PodNodes
from launcher.submit.nodes import running_on

_OF_JOB = {
    "BackoffLimitExceeded": "it failed more often than run.retries allows",
    "DeadlineExceeded": "its time limit (run.time_limit_h) is over",
}
"""Reasons of a Job's condition (k8s.io/api, batch/v1/types.go); other reasons use the condition's message."""
_OF_POD = {
    "Evicted": "was evicted from {node}",
    "NodeLost": "was lost with {node}, which stopped responding",
    "Terminated": "ended with {node}, which was shut down",
    "NodeShutdown": "ended with {node}, which was shut down",
    "Shutdown": "ended with {node}, which was shut down",
    "Preempting": "was evicted from {node} for a critical pod",
    "DeadlineExceeded": "was active for longer than it may be",
}
"""Reasons of a pod's status (kubernetes, pkg/kubelet/eviction, nodeshutdown, preemption, and pkg/util/node)."""
_DISRUPTED = {
    "PreemptionByScheduler": "was evicted from {node} for a pod of higher priority",
    "DeletionByTaintManager": "was evicted from {node} because of a taint",
    "EvictionByEvictionAPI": "was evicted from {node} through the API, as by a drain",
    "DeletionByPodGC": "was lost with {node}, which no longer exists",
    "TerminationByKubelet": "was ended by {node}: too few resources, a shutdown, or a critical pod",
}
"""Reasons of a pod's condition DisruptionTarget (Kubernetes documentation, "Disruptions", of Kubernetes 1.34)."""
_EVENTS = ("Evicted", "OOMKilling", "Preempted", "TaintManagerEviction", "NodeNotReady", "Killing", "Failed")
_LARGEST = 128
"""An exit code 128 + n means that signal n ended a process."""
TRIES = 5
_FIRST_PAUSE_S, _SLOWER = 2.0, 2.0
LOG = "log.txt"
_CHUNK = 4_000_000
_FORBIDDEN, _NOT_THERE, _THERE = 403, 404, 409
_PATHS = {
    **{kind.kind: kind.path for kind in JOB_KINDS.values()},
    "Service": "/api/v1/namespaces/{namespace}/services",
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "DaemonSet": "/apis/apps/v1/namespaces/{namespace}/daemonsets",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}
_ENDS = {
    "Complete": JobState.COMPLETED,
    "Succeeded": JobState.COMPLETED,
    "Completed": JobState.COMPLETED,
    "Failed": JobState.FAILED,
}
_DONE = {*_ENDS, "SuccessCriteriaMet", "FailureTarget"}
"""A Job's conditions before its last pods have gone (Kubernetes, "Jobs": Job termination and cleanup; 2026-11-23)."""


def job_failure_reason(
    condition: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], events: Iterable[Mapping[str, Any]]
) -> str:
    """Why a job failed.

    Args:
        condition: the job's own condition that reports the failure.
        pods: the pods of the job that still exist.
        events: the events of pods of the job's namespace.

    >>> job_failure_reason(
    ...     {"reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}, [], []
    ... )
    'it failed more often than run.retries allows; no pod is left that shows the reason'
    """
    reason, message = str(condition.get("reason", "")), _plain(str(condition.get("message", "")))
    by_policy = reason == "PodFailurePolicy"
    cause = f"a retry would not help: {message}" if by_policy else _OF_JOB.get(reason, message)
    last = pod_failure_reason(pods) or deleted_pod_reason(events)
    if not (last or pods or by_policy):
        last = "no pod is left that shows the reason"
    return "; ".join(part for part in (cause, last) if part)


def exit_code_reason(code: int, *, stuck: bool = False) -> str:
    """Why a job failed whose agents counted its failures.

    >>> exit_code_reason(3), exit_code_reason(127)
    ('it failed more often than run.retries allows; ended with exit 3', 'a retry would not help: exit 127')
    >>> exit_code_reason(3, stuck=True)
    'two failures in a row without a newer checkpoint between them: the job is not retried; ended with exit 3'
    """
    if code in NEVER_AGAIN:
        return f"a retry would not help: exit {code}"
    cause = NO_PROGRESS if stuck else _OF_JOB["BackoffLimitExceeded"]
    return f"{cause}; {_end({'reason': 'Error'}, code)}"


def last_word(pods: Iterable[Mapping[str, Any]]) -> str:
    """Why a pod ended permanently by its own decision; empty if no pod did."""
    for pod in pods:
        for status in pod.get("status", {}).get("containerStatuses", ()):
            message = str((status.get("state", {}).get("terminated") or {}).get("message", ""))
            if message.startswith(GAVE_UP):
                return f"pod {pod['metadata']['name']}: {_plain(message.removeprefix(GAVE_UP))}"
    return ""


def pod_failure_reason(pods: Sequence[Mapping[str, Any]]) -> str:
    """The cause of the last pod failure; empty if no pod failed.

    A pod that saved and stopped because another pod failed is no cause, unless it is the only failed pod.
    """
    ends = [end for pod in pods for end in _ends(pod)]
    if not ends:
        return ""
    _, _, last = max(ends)
    return last


def deleted_pod_reason(events: Iterable[Mapping[str, Any]]) -> str:
    """The newest event about the end of a deleted pod; empty if no such event exists."""
    relevant = [event for event in events if event.get("reason") in _EVENTS]
    if not relevant:
        return ""
    last = max(relevant, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    return f"pod {last['involvedObject']['name']}: {last['reason']}: {str(last.get('message', '')).strip()}"


def _ends(pod: Mapping[str, Any]) -> Iterator[tuple[bool, str, str]]:
    """Each failed end of a pod: whether it is a cause rather than a requested stop, its time, and its description."""
    status, name = pod.get("status", {}), pod["metadata"]["name"]
    node = f"node {pod.get('spec', {}).get('nodeName') or 'unknown'}"
    ended = list(_containers(status))
    at = max((moment for moment, _, _ in ended), default="")
    whole = _failure_text(status, node)
    if whole:
        yield True, at, f"pod {name} {whole}"
        return
    for moment, code, text in ended:
        deleted = " after it was deleted" if "deletionTimestamp" in pod["metadata"] else ""
        yield code != INTERRUPTED, moment, f"pod {name}: {text}{deleted}"


def _failure_text(status: Mapping[str, Any], node: str) -> str:
    disrupted: Mapping[str, Any] = next(
        (
            condition
            for condition in status.get("conditions", ())
            if condition["type"] == "DisruptionTarget" and condition["status"] == "True"
        ),
        {},
    )
    template = _OF_POD.get(str(status.get("reason", ""))) or _DISRUPTED.get(str(disrupted.get("reason", "")))
    if template is None or status.get("phase") == "Succeeded":
        return ""
    message = _plain(str(status.get("message") or disrupted.get("message") or ""))
    return template.format(node=node) + (f" ({message})" if message else "")


def _containers(status: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    """Each failed end of a container: time, exit code, description. A restarted container has its previous end too."""
    for part in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(part, ()):
            for state in (container.get("state", {}), container.get("lastState", {})):
                ended = state.get("terminated") or {}
                code = int(ended.get("exitCode", 0))
                if code:
                    yield str(ended.get("finishedAt", "")), code, f"container {container['name']} {_end(ended, code)}"


def _end(ended: Mapping[str, Any], code: int) -> str:
    """How a container ended.

    >>> _end({"reason": "OOMKilled"}, 137), _end({"reason": "Error"}, 139), _end({"reason": "Error"}, 3)
    ('was killed because memory ran out (OOMKilled, exit 137)', 'was ended by SIGSEGV (exit 139)', 'ended with exit 3')
    """
    reason, message = str(ended.get("reason", "")), _plain(str(ended.get("message", "")))
    if reason == "OOMKilled":
        return f"was killed because memory ran out (OOMKilled, exit {code})"
    if code > _LARGEST and code - _LARGEST in set(Signals):
        return f"was ended by {Signals(code - _LARGEST).name} (exit {code})"
    if code == INTERRUPTED:
        return f"received a stop signal, saved and ended (exit {code})"
    more = ", ".join(detail for detail in ("" if reason == "Error" else reason, message) if detail)
    return f"ended with exit {code}" + (f" ({more})" if more else "")


def _plain(message: str) -> str:
    """A message on one line, without the full stop at its end.

    >>> _plain("The node was low on resource:  memory. ")
    'The node was low on resource: memory'
    """
    return re.sub(r"\s+", " ", message).strip().rstrip(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesJobs:
    """The jobs of one namespace.

    `kind` is the kind of the job's own object; `pod_files` has the files that its pods write to the store, None if
    unused.
    """

    connection: Connection
    namespace: str
    kind: str
    pod_files: Pieces | None = None
    sleep: Callable[[float], None] = field(default=time.sleep)

    def submit(self, documents: Sequence[Mapping[str, Any]], key: str) -> Submitted:
        """Create a job's objects in the cluster, once: their names are unique to the submission.

        `documents` end with the job itself, whose annotation has `key`, which only this submission uses.

        Raises:
            UnreachableError: every try failed without an answer; the cluster may have accepted the job.
        """
        for document in documents:
            self._patiently(lambda single=document: self._create(single))  # type: ignore[misc]  # called at once
        name = str(documents[-1]["metadata"]["name"])
        existing = self.connection.ask("GET", f"{self._path()}/{name}")
        if existing["metadata"].get("annotations", {}).get(RUN_ANNOTATION) != key:
            text = f"{self.connection.name}: there is a {self.kind} {name} that belongs to another submission"
            raise SchedulerError(text, hint="launch again: a new submission has its own name")
        return Submitted(job=name, key=key, folder=f"{self.namespace}/{name}")

    def find(self, key: str, folder: str) -> Submitted | None:
        """The job that an earlier submission created, by its `namespace/name`; None if it does not exist."""
        name = folder.rpartition("/")[2]
        existing = self.connection.find(f"{self._path()}/{name}")
        return None if existing is None else Submitted(job=name, key=key, folder=folder)

    def facts(self, job: Submitted) -> JobFacts | None:
        """The state of a job; None if it no longer exists."""
        current = self.connection.find(f"{self._path()}/{job.job}")
        if current is None:
            return None
        pods = self.pods(job.job)
        ended = _end_condition(current, _ENDS)
        running = [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]
        nodes = tuple(sorted({str(pod["spec"]["nodeName"]) for pod in running}))
        given_up = last_word(pods)
        life = self._failed_for_good() if ended is not None or given_up else None
        if life is not None or given_up:
            # An operator that restarts every failure gets a success: it would not stop otherwise.
            counted = "" if life is None or life.failed is None else exit_code_reason(life.failed, stuck=life.stuck)
            state, word, reason = JobState.FAILED, "Failed", ": ".join(filter(None, (counted, given_up)))
        elif ended is not None:
            state = _ENDS[ended["type"]]
            # The reason of a success is an operator's word, as CompletionsReached.
            word = "Completed" if state is JobState.COMPLETED else str(ended.get("reason") or ended["type"])
            reason = self._why_failed(job.job, ended, pods) if state is JobState.FAILED else ""
        else:
            all_run = bool(running) and not any(words.waiting(pod) for pod in pods)
            state = JobState.RUNNING if all_run else JobState.PENDING
            word, reason = ("Running", "") if all_run else ("Pending", self._why(current, pods))
        attempt = _attempt(pods)
        return JobFacts(
            state=state,
            word=word,
            reason=reason,
            restarts=_restarts(current, pods),
            nodes=nodes,
            attempt=attempt,
            keeps_nodes=ended is None and bool(given_up),
        )

    def pods(self, job: str) -> list[dict[str, Any]]:
        """The existing pods of a job, sorted by pod name."""
        query = {"labelSelector": f"{JOB_LABEL}={job}"}
        listing = self.connection.ask("GET", f"/api/v1/namespaces/{self.namespace}/pods", query=query)
        return sorted(listing["items"], key=lambda pod: str(pod["metadata"]["name"]))

    def read(self, job: Submitted, offsets: Mapping[str, int]) -> Mapping[str, Chunk | None]:
        """The contents of a job's files from their offsets, as its pods wrote them to the store."""
        if self.pod_files is None:
            raise SchedulerError(f"{self.connection.name}: the location of the files of job {job.job} is unknown")
        return {name: journal.read(self.pod_files, name, offset, _CHUNK) for name, offset in offsets.items()}

    def log_name(self, job: Submitted) -> str:
        """The name of the first pod's output file."""
        del job
        return LOG

    def nodes(self, job: Submitted) -> PodNodes:
        """The nodes of a running job, reached through its pods."""
        running_on(self.facts(job), job.job)
        pods = [pod for pod in self.pods(job.job) if pod.get("status", {}).get("phase") == "Running"]
        pods.sort(key=lambda pod: [int(part) if part.isdigit() else 0 for part in pod["metadata"]["name"].split("-")])
        places = tuple((str(pod["spec"]["nodeName"]), str(pod["metadata"]["name"])) for pod in pods)
        return PodNodes(connection=self.connection, namespace=self.namespace, pods=places)

    def release(self, job: Submitted) -> None:
        """Do nothing: Kubernetes restarts a pod immediately."""

    def cancel(self, job: Submitted, *, only_pending: bool = False) -> bool:
        """Cancel a job and delete all its objects. A job that has ended keeps its object and its result.

        `only_pending` leaves a running job alone.

        Returns:
            Whether the job was cancelled; False if it had already ended, or if it runs and `only_pending` is set.

        Raises:
            SchedulerError: the cluster does not answer, or refuses.
        """
        if only_pending and (facts := self.facts(job)) is not None and facts.state is not JobState.PENDING:
            return False
        for _ in range(TRIES):
            current = self.connection.find(f"{self._path()}/{job.job}")
            if current is None or _end_condition(current, _DONE) is not None:
                return False
            if self.pod_files is not None and not only_pending:
                journal.mark_cancelled(self.pod_files)
            # A job that completes in this moment has another version than the one that was read.
            version = {name: current["metadata"][name] for name in ("uid", "resourceVersion")}
            try:
                self.remove(job, version)
            except ApiRefusedError as refused:
                if refused.code != _THERE:
                    raise
            else:
                return True
        self.remove(job)
        return True

    def remove(self, job: Submitted, version: Mapping[str, str] | None = None) -> None:
        """Delete a job's objects, whether it has ended or not; ignore missing objects.

        `version`: the only `uid` and `resourceVersion` to delete.

        Raises:
            SchedulerError: the cluster does not answer, or refuses; with code 409 if the object has another version.
        """
        body = {"kind": "DeleteOptions", "apiVersion": "v1"}
        foreground = {**body, "propagationPolicy": "Foreground", **({"preconditions": version} if version else {})}
        self._patiently(lambda: self._delete(f"{self._path()}/{job.job}", foreground))
        services = _PATHS["Service"].format(namespace=self.namespace)
        self._patiently(lambda: self._delete(f"{services}/{job.job}", body))

    def remains(self, job: Submitted) -> tuple[str, ...]:
        """The remains of a cancelled job: names of its pods, and the finalizers that delay its deletion."""
        current = self.connection.find(f"{self._path()}/{job.job}")
        pods = self.pods(job.job)
        holding = current["metadata"].get("finalizers", ()) if current is not None else ()
        names = [f"pod {pod['metadata']['name']}" for pod in pods]
        return (*names, *(f"{self.kind} {job.job}: finalizer {finalizer}" for finalizer in holding))

    def _create(self, document: Mapping[str, Any]) -> None:
        """Create an object; accept that it already exists.

        A user with rights in only one namespace may not create namespaces, even one that already exists. A DaemonSet
        of Slipway's that exists runs on the document's nodes from now on.
        """
        namespace = document["metadata"].get("namespace", self.namespace)
        path = _PATHS[str(document["kind"])].format(namespace=namespace)
        try:
            self.connection.ask("POST", path, body=dict(document), query={"fieldValidation": "Strict"})
        except ApiRefusedError as refused:
            exists = refused.code == _THERE or (
                refused.code == _FORBIDDEN and self.connection.find(f"{path}/{document['metadata']['name']}")
            )
            if not exists:
                raise
            if document["kind"] == "DaemonSet":
                self._extend(f"{path}/{document['metadata']['name']}", document)

    def _extend(self, path: str, document: Mapping[str, Any]) -> None:
        existing = self.connection.find(path)
        if existing is None or existing["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") != "slipway":
            return
        affinity = document["spec"]["template"]["spec"].get("affinity")
        if existing["spec"]["template"]["spec"].get("affinity") != affinity:
            change = {"spec": {"template": {"spec": {"affinity": affinity}}}}
            self.connection.ask("PATCH", path, body=change, form="application/merge-patch+json")

    def _delete(self, path: str, body: Mapping[str, Any]) -> None:
        try:
            self.connection.ask("DELETE", path, body=dict(body))
        except ApiRefusedError as refused:
            if refused.code != _NOT_THERE:
                raise

    def _patiently(self, call: Callable[[], None]) -> None:
        """Retry a request until an answer comes; a repeated request has no further effect."""
        pause = _FIRST_PAUSE_S
        for attempt in range(TRIES):
            try:
                call()
            except UnreachableError:
                if attempt == TRIES - 1:
                    raise
            else:
                return
            self.sleep(pause)
            pause *= _SLOWER

    def _failed_for_good(self) -> AttemptState | None:
        """The last attempt of a job that failed by its agents' own count; None if the agents report no failure."""
        if self.pod_files is None or not any(
            piece.key == STATE_FILE for piece in self.pod_files.list_objects(below=STATE_FILE)
        ):
            return None
        life = parse_attempt_state(self.pod_files.read(STATE_FILE).decode(errors="replace"))
        return None if life is None or life.failed is None else life

    def _why(self, job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str:
        reasons = [reason for pod in pods if (reason := words.waiting(pod))]
        reasons.sort(key=words.STARTING.__contains__)  # a pod that waits for nodes has a more specific reason
        if reasons:
            # Kubernetes keeps the pods of earlier attempts.
            count = sum(pod.get("status", {}).get("phase") not in ("Succeeded", "Failed") for pod in pods)
            more = f" ({len(reasons)} of {number_of(count, 'pod')} wait)" if count > 1 else ""
            return f"{reasons[0]}{more}"
        if words.hold_reason(job):
            return words.hold_reason(job, self._workload(job))
        query = {"fieldSelector": f"involvedObject.name={job['metadata']['name']}"}
        listing = self.connection.ask("GET", f"/api/v1/namespaces/{self.namespace}/events", query=query)
        return words.newest_warning(listing["items"]) or ("its pods are being created" if not pods else "")

    def _why_failed(self, name: str, condition: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str:
        events = []
        if not pod_failure_reason(pods):
            query = {"fieldSelector": "involvedObject.kind=Pod"}
            listing = self.connection.ask("GET", f"/api/v1/namespaces/{self.namespace}/events", query=query)
            events = [item for item in listing["items"] if str(item["involvedObject"]["name"]).startswith(f"{name}-")]
        return job_failure_reason(condition, pods, events)

    def _workload(self, job: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The Kueue workload of a job; None if Kueue created none, or if the credentials may not read it."""
        query = {"labelSelector": f"{words.UID_LABEL}={job['metadata']['uid']}"}
        for version in words.KUEUE_VERSIONS:
            path = words.WORKLOADS.format(version=version, namespace=self.namespace)
            try:
                listing = self.connection.find(path, query=query)
            except ApiRefusedError as refused:
                if refused.code == _FORBIDDEN:
                    return None
                raise
            if listing is not None and listing["items"]:
                return dict(listing["items"][0])
        return None

    def _path(self) -> str:
        return _PATHS[self.kind].format(namespace=self.namespace)


def served_operators(connection: Connection) -> tuple[Operator, ...]:
    """The operators whose jobs a cluster accepts, the most capable first; every cluster accepts a Job."""
    available = []
    for operator in (Operator.HYPERPOD_PYTORCHJOB, Operator.PYTORCHJOB):
        kind = JOB_KINDS[operator]
        resources = connection.find(f"/apis/{kind.group}/{kind.version}") or {}
        if any(resource["name"] == kind.plural for resource in resources.get("resources", ())):
            available.append(operator)
    return (*available, Operator.JOB)


def _end_condition(job: Mapping[str, Any], types: Collection[str]) -> Mapping[str, Any] | None:
    conditions = job.get("status", {}).get("conditions", ())
    return next(
        (condition for condition in conditions if condition["type"] in types and condition["status"] == "True"), None
    )


def _restarts(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> int:
    """The number of restarts of a job, as far as Kubernetes counts them."""
    job_restarts = int(job.get("status", {}).get("restartCount", 0))
    counts = [
        int(status["restartCount"]) for pod in pods for status in pod.get("status", {}).get("containerStatuses", ())
    ]
    return max([job_restarts, *counts])


def _attempt(pods: Sequence[Mapping[str, Any]]) -> SchedulerAttempt | None:
    """The newest attempt among the job's pods; None if no container has started."""
    runs = [
        (pod, status["state"])
        for pod in pods
        for status in pod.get("status", {}).get("containerStatuses", ())
        if {"running", "terminated"} & set(status.get("state", {}))
    ]
    if not runs:
        return None
    pod, state = max(runs, key=lambda run: str((run[1].get("terminated") or run[1]["running"]).get("startedAt", "")))
    ended = state.get("terminated")
    code = None if ended is None else int(ended["exitCode"])
    return SchedulerAttempt(
        number=1
        + max((container_status["restartCount"] for container_status in pod["status"]["containerStatuses"]), default=0),
        started_at=_moment((ended or state["running"])["startedAt"]),
        ended_at=None if ended is None else _moment(ended["finishedAt"]),
        exit_code=code,
        signal=0,
        nodes=(str(pod["spec"].get("nodeName", "")),),
        node_lost=any(condition["type"] == "DisruptionTarget" for condition in pod["status"].get("conditions", ())),
    )


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
