"""Slipway's resources in an account, their dollars per hour, and the command that ends them: `slipway cost`."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from launcher.answers import words
from launcher.answers.lines import fold
from launcher.answers.table import Column, dollars, render
from launcher.model.spending import StackCost, hourly
from launcher.model.units import number_of
from launcher.records.codec import Json, as_json
from launcher.records.document import json_object
from launcher.rendering.names import SERVING_STACK, TRAINING_STACK
from launcher.workflow.doctor.rates import UNCOUNTED
from launcher.workflow.doctor.running_costs import Surveyed


@json_object
class UnansweredRegion:
    """A region that could not be queried, with the reason."""

    region: str
    reason: str


@json_object
class CostDocument:
    """The resources that exist."""

    schema: Literal["slipway.cost/1"] = "slipway.cost/1"
    as_of: datetime
    usd_per_hour: Decimal
    stacks: tuple[StackCost, ...]
    unanswered: tuple[UnansweredRegion, ...]


def document(costs: Surveyed) -> Json:
    """slipway.cost/1."""
    return as_json(
        CostDocument(
            as_of=costs.as_of,
            usd_per_hour=hourly(costs.stacks),
            stacks=costs.stacks,
            unanswered=tuple(UnansweredRegion(region=region, reason=reason) for region, reason in costs.unanswered),
        )
    )


def page(costs: Surveyed, width: int) -> list[str]:
    """The complete page."""
    if not costs.stacks:
        subject = "Nothing of Slipway's" if costs.cluster is None else f"No stack of {costs.cluster}"
        lines = ["", *fold(f"  {subject} exists in the regions that answered.", width)]
    else:
        unknown = sum(stack.usd_per_hour is None for stack in costs.stacks)
        more = f", and {unknown} of unknown cost" if unknown else ""
        total = words.usd(hourly(costs.stacks))
        # The rates of networks and stores have notes of their own.
        counted = any(
            stack.kind in (TRAINING_STACK, SERVING_STACK) and stack.usd_per_hour is not None for stack in costs.stacks
        )
        apart = f"; without {UNCOUNTED}" if counted else ""
        lines = [
            "",
            *fold(f"  {number_of(len(costs.stacks), 'stack')}: {total} an hour now{more}{apart}.", width),
            "",
        ]
        lines += _table(costs, width)
        lines += _notes(costs.stacks, width)
        lines += ["", "  to end one"]
        commands = dict.fromkeys(stack.down_command for stack in costs.stacks)
        lines += [f"    {command}" for command in commands]
    for region, reason in costs.unanswered:
        lines += fold(f"  ? {region}: {reason}", width)
    return lines


def _table(costs: Surveyed, width: int) -> list[str]:
    columns: list[Column[StackCost]] = [
        Column("stack", lambda cost: cost.name),
        Column("where", lambda cost: cost.region),
        Column("who", lambda cost: cost.owner or "", yields=3),
        Column("since", lambda cost: f"{(costs.as_of - cost.since).total_seconds() / 3600:,.1f} h", yields=1),
        dollars("$/h", lambda cost: cost.usd_per_hour, "not known"),
        dollars("$ so far", lambda cost: cost.usd_so_far),
        Column("ends", lambda cost: f"{cost.ends_at:%Y-%m-%d %H:%M}" if cost.ends_at else "", yields=2),
    ]
    return render(columns, costs.stacks, width, number="#")


def _notes(stacks: tuple[StackCost, ...], width: int) -> list[str]:
    return [
        piece
        for number, stack in enumerate(stacks, start=1)
        if stack.note
        for piece in fold(f"  {number}: {stack.note}", width)
    ]
