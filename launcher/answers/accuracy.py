"""Quotes of your runs compared with measurements: `slipway accuracy`, slipway.accuracy/1."""

from collections.abc import Sequence

from launcher.answers import words
from launcher.answers.lines import wrapped
from launcher.answers.table import Column, render
from launcher.model.accuracy import Accuracy, RunAccuracy, accuracy
from launcher.records.codec import Json, named, picked, plain


def document(runs: Sequence[RunAccuracy], unread: Sequence[tuple[str, str]]) -> Json:
    """slipway.accuracy/1; sandbox runs are listed but count in no share."""
    rate, hours, usd = _accuracies(runs)
    return {
        "schema": "slipway.accuracy/1",
        "tokens_per_s": plain(rate),
        "hours": plain(hours),
        "usd": plain(usd),
        "runs": [
            picked(run, "name run instance_type nodes simulated")
            | {
                "tokens_per_s": picked(
                    run, "quoted=quoted_tokens_per_s measured=tokens_per_s ratio=rate_ratio covered=rate_covered"
                ),
                "hours": picked(run, "quoted=quoted_hours measured=hours ratio=hours_ratio covered=hours_covered"),
                "usd": picked(run, "quoted=quoted_usd measured=usd ratio=usd_ratio covered=usd_covered"),
                "usd_per_instance_hour": {"ratio": run.rate_billed},
                "instance_hours": {"ratio": run.quantity_billed},
            }
            for run in runs
        ],
        "unread": named(unread, "run", "reason"),
    }


def _accuracies(runs: Sequence[RunAccuracy]) -> tuple[Accuracy, Accuracy, Accuracy]:
    real = [run for run in runs if not run.simulated]
    return (
        accuracy((run_accuracy.rate_ratio, run_accuracy.rate_covered) for run_accuracy in real),
        accuracy((run_accuracy.hours_ratio, run_accuracy.hours_covered) for run_accuracy in real),
        accuracy((run_accuracy.usd_ratio, run_accuracy.usd_covered) for run_accuracy in real),
    )


def page(runs: Sequence[RunAccuracy], unread: Sequence[tuple[str, str]], width: int) -> list[str]:
    """The complete page."""
    if not runs:
        lines = ["", "  No run of this folder has trained yet.", "", "  next: slipway launch FILE"]
    else:
        lines = ["", *(piece for text in _answer(runs) for piece in wrapped(f"  {text}", width)), ""]
        lines += _table(runs, width)
        lines += wrapped("  Measured over quoted; values outside the quoted range in brackets.", width)
    for run, reason in unread:
        lines += wrapped(f"  ? {run}: {reason}", width)
    return lines


def _answer(runs: Sequence[RunAccuracy]) -> list[str]:
    rate, hours, usd = _accuracies(runs)
    lines = [*_shares("tokens a second", rate), *_shares("hours", hours), *_shares("dollars", usd)]
    beside = sum(run.simulated for run in runs)
    sandbox = [f"{beside} run{'s' if beside > 1 else ''} in the sandbox, on emulated nodes."]
    return lines + sandbox if beside else lines or ["Nothing to compare yet: no run has ended that counted tokens."]


def _shares(label: str, figures: Accuracy) -> list[str]:
    if figures.within_25 is None or figures.covered is None:
        return []
    near, inside = f"{figures.within_25:.0%} within 0.8 to 1.25 of the quote", f"{figures.covered:.0%} in its range"
    return [f"{label}: of {figures.n} run{'s' if figures.n > 1 else ''} {near}, {inside}."]


def _table(runs: Sequence[RunAccuracy], width: int) -> list[str]:
    columns: list[Column[RunAccuracy]] = [
        Column("run", lambda run_accuracy: run_accuracy.name + (" (sandbox)" if run_accuracy.simulated else "")),
        Column("began", lambda run_accuracy: run_accuracy.run, yields=1),
        Column("instances", lambda run_accuracy: f"{run_accuracy.nodes} × {run_accuracy.instance_type}", yields=2),
        Column(
            "tokens/s",
            lambda run_accuracy: "" if run_accuracy.tokens_per_s is None else f"{run_accuracy.tokens_per_s:,.0f}",
            "right",
        ),
        Column(
            "quoted",
            lambda run_accuracy: (
                f"{run_accuracy.quoted_tokens_per_s.mid:,.0f}" if run_accuracy.quoted_tokens_per_s else ""
            ),
            "right",
        ),
        Column(
            "ratio", lambda run_accuracy: _ratio(run_accuracy.rate_ratio, covered=run_accuracy.rate_covered), "right"
        ),
        Column("hours", lambda run_accuracy: words.hours(run_accuracy.hours), "right"),
        Column("quoted", lambda run_accuracy: words.hours(run_accuracy.quoted_hours.mid), "right"),
        Column(
            "ratio", lambda run_accuracy: _ratio(run_accuracy.hours_ratio, covered=run_accuracy.hours_covered), "right"
        ),
        Column("$/h ratio", lambda run_accuracy: _bare(run_accuracy.rate_billed), "right", yields=4),
        Column("quantity ratio", lambda run_accuracy: _bare(run_accuracy.quantity_billed), "right", yields=5),
        Column(
            "$ ratio",
            lambda run_accuracy: _ratio(run_accuracy.usd_ratio, covered=run_accuracy.usd_covered),
            "right",
            yields=3,
        ),
    ]
    return render(columns, runs, width)


def _bare(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _ratio(ratio: float | None, *, covered: bool | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio:.2f}" if covered else f"({ratio:.2f})"
