"""The nodes of a job in the page of its report: the numbers of `slipway top` as a picture."""

from html import escape

from launcher.answers import words
from launcher.answers.html.svg import BOTTOM, END, START, TOP, Plot, Scale, across, text_at
from launcher.model.units import number_of
from launcher.records.node_look import NodeLook, NodeNow

ROW = 40.0
MAX_ROWS = 32
"""Nodes that are drawn, those with the lowest utilization."""
PERCENT = 100.0


def nodes_plot(look: NodeLook) -> Plot:
    """A bar of chip utilization for each node, with its memory, power and dollars."""
    rows = sorted(enumerate(look.nodes), key=lambda row: _usage_text(row[1]))
    drawn = sorted(rows[:MAX_ROWS])
    height = TOP + ROW * len(drawn) + BOTTOM
    scale = Scale(low=0.0, high=PERCENT, start=START, end=END)
    parts = [across(scale, TOP, height - BOTTOM, "per cent of the time in which chips computed")]
    for place, (number, node) in enumerate(drawn):
        y = TOP + ROW * place
        parts.append(text_at(START, y + 12, f"{number} {node.name}: {_figures(node, look)}", "tick"))
        if node.chips is not None and node.chips.utilization is not None:
            end = scale.at(node.chips.utilization)
            label = f"{node.chips.utilization:.0f} %"
            parts.append(
                f'<rect x="{START:g}%" y="{y + 18:g}" width="{max(0.2, end - START):.2f}%" height="14" class="box"'
                f' data-used="{node.chips.utilization:g}"><title>{escape(label)}</title></rect>'
            )
    left_out = f"; the {len(drawn)} least used of {len(look.nodes)} nodes" if len(drawn) < len(look.nodes) else ""
    step = "" if look.step_s is None else f", {look.step_s:.3g} s a step"
    return Plot(
        key="nodes",
        title="Nodes and chips",
        description=f"Chip utilization of {number_of(len(drawn), 'node')}{step}",
        body="".join(parts),
        height=height,
        caption=f"As of {look.as_of:%Y-%m-%d %H:%M:%S} UTC, when the nodes were last looked at{step}{left_out}.",
    )


def _usage_text(node: NodeNow) -> float:
    return PERCENT if node.chips is None or node.chips.utilization is None else node.chips.utilization


def _figures(node: NodeNow, look: NodeLook) -> str:
    """The numbers beside a bar."""
    chips = node.chips
    if chips is None:
        return f"not known: {node.unknown}"
    parts = [number_of(chips.chips, "chip")]
    if chips.lowest is not None and chips.utilization is not None:
        parts.append(f"{chips.utilization:.0f} % used, the least used {chips.lowest:.0f} %")
    if chips.memory_gib is not None:
        total = "" if chips.memory_total_gib is None else f" of {chips.memory_total_gib:,.0f}"
        parts.append(f"{chips.memory_gib:,.0f}{total} GiB")
    if chips.power_w is not None:
        parts.append(f"{chips.power_w:,.0f} W")
    if look.usd_per_hour is not None:
        parts.append(f"${words.dollars(look.usd_per_hour / len(look.nodes))} an hour")
    return ", ".join(parts)
