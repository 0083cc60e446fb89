"""The first screen of `slipway plan` for serving: what can be used now, and what is cheaper but refused."""

from collections.abc import Sequence

from launcher.answers import words
from launcher.answers.headline import unpriced_answer
from launcher.answers.lines import finding_line, fold
from launcher.answers.plan_screen import more_rows, other_groups, shown_ranks
from launcher.answers.price_ages import price_dates
from launcher.answers.row_sections import WIDE, Cells, section_lines
from launcher.answers.serving_table import headline, million_title, per_million, purchase_text, utilisation_text
from launcher.model.enums import Level, PurchaseOption
from launcher.model.quote import Quote
from launcher.model.units import number_of
from launcher.pricing.priced import Priced
from launcher.pricing.standing import Standing
from launcher.workflow.quote.commands import command, next_command, refresh_command

MAX_ALLOWED, MAX_CHEAPER = 7, 3
MAX_NOTES = 2


def page(priced: Priced, width: int) -> list[str]:
    """The screen, at most about 16 lines of 80 columns."""
    lines = ["", *fold(f"  {headline(priced)}", width), "", *_sections(priced, width)]
    return [*lines, *(piece for note in _notes(priced) for piece in fold(f"  {note}", width)), "", *_next(priced)]


def first_groups(priced: Priced) -> list[tuple[str, list[int]]]:
    """The rows of the screen under their headings."""
    allowed, refused = ranks_by_standing(priced)
    ready = [rank for rank in allowed if priced.standing(rank) is Standing.ALLOWED]
    later = [rank for rank in allowed if rank not in ready]
    title = f"can be used once the plan is complete ({_missing_path(priced, later)})"
    groups = [(heading, ranks) for heading, ranks in (("can be used now", ready), (title, later)) if ranks]
    return [*groups, *other_groups(priced, refused, cheaper=bool(allowed))]


def _missing_path(priced: Priced, ranks: Sequence[int]) -> str:
    """The keys of the plan file that a deployment of some rows needs."""
    return " and ".join(
        dict.fromkeys(finding.path for rank in ranks for finding in priced.candidates[rank - 1].unnamed)
    )


def _sections(priced: Priced, width: int) -> list[str]:
    groups = first_groups(priced)
    if not groups:
        return fold(f"  {unpriced_answer(priced)}", width)
    titles = ("a month", "high", million_title(priced), "used")
    return section_lines(
        [(title, [_cells(priced, rank, width) for rank in ranks]) for title, ranks in groups], titles, width
    )


def ranks_by_standing(priced: Priced) -> tuple[list[int], list[int]]:
    """The ranks that can be used now, Bedrock and instances among them, and the refused ones that are cheaper."""
    allowed, refused = shown_ranks(priced)
    return sorted(allowed[:MAX_ALLOWED]), sorted(refused[:MAX_CHEAPER])


def _cells(priced: Priced, rank: int, width: int) -> Cells:
    quoted = priced.row(rank)
    place, usd = quoted.plan.place, quoted.usd
    wide = (quoted.accelerator, f"${words.dollars(quoted.usd_per_hour)}/h" if quoted.usd_per_hour else "")
    return (
        priced.short_id(rank),
        words.place_instances(place),
        place.region,
        purchase_text(quoted, short=width < WIDE),
        "",
        *(wide if width >= WIDE else ()),
        words.total(quoted),
        "" if usd is None or usd.high == usd.mid else f"${words.dollars(usd.high)}",
        _million(quoted),
        utilisation_text(quoted.serving),
    )


def _million(quoted: Quote) -> str:
    usd = per_million(quoted.serving)
    return "" if usd is None else f"${words.dollars(usd)}"


def _notes(priced: Priced) -> list[str]:
    """What a deployment would refuse, the cheapest of the other kind, the number of other rows."""
    order = list(Level)
    ranked = sorted(priced.findings, key=lambda finding: -order.index(finding.level))
    notes = [finding_line(finding) for finding in ranked[:MAX_NOTES]]
    if counted_notes := len(ranked) - len(notes):
        notes.append(f"{number_of(counted_notes, 'more note')}: -v")
    hosted = [candidate.place.option is PurchaseOption.BEDROCK for candidate in priced.candidates]
    if any(hosted) and not all(hosted):
        notes.append(f"Bedrock or instances, and from which traffic: {command(priced, 'compare')}")
    shown = [rank for _, ranks in first_groups(priced) for rank in ranks]
    texts = (more_rows(priced, len(shown)), price_dates(priced.candidates[rank - 1] for rank in shown))
    return [*notes, " ".join(text for text in texts if text)]


def _next(priced: Priced) -> list[str]:
    _, refused = ranks_by_standing(priced)
    stale = any(priced.standing(rank) is Standing.OLD_PRICE for rank in refused)
    commands = [refresh_command(priced)] if stale else []
    return [f"  next: {line}" for line in (*commands, next_command(priced))]
