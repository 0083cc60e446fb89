"""A network as EC2 describes it, against the plan."""

from launcher.aws import networks
from launcher.workflow.cluster.readback.reading import Reading

GATEWAYS = ("dynamodb", "s3")
"""Services with a gateway endpoint in every network of Slipway (infra/parts/network.py)."""


def vpc(reading: Reading) -> None:
    """The VPC's range, and the internet gateway that is attached to it."""
    checks, session = reading.checks, reading.session
    made = reading.ids("AWS::EC2::VPC")
    ranges = {networks.vpc_cidr(session, each) for each in made}
    checks.equal("VPC range", {reading.plan.request.network.cidr}, ranges)
    attached = networks.attached_vpcs(session, reading.ids("AWS::EC2::InternetGateway"))
    checks.equal("internet gateway is attached to", frozenset(made), attached)


def subnets(reading: Reading) -> None:
    """Every subnet keeps addresses private, each has its route table, and the machines' is in the plan's zone."""
    checks, session = reading.checks, reading.session
    made = networks.subnets(session, reading.ids("AWS::EC2::Subnet"))
    checks.holds("subnets hand out no public addresses", not any(each.public_addresses for each in made))
    own = {each.id: each for each in made}.get(reading.main.outputs["PrivateSubnetId"])
    checks.holds("machines run in a subnet of this network", own)
    if own is not None and reading.zone is not None:
        checks.equal("private subnet zone", reading.zone, own.az_id)
    tables = networks.tables_of(session, [each.id for each in made])
    checks.equal("subnets with a route table", {each.id for each in made}, set(tables))
    checks.equal("route tables in use", set(reading.ids("AWS::EC2::RouteTable")), set(tables.values()))


def ways_out(reading: Reading) -> None:
    """The private subnet leaves through the NAT gateway, which is up and has the stack's address."""
    checks, session = reading.checks, reading.session
    made = reading.ids("AWS::EC2::NatGateway")
    routes = networks.default_routes(session, reading.main.outputs["PrivateSubnetId"])
    checks.equal("private subnet leaves through NAT", set(made), set(routes))
    gateways = networks.nat_gateways(session, made)
    checks.holds("NAT gateway is up", gateways and all(each.available for each in gateways))
    wanted = set(networks.allocations(session, reading.ids("AWS::EC2::EIP")))
    checks.holds(
        "NAT gateway has the stack's address", wanted == {one for each in gateways for one in each.allocations}
    )


def endpoints(reading: Reading) -> None:
    """The gateway endpoints, and the interface endpoints that the plan pays for."""
    region = reading.plan.place.region
    wanted = {(f"com.amazonaws.{region}.{each}", "Gateway") for each in GATEWAYS}
    wanted |= {(f"com.amazonaws.{region}.{each}", "Interface") for each in reading.plan.request.network.endpoints}
    got = networks.endpoint_services(reading.session, reading.ids("AWS::EC2::VPCEndpoint"))
    reading.checks.equal("VPC endpoints", frozenset(wanted), got)


def flow_log(reading: Reading) -> None:
    """The flow log takes in what the VPC refuses."""
    wanted = frozenset((each, "REJECT") for each in reading.ids("AWS::EC2::VPC"))
    reading.checks.equal("flow log", wanted, networks.flow_logs(reading.session, reading.ids("AWS::EC2::FlowLog")))
