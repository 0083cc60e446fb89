"""Resources that a plan names and does not create: images, buckets, free names, the cluster."""

from collections.abc import Iterator

from launcher.aws import stacks
from launcher.aws.images import ami_state, ecr_image, is_in_ecr
from launcher.aws.objects import Objects
from launcher.aws.session import error_code
from launcher.model.administrator import by_administrator
from launcher.model.diagnosis import Check, failed_check, ok, unknown
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.plan import Plan
from launcher.model.reach import reached_locations
from launcher.model.tags import CLUSTER_TAG
from launcher.rendering.names import NETWORK_STACK, SERVING_STACK, STORE_STACK, TRAINING_STACK
from launcher.submit.jobs import SchedulerError
from launcher.submit.kubernetes.connection import ApiRefusedError
from launcher.targets.registry import target_of
from launcher.workflow.cluster import kubernetes_cluster
from launcher.workflow.cluster.kubernetes_checks import checks
from launcher.workflow.doctor.examination import Examination, Subject

AVAILABLE = "available"
"""A tag of every stack that Slipway creates."""
_UNKNOWN = 401


def machine_image(subject: Subject) -> Iterator[Check]:
    """The machine image of the nodes, if the plan names one."""
    ami = subject.plan.request.target.ami if subject.plan is not None else None
    if ami is None:
        return
    requirement = f"target.ami {ami} in {subject.region}"
    state = ami_state(subject.session("ec2"), ami)
    if state == AVAILABLE:
        yield ok("machine image", requirement, state)
    else:
        got = f"it is {state}" if state is not None else "no AMI that this account can read"
        yield failed_check("machine image", requirement, got, "use an AMI of this region, or share it with the account")


def container_image(subject: Subject) -> Iterator[Check]:
    """The container images that the plan names; only images in ECR can be checked."""
    for path, name in _named_images(subject.plan):
        requirement = f"{path} {name}"
        image = ecr_image(name)
        if image is None:
            yield unknown("container image", requirement, "only images in ECR can be checked; the nodes will pull it")
        elif is_in_ecr(subject.session("ecr", region=image.region), image):
            yield ok("container image", requirement, "it exists")
        else:
            yield failed_check("container image", requirement, "no such image", "push it, or set another image")


def _named_images(plan: Plan | None) -> Iterator[tuple[str, str]]:
    if plan is None:
        return
    serve = plan.request.workload.serve
    if plan.request.run.image is not None and serve is None:
        yield "run.image", plan.request.run.image
    # An endpoint runs the image of its engine, not that of a job.
    if serve is not None and serve.image is not None:
        yield "workload.serve.image", serve.image


def readable(subject: Subject) -> Iterator[Check]:
    """Check that these credentials can list model, artefacts and data; the nodes' role is a separate check."""
    for path, uri in _named_uris(subject.plan):
        requirement = f"{path} {uri}"
        try:
            first_key = Objects.at(subject.session("s3"), uri).first()
        except AwsError as problem:
            if error_code(problem) == "NoSuchBucket":
                yield failed_check("data", requirement, "no such bucket", "name one that exists")
                continue
            raise
        # Checkpoints are written by the job: their folder is empty before the first run.
        if first_key is None and path != "checkpoint.uri":
            yield failed_check("data", requirement, "no objects there", "upload it, or correct the prefix")
        else:
            yield ok("data", requirement, f"{first_key} and more" if first_key is not None else "the bucket exists")


def _named_uris(plan: Plan | None) -> Iterator[tuple[str, str]]:
    if plan is None:
        return
    train, serve = plan.request.workload.train, plan.request.workload.serve
    named = [("checkpoint.uri", plan.request.checkpoint.store_uri)]
    named += [(reach.path, reach.uri) for reach in reached_locations(plan.request)]
    if train is not None:
        named.append(("workload.train.data.uri", train.data.uri))
    if serve is not None:
        named += [("workload.serve.model_uri", serve.model_uri), ("workload.serve.artifacts_uri", serve.artifacts_uri)]
    yield from ((path, uri) for path, uri in named if uri is not None)


def free_names(subject: Subject) -> Iterator[Check]:
    """Check that the stack names are free, or that the stacks are Slipway's."""
    plan = subject.plan
    if plan is None or plan.request.target.cluster is not None:
        return
    parts = (
        (SERVING_STACK,) if plan.request.workload.serve is not None else (NETWORK_STACK, STORE_STACK, TRAINING_STACK)
    )
    for part in parts:
        name = f"slipway-{plan.cluster_name}-{part}"
        stack_state = stacks.find(subject.session("cloudformation"), name)
        requirement = f"stack {name} is free or Slipway's"
        if stack_state is None:
            yield ok("stack name", requirement, f"{name} is free")
        # Every stack of Slipway has the tag; a deployment would overwrite another one.
        elif CLUSTER_TAG not in stack_state.tags:
            yield failed_check(
                "stack name",
                requirement,
                "a stack of another owner has this name",
                "choose another name in the plan file",
            )
        elif stack_state.status.endswith("_IN_PROGRESS"):
            message = f"{name} is {stack_state.status}: another deployment is under way"
            yield failed_check("stack name", requirement, message, "wait until it ends")
        elif stack_state.status.endswith("ROLLBACK_FAILED") or stack_state.status == "ROLLBACK_COMPLETE":
            fix = f"slipway down {plan.cluster_name}"
            yield failed_check(
                "stack name", requirement, f"{name} is {stack_state.status}: CloudFormation will not update it", fix
            )
        else:
            yield ok("stack name", requirement, f"{name} is Slipway's ({stack_state.status}) and will be updated")


CONTAINER_IMAGE = Examination("container image", "the image exists", container_image)
DATA = Examination("data", "model, data and checkpoints can be listed", readable)
ARTEFACTS = (
    Examination("machine image", "the image exists", machine_image),
    CONTAINER_IMAGE,
    DATA,
    Examination("stack name", "the names are free", free_names),
)


def existing_cluster(subject: Subject) -> Iterator[Check]:
    """Whether the cluster exists, admits the caller, and has what the job needs."""
    plan = subject.plan
    if plan is None or plan.request.target.cluster is None or not target_of(plan.place.target).pods:
        return
    name, requirement = "cluster", f"{plan.cluster_name} exists and allows access"
    try:
        existing = kubernetes_cluster.find(plan, subject.session("cloudformation", "eks"))
        inspection = kubernetes_cluster.inspect_cluster(plan, existing, subject.environment)
    except ApiRefusedError as refused:
        yield failed_check(
            name, requirement, refused.message, _entry(plan.cluster_name) if refused.code == _UNKNOWN else ""
        )
        return
    except SchedulerError as problem:
        yield failed_check(name, requirement, problem.message, "its API may be private: run this inside its network")
        return
    except ImpossibleError as problem:
        yield failed_check(name, requirement, problem.message, problem.hint)
        return
    yield ok(name, requirement, f"{existing.head_node.text()}, Kubernetes {inspection.cluster.version}")
    yield from checks(plan, subject.catalog.instance_types[plan.place.instance_type], inspection)


def _entry(cluster: str) -> str:
    return by_administrator(f"aws eks create-access-entry --cluster-name {cluster} --principal-arn YOUR_ROLE")


EXISTING_KUBERNETES = (Examination("cluster", "the existing cluster accepts the job", existing_cluster),)
"""Requirements of a job on the cluster that it names."""
