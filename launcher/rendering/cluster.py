"""What the files and stacks of every cluster have in common: names, tags, who is told."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from launcher.model.finding import Finding, error
from launcher.model.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A tag of the cluster and everything it starts."""

    key: str
    value: str


CLUSTER_FILE = "cluster.yaml"
"""What a cluster's configuration is called among the rendered files, whatever makes the cluster."""
PLAN_TAG, DIGEST_TAG = "slipway:plan", "slipway:digest"
_OWNER_TAGS = ("owner", "Owner")
"""Tags that plans name people by (`tags` of the plan file): Slipway has none of its own."""
"""Tags that change with every plan."""


def cluster_name(plan: Plan) -> str:
    """The cluster's name in ParallelCluster and of the stack it makes: at most 48 of the 60 characters allowed."""
    return f"slipway-{plan.cluster_name}"


def queue_name(instance_type: str) -> str:
    """The Slurm partition of an instance type; ParallelCluster takes 25 of a-z, 0-9 and "-".

    >>> queue_name("p6-b200.48xlarge")
    'p6-b200-48xlarge'
    """
    return instance_type.replace(".", "-")


def notify_findings(plan: Plan) -> Iterator[Finding]:
    """Addresses that nothing can be sent to."""
    for each in plan.request.guardrails.notify:
        if each.startswith("arn:") and each.split(":")[2:3] not in (["sns"], ["sqs"], ["lambda"]):
            message = f"nothing can be sent to {each}"
            hint = "an email address, an https URL, or the ARN of a topic, a queue or a function"
            yield error("notify-unreachable", "guardrails.notify", message, hint)


def owner_in(tags: Mapping[str, str]) -> str | None:
    """Whom tags name as the owner; None where they name nobody."""
    return next((tags[key] for key in _OWNER_TAGS if key in tags), None)


def tags(plan: Plan) -> tuple[Tag, ...]:
    """The tags of everything a plan deploys; the bill can be split by them."""
    return (
        Tag(key="slipway:cluster", value=plan.cluster_name),
        Tag(key=PLAN_TAG, value=plan.name),
        Tag(key=DIGEST_TAG, value=plan.digest),
        *(Tag(key=key, value=value) for key, value in sorted(plan.request.tags.items())),
    )
