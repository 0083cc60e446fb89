"""The CDK app of a plan: which stacks, and how they hang together."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from aws_cdk import App, Aws

from infra.parts.guardrails import Limits
from infra.parts.node_policy import StoreAccess
from infra.stacks.checkpoints import CheckpointsStack
from infra.stacks.network import NetworkStack
from infra.stacks.training import Surroundings, TrainingStack
from launcher.catalog.load import Catalog, load
from launcher.catalog.serving import load_serving
from launcher.catalog.serving_images import load_images
from launcher.model.enums import Level, TargetKind
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.finding import Finding, error
from launcher.model.plan import Plan
from launcher.planning.endpoint import endpoint
from launcher.planning.endpoint_checks import endpoint_findings
from launcher.planning.networks import network_findings, subnet_id
from launcher.planning.pin import zone
from launcher.rendering import cluster, hyperpod

JOBS_PREFIX = "jobs"
"""The part of the checkpoint bucket that jobs write to; nodes are allowed nothing beside it."""
RATE = "usd_per_hour"
"""Context: dollars an hour of all the plan's nodes, as its quote says. Without it there is no estimate of the spend."""
BUDGET = "max_usd"
"""Context: a lower limit in dollars than the plan's budget.max_usd, or one where the plan has none."""


def build_app(
    plan: Plan,
    *,
    context: Mapping[str, Any] | None = None,
    outdir: Path | None = None,
    account: str | None = None,
) -> App:
    """The app of a plan, not yet synthesised; nothing is looked up.

    Args:
        plan: a plan for ParallelCluster, for HyperPod with Slurm, or for a SageMaker endpoint.
        context: CDK context, as cdk.json gives it; the CLI's own comes on top. See `RATE` and `BUDGET`.
        outdir: where the assembly goes; None: where the CLI says.
        account: the account's id, where it is known.

    Raises:
        ImpossibleError: the plan cannot be built, with all reasons.
        UnreadableInputError: the context's money is no amount.
    """
    catalog = load()
    found = _findings(plan, catalog)
    if found:
        raise ImpossibleError(f"{plan.name} cannot be built", findings=found)
    app = App(
        context=dict(context) if context is not None else None, outdir=str(outdir) if outdir is not None else None
    )
    tags = {each.key: each.value for each in cluster.tags(plan)}
    if plan.place.target is TargetKind.SAGEMAKER_ENDPOINT:
        decided = endpoint(plan, catalog, load_images())
        from infra.stacks.serving import ServingStack

        ServingStack(app, plan=plan, account=account, tags=tags, endpoint=decided, limits=_limits(app, plan))
        return app
    # The network and the checkpoints outlive the plan they were first made for.
    lasting = {key: value for key, value in tags.items() if key == "slipway:cluster"}
    vpc_id, subnet, network = _network(app, plan, account=account, tags=lasting, zone=zone(plan.place, catalog))
    store_uri, store = _store(app, plan, account=account, tags=lasting)
    stack: Any = TrainingStack
    if plan.place.target is TargetKind.HYPERPOD_SLURM:
        from infra.stacks.hyperpod import HyperPodStack

        stack = HyperPodStack
    training = stack(
        app,
        plan=plan,
        account=account,
        tags=tags,
        instances=catalog.instance_types,
        surroundings=Surroundings(vpc_id=vpc_id, subnet_id=subnet, store_uri=store_uri, store=store),
        limits=_limits(app, plan),
    )
    if network is not None:
        training.add_stack_dependency(network)
    return app


def _findings(plan: Plan, catalog: Catalog) -> tuple[Finding, ...]:
    """Why a plan cannot be built; empty when it can."""
    if plan.place.target is TargetKind.SAGEMAKER_ENDPOINT:
        return _endpoint_findings(plan, catalog)
    target = hyperpod if plan.place.target is TargetKind.HYPERPOD_SLURM else cluster
    found = list(target.findings(plan, catalog.instance_types))
    found += _standing(plan)
    if not found:
        found.extend(network_findings(plan.request, plan.place, catalog))
    return tuple(found)


def _endpoint_findings(plan: Plan, catalog: Catalog) -> tuple[Finding, ...]:
    """The same for an endpoint, which has a network of SageMaker's."""
    found = endpoint_findings(plan, catalog, load_images(), load_serving())
    errors = [each for each in found if each.level is Level.ERROR]
    return (*errors, *cluster.notify_findings(plan), *_standing(plan))


def _standing(plan: Plan) -> tuple[Finding, ...]:
    """What exists is not built again."""
    name = plan.request.target.cluster
    if name is None:
        return ()
    message = f"{name} exists; its jobs go there and nothing is provisioned"
    return (error("nothing-to-build", "target.cluster", message, "drop target.cluster to build one"),)


def _limits(app: App, plan: Plan) -> Limits:
    """Money: the rate of the context, for one node, and the lower of the context's limit and the plan's."""
    rate, lower = _amount(app, RATE), _amount(app, BUDGET)
    budgets = [each for each in (lower, plan.request.budget.max_usd) if each is not None]
    per_node = (rate / plan.place.nodes).quantize(Decimal("0.000001")) if rate is not None else None
    return Limits(usd_per_node_hour=per_node, max_usd=min(budgets, default=None))


def _amount(app: App, key: str) -> Decimal | None:
    """A positive amount of dollars from the context; None where it has none."""
    given = app.node.try_get_context(key)
    if given is None:
        return None
    try:
        amount = Decimal(str(given))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount <= 0:
        raise UnreadableInputError(
            f"context {key} must be dollars above 0, got {given}", hint=f"cdk synth -c {key}=98.32"
        )
    return amount


def _network(
    app: App, plan: Plan, *, account: str | None, tags: Mapping[str, str], zone: str | None
) -> tuple[str, str, NetworkStack | None]:
    """The ids of VPC and subnet, and the stack they come from: None where the plan names ones that exist."""
    request = plan.request.network
    existing = subnet_id(plan)
    if request.vpc_id is not None and existing is not None:
        return request.vpc_id, existing, None
    # What belongs to several clusters carries the name of none.
    tags = tags if request.name is None else {"slipway:network": request.name}
    stack = NetworkStack(app, plan=plan, account=account, tags=tags, zone=zone)
    return stack.vpc_id, stack.subnet_id, stack


def _store(app: App, plan: Plan, *, account: str | None, tags: Mapping[str, str]) -> tuple[str, StoreAccess]:
    """The store's URI and how a policy names it: the plan's own, or a new bucket."""
    named = plan.request.checkpoint.uri
    if named is not None:
        bucket, _, prefix = named.removeprefix("s3://").partition("/")
        return named, StoreAccess(bucket_arn=f"arn:{Aws.PARTITION}:s3:::{bucket}", prefix=prefix.strip("/"))
    made = CheckpointsStack(app, plan=plan, account=account, tags=tags).store.bucket
    return f"s3://{made.bucket_name}/{JOBS_PREFIX}", StoreAccess(bucket_arn=made.bucket_arn, prefix=JOBS_PREFIX)
