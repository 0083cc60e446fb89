"""What jobs as pods take of a plan file, and what other targets have no use for."""

from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError

from launcher.model.finding import Finding, error
from launcher.model.request import PlanRequest
from launcher.model.target import TARGETS, target_of


def key_findings(request: PlanRequest) -> Iterator[Finding]:
    """Keys of Kubernetes in a plan that allows no target with pods, and address ranges that are none."""
    target, titles = request.target, [each.title for each in TARGETS.values() if each.pods]
    keys = (
        ("target.context", target.context),
        ("target.queue", target.queue),
        ("target.priority", target.priority),
        ("network.api_cidrs", request.network.api_cidrs or None),
        ("run.operator", request.run.operator),
    )
    allowed = target.kind is None or any(target_of(each).pods for each in target.kind)
    for path, value in keys:
        if value is not None and not allowed:
            message = f"says nothing to {', '.join(target.kind or ())}"
            yield error("kubernetes-key", path, message, f"drop it; it is for {' and '.join(titles)}")
    if target.priority is not None and target.queue is None:
        message = f"a priority orders the jobs of a queue, and none is named: got {target.priority}"
        yield error("priority-without-queue", "target.priority", message, "name target.queue")
    if target.context is not None and target.cluster is None:
        message = "a context leads to a cluster that exists, and none is named"
        yield error("context-without-cluster", "target.context", message, "name it in target.cluster")
    for each in request.network.api_cidrs:
        try:
            IPv4Network(each)
        except (AddressValueError, NetmaskValueError, ValueError) as problem:
            yield error("bad-range", "network.api_cidrs", f"{each} is no network: {problem}", "198.51.100.0/24")
