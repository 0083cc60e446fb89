"""Slow nodes in words: in the status and in `slipway top`."""

from collections.abc import Sequence

from launcher.answers.lines import fold
from launcher.answers.words import dollars
from launcher.model.straggler import Straggler
from launcher.model.units import HOUR_S, duration_text


def straggler_lines(name: str, slow: Sequence[Straggler], width: int, *, replaceable: bool) -> list[str]:
    """A warning for each slow node, and the command that replaces it where the target has one."""
    lines = []
    for node in slow:
        lines += fold(f"  warning: {node.reason}", width)
        if node.hours_until_end is None and node.usd_per_hour is not None:
            end = "the job's end is not known without step, steps and seconds in SLIPWAY_METRICS"
            lines += fold(f"    this costs at most ${dollars(node.usd_per_hour)} an hour; {end}", width, 4)
        elif node.hours_until_end is not None:
            most = "at most " if node.at_most else ""
            usd = f" and ${dollars(node.usd_until_end)}" if node.usd_until_end is not None else ""
            lines += fold(
                f"    until the end this costs {most}{duration_text(node.hours_until_end * HOUR_S)}{usd}", width, 4
            )
        usd = f" and ${dollars(node.replace_usd)}" if node.replace_usd is not None else ""
        again = "a restart, and the work since the newest checkpoint again"
        lines += fold(f"    replacing it costs {duration_text(node.replace_hours * HOUR_S)}{usd}: {again}", width, 4)
        if replaceable:
            lines += fold(f"    slipway nodes {name} replace {node.node} --dry-run", width, 4)
    return lines
