"""Renders a quoted plan into the files that a launch deploys and submits."""

from collections.abc import Mapping
from dataclasses import replace

from launcher.catalog.load import Catalog
from launcher.catalog.serving import load_serving
from launcher.catalog.serving_images import load_images
from launcher.model.bundle import Bundle
from launcher.model.enums import PurchaseOption
from launcher.model.errors import ImpossibleError
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.planning.endpoint import ServingDeployment
from launcher.rendering.batch import PENDING
from launcher.rendering.blanks import blank_names, with_archive, with_names
from launcher.rendering.bundle import render
from launcher.rendering.names import symbolic_names
from launcher.rendering.serving import render_serving
from launcher.workflow.cluster.shipping import job_settings

UNSUBMITTED = "not-submitted"
"""The run id in files that Slipway only shows."""


def render_quote(
    quote: Quote,
    instances: Mapping[str, InstanceType],
    *,
    run: str = UNSUBMITTED,
    quoted: Mapping[str, float] | None = None,
) -> Bundle:
    """The files of a quoted plan for a cluster, at the checkpoint interval it was priced at.

    The names of the cluster and the archive of the job's folder are blanks that are filled in when they are known.
    `quoted` are the figures of the quote that the agent gets (launcher/agent/forecast.py); None: none.

    Raises:
        ImpossibleError: the plan cannot be rendered.
    """
    plan, job = quote.plan, replace(job_settings(quote, run), quoted=quoted)
    return render(plan, instances=instances, names=blank_names(plan), job=job)


def show_bundle(bundle: Bundle, plan: Plan) -> Bundle:
    """The files of a plan with descriptive words in the blanks for names that do not exist yet."""
    return with_archive(with_names(bundle, symbolic_names(plan)), PENDING)


def render_any(
    quote: Quote, catalog: Catalog, *, run: str = UNSUBMITTED, quoted: Mapping[str, float] | None = None
) -> Bundle:
    """The files of a quoted training or serving plan; those for a cluster have blanks.

    Raises:
        ImpossibleError: the plan has no file form, or needs no files: with Bedrock, Slipway deploys nothing.
    """
    if quote.plan.request.workload.serve is None:
        return render_quote(quote, catalog.instance_types, run=run, quoted=quoted)
    if quote.plan.place.option is PurchaseOption.BEDROCK:
        raise ImpossibleError(
            f"{quote.plan.name} on Bedrock has no files: nothing is deployed", hint="--pick a candidate with instances"
        )
    served = ServingDeployment(plan=quote.plan, catalog=catalog, images=load_images())
    return render_serving(served, load_serving())
