"""The CDK app of a plan: which stacks, and how they hang together."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aws_cdk import App, Aws

from infra.parts.node_policy import StoreAccess
from infra.stacks.checkpoints import CheckpointsStack
from infra.stacks.network import NetworkStack
from infra.stacks.training import Surroundings, TrainingStack
from launcher.catalog.load import Catalog, load
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.plan import Plan
from launcher.planning.addresses import address_findings
from launcher.planning.pin import zone
from launcher.rendering import cluster

JOBS_PREFIX = "jobs"
"""The part of the checkpoint bucket that jobs write to; nodes are allowed nothing beside it."""


def build_app(
    plan: Plan,
    *,
    context: Mapping[str, Any] | None = None,
    outdir: Path | None = None,
    account: str | None = None,
) -> App:
    """The app of a plan, not yet synthesised; nothing is looked up.

    Args:
        plan: a plan for ParallelCluster.
        context: CDK context, as cdk.json gives it; the CLI's own comes on top.
        outdir: where the assembly goes; None: where the CLI says.
        account: the account's id, where it is known.

    Raises:
        ImpossibleError: the plan cannot be built, with all reasons.
    """
    catalog = load()
    found = _findings(plan, catalog)
    if found:
        raise ImpossibleError(f"{plan.name} cannot be built", findings=found)
    app = App(
        context=dict(context) if context is not None else None, outdir=str(outdir) if outdir is not None else None
    )
    tags = {each.key: each.value for each in cluster.tags(plan)}
    # The network and the checkpoints outlive the plan they were first made for.
    lasting = {key: value for key, value in tags.items() if key == "slipway:cluster"}
    vpc_id, subnet_id = _network(app, plan, account=account, tags=lasting, zone=zone(plan.place, catalog))
    store_uri, store = _store(app, plan, account=account, tags=lasting)
    TrainingStack(
        app,
        plan=plan,
        account=account,
        tags=tags,
        instances=catalog.instance_types,
        surroundings=Surroundings(vpc_id=vpc_id, subnet_id=subnet_id, store_uri=store_uri, store=store),
    )
    return app


def _findings(plan: Plan, catalog: Catalog) -> tuple[Finding, ...]:
    """Why a plan cannot be built; empty when it can."""
    found = list(cluster.findings(plan, catalog.instance_types))
    if plan.request.target.cluster is not None:
        message = f"{plan.request.target.cluster} exists; its jobs go there and nothing is provisioned"
        found.append(error("nothing-to-build", "target.cluster", message, "drop target.cluster to build one"))
    if not found:
        found.extend(address_findings(plan, catalog.instance_types))
    return tuple(found)


def _network(
    app: App, plan: Plan, *, account: str | None, tags: Mapping[str, str], zone: str | None
) -> tuple[str, str]:
    """The ids of VPC and subnet: the plan's own, which are taken as they are, or a new network's."""
    request = plan.request.network
    if request.vpc_id is not None:
        return request.vpc_id, request.subnet_ids[0]
    network = NetworkStack(app, plan=plan, account=account, tags=tags, zone=zone).network
    return network.vpc.ref, network.private_subnet.ref


def _store(app: App, plan: Plan, *, account: str | None, tags: Mapping[str, str]) -> tuple[str, StoreAccess]:
    """The store's URI and how a policy names it: the plan's own, or a new bucket."""
    named = plan.request.checkpoint.uri
    if named is not None:
        bucket, _, prefix = named.removeprefix("s3://").partition("/")
        return named, StoreAccess(bucket_arn=f"arn:{Aws.PARTITION}:s3:::{bucket}", prefix=prefix.strip("/"))
    made = CheckpointsStack(app, plan=plan, account=account, tags=tags).store.bucket
    return f"s3://{made.bucket_name}/{JOBS_PREFIX}", StoreAccess(bucket_arn=made.bucket_arn, prefix=JOBS_PREFIX)
