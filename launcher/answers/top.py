"""A running job at a glance as text and JSON: `slipway top`."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal

from launcher.answers import meter, words
from launcher.answers.lines import fold
from launcher.answers.status import replaceable
from launcher.answers.straggler import straggler_lines
from launcher.answers.table import Column, render
from launcher.model.chip_use import ChipUse
from launcher.model.report import RunStatus
from launcher.model.straggler import Straggler
from launcher.records.codec import Json, as_json
from launcher.records.command_record import RUNNING
from launcher.records.document import json_object
from launcher.records.node_look import NodeNow
from launcher.records.run_state import RunState
from launcher.workflow.run.top import JobNow

UNKNOWN = "–"


@json_object
class TopDocument:
    """The job at a moment; null for what is not known."""

    schema: Literal["slipway.top/1"] = "slipway.top/1"
    name: str
    run: str
    status: str
    job: str | None
    as_of: datetime
    step: int | None
    steps: int | None
    step_s: float | None
    loss: float | None
    usd_per_hour: Decimal | None
    meter: meter.MeterDocument | None
    stragglers: tuple[Straggler, ...]
    nodes: tuple[NodeNow, ...]


def document(now: JobNow) -> Json:
    """slipway.top/1."""
    state = now.state
    return as_json(
        TopDocument(
            name=state.name,
            run=state.run,
            status=state.status,
            job=None if state.submission is None else state.submission.job,
            as_of=now.as_of,
            step=state.step,
            steps=state.steps,
            step_s=now.step_s,
            loss=state.loss,
            usd_per_hour=now.usd_per_hour,
            meter=None if state.meter is None else meter.MeterDocument.of(state.meter),
            stragglers=state.stragglers,
            nodes=now.nodes,
        )
    )


def page(now: JobNow, width: int) -> list[str]:
    """The job in two lines, and a row for each node."""
    state = now.state
    job = f", job {state.submission.job}" if state.submission is not None and state.submission.job else ""
    lines = ["", *fold(f"  {state.name}: {state.status}{job} · {now.as_of:%H:%M:%S} UTC", width)]
    lines += [piece for text in _job(now) for piece in fold(text, width, 2)]
    lines += ["", *_table(now, width)] if now.nodes else [f"  {_without_nodes(state)}"]
    lines += straggler_lines(state.name, state.stragglers, width, replaceable=replaceable(state))
    return lines + [
        piece
        for text in _unknown_chip_reasons(now.nodes)
        for piece in fold(f"  {UNKNOWN} chips not known: {text}", width, 2)
    ]


def _unknown_chip_reasons(nodes: Sequence[NodeNow]) -> list[str]:
    """Why the chips of nodes are not known, once for all nodes with the same reason."""
    named: dict[str, list[str]] = {}
    for node in nodes:
        if node.unknown:
            named.setdefault(node.unknown.removeprefix(f"{node.name} has "), []).append(node.unknown)
    return [texts[0] if len(texts) == 1 else f"{len(texts)} nodes: {reason}" for reason, texts in named.items()]


def _without_nodes(state: RunState) -> str:
    if state.submission is not None or state.command is None or state.command.state != RUNNING:
        return "no node runs it now"
    if state.command.sandbox and not state.attempts:
        return "its job has not started"
    if state.own_sandbox:
        return "its nodes are in the sandbox of its launch, and not shown"
    running = state.status == RunStatus.RUNNING
    return "this command does not reach its nodes, which are not shown" if running else "no node runs it now"


def _job(now: JobNow) -> list[str]:
    state = now.state
    parts = []
    if state.loss is not None:
        parts.append(f"loss {state.loss:.3f}")
    if now.step_s is not None:
        parts.append(f"{now.step_s:.3g} s a step")
    if now.usd_per_hour is not None and state.status == RunStatus.RUNNING:
        parts.append(f"nodes ${words.dollars(now.usd_per_hour)} an hour")
    meter_lines = [f"  {meter.line(state.meter, bar=False)}"] if state.meter is not None else []
    return [*meter_lines, *([f"  {' · '.join(parts)}"] if parts else [])]


def _table(now: JobNow, width: int) -> list[str]:
    rows = list(enumerate(now.nodes))
    columns: list[Column[tuple[int, NodeNow]]] = [
        Column("#", lambda row: str(row[0]), "right"),
        Column("node", lambda row: row[1].name, shrinks=True),
        Column("chips", lambda row: "" if row[1].chips is None else str(row[1].chips.chips), "right", yields=3),
        Column("used", lambda row: _percent(None if row[1].chips is None else row[1].chips.utilization), "right"),
        Column(
            "lowest", lambda row: _percent(None if row[1].chips is None else row[1].chips.lowest), "right", yields=2
        ),
        Column("memory GiB", lambda row: _memory(row[1].chips), "right", yields=1),
        Column("power", lambda row: _power(row[1].chips), "right", yields=1),
        Column("step", lambda _: "" if now.step_s is None else f"{now.step_s:.3g} s", "right", yields=4),
        Column(
            "$/h",
            lambda _: "" if now.usd_per_hour is None else words.dollars(now.usd_per_hour / len(now.nodes)),
            "right",
            yields=0,
        ),
    ]
    return render(columns, rows, width)


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f} %"


def _memory(use: ChipUse | None) -> str:
    if use is None or use.memory_gib is None:
        return UNKNOWN
    return f"{use.memory_gib:,.0f}" + ("" if use.memory_total_gib is None else f" of {use.memory_total_gib:,.0f}")


def _power(use: ChipUse | None) -> str:
    return UNKNOWN if use is None or use.power_w is None else f"{use.power_w:,.0f} W"
