"""Quoted against measured, of one's own runs: `slipway accuracy`, slipway.accuracy/1."""

from collections.abc import Sequence

from launcher.answers import words
from launcher.answers.lines import wrapped
from launcher.answers.table import Column, render
from launcher.model.accuracy import Accuracy, RunAccuracy, accuracy
from launcher.records.codec import Json, named, picked, plain


def document(runs: Sequence[RunAccuracy], unread: Sequence[tuple[str, str]]) -> Json:
    """slipway.accuracy/1; runs of the sandbox are listed and stand in no share."""
    rate, hours, usd = _accuracies(runs)
    return {
        "schema": "slipway.accuracy/1",
        "tokens_per_s": plain(rate),
        "hours": plain(hours),
        "usd": plain(usd),
        "runs": [
            picked(each, "name run instance_type nodes simulated")
            | {
                "tokens_per_s": picked(
                    each, "quoted=quoted_tokens_per_s measured=tokens_per_s ratio=rate_ratio covered=rate_covered"
                ),
                "hours": picked(each, "quoted=quoted_hours measured=hours ratio=hours_ratio covered=hours_covered"),
                "usd": picked(each, "quoted=quoted_usd measured=usd ratio=usd_ratio covered=usd_covered"),
                "usd_per_instance_hour": {"ratio": each.rate_billed},
                "instance_hours": {"ratio": each.quantity_billed},
            }
            for each in runs
        ],
        "unread": named(unread, "run", "reason"),
    }


def _accuracies(runs: Sequence[RunAccuracy]) -> tuple[Accuracy, Accuracy, Accuracy]:
    """Of tokens a second, hours and dollars, of runs in AWS alone."""
    real = [each for each in runs if not each.simulated]
    return (
        accuracy((each.rate_ratio, each.rate_covered) for each in real),
        accuracy((each.hours_ratio, each.hours_covered) for each in real),
        accuracy((each.usd_ratio, each.usd_covered) for each in real),
    )


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
    rate, hours, usd = _accuracies(runs)
    lines = [*_shares("tokens a second", rate), *_shares("hours", hours), *_shares("dollars", usd)]
    beside = sum(each.simulated for each in runs)
    sandbox = [f"{beside} run{'s' if beside > 1 else ''} in the sandbox, on emulated nodes."]
    return lines + sandbox if beside else lines or ["Nothing to compare yet: no run has ended that counted tokens."]


def _shares(what: str, found: Accuracy) -> list[str]:
    if found.within_25 is None or found.covered is None:
        return []
    near, inside = f"{found.within_25:.0%} within 0.8 to 1.25 of the quote", f"{found.covered:.0%} in its range"
    return [f"{what}: of {found.n} run{'s' if found.n > 1 else ''} {near}, {inside}."]


def _table(runs: Sequence[RunAccuracy], width: int) -> list[str]:
    columns: list[Column[RunAccuracy]] = [
        Column("run", lambda each: each.name + (" (sandbox)" if each.simulated else "")),
        Column("began", lambda each: each.run, yields=1),
        Column("machines", lambda each: f"{each.nodes} × {each.instance_type}", yields=2),
        Column("tokens/s", lambda each: "" if each.tokens_per_s is None else f"{each.tokens_per_s:,.0f}", "right"),
        Column(
            "quoted", lambda each: f"{each.quoted_tokens_per_s.mid:,.0f}" if each.quoted_tokens_per_s else "", "right"
        ),
        Column("ratio", lambda each: _ratio(each.rate_ratio, covered=each.rate_covered), "right"),
        Column("hours", lambda each: words.hours(each.hours), "right"),
        Column("quoted", lambda each: words.hours(each.quoted_hours.mid), "right"),
        Column("ratio", lambda each: _ratio(each.hours_ratio, covered=each.hours_covered), "right"),
        Column("$/h ratio", lambda each: _bare(each.rate_billed), "right", yields=4),
        Column("quantity ratio", lambda each: _bare(each.quantity_billed), "right", yields=5),
        Column("$ ratio", lambda each: _ratio(each.usd_ratio, covered=each.usd_covered), "right", yields=3),
    ]
    return render(columns, runs, width)


def _bare(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _ratio(ratio: float | None, *, covered: bool | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio:.2f}" if covered else f"({ratio:.2f})"
