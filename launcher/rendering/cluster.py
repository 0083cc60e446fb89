"""Shared parts of the files and stacks of all clusters: names, tags, recipients of notifications."""

from collections.abc import Iterator, Mapping

from launcher.model.finding import Finding, error
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.model.tags import CLUSTER_TAG, DIGEST_TAG, PLAN_TAG, Tag

CLUSTER_FILE = "cluster.yaml"
"""The file name of a cluster's configuration among the rendered files, for every target."""
"""Tags that change with every plan."""
_OWNER_TAGS = ("owner", "Owner")
"""Tags by which plans name an owner (`tags` of the plan file): Slipway has none of its own."""


def cluster_name(plan: Plan) -> str:
    """The cluster's name in ParallelCluster and of its stack: at most 48 of the 60 characters allowed."""
    return f"slipway-{plan.cluster_name}"


def queue_name(instance_type: str) -> str:
    """The Slurm partition of an instance type; ParallelCluster allows 25 characters from a-z, 0-9 and "-".

    >>> queue_name("p6-b200.48xlarge")
    'p6-b200-48xlarge'
    """
    return instance_type.replace(".", "-")


def notify_findings(plan: Plan) -> Iterator[Finding]:
    """Notification addresses to which nothing can be sent."""
    for address in plan.request.guardrails.notify:
        if address.startswith("arn:") and address.split(":")[2:3] not in (["sns"], ["sqs"], ["lambda"]):
            message = f"nothing can be sent to {address}"
            hint = "an email address, an https URL, or the ARN of a topic, a queue or a function"
            yield error("notify-unreachable", "guardrails.notify", message, hint)


def unknown_types(plan: Plan, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """Instance types of a plan, including its fallback types, that the catalog lacks."""
    types = (plan.place.instance_type, *plan.request.target.fallback_types)
    return tuple(
        error("unknown-instance-type", "target", f"the catalog has no instance type {name}")
        for name in types
        if name not in instances
    )


def repeated_types(plan: Plan) -> Iterator[Finding]:
    """Instance types that the plan names twice: each type has one queue."""
    types = (plan.place.instance_type, *plan.request.target.fallback_types)
    if len(set(types)) < len(types):
        message = "an instance type is listed twice"
        yield error("duplicate-queue", "target.fallback_types", message, "list each type once")


def owner_in(tags: Mapping[str, str]) -> str | None:
    """The owner that the tags name; None if they name no owner."""
    return next((tags[key] for key in _OWNER_TAGS if key in tags), None)


def tags(plan: Plan) -> tuple[Tag, ...]:
    """The tags of everything a plan deploys; the bill can be split by them."""
    return (
        Tag(key=CLUSTER_TAG, value=plan.cluster_name),
        Tag(key=PLAN_TAG, value=plan.name),
        Tag(key=DIGEST_TAG, value=plan.digest),
        *(Tag(key=key, value=value) for key, value in sorted(plan.request.tags.items())),
    )
