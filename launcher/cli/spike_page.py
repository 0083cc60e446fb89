"""The page of `slipway spike`: what was measured beside what had been estimated."""

from launcher.cli.lines import wrapped
from launcher.cli.table import Column, render
from launcher.model.measurement import Measurement
from launcher.model.spike import Spiked, SpikeResult


def page(result: SpikeResult, width: int) -> list[str]:
    """The whole page: rates beside what had been estimated, then seconds."""
    rates = [
        Column(title="machines"),
        Column(title="tokens/s", right=True),
        Column(title=""),
        Column(title="estimated", right=True),
        Column(title="ratio", right=True),
        Column(title="MFU", right=True),
        Column(title="GiB", right=True, yields=1),
    ]
    seconds = [
        Column(title="seconds"),
        *(Column(title=title, right=True) for title in ("a step", "", "compile", "save", "restore", "boot")),
    ]
    lines = ["", *render(rates, [_rates(each) for each in result.measured], width)]
    lines += ["", *render(seconds, [_seconds(each.measurement) for each in result.measured], width)]
    if any(each.measurement.simulated for each in result.measured):
        text = (
            "The machines were stand-ins of the sandbox: these rates are of this computer, and no quote knows of them."
        )
        lines += wrapped(f"  {text}", width)
    for name, reason in result.unmeasured:
        lines += wrapped(f"  not measured on {name}: {reason}", width)
    return lines


def _rates(each: Spiked) -> list[str]:
    found = each.measurement
    rate = found.tokens_per_s
    return [
        f"{found.nodes} × {found.instance_type}",
        f"{rate.mid:,.0f}",
        f"{rate.low:,.0f}–{rate.high:,.0f}",
        f"{each.estimated.mid:,.0f}",
        f"{rate.mid / each.estimated.mid:.2g}",
        f"{found.mfu.mid:.2g}" if found.mfu is not None else "",
        _figure(found.memory_gib),
    ]


def _seconds(found: Measurement) -> list[str]:
    span = found.step_range_s
    return [
        f"{found.nodes} × {found.instance_type}",
        _figure(found.step_s),
        "" if span is None else f"{span.low:.3g}–{span.high:.3g}",
        *(_figure(each) for each in (found.compile_s, found.checkpoint_write_s, found.restore_s, found.boot_s)),
    ]


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
