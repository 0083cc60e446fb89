"""The page of `slipway cost`: what exists, what it costs an hour, and the command that ends it."""

from datetime import datetime

from launcher.cli import words
from launcher.cli.lines import wrapped
from launcher.cli.table import Column, align_points, render
from launcher.model.spending import StackCost, hourly
from launcher.workflow.cost.survey import Surveyed


def page(found: Surveyed, width: int) -> list[str]:
    """The whole page."""
    if not found.stacks:
        lines = ["", "  Nothing of Slipway's exists in the regions that answered."]
    else:
        unknown = sum(each.usd_per_hour is None for each in found.stacks)
        more = f", and {unknown} whose cost is not known" if unknown else ""
        total = words.dollars(hourly(found.stacks))
        lines = ["", *wrapped(f"  {len(found.stacks)} stacks: ${total} an hour now{more}.", width), ""]
        lines += _table(found, width)
        lines += _notes(found.stacks, width)
        lines += ["", "  to end one"]
        commands = dict.fromkeys(each.down_command for each in found.stacks)
        lines += [f"    {each}" for each in commands]
    for region, reason in found.unanswered:
        lines += wrapped(f"  ? {region}: {reason}", width)
    return lines


def _table(found: Surveyed, width: int) -> list[str]:
    columns = [
        Column(title="#", right=True),
        Column(title="stack"),
        Column(title="where"),
        Column(title="who", yields=3),
        Column(title="since", yields=1),
        Column(title="$/h", right=True),
        Column(title="$ so far", right=True),
        Column(title="ends", yields=2),
    ]
    rows = [_row(number, each, found.as_of) for number, each in enumerate(found.stacks, start=1)]
    for column in (5, 6):
        for row, text in zip(rows, align_points([row[column] for row in rows]), strict=True):
            row[column] = text
    return render(columns, rows, width)


def _row(number: int, cost: StackCost, now: datetime) -> list[str]:
    return [
        str(number),
        cost.name,
        cost.region,
        cost.owner or "",
        f"{(now - cost.since).total_seconds() / 3600:,.1f} h",
        words.dollars(cost.usd_per_hour) if cost.usd_per_hour is not None else "not known",
        words.dollars(cost.usd_so_far),
        f"{cost.ends_at:%Y-%m-%d %H:%M}" if cost.ends_at is not None else "",
    ]


def _notes(stacks: tuple[StackCost, ...], width: int) -> list[str]:
    return [
        piece
        for number, each in enumerate(stacks, start=1)
        if each.note
        for piece in wrapped(f"  {number}: {each.note}", width)
    ]
