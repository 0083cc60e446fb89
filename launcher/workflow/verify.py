"""Reads what was deployed back through each service's own calls and holds it against the plan."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from launcher.aws import buckets, networks, stacks
from launcher.aws.session import Session
from launcher.aws.stacks import StackResource, StackState
from launcher.model.enums import PurchaseOption
from launcher.model.errors import DeploymentFailedError
from launcher.model.plan import Plan

COMPLETE = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
BOUGHT_AS = {PurchaseOption.SPOT: "SPOT", PurchaseOption.CAPACITY_BLOCK: "CAPACITY_BLOCK"}
"""ParallelCluster's word for how a queue is bought; a commitment is bought on demand."""
STORE_STACK, NETWORK_STACK, TRAINING_STACK = "checkpoints", "network", "training"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A running cluster as its scheduler describes it: its queues, with instance type, count and way of buying."""

    name: str
    queues: tuple["QueueState", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """One queue of a running cluster."""

    name: str
    instance_type: str
    capacity_type: str
    maximum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was read back and agreed, and what stands in the stacks and was not read back, by type."""

    stacks: tuple[StackState, ...]
    verified: tuple[str, ...]
    unread: tuple[str, ...]


class _Checks:
    """Gathers what agrees and what does not."""

    def __init__(self) -> None:
        self.agreed: list[str] = []
        self.wrong: list[str] = []
        self.types: set[str] = set()

    def holds(self, what: str, fact: object) -> None:
        """Hold one fact that has to be so."""
        self.equal(what, wanted=True, got=bool(fact))

    def equal(self, what: str, wanted: object, got: object) -> None:
        """Hold one fact against the plan."""
        if wanted == got:
            self.agreed.append(f"{what}: {_word(got)}")
        else:
            self.wrong.append(f"{what}: planned {_word(wanted)}, found {_word(got)}")


def _word(value: object) -> str:
    """A fact as a report says it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(f"{key} {each}" for key, each in value.items()) if isinstance(value, dict) else str(value)


def verify(
    plan: Plan, session: Session, names: Iterable[str], cluster: Callable[[str], ClusterState] | None, zone: str | None
) -> Verification:
    """Compare the deployed stacks with the plan.

    Args:
        plan: what was deployed.
        session: AWS, or the sandbox's.
        names: the stacks' names.
        cluster: asks the scheduler of a cluster what it runs; None where nothing answers that.
        zone: the availability zone id the plan's machines stand in.

    Raises:
        DeploymentFailedError: something that was read back is not as planned, with every difference.
        AwsError: a call failed.
    """
    states = tuple(stacks.describe(session, each) for each in names)
    checks = _Checks()
    for state in states:
        checks.holds(f"stack {state.name}", state.status in COMPLETE)
    found = [each for state in states for each in stacks.resources(session, state.name)]
    for state in states:
        if state.name.endswith(STORE_STACK):
            _store(session, state, checks)
        elif state.name.endswith(NETWORK_STACK):
            _network(plan, session, _subnet_of(states), checks, zone)
        elif state.name.endswith(TRAINING_STACK):
            _training(plan, session, state, checks, cluster=cluster)
    if checks.wrong:
        listed = "\n".join(f"  {each}" for each in checks.wrong)
        raise DeploymentFailedError(f"what was deployed is not what was planned:\n{listed}")
    return Verification(stacks=states, verified=tuple(checks.agreed), unread=_unread(found, checks.types))


def _unread(found: Iterable[StackResource], read: set[str]) -> tuple[str, ...]:
    """The resource types of the stacks that nothing here reads back."""
    return tuple(sorted({each.type for each in found} - read - {"AWS::CDK::Metadata"}))


def _store(session: Session, state: StackState, checks: _Checks) -> None:
    """The checkpoint bucket: private, encrypted, TLS only, tidy, and its stack protected."""
    bucket = buckets.describe(session, state.outputs["BucketName"])
    checks.types |= {"AWS::S3::Bucket", "AWS::S3::BucketPolicy"}
    checks.holds("checkpoint bucket blocks public access", bucket.public_access_blocked)
    checks.holds("checkpoint bucket is encrypted", bucket.encryption is not None)
    checks.holds("checkpoint bucket takes TLS only", bucket.tls_only)
    rules = {rule["ID"]: rule for rule in bucket.lifecycle}
    tag = rules.get("superseded", {}).get("Filter", {}).get("Tag", {})
    checks.equal("checkpoint bucket expires", {"Key": "slipway", "Value": "superseded"}, tag)
    checks.holds("checkpoint bucket aborts uploads", "AbortIncompleteMultipartUpload" in rules.get("incomplete", {}))
    checks.holds("checkpoint stack is protected", state.protected)


def _subnet_of(states: Iterable[StackState]) -> str:
    """The subnet that the cluster's machines stand in, whichever stack made it."""
    return next(each.outputs["PrivateSubnetId"] for each in states if each.name.endswith(TRAINING_STACK))


def _network(plan: Plan, session: Session, subnet_id: str, checks: _Checks, zone: str | None) -> None:
    """The VPC's range and the private subnet: its zone, no public addresses, a way out through NAT."""
    subnet = networks.subnets(session, (subnet_id,))[0]
    checks.types |= {
        "AWS::EC2::VPC",
        "AWS::EC2::Subnet",
        "AWS::EC2::Route",
        "AWS::EC2::RouteTable",
        "AWS::EC2::SubnetRouteTableAssociation",
        "AWS::EC2::NatGateway",
    }
    checks.equal("VPC range", plan.request.network.cidr, networks.vpc_cidr(session, subnet.vpc_id))
    checks.holds("private subnet keeps addresses private", not subnet.public_addresses)
    if zone is not None:
        checks.equal("private subnet zone", zone, subnet.az_id)
    routes = networks.default_routes(session, subnet.id)
    checks.holds("private subnet leaves through NAT", bool(routes) and all(each.startswith("nat-") for each in routes))


def _training(
    plan: Plan,
    session: Session,
    state: StackState,
    checks: _Checks,
    *,
    cluster: Callable[[str], ClusterState] | None,
) -> None:
    """The nodes' security group, the cluster's first queue, and the plan it came from."""
    checks.equal("plan digest", plan.digest, state.outputs.get("PlanDigest"))
    group = state.outputs["NodeSecurityGroupId"]
    rules = networks.security_group_rules(session, group)
    checks.types |= {"AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress"}
    for way in ("in", "out"):
        checks.holds(f"nodes let all traffic {way} among themselves (EFA)", _all_from(rules[way], group))
    checks.holds("nodes are open to nobody else", not any(rule.get("IpRanges") for rule in rules["in"]))
    if cluster is None:
        return
    checks.types.add("Custom::PclusterCluster")
    running = cluster(state.outputs["ClusterName"])
    types = {each.instance_type: each for each in running.queues}
    queue = types.get(plan.place.instance_type)
    checks.equal("cluster queue of", plan.place.instance_type, queue.instance_type if queue else None)
    if queue is not None:
        checks.equal("cluster nodes at most", plan.place.nodes, queue.maximum)
        wanted = BOUGHT_AS.get(plan.place.option, "ONDEMAND")
        checks.equal("cluster buys", wanted, queue.capacity_type)


def _all_from(rules: Iterable[dict[str, Any]], group: str) -> bool:
    """Whether a rule lets all traffic pass between members of a group."""
    return any(
        rule["IpProtocol"] == "-1" and group in [each["GroupId"] for each in rule.get("UserIdGroupPairs", [])]
        for rule in rules
    )
