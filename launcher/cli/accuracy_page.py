"""The page of `slipway accuracy`: shares first, then the runs."""

from collections.abc import Sequence

from launcher.cli import words
from launcher.cli.lines import wrapped
from launcher.cli.table import Column, render
from launcher.model.accuracy import Accuracy, RunAccuracy, accuracy


def page(runs: Sequence[RunAccuracy], unread: Sequence[tuple[str, str]], width: int) -> list[str]:
    """The whole page."""
    if not runs:
        lines = ["", "  No run of this folder has trained yet.", "", "  next: slipway launch FILE"]
    else:
        lines = ["", *(piece for text in _answer(runs) for piece in wrapped(f"  {text}", width)), ""]
        lines += _table(runs, width)
        lines += wrapped("  Measured over quoted; in brackets what lies outside of the quoted range.", width)
    for run, reason in unread:
        lines += wrapped(f"  ? {run}: {reason}", width)
    return lines


def _answer(runs: Sequence[RunAccuracy]) -> list[str]:
    """The shares, of runs in AWS alone."""
    real = [each for each in runs if not each.simulated]
    lines = [
        *_shares("tokens a second", accuracy((each.rate_ratio, each.rate_covered) for each in real)),
        *_shares("hours", accuracy((each.hours_ratio, each.hours_covered) for each in real)),
        *_shares("dollars", accuracy((each.usd_ratio, each.usd_covered) for each in real)),
    ]
    beside = len(runs) - len(real)
    sandbox = [f"{beside} run{'s' if beside > 1 else ''} in the sandbox: their machines were stand-ins."]
    return lines + sandbox if beside else lines or ["Nothing to compare yet: no run has ended that counted tokens."]


def _shares(what: str, found: Accuracy) -> list[str]:
    if found.within_25 is None or found.covered is None:
        return []
    near, inside = f"{found.within_25:.0%} within 0.8 to 1.25 of the quote", f"{found.covered:.0%} in its range"
    return [f"{what}: of {found.n} run{'s' if found.n > 1 else ''} {near}, {inside}."]


def _table(runs: Sequence[RunAccuracy], width: int) -> list[str]:
    columns = [
        Column(title="run"),
        Column(title="began", yields=1),
        Column(title="machines", yields=2),
        Column(title="tokens/s", right=True),
        Column(title="quoted", right=True),
        Column(title="ratio", right=True),
        Column(title="hours", right=True),
        Column(title="quoted", right=True),
        Column(title="ratio", right=True),
        Column(title="$ ratio", right=True, yields=3),
    ]
    return render(columns, [_row(each) for each in runs], width)


def _row(each: RunAccuracy) -> list[str]:
    quoted = each.quoted_tokens_per_s
    return [
        each.name + (" (sandbox)" if each.simulated else ""),
        each.run,
        f"{each.nodes} × {each.instance_type}",
        "" if each.tokens_per_s is None else f"{each.tokens_per_s:,.0f}",
        "" if quoted is None else f"{quoted.mid:,.0f}",
        _ratio(each.rate_ratio, each.rate_covered),
        words.hours(each.hours),
        words.hours(each.quoted_hours.mid),
        _ratio(each.hours_ratio, each.hours_covered),
        _ratio(each.usd_ratio, each.usd_covered),
    ]


def _ratio(ratio: float | None, covered: bool | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio:.2f}" if covered else f"({ratio:.2f})"
