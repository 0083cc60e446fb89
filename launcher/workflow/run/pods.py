"""Submitting a rendered job to Kubernetes: its folder in S3, the devices of its nodes, its objects, once."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from launcher.aws.calls import forbidden
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.bundle import Bundle
from launcher.model.enums import Operator
from launcher.model.errors import AwsError, DeploymentFailedError, ImpossibleError
from launcher.model.instance_type import InstanceType
from launcher.model.kubernetes import JOB_KINDS
from launcher.model.monitoring import STAGED_FOLDER
from launcher.model.quote import Quote
from launcher.model.stages import Tell
from launcher.model.target import target_of
from launcher.records.run_folder import RunFolder
from launcher.records.submission import HeadNode, Submission
from launcher.rendering.batch import PENDING, JobArchive
from launcher.rendering.blanks import blank_names, with_archive, with_names
from launcher.rendering.eks import NEURON_FILE, PLUGINS_FILE, plugin_files
from launcher.rendering.kubernetes_job import (
    MANIFEST_FILE,
    NAMESPACE_FILE,
    job_context,
    job_manifest,
    job_name,
    namespace_manifest,
    namespace_of,
    operator_of,
)
from launcher.rendering.names import ClusterNames, checkpoint_uri
from launcher.submit.jobs import SchedulerError, UnreachableError
from launcher.submit.kubernetes.jobs import KubernetesJobs, served
from launcher.workflow.deploy.render import job_settings
from launcher.workflow.deploy.targets import cluster_of
from launcher.workflow.run.reach import jobs_at
from launcher.workflow.run.shipping import job_archive, ship_work


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSubmission:
    """What is submitted, from where and to where.

    `bundle` is the plan's files, with blanks for the names of the cluster and for the archive of the job's folder.
    `head_node` is the cluster's API, `environment` has its AWS, `here` is this machine's; `workdir` is the command's
    folder, and `unreached` says how a private API is reached. `operator` runs the job, `account` has the rights of its
    pods, None where the plan alone says it. `own` says that Slipway deployed
    the cluster: its plugins come with the job, and its nodes are started again where the guard has stopped them.
    """

    quoted: Quote
    bundle: Bundle
    instances: Mapping[str, InstanceType]
    names: ClusterNames
    head_node: HeadNode
    key: str
    folder: RunFolder
    workdir: Path
    store: Objects
    environment: Mapping[str, str]
    here: Mapping[str, str]
    unreached: str
    operator: Operator
    account: str | None
    own: bool
    tell: Tell


def submit_pods(asked: PodSubmission) -> Submission:
    """Ship a job and have the cluster take its objects; said only when it has.

    Raises:
        DeploymentFailedError: the cluster refuses it, or that is not known.
        ImpossibleError: its API cannot be reached, or it lacks the operator.
    """
    plan, bundle = asked.quoted.plan, with_names(_for_cluster(asked), asked.names)
    asked.folder.write_bundle(with_archive(bundle, PENDING))
    place = f"{namespace_of(plan)}/{job_name(plan, asked.key)}"
    head_node = replace(asked.head_node, kind=JOB_KINDS[asked.operator].kind)
    connection, jobs = jobs_at(
        head_node, asked.environment, place=place, checkpoints=checkpoint_uri(plan, asked.names), key=asked.key
    )
    try:
        # Cheap questions first: a cluster that cannot be reached needs nothing shipped.
        _refuse_unless_able(asked, jobs)
        _start_nodes(asked)
        documents = list(_plugins(asked, bundle))
        wanted, shipped = _shipped(asked, bundle, head_node, place)
        for path in (NAMESPACE_FILE, MANIFEST_FILE):
            documents += yaml.safe_load_all(shipped.file(path).text)
        wanted.write(asked.folder)
        done = wanted.taken(jobs.submit(documents, asked.key))
    except SchedulerError as problem:
        raise DeploymentFailedError(problem.message, hint=problem.hint) from problem
    finally:
        connection.close()
    done.write(asked.folder)
    asked.folder.append_event("submitted", job=done.job, key=done.key)
    asked.tell(f"submitted: {head_node.kind} {place} on {head_node.words()}")
    return done


def _for_cluster(asked: PodSubmission) -> Bundle:
    """The plan's files, with the job's objects as the cluster's operator has them, under the account that it is."""
    plan = asked.quoted.plan
    if asked.operator is operator_of(plan) and asked.account is None:
        return asked.bundle
    context = job_context(
        plan,
        instances=asked.instances,
        names=blank_names(plan),
        job=job_settings(asked.quoted, asked.key),
        operator=asked.operator,
        account=asked.account,
    )
    found = asked.bundle.with_text(MANIFEST_FILE, job_manifest(context))
    return found.with_text(NAMESPACE_FILE, namespace_manifest(context))


def _refuse_unless_able(asked: PodSubmission, jobs: KubernetesJobs) -> None:
    """Go on only where the API answers and serves the operator's kind.

    Raises:
        ImpossibleError: it does not.
    """
    try:
        jobs.connection.ask("GET", "/version")
    except UnreachableError as problem:
        raise ImpossibleError(f"{problem.message}; nothing was submitted", hint=asked.unreached) from problem
    if asked.operator not in served(jobs.connection):
        raise ImpossibleError(
            f"run.operator: {asked.head_node.words()} has no {asked.operator.value}",
            hint="install the operator there, or run.operator: job, which every cluster has",
        )


def _start_nodes(asked: PodSubmission) -> None:
    """Have the node group make its nodes again where its guard has stopped them.

    Raises:
        AwsError: a call failed for another reason than that these credentials may not make it.
    """
    cluster, region = str(asked.head_node.host), str(asked.head_node.region)
    if not asked.own:
        return
    try:
        session = Session(environment=asked.environment, region=region)
        if cluster_of(asked.quoted.plan).start_nodes(asked.quoted.plan, session, cluster):
            asked.tell(f"the nodes of {cluster} were stopped: starting them, billed from now on")
    except AwsError as problem:
        if not forbidden(problem):
            raise
        asked.tell(f"whether the nodes of {cluster} are stopped cannot be seen with these credentials")


def _plugins(asked: PodSubmission, bundle: Bundle) -> Iterator[dict[str, Any]]:
    """What shows chips and interfaces to Kubernetes: once a cluster, left alone where it is there."""
    plan = asked.quoted.plan
    files = bundle.files
    if plan.request.target.cluster is not None:
        # A job for a cluster that exists brings no plugins, but for one whose own plan has not run a job yet.
        lacking = asked.own and not target_of(plan.place.target).managed
        files = tuple(plugin_files(asked.instances[plan.place.instance_type])) if lacking else ()
    for each in files:
        if each.path in (PLUGINS_FILE, NEURON_FILE):
            yield from yaml.safe_load_all(each.text)


def _shipped(asked: PodSubmission, bundle: Bundle, head_node: HeadNode, place: str) -> tuple[Submission, Bundle]:
    """The job folder in S3; the submission as it is about to be made, and its files, which name the folder."""
    plan, store = asked.quoted.plan, asked.store
    shipment = ship_work(asked.workdir, store, asked.here, datetime.now(UTC), asked.tell)
    asked.tell(shipment.words())
    with job_archive(with_archive(bundle, PENDING), shipment) as (path, agent):
        content = path.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        key = f"{STAGED_FOLDER}/{sha256}.tar.gz"
        store.send(path, key)
    archive = JobArchive(uri=f"{store.uri}/{key}", sha256=sha256, size=str(len(content)))
    asked.folder.append_event("job-folder-put", where=head_node.words(), folder=archive.uri, agent_sha256=agent)
    shipped = with_archive(bundle, archive)
    asked.folder.write_bundle(shipped)
    made = Submission(
        key=asked.key,
        head_node=head_node,
        cluster=plan.cluster_name,
        folder=place,
        store_uri=asked.names.store_uri,
        checkpoint_uri=checkpoint_uri(plan, asked.names),
        work=shipment.document(),
        asked_at=datetime.now(UTC),
    )
    return made, shipped
