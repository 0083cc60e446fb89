"""Submits a rendered job to Kubernetes once: its folder in S3, the devices of its nodes, its objects."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from launcher.aws.session import Session
from launcher.catalog import safe_yaml
from launcher.catalog.load import load
from launcher.model.bundle import Bundle
from launcher.model.cluster_nodes import ClusterNode, NodeAction, NodeEffect, NodeFacts, NodeInstance
from launcher.model.enums import Operator
from launcher.model.errors import DeploymentFailedError, ImpossibleError
from launcher.model.kubernetes import JOB_KINDS
from launcher.model.monitoring import STAGED_FOLDER
from launcher.records.submission import SANDBOX, HeadNode, Submission
from launcher.rendering.batch import PENDING, JobArchive
from launcher.rendering.blanks import blank_names, with_archive, with_names
from launcher.rendering.device_plugins import NEURON_FILE, PLUGINS_FILE, plugin_files
from launcher.rendering.kubernetes_job import (
    MANIFEST_FILE,
    NAMESPACE_FILE,
    job_manifests,
    job_name,
    namespace_of,
    operator_of,
)
from launcher.rendering.kubernetes_pod import image_of
from launcher.rendering.names import FRESH_FOLDER, checkpoint_uri
from launcher.submit.jobs import JobNodes, SchedulerError, UnreachableError
from launcher.submit.kubernetes import cluster_nodes
from launcher.submit.kubernetes.jobs import KubernetesJobs, served_operators
from launcher.submit.kubernetes.shell_pods import ShellPods
from launcher.submit.shell import Shell
from launcher.targets.registry import target_of
from launcher.workflow.cluster import pod_nodes
from launcher.workflow.cluster.capacity_start import CapacityStart
from launcher.workflow.cluster.cluster_access import ClusterAccess, ec2_instances
from launcher.workflow.cluster.deployed import DeployedCluster, JobConnection, JobRequest
from launcher.workflow.cluster.reach import jobs_at
from launcher.workflow.cluster.shipping import job_archive, job_settings, ship_work, submission_of

POLL_S, POLL_HERE_S = 5.0, 1.0
"""Seconds between two polls of an API: pods flush output every few seconds; on this computer polls cost nothing."""


class PodCluster(DeployedCluster):
    """A cluster whose Kubernetes API accepts jobs."""

    # What happens to the instance of a node that is rebooted, and of one that is replaced.
    rebooted: str
    replaced: str

    def submit(self, request: JobRequest) -> Submission:
        """Ship a job and create its objects in the cluster; report it only when they exist.

        Raises:
            DeploymentFailedError: the cluster refused it, or the result is unknown.
            ImpossibleError: its API cannot be reached, or the operator is missing.
        """
        plan, bundle = request.quoted.plan, with_names(_for_cluster(request), request.cluster.names)
        request.folder.write_bundle(with_archive(bundle, PENDING))
        place = f"{namespace_of(plan)}/{job_name(plan, request.key)}"
        head_node = replace(request.cluster.head_node, kind=JOB_KINDS[_operator(request)].kind)
        connection, jobs = jobs_at(
            head_node,
            request.environment,
            place=place,
            checkpoints=checkpoint_uri(plan, request.cluster.names),
            key=request.key,
        )
        try:
            # Cheap questions first: a cluster that cannot be reached needs nothing shipped.
            _refuse_unless_able(request, jobs)
            self._start_stopped_nodes(request)
            documents = list(_plugins(request, bundle))
            submission, shipped = _ship_folder(request, bundle, head_node, place)
            for path in (NAMESPACE_FILE, MANIFEST_FILE):
                documents += safe_yaml.documents(shipped.file(path).text)
            submission.write(request.folder)
            done = submission.with_job(jobs.submit(documents, request.key))
        except SchedulerError as problem:
            raise DeploymentFailedError(problem.message, hint=problem.hint) from problem
        finally:
            connection.close()
        done.write(request.folder)
        request.folder.append_event("submitted", job=done.job, key=done.key)
        request.notify(f"submitted: {head_node.kind} {place} on {head_node.text()}")
        return done

    def reach(
        self, submission: Submission, environment: Mapping[str, str], shell: Callable[[], Shell]
    ) -> JobConnection:
        """The connection to a job on Kubernetes; `environment` is that of the job's AWS account or sandbox."""
        head_node = submission.head_node
        # A launch with --fresh keeps its journal where pods may delete it: next to the plan's first checkpoints.
        first = submission.checkpoint_uri.partition(f"/{FRESH_FOLDER}/")[0]
        connection, jobs = jobs_at(
            head_node, environment, place=submission.folder, checkpoints=first, key=submission.key
        )
        poll_s = POLL_HERE_S if head_node.via == SANDBOX else POLL_S
        return JobConnection(source=jobs, poll_s=poll_s, close=connection.close)

    def nodes(self, access: ClusterAccess) -> tuple[ClusterNode, ...]:
        """Its nodes of the plan's instance type, with their instances."""
        return pod_nodes.list_nodes(access, self.node_instances(access))

    def node_instances(self, access: ClusterAccess) -> tuple[NodeInstance, ...]:
        """The instances of its nodes."""
        return ec2_instances(access)

    def node_effect(self, action: NodeAction, facts: NodeFacts) -> NodeEffect:
        """What an action on a node does: pods are evicted, and save, before their node goes."""
        return pod_nodes.effect(action, facts, rebooted=self.rebooted, replaced=self.replaced)

    def change_node(self, action: NodeAction, node: ClusterNode, access: ClusterAccess) -> None:
        """Drain the node, and then reboot or end its instance."""
        pod_nodes.change(action, node, access, lambda: self.change_instance(action, node, access))

    @contextmanager
    def free_nodes(self, access: ClusterAccess, nodes: Sequence[ClusterNode]) -> Iterator[JobNodes]:
        """Access to nodes through a pod on each, with the plan's image, which is removed afterwards."""
        facts = load().instance_types[access.plan.place.instance_type]
        image = image_of(access.plan, facts)
        if image is None:
            raise ImpossibleError(
                f"which image a pod on {facts.name} can run is not known", hint="name one in the plan: run.image"
            )
        with (
            access.api() as connection,
            closing(
                ShellPods(
                    connection=connection,
                    namespace=namespace_of(access.plan),
                    image=image,
                    names=tuple(node.name for node in nodes),
                )
            ) as pods,
        ):
            yield pods

    def diagnostics(self, access: ClusterAccess) -> Mapping[str, str]:
        """The nodes of the cluster, and the pods, jobs and events of the plan's namespace, as JSON."""
        with access.api() as connection:
            return cluster_nodes.diagnostics(connection, namespace_of(access.plan))

    def change_instance(self, action: NodeAction, node: ClusterNode, access: ClusterAccess) -> None:
        """Reboot or end the instance of a drained node."""
        raise NotImplementedError

    def _start_stopped_nodes(self, request: JobRequest) -> None:
        """Start missing nodes: a guard stopped them, or their block has just begun."""
        if not request.cluster.by_slipway:
            return
        cluster = str(request.cluster.head_node.host)
        session = Session(environment=request.environment, region=str(request.cluster.head_node.region))
        waits = request.cluster.head_node.via != SANDBOX
        CapacityStart(
            plan=request.quoted.plan,
            deployed=self,
            session=session,
            cluster=cluster,
            notify=request.notify,
            waits=waits,
        ).check()


def _operator(request: JobRequest) -> Operator:
    return request.cluster.operator or operator_of(request.quoted.plan)


def _for_cluster(request: JobRequest) -> Bundle:
    """The plan's files; the job's objects use the cluster's operator and the request's service account."""
    plan = request.quoted.plan
    if _operator(request) is operator_of(plan) and request.cluster.account is None:
        return request.bundle
    namespace_text, job_text = job_manifests(
        plan,
        instances=request.instances,
        names=blank_names(plan),
        job=job_settings(request.quoted, request.key),
        operator=_operator(request),
        account=request.cluster.account,
    )
    return request.bundle.with_text(MANIFEST_FILE, job_text).with_text(NAMESPACE_FILE, namespace_text)


def _refuse_unless_able(request: JobRequest, jobs: KubernetesJobs) -> None:
    """Refuse unless the API answers and serves the operator's kind."""
    try:
        jobs.connection.ask("GET", "/version")
    except UnreachableError as problem:
        raise ImpossibleError(f"{problem.message}; nothing was submitted", hint=request.cluster.unreached) from problem
    if _operator(request) not in served_operators(jobs.connection):
        raise ImpossibleError(
            f"run.operator: {request.cluster.head_node.text()} has no {_operator(request).value}",
            hint="install the operator there, or run.operator: job, which every cluster has",
        )


def _plugins(request: JobRequest, bundle: Bundle) -> Iterator[dict[str, Any]]:
    """The device plug-ins that expose chips and interfaces to Kubernetes: once per cluster.

    Existing ones are kept; those of Slipway that leave out an instance type get the new list of types.
    """
    plan = request.quoted.plan
    files = bundle.files
    if plan.request.target.cluster is not None:
        # A job for a cluster that exists brings no plugins, but for one whose own plan has not run a job yet.
        lacking = request.cluster.by_slipway and not target_of(plan.place.target).is_managed
        files = tuple(plugin_files(request.instances[plan.place.instance_type], request.instances)) if lacking else ()
    for file in files:
        if file.path in (PLUGINS_FILE, NEURON_FILE):
            yield from safe_yaml.documents(file.text)


def _ship_folder(request: JobRequest, bundle: Bundle, head_node: HeadNode, place: str) -> tuple[Submission, Bundle]:
    """The job folder in S3; the submission before it is made, and its files, which name the folder."""
    store = request.store
    shipment = ship_work(request.workdir, store, request.here, datetime.now(UTC), request.notify)
    request.notify(shipment.text())
    with job_archive(with_archive(bundle, PENDING), shipment) as (path, agent):
        content = path.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        key = f"{STAGED_FOLDER}/{sha256}.tar.gz"
        store.send(path, key)
    archive = JobArchive(uri=f"{store.uri}/{key}", sha256=sha256, size=str(len(content)))
    request.folder.append_event("job-folder-put", where=head_node.text(), folder=archive.uri, agent_sha256=agent)
    shipped = with_archive(bundle, archive)
    request.folder.write_bundle(shipped)
    return submission_of(request, head_node, shipment, place), shipped
