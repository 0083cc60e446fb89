"""The resources that are removed, those that remain, and their monthly cost: `slipway down`."""

import re
from decimal import Decimal
from typing import Literal

from launcher.answers import words
from launcher.answers.lines import fold
from launcher.model.removal import Removal, Retained
from launcher.records.codec import Json, as_json
from launcher.records.document import NamedStatus, fill_record, json_object

_NAME = re.compile(r"[a-z0-9-]{1,40}")
"""The name of a plan: what nodes wrote is only shown, unless it is one."""


@json_object
class InstanceCount:
    """Running instances of a type."""

    instance_type: str
    count: int


@json_object
class DownDocument:
    """What was removed and what remains; `done` is false for a preview."""

    schema: Literal["slipway.down/1"] = "slipway.down/1"
    cluster: str
    region: str
    done: bool
    stacks: tuple[NamedStatus, ...]
    jobs: tuple[NamedStatus, ...]
    instances: tuple[InstanceCount, ...]
    kept: tuple[Retained, ...]
    usd_per_month: Decimal
    incomplete: bool


def document(removal: Removal) -> Json:
    """slipway.down/1."""
    return as_json(
        fill_record(
            DownDocument,
            removal,
            stacks=tuple(NamedStatus(name=name, status=status) for name, status in removal.stacks),
            jobs=tuple(NamedStatus(name=name, status=status) for name, status in removal.jobs),
            instances=tuple(InstanceCount(instance_type=name, count=count) for name, count in removal.instances),
        )
    )


def page(removal: Removal, width: int) -> list[str]:
    """The complete page."""
    kind = "endpoint" if removal.endpoint else "cluster" if removal.on is None else "jobs of"
    where = f"in {removal.region}" if removal.on is None else f"on cluster {removal.on} in {removal.region}"
    lines = ["", f"  {kind} {removal.cluster} {where}", "", "  removed" if removal.done else "  to be removed"]
    removed_jobs = removal.jobs if removal.on is not None else ()
    going = [f"    {name}  {status}" for name, status in (*removal.stacks, *removed_jobs)]
    lines += going or [f"    nothing: {'it is already removed' if removal.on is None else 'no job of the plan exists'}"]
    if removal.instances and not removal.done:
        running = ", ".join(f"{count} x {instance_type}" for instance_type, count in removal.instances)
        end = "the endpoint no longer answers" if removal.endpoint else "the jobs on them end"
        lines += ["", *fold(f"  {running} run now, and {end}", width)]
    if removal.jobs and removal.on is None:
        lines += ["", "  jobs that ended with it" if removal.done else "  jobs that run now, and end with it"]
        lines += [piece for name, status in removal.jobs for piece in fold(f"    {name}: {status}", width)]
        names = [name for name, _ in removal.jobs if _NAME.fullmatch(name)]
        if names and not removal.done:
            first = " or ".join(f"slipway cancel {name}" for name in dict.fromkeys(names))
            lost = f"their work since the newest stored checkpoint is lost; to save it first: {first}"
            text = "they store a checkpoint before their instances end" if removal.saves else lost
            lines += fold(f"    {text}", width)
    lines += ["", "  retained"]
    lines += [piece for retained in removal.kept for piece in _retained_lines(retained, width)] or ["    nothing"]
    if removal.kept:
        more = ", without those that have no price" if removal.incomplete else ""
        lines += ["", f"  {words.usd(removal.usd_per_month)} a month for retained resources{more}"]
    return lines


def _retained_lines(retained_item: Retained, width: int) -> list[str]:
    facts = []
    if retained_item.gib is not None:
        facts.append(size(retained_item.gib))
    if retained_item.usd_per_month is not None:
        facts.append(f"{words.usd(retained_item.usd_per_month)} a month")
    elif retained_item.unpriced is not None:
        facts.append(f"unpriced: {retained_item.unpriced}")
    return [
        f"    {retained_item.kind.value}  {retained_item.name}",
        *fold(f"      {'; '.join([*facts, retained_item.reason])}", width),
    ]


def size(gib: float) -> str:
    """A size in a readable form.

    >>> size(1536.0), size(312.04), size(0.0)
    ('1,536 GiB', '312.0 GiB', '0 GiB')
    """
    if not gib:
        return "0 GiB"
    return f"{gib:,.0f} GiB" if gib >= 1000 else f"{gib:.1f} GiB" if gib >= 0.05 else "under 0.1 GiB"  # noqa: PLR2004
