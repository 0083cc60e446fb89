"""The result of a refresh: fresh prices, changes, missing prices, failures: `slipway prices refresh`."""

from collections.abc import Sequence

from launcher.answers.lines import fold
from launcher.answers.table import Column, render
from launcher.catalog.bill import EVERYWHERE
from launcher.catalog.fetched_prices import Unmatched
from launcher.catalog.fetched_prices import plain as price_words
from launcher.catalog.price_moves import Move
from launcher.catalog.selector import Key
from launcher.model.errors import AwsError
from launcher.model.units import number_of
from launcher.records.refresh_report import RefreshReport

MAX_ROWS, MAX_NAMES = 30, 6


def refresh_page(report: RefreshReport, width: int) -> list[str]:
    """The result of a refresh for a terminal of `width` columns."""
    prices = "1 price" if report.prices == 1 else f"{report.prices:,} prices"
    earlier = f" ({report.resumed} of them kept from before)" if report.resumed else ""
    answers = f"{report.answered:,} of {number_of(report.asked, 'answer')}{earlier}"
    where = f"AWS's public files, {answers}" if report.public else f"AWS, {answers}"
    if report.snapshot is not None:
        where = f"a snapshot with SHA-256 {report.snapshot}"
    if report.plugin is not None:
        where = f"plugin {report.plugin}"
    lines = ["", *fold(f"  {prices} read from {where}; kept in {report.cache}", width)]
    if report.unasked:
        kinds = ", ".join(kind.replace("-", " ") for kind in report.unasked)
        lines += fold(f"  Only available with an account: {kinds}; and for spot by zone.", width)
    if report.skipped_regions:
        names = ", ".join(report.skipped_regions)
        lines += fold(f"  Regions not enabled in this account, not read: {names}", width)
    lines += _moves("moved by more than half", report.jumped, width)
    lines += _moves(
        "known before and not given by AWS now; the old price stays in use and ages", report.vanished, width
    )
    if report.refused:
        lines += ["", "  refused"]
        lines += [
            line for refusal in report.refused for line in fold(f"    {_name(refusal.key)}: {refusal.reason}", width)
        ]
    lines += _unmatched_lines(report.unmatched, width)
    return [*lines, *_failure_lines(report.failures, width)]


def _failure_lines(failures: Sequence[tuple[str, AwsError]], width: int) -> list[str]:
    by_cause: dict[tuple[str, str], list[str]] = {}
    for name, problem in failures:
        by_cause.setdefault((problem.message, problem.hint), []).append(name)
    lines = []
    for (message, hint), names in by_cause.items():
        rest = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        lines += fold(f"    {', '.join(names[:MAX_NAMES])}{rest}: {message}{f' ({hint})' if hint else ''}", width)
    return ["", "  failed; the older prices stay in use", *lines] if lines else []


def _unmatched_lines(items: Sequence[Unmatched], width: int) -> list[str]:
    by_cause: dict[tuple[str, str], list[str]] = {}
    for item in items:
        by_cause.setdefault((item.reason, item.region), []).append(item.item)
    lines = [
        line
        for (reason, region), names in by_cause.items()
        for line in fold(f"    {reason} in {region.replace(EVERYWHERE, 'all regions')}: {', '.join(names)}", width)
    ]
    return ["", "  not identifiable in AWS's list; the older price stays in use and ages", *lines] if lines else []


def _moves(title: str, moves: Sequence[Move], width: int) -> list[str]:
    if not moves:
        return []
    columns: list[Column[Move]] = [
        Column("price", lambda move: _name(move.key)),
        Column("before", lambda move: price_words(move.before), "point"),
        Column("now", lambda move: "" if move.after is None else price_words(move.after), "point"),
        Column("change", lambda move: "" if move.percent is None else f"{move.percent:+.0f} %", "right"),
        Column("read before", lambda move: move.before_as_of.isoformat(), yields=1),
    ]
    more = [f"  {MAX_ROWS} of {len(moves):,} shown; --json has all"] if len(moves) > MAX_ROWS else []
    return ["", f"  {title}", *render(columns, moves[:MAX_ROWS], width), *more]


def _name(key: Key) -> str:
    term = f" {key.term_years}y {key.payment}" if key.term_years else ""
    detail = f" {key.detail}" if key.detail else ""
    return f"{key.name} {key.kind}{detail}{term} {key.zone or key.region}"
