"""`down` on an existing cluster: it removes what the plan's jobs created, and keeps the cluster."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from launcher import plan_file
from launcher.aws.session import Session
from launcher.catalog.load import Catalog
from launcher.model.errors import DeploymentFailedError, SlipwayError
from launcher.model.job import Submitted
from launcher.model.kubernetes import JOB_KINDS, PLAN_LABEL, RUN_ANNOTATION
from launcher.model.plan import Plan
from launcher.model.removal import Removal, Retained, RetainedKind
from launcher.model.request import PlanRequest
from launcher.model.stages import Notify
from launcher.planning.pin import pinned_plan
from launcher.records import run_folder
from launcher.rendering.kubernetes_job import namespace_of
from launcher.rendering.names import checkpoint_uri
from launcher.submit.kubernetes.connection import Connection
from launcher.submit.kubernetes.jobs import KubernetesJobs, served_operators
from launcher.targets.registry import target_of
from launcher.workflow.cluster import kubernetes_cluster
from launcher.workflow.cluster.kubernetes_cluster import ExistingCluster
from launcher.workflow.cluster.pod_identity import revoke
from launcher.workflow.cluster.reach import connection_to

PATIENCE_S, POLL_S = 600.0, 1.0
"""The maximum time for a job's pods to end: longer than a grace period for a large checkpoint."""
_OVER = {"Complete": "completed", "Succeeded": "completed", "Completed": "completed", "Failed": "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsThere:
    """The plan's objects on an existing cluster, before removal."""

    plan: Plan
    existing: ExistingCluster
    # Each with the kind of its object, and whether it has ended.
    jobs: tuple[tuple[str, Submitted, str], ...]
    # Whether its pods have a role.
    granted: bool
    removal: Removal


def joined_plan(text: str, root: Path, catalog: Catalog) -> Plan | None:
    """The plan whose jobs run on an existing Kubernetes cluster, by its file or name; None for any other plan.

    A name, or a file with open choices, is resolved by the newest run folder, whose plan is pinned.

    Raises:
        ImpossibleError: no record says where the job ran.
    """
    request = plan_file.load(Path(text)) if plan_file.is_path(text) else None
    if request is not None and request.target.cluster is None:
        return None
    launched = _last(request.name if request is not None else text, root)
    known = launched if launched is not None and _joins(launched) else request
    if known is None or not _joins(known):
        return None
    return pinned_plan(known, catalog)


def _joins(request: PlanRequest) -> bool:
    kinds = request.target.kind or ()
    return request.target.cluster is not None and bool(kinds) and all(target_of(kind).pods for kind in kinds)


def _last(name: str, root: Path) -> PlanRequest | None:
    try:
        return plan_file.load(run_folder.latest(name, root).path / "plan.json")
    except SlipwayError:
        return None


def survey_jobs(plan: Plan, environment: Mapping[str, str]) -> JobsThere:
    """List the plan's objects on the cluster that it names.

    Raises:
        SlipwayError: the cluster does not exist or does not answer.
    """
    session = Session(environment=environment, region=plan.place.region)
    existing = kubernetes_cluster.find(plan, session)
    granted = existing.pod_identity is not None and bool(
        kubernetes_cluster.has_pod_role(existing, session, namespace_of(plan), existing.account(plan))
    )
    with closing(connection_to(existing.head_node, environment)) as connection:
        jobs = tuple(_jobs(connection, plan))
        retained = tuple(_retained_objects(connection, plan, existing))
    removal = Removal(
        cluster=plan.name,
        region=plan.place.region,
        done=False,
        stacks=(),
        instances=(),
        kept=retained,
        jobs=tuple((job.folder, state) for _, job, state in jobs),
        on=plan.cluster_name,
    )
    return JobsThere(plan=plan, existing=existing, jobs=jobs, granted=granted, removal=removal)


def _jobs(connection: Connection, plan: Plan) -> Iterator[tuple[str, Submitted, str]]:
    for operator in served_operators(connection):
        kind, namespace = JOB_KINDS[operator], namespace_of(plan)
        query = {"labelSelector": f"{PLAN_LABEL}={plan.name}"}
        answer = connection.find(kind.path.format(namespace=namespace), query=query) or {}
        for item in answer.get("items", ()):
            metadata = item["metadata"]
            ended = (
                condition["type"]
                for condition in item.get("status", {}).get("conditions", ())
                if condition["status"] == "True"
            )
            state = next((_OVER[word] for word in ended if word in _OVER), "not ended")
            key = metadata.get("annotations", {}).get(RUN_ANNOTATION, "")
            job = Submitted(job=metadata["name"], key=key, folder=f"{namespace}/{metadata['name']}")
            yield kind.kind, job, state


def _retained_objects(connection: Connection, plan: Plan, existing: ExistingCluster) -> Iterator[Retained]:
    namespace, account = namespace_of(plan), existing.account(plan)
    yield Retained(
        kind=RetainedKind.CLUSTER,
        name=plan.cluster_name,
        reason="it existed before this plan, so the plan does not remove it",
    )
    if connection.find(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}") is not None:
        yield Retained(
            kind=RetainedKind.NAMESPACE,
            name=f"{namespace}, service account {account}",
            reason="other jobs may use them too, and they cost nothing",
        )
    uri = checkpoint_uri(plan, existing.names)
    yield Retained(
        kind=RetainedKind.CHECKPOINTS,
        name=uri,
        reason=f"with its logs; aws s3 rm --recursive {uri} deletes the checkpoints",
        unpriced="its size was not read",
    )


def remove_jobs(
    cluster_jobs: JobsThere,
    environment: Mapping[str, str],
    notify: Notify,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Removal:
    """Remove the surveyed objects, and wait until they are gone.

    Raises:
        SchedulerError: the cluster does not answer, or refuses.
        DeploymentFailedError: a job is not deleted in time; running the same command checks again.
    """
    with closing(connection_to(cluster_jobs.existing.head_node, environment)) as connection:
        for kind, job, _ in cluster_jobs.jobs:
            notify(f"deleting {kind} {job.folder}")
            jobs = KubernetesJobs(connection=connection, namespace=namespace_of(cluster_jobs.plan), kind=kind)
            jobs.remove(job)
            end = clock() + PATIENCE_S
            while remaining := jobs.remains(job):
                if clock() > end:
                    raise DeploymentFailedError(
                        f"{kind} {job.job} was deleted but still exists: {', '.join(remaining)}",
                        hint="run the same command to check again; only its controller should remove a finalizer",
                    )
                sleep(POLL_S)
    _take_back(cluster_jobs, environment, notify)
    removed = tuple((name, "gone") for name, _ in cluster_jobs.removal.jobs)
    return replace(cluster_jobs.removal, done=True, jobs=removed)


def _take_back(cluster_jobs: JobsThere, environment: Mapping[str, str], notify: Notify) -> None:
    plan, pod_identity = cluster_jobs.plan, cluster_jobs.existing.pod_identity
    if pod_identity is None or not cluster_jobs.granted:
        return
    namespace, account = namespace_of(plan), cluster_jobs.existing.account(plan)
    if revoke(pod_identity, namespace, account, Session(environment=environment, region=plan.place.region)):
        notify(f"the cluster's role is no longer granted to pods of {namespace}/{account}")
