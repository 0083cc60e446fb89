"""The choices that a request must pin to be one plan: its type, its region and its purchase option."""

from typing import NamedTuple

from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.finding import Finding, error
from launcher.model.plan import Place
from launcher.model.request import PlanRequest


class Pins(NamedTuple):
    """The pinned values."""

    instance_type: str
    region: str
    option: PurchaseOption

    def place(self, request: PlanRequest, target: TargetKind, nodes: int) -> Place:
        """The place of the request on a target, with so many nodes."""
        return Place(
            target=target,
            instance_type=self.instance_type,
            nodes=nodes,
            region=self.region,
            az_id=request.target.az_id,
            option=self.option,
            plan_kind=request.purchase.plan_kind,
            term_years=request.purchase.term_years,
        )


def pins_of(request: PlanRequest, examples: tuple[str, str, str]) -> Pins | list[Finding]:
    """The pinned values, or one finding for each open choice, with its example."""
    types, regions, options = request.target.instance_type, request.target.region, request.purchase.option
    if types and regions and options and len(types) == len(regions) == len(options) == 1:
        return Pins(types[0], regions[0], options[0])
    choices = (("target.instance_type", types), ("target.region", regions), ("purchase.option", options))
    return [
        error(
            "not-pinned",
            path,
            f"must be one value, got {'any' if values is None else ', '.join(values)}",
            f"pin it, for instance {example}",
        )
        for (path, values), example in zip(choices, examples, strict=True)
        if values is None or len(values) != 1
    ]
