"""The gate of a serving plan besides cost: a deployable endpoint, no error, a verdict for instances."""

from pathlib import Path

from launcher.catalog.serving import load_serving
from launcher.catalog.serving_images import load_images
from launcher.model.enums import Level, PurchaseOption
from launcher.model.errors import ImpossibleError
from launcher.model.quote import Quote
from launcher.model.stages import Notify
from launcher.model.target import Runs
from launcher.planning.endpoint import ServingDeployment
from launcher.planning.endpoint_checks import deployment_findings
from launcher.pricing.priced import Priced
from launcher.pricing.verdict import ServingChoice
from launcher.targets.registry import target_of
from launcher.workflow.quote.commands import command
from launcher.workflow.quote.compare_serving import compare_serving
from launcher.workflow.quote.options import PriceOptions

DESPITE = "--despite-verdict"


def refuse_undeployable(priced: Priced, quoted: Quote) -> None:
    """Continue only if the candidate is a deployable SageMaker endpoint.

    Raises:
        ImpossibleError: the candidate is Bedrock or pods of a cluster, or has errors; with every finding.
    """
    plan = quoted.plan
    if plan.place.option is PurchaseOption.BEDROCK:
        message = f"{plan.name} on Bedrock is called, not deployed: there is nothing to deploy"
        raise ImpossibleError(
            message, hint=_other(priced, f"{command(priced, 'compare')} shows what instances would cost")
        )
    if Runs.SERVING not in target_of(plan.place.target).deployed:
        kind = plan.place.target
        message = (
            f"target.kind: {kind}: {plan.name} serves from pods of an existing cluster, which Slipway does not deploy"
        )
        by_hand = f"{command(priced, 'render', '-o', 'DIR')} writes the manifests for kubectl apply -f DIR"
        raise ImpossibleError(message, hint=_other(priced, by_hand))
    if plan.request.target.cluster is not None:
        message = f"target.cluster: an endpoint does not run in a cluster, got {plan.request.target.cluster}"
        raise ImpossibleError(message, hint="remove target.cluster")
    served = ServingDeployment(plan=plan, catalog=priced.catalog, images=load_images())
    findings = deployment_findings(served, load_serving())
    if any(finding.level is Level.ERROR for finding in findings):
        raise ImpossibleError(f"{plan.name} cannot be deployed", findings=findings)


def _other(priced: Priced, hint: str) -> str:
    for rank, candidate in enumerate(priced.candidates, start=1):
        instances = candidate.place.option is not PurchaseOption.BEDROCK
        if instances and Runs.SERVING in target_of(candidate.place.target).deployed and candidate.usd is not None:
            return f"{hint}; --pick {priced.short_id(rank)} is an endpoint on {candidate.place.instance_type}"
    return hint


def refuse_by_verdict(priced: Priced, options: PriceOptions, notify: Notify) -> None:
    """Refuse if the comparison recommends Bedrock, unless that is overridden.

    Raises:
        ImpossibleError: the verdict recommends Bedrock; the error has its reasons and what would change it.
    """
    verdict = compare_serving(Path(priced.path), priced.request, priced.catalog, priced.now, options).verdict
    if verdict.choice is ServingChoice.MEASURE_FIRST:
        notify(f"the verdict: {verdict.text}")
    if verdict.choice is not ServingChoice.BEDROCK:
        return
    if options.despite_verdict:
        notify(f"against the verdict ({DESPITE}): {verdict.text}")
        return
    why = "".join(f"\n  {reason}" for reason in verdict.reasons)
    flips = f"it changes with {verdict.flips[0]}; " if verdict.flips else ""
    raise ImpossibleError(
        f"the verdict is against it: {verdict.text}{why}",
        hint=f"{flips}{command(priced, 'compare')} shows the comparison; {DESPITE} deploys the plan anyway",
    )
