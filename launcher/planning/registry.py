"""Resource types of a plan's stacks that the region's CloudFormation registry lacks."""

from collections.abc import Iterator

from launcher.catalog.load import Catalog
from launcher.catalog.registry import missing_types, regions_with
from launcher.model.administrator import by_administrator
from launcher.model.finding import Finding, error, warning
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.targets.registry import target_of

BUDGET = "AWS::Budgets::Budget"
COMPONENT = "AWS::SageMaker::InferenceComponent"
SUGGESTED = 6
"""Maximum number of regions in a hint."""


def has_budget(region: str) -> bool:
    """Whether a stack of the region can have an AWS Budget."""
    return not missing_types((BUDGET,), region)


def registry_findings(request: PlanRequest, place: Place, catalog: Catalog) -> Iterator[Finding]:
    """An error for a resource type that the target's stacks always contain and the region's registry lacks."""
    region = place.region
    if request.target.cluster is not None or not region:
        return
    target = target_of(place.target)
    absent = [name for name in target.registry_types if not regions_with((name,), (region,))]
    if absent:
        message = (
            f"CloudFormation is not known to have {absent[0]} in {region}, so {target.title} cannot be created there"
        )
        others = regions_with(target.registry_types, catalog.regions_of(place.instance_type))
        hint = f"{place.instance_type} is offered with it in {', '.join(others[:SUGGESTED])}" if others else ""
        yield error("type-not-in-region", "target.region", message, hint or "another target.kind")


def budget_findings(request: PlanRequest, region: str) -> Iterator[Finding]:
    """A warning for an AWS Budget that the stack leaves out because the region's registry lacks the type."""
    if request.target.cluster is None and request.budget.max_usd is not None and not has_budget(region):
        message = (
            f"CloudFormation has no AWS Budget in {region}: the stack has none, so AWS's own bill is not compared with"
            f" ${request.budget.max_usd:f}"
        )
        hint = (
            "the gate, the guard's estimate of the spend and its alarm stay; to add a budget for the tag"
            f" slipway:cluster by hand: {by_administrator('aws budgets create-budget')}"
        )
        yield warning("budget-not-in-region", "budget.max_usd", message, hint)
