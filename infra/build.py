"""The CDK app of a plan: its stacks and how they depend on each other."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from aws_cdk import App
from constructs import Construct

from infra.parts.encryption import encrypt
from infra.parts.limits import Limits
from infra.stacks.network import NetworkStack
from infra.targets import builder_of
from launcher.catalog.load import Catalog, load
from launcher.model.budget_stop import spending_limit, stops_at
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.finding import Finding, error
from launcher.model.plan import Plan
from launcher.rendering.cluster import tags as tags_of

RATE = "usd_per_hour"
"""Context: dollars per hour of all the plan's nodes, from its quote. Without a rate, no spend is estimated."""
OTHER_RATE = "other_usd_per_hour"
"""Context: dollars per hour of everything except the nodes, from its quote; the guard adds them to the spend that
ends a job."""
JOB_HOURS = "job_hours"
"""Context: the high estimate of the job's hours, from its quote; the guard compares the rest of the job at current spot
prices with the budget."""
BUDGET = "max_usd"
"""Context: a limit in dollars below the plan's budget.max_usd, or a limit for a plan without budget.max_usd."""


def build_app(
    plan: Plan,
    *,
    context: Mapping[str, Any] | None = None,
    outdir: Path | None = None,
    account: str | None = None,
    app: App | None = None,
    catalog: Catalog | None = None,
) -> App:
    """The app of a plan, not yet synthesised; no context lookup is made.

    Args:
        plan: a plan for a target that is deployed.
        context: CDK context, as in cdk.json; the CLI's own context takes precedence. See `RATE` and `BUDGET`.
        outdir: the folder of the assembly; None: the CLI's folder.
        account: the account's id, if it is known.
        app: the app to build in, with its own context; None: a new app.
        catalog: the catalog, if it is already loaded; None: load it.

    Raises:
        ImpossibleError: the plan cannot be built, with all reasons.
        UnreadableInputError: an amount of money in the context is invalid.
    """
    catalog = catalog or load()
    refuse_unbuildable(plan, catalog)
    if app is None:
        app = App(
            context=dict(context) if context is not None else None, outdir=str(outdir) if outdir is not None else None
        )
    add_stacks(app, plan, catalog=catalog, account=account, limits=_limits(app, plan))
    return app


def refuse_unbuildable(plan: Plan, catalog: Catalog) -> None:
    """Continue only if a plan's stacks can be built.

    Raises:
        ImpossibleError: the plan cannot be built, with all reasons.
    """
    problems = _nothing_to_build(plan) or builder_of(plan.place.target).findings(plan, catalog)
    if problems:
        raise ImpossibleError(f"{plan.name} cannot be built", findings=problems)


def add_stacks(scope: Construct, plan: Plan, *, catalog: Catalog, account: str | None, limits: Limits) -> None:
    """Add the stacks of a plan that can be built to an app, or to a construct that has no other children."""
    tags = {tag.key: tag.value for tag in tags_of(plan)}
    builder = builder_of(plan.place.target)
    builder.build(scope, plan=plan, catalog=catalog, account=account, tags=tags, limits=limits)
    if plan.request.storage.kms_key_arn is not None:
        # A network that several clusters share is made of its own part of the plan alone.
        stacks = (child for child in scope.node.children if not (isinstance(child, NetworkStack) and child.shared))
        encrypt(stacks, plan.request.storage.kms_key_arn)


def limits_of(
    plan: Plan,
    *,
    rate: Decimal | None,
    max_usd: Decimal | None,
    other_usd_per_hour: Decimal,
    job_hours: Decimal | None = None,
) -> Limits:
    """The amounts that the guard counts with.

    Args:
        plan: the plan.
        rate: dollars per hour of all nodes; None: unknown.
        max_usd: a limit below the plan's budget.max_usd, or for a plan without one.
        other_usd_per_hour: dollars per hour of everything except the nodes.
        job_hours: the high estimate of the job's hours; None: unknown.

    Raises:
        ImpossibleError: the guard shall stop at a limit, and the rate is unknown.
    """
    if rate is None and stops_at(plan.request, plan.place.option) is not None:
        fix = f"-c {RATE}= with the dollars an hour of all nodes from slipway quote FILE, or slipway deploy FILE"
        message = "the rate of the nodes was not given, so the guard cannot count up to it"
        problems = (error("stop-without-rate", "budget.stop_at_usd", message, fix),)
        raise ImpossibleError(f"{plan.name} would not be stopped at budget.stop_at_usd", findings=problems)
    per_node = (rate / plan.place.nodes).quantize(Decimal("0.000001")) if rate is not None else None
    limit, name = spending_limit(plan.request.budget, max_usd) or (None, "")
    return Limits(
        usd_per_node_hour=per_node,
        max_usd=limit,
        max_usd_name=name,
        other_usd_per_hour=other_usd_per_hour,
        job_hours=job_hours,
    )


def _nothing_to_build(plan: Plan) -> tuple[Finding, ...]:
    name = plan.request.target.cluster
    if name is None:
        return ()
    message = f"{name} exists; its jobs go there and nothing is provisioned"
    return (error("nothing-to-build", "target.cluster", message, "remove target.cluster to build one"),)


def _limits(app: App, plan: Plan) -> Limits:
    other_usd_per_hour = _amount(app, OTHER_RATE, least=Decimal(0)) or Decimal(0)
    hours = _amount(app, JOB_HOURS)
    return limits_of(
        plan,
        rate=_amount(app, RATE),
        max_usd=_amount(app, BUDGET),
        other_usd_per_hour=other_usd_per_hour,
        job_hours=hours,
    )


def _amount(app: App, key: str, least: Decimal | None = None) -> Decimal | None:
    given = app.node.try_get_context(key)
    if given is None:
        return None
    try:
        amount = Decimal(str(given))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or (amount <= 0 if least is None else amount < least):
        allowed = "above 0" if least is None else f"from {least:f} on"
        raise UnreadableInputError(
            f"context {key} must be dollars {allowed}, got {given}", hint=f"cdk synth -c {key}=98.32"
        )
    return amount
