"""The plan file keys that only apply to jobs in pods."""

from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError

from launcher.model.finding import Finding, error, warning
from launcher.model.request import PlanRequest
from launcher.targets.registry import TARGETS, target_of

_DOCUMENTATION = tuple(map(IPv4Network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")))
_WIDEST = 16
"""Prefix length of the widest range that causes no warning."""


def key_findings(request: PlanRequest) -> Iterator[Finding]:
    """Findings for Kubernetes keys in a plan without pod targets, and for invalid address ranges."""
    target, titles = request.target, [kind.title for kind in TARGETS.values() if kind.pods]
    keys = (
        ("target.context", target.context),
        ("target.queue", target.queue),
        ("target.priority", target.priority),
        ("network.api_cidrs", request.network.api_cidrs or None),
        ("security.kubernetes_access", request.security.kubernetes_access or None),
        ("run.operator", request.run.operator),
        ("run.volumes", request.run.volumes or None),
    )
    allowed = target.kind is None or any(target_of(target_kind).pods for target_kind in target.kind)
    for path, value in keys:
        if value is not None and not allowed:
            message = f"has no effect on {', '.join(target.kind or ())}"
            yield error("kubernetes-key", path, message, f"remove it; it is for {' and '.join(titles)}")
    if target.priority is not None and target.queue is None:
        message = f"a priority orders the jobs of a queue, and none is named: got {target.priority}"
        yield error("priority-without-queue", "target.priority", message, "name target.queue")
    if target.context is not None and target.cluster is None:
        message = "a context leads to a cluster that exists, and none is named"
        yield error("context-without-cluster", "target.context", message, "name it in target.cluster")
    yield from _volume_findings(request)
    yield from _range_findings(request)


def _range_findings(request: PlanRequest) -> Iterator[Finding]:
    """Findings for `network.api_cidrs`: invalid ranges, ranges without callers, or large parts of the internet."""
    path = "network.api_cidrs"
    hint = "the public addresses of your computers, such as [YOUR.ADDRESS/32]; behind NAT or a VPN, its"
    for cidr in request.network.api_cidrs:
        try:
            network = IPv4Network(cidr)
        except (AddressValueError, NetmaskValueError, ValueError) as problem:
            yield error("bad-range", path, f"{cidr} is not a network: {problem}", "a.b.c.d/n, with no bits below n")
            continue
        if any(network.overlaps(other) for other in _DOCUMENTATION if network.prefixlen >= other.prefixlen):
            yield error("documentation-range", path, f"{cidr} is a documentation range (RFC 5737)", hint)
        elif not network.is_global:
            yield error("private-range", path, f"{cidr} is not of the internet, from which the API is reached", hint)
        elif network.prefixlen < _WIDEST:
            message = f"{cidr} lets {network.num_addresses:,} addresses reach the Kubernetes API; IAM alone guards it"
            yield warning("wide-range", path, message, f"ranges of /{_WIDEST} or narrower")


def _volume_findings(request: PlanRequest) -> Iterator[Finding]:
    """Findings for volumes whose path overlaps another volume or a path that the pod already uses."""
    taken = {"/slipway": "the job's own folder", "/dev/shm": "shared memory"}  # noqa: S108 - a path in a pod
    for index, volume in enumerate(request.run.volumes):
        at = f"run.volumes[{index}].path"
        hidden = next((path for path in taken if f"{path}/".startswith(f"{volume.path}/")), None)
        inside = next((path for path in taken if f"{volume.path}/".startswith(f"{path}/")), None)
        other = hidden or inside
        if other is not None:
            yield error("path-taken", at, f"{volume.path} is taken by {taken[other]}, {other}", "/data, for example")
        taken[volume.path] = f"the claim {volume.claim}"
