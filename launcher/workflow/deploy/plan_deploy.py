"""From a plan file to what stands: priced, shown, approved, deployed."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from launcher.model.quote import Quote
from launcher.workflow.deploy.deployment import DeployOptions, deploy_quote
from launcher.workflow.quote.fresh import Person, Picked, fresh_quote, gated_quote
from launcher.workflow.quote.options import PriceOptions


def deploy_plan(
    path: Path, now: datetime, asked: PriceOptions, *, wanted: str | None, options: DeployOptions, person: Person
) -> tuple[Quote, Mapping[str, Mapping[str, str]]]:
    """Deploy a plan's cluster without a job, or its endpoint: what was quoted, and the outputs of the stacks.

    In AWS on the prices of the moment; in the sandbox, and where nothing is done, on those that are there.

    Args:
        path: the plan file.
        now: the moment.
        asked: how it is priced.
        wanted: the rank or digest that is picked; None: the best.
        options: where and how it is deployed.
        person: is shown everything and asked.

    Raises:
        SlipwayError: it was refused, or a step failed.
    """
    if options.sandbox or options.dry_run:
        picked = gated_quote(path, now, asked, wanted=wanted, say=person.say)
    else:
        picked = fresh_quote(path, now, asked, wanted=wanted, environment=options.environment, say=person.say)
    plan = picked.quoted.plan
    if options.dry_run:
        person.quote(picked)
    else:
        where = "the sandbox" if options.sandbox else f"AWS, {plan.place.region}"
        person.approve(picked, f"deploy {plan.cluster_name} to {where}")
    return picked.quoted, _deployed(picked, options)


def _deployed(picked: Picked, options: DeployOptions) -> Mapping[str, Mapping[str, str]]:
    """The outputs of what was deployed; of a dry run none."""
    if picked.priced.request.workload.serve is None:
        return deploy_quote(*picked, options)
    from launcher.workflow.endpoint.deployment import run_endpoint, show_endpoint

    if options.dry_run:
        show_endpoint(*picked, options)
        return {}
    return run_endpoint(*picked, options, ask=False).outputs
