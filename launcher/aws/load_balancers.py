"""Load balancers that a Kubernetes cluster's controllers created, found by their tags."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from launcher.aws.calls import items
from launcher.aws.session import Session
from launcher.model.removal import Created, RetainedKind

OWNED = "kubernetes.io/cluster/{}"
"""The tag of a cluster's resources (cloud-provider-aws, pkg/providers/v1/tags.go; aws-ebs-csi-driver, constants.go)."""
_CONTROLLER = "elbv2.k8s.aws/cluster"
"""The tag of the AWS Load Balancer Controller, whose value is the cluster's name."""
_AT_ONCE = 20
"""Load balancers per call that reads tags (both APIs' limit)."""


def load_balancers(session: Session, cluster: str, subject: str) -> Iterator[Created]:
    """Load balancers of the controller, and of Services in clusters without the controller; `subject`: for errors."""
    yield from _controller_resources(session, cluster, subject)
    yield from _classic(session, cluster, subject)


def _controller_resources(session: Session, cluster: str, subject: str) -> Iterator[Created]:
    client = session.client("elbv2")
    listed = items(client.describe_load_balancers, subject, "LoadBalancers")
    names = [balancer["LoadBalancerArn"] for balancer in listed]
    for arn in _tagged_resources(lambda some: client.describe_tags(ResourceArns=some), names, "ResourceArn", cluster):
        command = f"aws elbv2 delete-load-balancer --load-balancer-arn {arn}"
        yield Created(kind=RetainedKind.LOAD_BALANCER, name=arn.split(":loadbalancer/")[-1], command=command)


def _classic(session: Session, cluster: str, subject: str) -> Iterator[Created]:
    """Classic load balancers: a Service of type LoadBalancer gets one if no controller is installed."""
    client = session.client("elb")
    listed = items(client.describe_load_balancers, subject, "LoadBalancerDescriptions")
    names = [description["LoadBalancerName"] for description in listed]
    for name in _tagged_resources(
        lambda some: client.describe_tags(LoadBalancerNames=some), names, "LoadBalancerName", cluster
    ):
        command = f"aws elb delete-load-balancer --load-balancer-name {name}"
        yield Created(kind=RetainedKind.LOAD_BALANCER, name=name, command=command)


def _tagged_resources(
    describe_tags: Callable[[list[str]], Mapping[str, Any]], names: list[str], key: str, cluster: str
) -> Iterator[str]:
    """Those that carry the tags of a cluster; `key` has the name in the answer."""
    for some in _parts(names):
        for description in describe_tags(some)["TagDescriptions"]:
            if _is_of(cluster, description["Tags"]):
                yield description[key]


def _is_of(cluster: str, tags: Iterable[Mapping[str, Any]]) -> bool:
    values = {tag["Key"]: tag.get("Value") for tag in tags}
    return OWNED.format(cluster) in values or values.get(_CONTROLLER) == cluster


def _parts(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), _AT_ONCE):
        yield names[start : start + _AT_ONCE]
