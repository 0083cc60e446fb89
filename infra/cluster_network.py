"""The inputs of every cluster's deployment: network and checkpoint store, created as stacks or named by the plan."""

from collections.abc import Mapping
from typing import NamedTuple

from aws_cdk import Aws
from constructs import Construct

from infra.parts.node_policy import StoreAccess
from infra.stacks.checkpoints import CheckpointsStack
from infra.stacks.network import NetworkStack
from launcher.catalog.load import Catalog
from launcher.model.enums import Egress
from launcher.model.finding import Finding
from launcher.model.monitoring import JOBS_PREFIX
from launcher.model.plan import Plan
from launcher.model.tags import CLUSTER_TAG, NETWORK_TAG
from launcher.planning.nat import egress
from launcher.planning.networks import network_findings, subnet_id
from launcher.planning.pin import zone
from launcher.targets.files import files_of
from launcher.targets.registry import target_of


class ClusterNetwork(NamedTuple):
    """Ids of a cluster's VPC and subnet, its store's URI and the store's view in policies; tokens or text.

    `stack` is the stack that creates VPC and subnet, None if the plan names existing ones; `zone_subnets` are the
    subnets of a shared network, by zone.
    """

    vpc_id: str
    subnet_id: str
    store_uri: str
    store: StoreAccess
    stack: NetworkStack | None
    zone_subnets: Mapping[str, str]

    @property
    def egress(self) -> Egress | None:
        """How the nodes of a new network reach what is outside it; None for an existing network."""
        return None if self.stack is None else self.stack.egress

    @property
    def public(self) -> bool:
        """Whether the nodes of a new network have public addresses."""
        return self.egress is Egress.PUBLIC_ADDRESSES

    @property
    def behind_gateway(self) -> bool:
        """Whether nodes reach the internet through a NAT gateway, as in an existing network."""
        return self.egress in (None, Egress.NAT_GATEWAY)


def cluster_findings(plan: Plan, catalog: Catalog) -> tuple[Finding, ...]:
    """Every reason why a plan's cluster cannot be rendered or does not fit its network; empty if both work."""
    problems = files_of(plan.place.target).findings(plan, catalog.instance_types)
    return problems or tuple(network_findings(plan.request, plan.place, catalog))


def cluster_network(
    scope: Construct, *, plan: Plan, catalog: Catalog, account: str | None, tags: Mapping[str, str]
) -> ClusterNetwork:
    """The network and the checkpoint store of a plan's cluster, created if the plan names none."""
    stable_tags = {key: value for key, value in tags.items() if key == CLUSTER_TAG or key in plan.request.tags}
    vpc_id, subnet, stack = _network(scope, plan, catalog, account=account, tags=stable_tags)
    store_uri, store = _store(scope, plan, account=account, tags=stable_tags)
    return ClusterNetwork(vpc_id, subnet, store_uri, store, stack, {} if stack is None else stack.subnets_by_zone)


def _network(
    scope: Construct, plan: Plan, catalog: Catalog, *, account: str | None, tags: Mapping[str, str]
) -> tuple[str, str, NetworkStack | None]:
    """The ids of VPC and subnet, and the stack that creates them: None if the plan names existing ones.

    Without named ones, the instances of some services run in the service's own network, and both ids are empty.
    """
    request = plan.request.network
    existing = subnet_id(plan)
    if request.vpc_id is not None and existing is not None:
        return request.vpc_id, existing, None
    egress_mode = egress(plan.request, plan.place, catalog.instance_types)
    if egress_mode is None and target_of(plan.place.target).in_service_network:
        return "", "", None
    # What belongs to several clusters carries the name of none.
    tags = tags if request.name is None else {NETWORK_TAG: request.name}
    stack = NetworkStack(
        scope,
        plan=plan,
        account=account,
        tags=tags,
        zone=zone(plan.place, catalog),
        egress=egress_mode or Egress.NAT_GATEWAY,
    )
    return stack.vpc_id, stack.subnet_id, stack


def _store(scope: Construct, plan: Plan, *, account: str | None, tags: Mapping[str, str]) -> tuple[str, StoreAccess]:
    """The store's URI and its view in policies: the store that the plan names, or a new bucket."""
    named = plan.request.checkpoint.store_uri
    if named is not None:
        bucket, _, prefix = named.removeprefix("s3://").partition("/")
        return named, StoreAccess(bucket_arn=f"arn:{Aws.PARTITION}:s3:::{bucket}", prefix=prefix.strip("/"))
    store = CheckpointsStack(scope, plan=plan, prefix=JOBS_PREFIX, account=account, tags=tags).store.bucket
    return f"s3://{store.bucket_name}/{JOBS_PREFIX}", StoreAccess(bucket_arn=store.bucket_arn, prefix=JOBS_PREFIX)
