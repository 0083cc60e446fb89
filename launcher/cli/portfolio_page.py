"""The page and the document of `slipway portfolio`."""

from decimal import Decimal

from launcher.cli import words
from launcher.cli.lines import finding_line, wrapped
from launcher.cli.price_ages import ages_lines
from launcher.cli.table import Column, align_points, render
from launcher.pricing.held_commitments import HeldCommitment
from launcher.records.portfolio_document import Chip, Entry, portfolio_document
from launcher.workflow.quote.portfolio import Member, OneChip, Portfolio

MOST_CHIPS = 8
KINDS = {"train": "training", "serve": "serving", "cluster": "cluster"}


def document(found: Portfolio) -> dict[str, object]:
    """The JSON of a portfolio."""
    entries = [
        Entry(str(each.path), each.name, each.kind, each.rank, each.choice, each.usd_per_month)
        for each in found.members
    ]
    return portfolio_document(
        now=found.now,
        entries=entries,
        total=found.usd_per_month,
        commitments=found.commitments,
        chips=[Chip(each.chip, each.family, each.usd_per_month, each.missing) for each in found.one_chip],
        findings=found.findings,
        types=found.members[0].priced.catalog.instance_types,
    )


def page(found: Portfolio, width: int) -> list[str]:
    """The whole page."""
    total = found.usd_per_month
    spread = words.between(words.dollars(total.low), words.dollars(total.high))
    plans = "1 plan" if len(found.members) == 1 else f"{len(found.members)} plans"
    text = f"{plans}: ${words.dollars(total.mid)} a month" + (f" ({spread})" if spread else "")
    if found.unpriced:
        text += f", without {', '.join(found.unpriced)}, which has no price"
    lines = ["", *wrapped(f"  {text}, each on its best option.", width), "", *_plans(found, width)]
    lines += [piece for each in found.commitments for piece in wrapped(f"  {_held(each)}", width)]
    lines += ["", *_chips(found, width), *wrapped("  A port to Neuron is not in these months.", width)]
    lines += [piece for each in found.findings for piece in wrapped(f"  {finding_line(each)}", width)]
    chosen = [each.priced.candidates[each.rank - 1] for each in found.members if each.rank is not None]
    lines += ["", *ages_lines(chosen, width), "  Nothing was called and nothing was spent.", ""]
    return [*lines, f"  next: {found.members[0].priced.command('compare')}"]


def _held(each: HeldCommitment) -> str:
    """A commitment in a sentence."""
    what = f"{each.instances} × {each.instance_type} in {each.region} for {each.term_years} y"
    return (
        f"Committed: {what}: ${words.dollars(each.usd_per_month)} a month whether it is used or not; "
        f"{', '.join(each.plans)} use{'s' if len(each.plans) == 1 else ''} {each.share:.0%} of it."
    )


def _plans(found: Portfolio, width: int) -> list[str]:
    """One row a plan."""
    columns = [
        Column(title="plan"),
        Column(title=""),
        Column(title="best option"),
        Column(title="how"),
        Column(title="where", yields=1),
        Column(title="$ a month", right=True),
        Column(title=""),
    ]
    rows = [_plan(each) for each in found.members]
    for row, text in zip(rows, align_points([row[5] for row in rows]), strict=True):
        row[5] = text
    return render(columns, rows, width)


def _plan(each: Member) -> list[str]:
    usd, choice = each.usd_per_month, each.choice
    if usd is None or choice is None:
        return [each.name, KINDS[each.kind], "no price", "", "", "unpriced", ""]
    place = choice.plan.place
    how = choice.serving.bedrock.mode.value if choice.serving and choice.serving.bedrock else words.option(place)
    return [
        each.name,
        KINDS[each.kind],
        words.machines(place),
        how.replace("-", " "),
        place.region,
        words.dollars(usd.mid),
        words.between(words.dollars(usd.low), words.dollars(usd.high)),
    ]


def _chips(found: Portfolio, width: int) -> list[str]:
    """All plans on one kind of chip."""
    columns = [
        Column(title="all on"),
        Column(title="$ a month", right=True),
        Column(title="difference", right=True),
        Column(title="cannot carry", shrinks=True),
    ]
    rows = [_chip(each, found) for each in found.one_chip[:MOST_CHIPS]]
    return render(columns, rows, width) if rows else ["  No chip carries any of the plans at a known price."]


def _chip(each: OneChip, found: Portfolio) -> list[str]:
    more = each.usd_per_month - found.usd_per_month.mid
    side = "+" if more >= 0 else "-"
    told = "" if each.missing or found.unpriced else f"{side}{words.dollars(abs(more) or Decimal(0))}"
    return [each.chip, words.dollars(each.usd_per_month), told, ", ".join(each.missing)]
