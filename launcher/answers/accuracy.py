"""Quotes of your runs compared with measurements: `slipway accuracy`, slipway.accuracy/1."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

from launcher.answers import words
from launcher.answers.lines import fold
from launcher.answers.table import Column, render
from launcher.model.accuracy import Accuracy, RunAccuracy, accuracy
from launcher.model.money import Range, UsdRange
from launcher.model.units import number_of
from launcher.records.codec import Json, as_json
from launcher.records.document import UnreadRun, fill_record, json_object


@json_object
class ComparedFigure:
    """A quoted range, the measured value, their ratio, and whether the range contains it."""

    quoted: Range | None
    measured: float | None
    ratio: float | None
    covered: bool | None


@json_object
class ComparedUsd:
    """The same for dollars."""

    quoted: UsdRange | None
    measured: Decimal | None
    ratio: float | None
    covered: bool | None


@json_object
class Ratio:
    """Billed over quoted."""

    ratio: float | None


@json_object
class ComparedRun:
    """One run, compared with its quote and with its bill."""

    name: str
    run: str
    instance_type: str
    nodes: int
    simulated: bool
    tokens_per_s: ComparedFigure
    hours: ComparedFigure
    usd: ComparedUsd
    usd_per_instance_hour: Ratio
    instance_hours: Ratio

    @classmethod
    def of(cls, run: RunAccuracy) -> "ComparedRun":
        """The object of a run."""
        return fill_record(
            cls,
            run,
            tokens_per_s=ComparedFigure(
                quoted=run.quoted_tokens_per_s,
                measured=run.tokens_per_s,
                ratio=run.rate_ratio,
                covered=run.rate_covered,
            ),
            hours=ComparedFigure(
                quoted=run.quoted_hours, measured=run.hours, ratio=run.hours_ratio, covered=run.hours_covered
            ),
            usd=ComparedUsd(quoted=run.quoted_usd, measured=run.usd, ratio=run.usd_ratio, covered=run.usd_covered),
            usd_per_instance_hour=Ratio(ratio=run.rate_billed),
            instance_hours=Ratio(ratio=run.quantity_billed),
        )


@json_object
class AccuracyDocument:
    """Quotes compared with measurements; sandbox runs are listed but count in no share."""

    schema: Literal["slipway.accuracy/1"] = "slipway.accuracy/1"
    tokens_per_s: Accuracy
    hours: Accuracy
    usd: Accuracy
    runs: tuple[ComparedRun, ...]
    unread: tuple[UnreadRun, ...]


def document(runs: Sequence[RunAccuracy], unread: Sequence[tuple[str, str]]) -> Json:
    """slipway.accuracy/1."""
    rate, hours, usd = _accuracies(runs)
    return as_json(
        AccuracyDocument(
            tokens_per_s=rate,
            hours=hours,
            usd=usd,
            runs=tuple(ComparedRun.of(run) for run in runs),
            unread=tuple(UnreadRun(run=run, reason=reason) for run, reason in unread),
        )
    )


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
        lines = ["", *(piece for text in _answer(runs) for piece in fold(f"  {text}", width)), ""]
        lines += _table(runs, width)
        lines += fold("  Measured over quoted; values outside the quoted range in brackets.", width)
    for run, reason in unread:
        lines += fold(f"  ? {run}: {reason}", width)
    return lines


def _answer(runs: Sequence[RunAccuracy]) -> list[str]:
    rate, hours, usd = _accuracies(runs)
    lines = [*_shares("tokens a second", rate), *_shares("hours", hours), *_shares("dollars", usd)]
    simulated = sum(run.simulated for run in runs)
    sandbox = [f"{number_of(simulated, 'run')} in the sandbox, on emulated nodes."]
    return lines + sandbox if simulated else lines or ["Nothing to compare yet: no run has ended that counted tokens."]


def _shares(label: str, figures: Accuracy) -> list[str]:
    if figures.within_25 is None or figures.covered is None:
        return []
    near, inside = f"{figures.within_25:.0%} within 0.8 to 1.25 of the quote", f"{figures.covered:.0%} in its range"
    return [f"{label}: of {number_of(figures.n, 'run')} {near}, {inside}."]


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
