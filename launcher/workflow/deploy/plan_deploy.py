"""From a plan file to a deployment: priced, shown, approved, deployed."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from launcher.model.quote import Quote
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.deploy.deployment import deploy_quote, deployed_parts
from launcher.workflow.deploy.endpoint import run_endpoint, show_endpoint
from launcher.workflow.deploy.saved_plan import quoted_as_saved, saved_plan_of
from launcher.workflow.quote.fresh import LaunchConsole, Picked, fresh_quote, gated_quote, nothing_deployed
from launcher.workflow.quote.options import PriceOptions


def deploy_plan(
    path: Path,
    now: datetime,
    price_options: PriceOptions,
    *,
    selection: str | None,
    options: DeployOptions,
    console: LaunchConsole,
) -> tuple[Quote, Mapping[str, Mapping[str, str]]]:
    """Deploy a plan's cluster without a job, or its endpoint; return the quote and the outputs of the stacks.

    On AWS at current prices; in the sandbox, and for a dry run, at the known prices. A saved plan is deployed unchanged
    or not at all. `selection` is a rank or a digest; None selects the best candidate.

    Raises:
        SlipwayError: the deployment was refused, or a step failed.
    """

    def quote(price_options: PriceOptions, pick: str | None) -> Picked:
        if options.sandbox or options.dry_run:
            return gated_quote(path, now, price_options, selection=pick, notify=console.say, deployed=deployed)
        return fresh_quote(
            path,
            now,
            price_options,
            selection=pick,
            environment=options.environment,
            notify=console.say,
            deployed=deployed,
        )

    saved = saved_plan_of(path, price_options, selection)
    # A saved plan is carried out as it is.
    deployed = partial(deployed_parts, options) if saved is None else nothing_deployed
    if saved is None:
        picked = quote(price_options, selection)
    else:
        every_zone = replace(price_options, everything=True)
        picked = quoted_as_saved(saved, lambda digest: quote(every_zone, digest), options.environment)
    plan = picked.quoted.plan
    where = "the sandbox" if options.sandbox else f"AWS, {plan.place.region}"
    question = f"deploy {plan.cluster_name} to {where}"
    console.quote(picked)
    if not options.dry_run:
        console.refuse_unless_answerable(question)
    return picked.quoted, _deploy_picked(picked, replace(options, approve=lambda: console.approve(question)))


def _deploy_picked(picked: Picked, options: DeployOptions) -> Mapping[str, Mapping[str, str]]:
    if picked.priced.request.workload.serve is None:
        return deploy_quote(*picked, options)
    if options.dry_run:
        show_endpoint(*picked, options)
        return {}
    _, _, outputs = run_endpoint(*picked, options, ask=False)
    return outputs
