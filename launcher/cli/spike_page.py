"""The page of `slipway spike`: what was measured beside what had been estimated."""

from launcher.cli.lines import wrapped
from launcher.cli.table import Column, render
from launcher.model.spike import Spiked, SpikeResult


def page(result: SpikeResult, width: int) -> list[str]:
    """The whole page."""
    columns = [
        Column(title="machines"),
        Column(title="tokens/s", right=True),
        Column(title="", yields=1),
        Column(title="estimated", right=True),
        Column(title="ratio", right=True),
        Column(title="MFU", right=True),
        Column(title="step s", right=True, yields=2),
        Column(title="GiB", right=True, yields=6),
        Column(title="compile s", right=True, yields=7),
        Column(title="checkpoint s", right=True, yields=3),
        Column(title="restore s", right=True, yields=5),
        Column(title="boot s", right=True, yields=4),
    ]
    lines = ["", *render(columns, [_row(each) for each in result.measured], width)]
    if any(each.measurement.simulated for each in result.measured):
        text = (
            "The machines were stand-ins of the sandbox: these rates are of this computer, and no quote knows of them."
        )
        lines += wrapped(f"  {text}", width)
    for name, reason in result.unmeasured:
        lines += wrapped(f"  not measured on {name}: {reason}", width)
    return lines


def _row(each: Spiked) -> list[str]:
    found = each.measurement
    rate = found.tokens_per_s
    return [
        f"{found.nodes} × {found.instance_type}",
        f"{rate.mid:,.0f}",
        f"{rate.low:,.0f}–{rate.high:,.0f}",
        f"{each.estimated.mid:,.0f}",
        f"{rate.mid / each.estimated.mid:.2g}",
        f"{found.mfu.mid:.2g}" if found.mfu is not None else "",
        *(_figure(value) for value in (found.step_s, found.memory_gib, found.compile_s)),
        *(_figure(value) for value in (found.checkpoint_write_s, found.restore_s, found.boot_s)),
    ]


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
