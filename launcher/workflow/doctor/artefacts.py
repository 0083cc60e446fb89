"""What a plan refers to and does not make: images, buckets, names that must be free."""

from collections.abc import Iterator

from launcher.aws import stacks
from launcher.aws.images import ami_state, ecr_image, is_in_ecr
from launcher.aws.objects import Objects
from launcher.aws.session import error_code
from launcher.model.diagnosis import Check, failed, ok, unknown
from launcher.model.errors import AwsError
from launcher.model.plan import Plan
from launcher.model.reach import reached
from launcher.workflow.cluster.verify import NETWORK_STACK, SERVING_STACK, STORE_STACK, TRAINING_STACK
from launcher.workflow.doctor.examination import Examination, Subject

AVAILABLE = "available"
OWN_TAG = "slipway:cluster"
"""On every stack that slipway makes."""


def machine_image(subject: Subject) -> Iterator[Check]:
    """The image that the nodes start from, where the plan names one."""
    ami = subject.plan.request.target.ami if subject.plan is not None else None
    if ami is None:
        return
    asked = f"target.ami {ami} in {subject.region}"
    state = ami_state(subject.session("ec2"), ami)
    if state == AVAILABLE:
        yield ok("machine image", asked, state)
    else:
        got = f"it is {state}" if state is not None else "none that this account sees"
        yield failed("machine image", asked, got, "name one of this region, or share it with the account")


def container_image(subject: Subject) -> Iterator[Check]:
    """The container images that the plan names; only ECR can be asked."""
    for path, name in _named_images(subject.plan):
        asked = f"{path} {name}"
        image = ecr_image(name)
        if image is None:
            yield unknown("container image", asked, "only images in ECR can be checked; the nodes will pull it")
        elif is_in_ecr(subject.session("ecr", region=image.region), image):
            yield ok("container image", asked, "it is there")
        else:
            yield failed("container image", asked, "no such image", "push it, or name another")


def _named_images(plan: Plan | None) -> Iterator[tuple[str, str]]:
    if plan is None:
        return
    serve = plan.request.workload.serve
    if plan.request.run.image is not None and serve is None:
        yield "run.image", plan.request.run.image
    if serve is not None and serve.image is not None:
        yield "workload.serve.image", serve.image


def readable(subject: Subject) -> Iterator[Check]:
    """Whether model, artefacts and data can be listed with these credentials; the nodes' role is another matter."""
    for path, uri in _named_uris(subject.plan):
        asked = f"{path} {uri}"
        try:
            found = Objects.at(subject.session("s3"), uri).first()
        except AwsError as problem:
            if error_code(problem) == "NoSuchBucket":
                yield failed("data", asked, "no such bucket", "name one that exists")
                continue
            raise
        if found is None and path != "checkpoint.uri":
            yield failed("data", asked, "nothing is there", "upload it, or correct the prefix")
        else:
            yield ok("data", asked, f"{found} and more" if found is not None else "the bucket is there")


def _named_uris(plan: Plan | None) -> Iterator[tuple[str, str]]:
    if plan is None:
        return
    train, serve = plan.request.workload.train, plan.request.workload.serve
    named = [("checkpoint.uri", plan.request.checkpoint.store_uri)]
    named += [(each.path, each.uri) for each in reached(plan.request)]
    if train is not None:
        named.append(("workload.train.data.uri", train.data.uri))
    if serve is not None:
        named += [("workload.serve.model_uri", serve.model_uri), ("workload.serve.artifacts_uri", serve.artifacts_uri)]
    yield from ((path, uri) for path, uri in named if uri is not None)


def free_names(subject: Subject) -> Iterator[Check]:
    """Whether the stacks' names are free, or Slipway's own."""
    plan = subject.plan
    if plan is None or plan.request.target.cluster is not None:
        return
    parts = (
        (SERVING_STACK,) if plan.request.workload.serve is not None else (NETWORK_STACK, STORE_STACK, TRAINING_STACK)
    )
    for part in parts:
        name = f"slipway-{plan.cluster_name}-{part}"
        found = stacks.find(subject.session("cloudformation"), name)
        asked = f"stack {name} is free or Slipway's"
        if found is None:
            yield ok("stack name", asked, f"{name} is free")
        elif OWN_TAG not in found.tags:
            yield failed(
                "stack name", asked, "another owner's stack has this name", "choose another name in the plan file"
            )
        elif found.status.endswith("_IN_PROGRESS"):
            yield failed("stack name", asked, f"{found.status}: another deployment is under way", "wait for its end")
        elif found.status.endswith("ROLLBACK_FAILED") or found.status == "ROLLBACK_COMPLETE":
            fix = f"slipway down {plan.cluster_name}"
            yield failed("stack name", asked, f"{found.status}: CloudFormation will not update it", fix)
        else:
            yield ok("stack name", asked, f"Slipway's, {found.status}: it will be updated")


CONTAINER_IMAGE = Examination("container image", "the image is there", container_image)
DATA = Examination("data", "model, data and checkpoints can be listed", readable)
ARTEFACTS = (
    Examination("machine image", "the image is there", machine_image),
    CONTAINER_IMAGE,
    DATA,
    Examination("stack name", "the names are free", free_names),
)
