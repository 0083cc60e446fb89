"""A Kubernetes cluster that exists and takes a plan's jobs: asked itself, as a launch will ask it."""

from collections.abc import Iterator

from launcher.model.diagnosis import Check, failed, ok
from launcher.model.errors import ImpossibleError
from launcher.model.target import target_of
from launcher.submit.jobs import SchedulerError
from launcher.submit.kubernetes.connection import RefusedError
from launcher.workflow.doctor.examination import Examination, Subject
from launcher.workflow.run import existing
from launcher.workflow.run.existing_checks import checks


def existing_cluster(subject: Subject) -> Iterator[Check]:
    """Whether the cluster is there, lets the caller in, and has what the job needs."""
    plan = subject.plan
    if plan is None or plan.request.target.cluster is None or not target_of(plan.place.target).pods:
        return
    name, asked = "cluster", f"{plan.cluster_name} is there and lets the caller in"
    try:
        found = existing.find(plan, subject.session("cloudformation", "eks"))
        looked = existing.looked_at(plan, found, subject.environment)
    except RefusedError as refused:
        yield failed(name, asked, refused.message, _entry(plan.cluster_name) if refused.code == _UNKNOWN else "")
        return
    except SchedulerError as problem:
        yield failed(name, asked, problem.message, "its API may be private: ask from within its network")
        return
    except ImpossibleError as problem:
        yield failed(name, asked, problem.message, problem.hint)
        return
    yield ok(name, asked, f"{found.head_node.words()}, Kubernetes {looked.cluster.version}")
    yield from checks(plan, subject.catalog.instance_types[plan.place.instance_type], looked)


_UNKNOWN = 401


def _entry(cluster: str) -> str:
    """The command that lets a role into a cluster."""
    return f"aws eks create-access-entry --cluster-name {cluster} --principal-arn YOUR_ROLE, by who may"


EXISTING_KUBERNETES = (Examination("cluster", "the cluster that exists takes the job", existing_cluster),)
"""What a job asks of the cluster that it names."""
