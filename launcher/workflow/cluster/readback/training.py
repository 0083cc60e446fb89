"""Compares a cluster with the plan: its queues, its nodes' security group, its permissions."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from launcher.aws import log_groups, networks, node_groups, roles, ssm, stacks
from launcher.catalog.load import load
from launcher.model.enums import Egress, PurchaseOption
from launcher.model.kubernetes import ACCOUNT_KEY
from launcher.model.monitoring import COMPILED_FOLDER, GUARD_FOLDER, MESSAGE_FOLDER
from launcher.model.reach import reached_locations
from launcher.model.sizing import LOG_RETENTION_DAYS
from launcher.planning.nat import egress, interface_endpoints
from launcher.rendering.neuron import keeps_compiled_programs
from launcher.targets.registry import target_of
from launcher.workflow.cluster.readback import guards, store
from launcher.workflow.cluster.readback.reading import QueueState, Reader, Readers, Reading

GATEWAYS = ("dynamodb", "s3")
"""Services with a gateway endpoint in every Slipway network (infra/parts/network.py)."""
COMPLETE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE")
"""States of a stack whose resources are all there: after a rollback of an update, those from before it."""
ON_DEMAND = "ONDEMAND"
BOUGHT_AS: Mapping[PurchaseOption, str] = {
    PurchaseOption.SPOT: "SPOT",
    PurchaseOption.CAPACITY_BLOCK: "CAPACITY_BLOCK",
}
"""ParallelCluster's name of a purchase option; a commitment uses on-demand capacity."""
GRANTING = {
    "eks:CreatePodIdentityAssociation",
    "eks:DeletePodIdentityAssociation",
    "eks:ListPodIdentityAssociations",
    "iam:GetRole",
    "iam:PassRole",
}
"""The actions that grant a role to pods and revoke it."""


def vpc(reading: Reading) -> None:
    """Check the VPC's CIDR range, and that an internet gateway is attached to it, but for a closed network."""
    checks, session = reading.checks, reading.session
    vpc_ids = reading.ids("AWS::EC2::VPC")
    ranges = {networks.vpc_cidr(session, vpc_id) for vpc_id in vpc_ids}
    checks.equal("VPC range", {reading.plan.request.network.cidr}, ranges)
    gateways = reading.ids("AWS::EC2::InternetGateway")
    if _egress(reading) is Egress.ENDPOINTS:
        checks.equal("internet gateways", (), tuple(gateways))
        return
    attached = networks.attached_vpcs(session, gateways)
    checks.equal("internet gateway is attached to", frozenset(vpc_ids), attached)


def subnets(reading: Reading) -> None:
    """Subnets give public addresses as planned and have a route table; the nodes' subnet is in the plan's zone."""
    checks, session = reading.checks, reading.session
    states = networks.subnets(session, reading.ids("AWS::EC2::Subnet"))
    if _egress(reading) is Egress.PUBLIC_ADDRESSES:
        checks.holds("nodes get public addresses", all(subnet.public_addresses for subnet in states))
    else:
        checks.holds("subnets assign no public addresses", not any(subnet.public_addresses for subnet in states))
    node_subnet = {subnet.id: subnet for subnet in states}.get(reading.main.outputs["PrivateSubnetId"])
    checks.holds("nodes run in a subnet of this network", node_subnet)
    if node_subnet is not None and reading.zone is not None:
        checks.equal("private subnet zone", reading.zone, node_subnet.az_id)
    tables = networks.tables_of(session, [subnet.id for subnet in states])
    checks.equal("subnets with a route table", {subnet.id for subnet in states}, set(tables))
    checks.equal("route tables in use", set(reading.ids("AWS::EC2::RouteTable")), set(tables.values()))


def _egress(reading: Reading) -> Egress | None:
    return egress(reading.plan.request, reading.plan.place, load().instance_types)


def check_default_route(reading: Reading) -> None:
    """Check the default route of the nodes' subnet, and what it leads to."""
    checks, session, chosen = reading.checks, reading.session, _egress(reading)
    gateway_ids = reading.ids("AWS::EC2::NatGateway")
    routes = networks.default_routes(session, reading.main.outputs["PrivateSubnetId"])
    if chosen is Egress.ENDPOINTS:
        checks.equal("nodes have no route to the internet", set(), set(routes))
        return
    if chosen is Egress.PUBLIC_ADDRESSES:
        checks.equal(
            "nodes leave through the internet gateway", set(reading.ids("AWS::EC2::InternetGateway")), set(routes)
        )
        return
    if chosen is Egress.NAT_INSTANCE:
        instances = reading.ids("AWS::EC2::Instance")
        checks.equal("private subnet routes to the NAT instance", set(instances), set(routes))
        checks.holds(
            "NAT instance forwards traffic", all(networks.forwards_traffic(session, name) for name in instances)
        )
        return
    checks.equal("private subnet routes to the NAT gateway", set(gateway_ids), set(routes))
    gateways = networks.nat_gateways(session, gateway_ids)
    checks.holds("NAT gateway is up", gateways and all(available for available, _ in gateways))
    addresses = set(networks.allocations(session, reading.ids("AWS::EC2::EIP")))
    checks.holds(
        "NAT gateway has the stack's address",
        addresses == {allocation for _, allocations in gateways for allocation in allocations},
    )


def endpoints(reading: Reading) -> None:
    """Check the gateway endpoints, and the interface endpoints that the plan pays for."""
    region = reading.plan.place.region
    expected = {(f"com.amazonaws.{region}.{gateway}", "Gateway") for gateway in GATEWAYS}
    services = interface_endpoints(reading.plan.request, target_of(reading.plan.place.target), _egress(reading))
    expected |= {(f"com.amazonaws.{region}.{service}", "Interface") for service in services}
    got = networks.endpoint_services(reading.session, reading.ids("AWS::EC2::VPCEndpoint"))
    reading.checks.equal("VPC endpoints", frozenset(expected), got)


def flow_log(reading: Reading) -> None:
    """The flow log records traffic that the VPC rejects."""
    expected = frozenset((vpc_id, "REJECT") for vpc_id in reading.ids("AWS::EC2::VPC"))
    reading.checks.equal("flow log", expected, networks.flow_logs(reading.session, reading.ids("AWS::EC2::FlowLog")))


def launch_template(reading: Reading, template: tuple[str, str], planned: Iterable[str]) -> None:
    """Check a launch template of the jobs' nodes: type, capacity reservation, and kinds of network interfaces."""
    checks, plan = reading.checks, reading.plan
    data = node_groups.describe_template(reading.session, template)
    found = [interface.get("InterfaceType", "interface") for interface in data.get("NetworkInterfaces", ())]
    reserved = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    reservation = plan.request.purchase.reservation
    checks.equal("instances", plan.place.instance_type, data.get("InstanceType"))
    checks.equal("network interfaces", Counter(planned), Counter(found))
    checks.equal("reservation", None if reservation is None else reservation.id, reserved.get("CapacityReservationId"))


def node_group(reading: Reading) -> None:
    """The nodes' security group: all traffic among the nodes, in both directions, and from no other source."""
    checks = reading.checks
    group = reading.main.outputs["NodeSecurityGroupId"]
    rules = networks.security_group_rules(reading.session, group)
    for direction in ("in", "out"):
        checks.holds(
            f"nodes allow all traffic {direction} among themselves (EFA)",
            networks.lets_all_from(rules[direction], group),
        )
    checks.holds("nodes accept no other traffic", not any(rule.get("IpRanges") for rule in rules["in"]))


def endpoint_group(reading: Reading) -> None:
    """Check that any other security group allows only HTTPS in, a NAT instance's anything, from the plan's network."""
    node_group_id, open_groups = reading.main.outputs["NodeSecurityGroupId"], 0
    for group_id in reading.ids("AWS::EC2::SecurityGroup"):
        if group_id == node_group_id:
            continue
        inward = networks.security_group_rules(reading.session, group_id)["in"]
        ranges = {ip_range["CidrIp"] for rule in inward for ip_range in rule.get("IpRanges", [])}
        reading.checks.equal("endpoints accept traffic from", {reading.plan.request.network.cidr}, ranges)
        ports = {rule.get("FromPort") for rule in inward}
        if ports == {None}:
            open_groups += 1
        else:
            reading.checks.equal("endpoints allow port", {443}, ports)
    nats = int(_egress(reading) is Egress.NAT_INSTANCE)
    reading.checks.equal("security groups open to the whole network", nats, open_groups)


def nested_stacks(reading: Reading) -> None:
    """ParallelCluster's provider, and its published policies if the account has a boundary."""
    for stack_id in reading.ids("AWS::CloudFormation::Stack"):
        state = stacks.describe(reading.session, stack_id)
        reading.checks.holds(f"nested stack {state.name}", state.status in COMPLETE)


def log_retention(reading: Reading) -> None:
    """Check the retention of every log group."""
    for group in reading.ids("AWS::Logs::LogGroup"):
        days = [
            log_group.retention_days
            for log_group in log_groups.log_groups(reading.session, group)
            if log_group.name == group
        ]
        reading.checks.equal(f"retention in days of {group}", [LOG_RETENTION_DAYS], days)


def session_log(reading: Reading) -> None:
    """Check that the shell sessions whose commands Slipway prints write to a log group of the stack."""
    groups = set(reading.ids("AWS::Logs::LogGroup"))
    for document in reading.ids("AWS::SSM::Document"):
        inputs = ssm.document(reading.session, document)["inputs"]
        reading.checks.holds(f"sessions by {document} are logged", inputs.get("cloudWatchLogGroupName") in groups)
        keyed = reading.plan.request.storage.kms_key_arn is not None
        reading.checks.equal(f"{document} requires an encrypted log", keyed, inputs.get("cloudWatchEncryptionEnabled"))


def role_boundaries(reading: Reading) -> None:
    """Every role has the plan's permissions boundary, if the plan has one, and only a service may assume it.

    A role that users assume to reach a Kubernetes cluster may only do that and grant the pods' role.
    """
    states = {role_id: roles.role(reading.session, role_id) for role_id in reading.ids("AWS::IAM::Role")}
    boundaries = {reading.plan.request.security.permissions_boundary_arn}
    reading.checks.equal("boundary of the roles", boundaries, {boundary for boundary, _ in states.values()})
    entry = reading.main.outputs.get("AccessRoleArn", "").rpartition("/")[2]
    reading.checks.holds(
        "roles are for services only", all(services for name, (_, services) in states.items() if name != entry)
    )
    if entry:
        statements = roles.rights(reading.session, entry)
        given = {
            arn
            for statement in statements
            if "iam:PassRole" in _actions([statement])
            for arn in _as_list(statement["Resource"])
        }
        reading.checks.equal("actions of the role that reaches the cluster", GRANTING, _actions(statements))
        reading.checks.equal("role that it may assign to pods", {reading.main.outputs["PodRoleArn"]}, given)


def _is_every_action(action: str) -> bool:
    """Whether an action is a service's every action; FSx needs s3:Get* of data (infra/parts/provider_access.py).

    >>> [_is_every_action(action) for action in ("*", "s3:*", "s3:Get*")]
    [True, True, False]
    """
    return action.rpartition(":")[2] == "*"


def policies(reading: Reading) -> None:
    """Check that no policy allows every action, and that nodes write only to the store and pods to their part of it."""
    statements_by_policy = {
        policy: roles.policy_statements(reading.session, policy) for policy in reading.ids("AWS::IAM::ManagedPolicy")
    }
    actions = {action for statements in statements_by_policy.values() for action in _actions(statements)}
    reading.checks.holds("no policy allows all actions of a service", not any(map(_is_every_action, actions)))
    nodes = statements_by_policy.get(reading.main.outputs["NodePolicyArn"], ())
    store = reading.main.outputs["StoreUri"].removeprefix("s3://")
    written = {
        resource.partition(":::")[2].removesuffix("/*")
        for node in nodes
        if "s3:PutObject" in _actions([node])
        for resource in _as_list(node["Resource"])
    }
    declared = {
        reach.uri.removeprefix("s3://").strip("/") for reach in reached_locations(reading.plan.request) if reach.writes
    }
    reading.checks.equal("nodes write to", (_written_by_pods(reading, store) or {store}) | declared, written)


def _written_by_pods(reading: Reading, store: str) -> set[str]:
    """The places that a cluster's pods write to: none if its jobs run on instances without Kubernetes."""
    plan = reading.plan
    if not target_of(plan.place.target).pods:
        return set()
    compiles = keeps_compiled_programs(load().instance_types[plan.place.instance_type])
    named = {store} if plan.request.checkpoint.store_uri is not None else set()
    cache = {f"{store}/{COMPILED_FOLDER}"} if compiles else set()
    return {f"{store}/${{{ACCOUNT_KEY}}}", f"{store}/{GUARD_FOLDER}/*/{MESSAGE_FOLDER}", *named, *cache}


def _actions(statements: Iterable[Mapping[str, Any]]) -> set[str]:
    return {
        action for statement in statements if statement["Effect"] == "Allow" for action in _as_list(statement["Action"])
    }


def _as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def fits(plan_type: str, nodes: int, option: PurchaseOption, queues: Iterable[QueueState]) -> bool:
    """Whether a queue of a running cluster has enough nodes of a type with a purchase option."""
    capacity_type = BOUGHT_AS.get(option, ON_DEMAND)
    return any(
        queue.instance_type == plan_type and queue.capacity_type == capacity_type and queue.maximum >= nodes
        for queue in queues
    )


_BELOW: Readers = (
    (vpc, ("AWS::EC2::VPC", "AWS::EC2::InternetGateway", "AWS::EC2::VPCGatewayAttachment")),
    (subnets, ("AWS::EC2::Subnet", "AWS::EC2::RouteTable", "AWS::EC2::SubnetRouteTableAssociation")),
    (check_default_route, ("AWS::EC2::NatGateway", "AWS::EC2::EIP", "AWS::EC2::Instance", "AWS::EC2::Route")),
    (endpoints, ("AWS::EC2::VPCEndpoint",)),
    (flow_log, ("AWS::EC2::FlowLog",)),
    (store.checkpoint_buckets, ("AWS::S3::Bucket", "AWS::S3::BucketPolicy")),
    (node_group, ("AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress")),
    (endpoint_group, ("AWS::EC2::SecurityGroup",)),
)
_COMMON_READERS: Readers = (
    (nested_stacks, ("AWS::CloudFormation::Stack",)),
    (log_retention, ("AWS::Logs::LogGroup",)),
    (session_log, ("AWS::SSM::Document",)),
    (role_boundaries, ("AWS::IAM::Role",)),
    (policies, ("AWS::IAM::ManagedPolicy",)),
    (guards.topic, ("AWS::SNS::Topic", "AWS::SNS::TopicPolicy", "AWS::SNS::Subscription")),
    (guards.guard, guards.FUNCTION_TYPES),
    (guards.event_rules, ("AWS::Events::Rule",)),
    (guards.metric_alarms, ("AWS::CloudWatch::Alarm",)),
    (guards.overview, ("AWS::CloudWatch::Dashboard",)),
    (guards.budget, ("AWS::Budgets::Budget",)),
)


def stack_readers(*readers: Reader) -> Readers:
    """The readers of a target's stacks: for its own resources, the network and store, and the guardrails."""
    return (*_BELOW, *readers, *_COMMON_READERS)
