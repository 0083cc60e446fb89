"""Several plans, each with its best option, one total a month, and all on one chip: `slipway portfolio`."""

from decimal import Decimal

from launcher.answers import words
from launcher.answers.lines import finding_line, wrapped
from launcher.answers.price_ages import ages_lines
from launcher.answers.table import Column, render
from launcher.model.quote import Quote
from launcher.pricing.held_commitments import HeldCommitment
from launcher.records.codec import Json, json_of, picked
from launcher.records.documents import candidate
from launcher.workflow.quote.commands import command
from launcher.workflow.quote.portfolio import Member, OneChip, Portfolio

MOST_CHIPS = 8
HELD = (
    "instance_type region purchase_option=option plan_kind term_years instances usd_per_month utilisation=share plans"
)
KINDS = {"train": "training", "serve": "serving", "cluster": "cluster"}


def document(found: Portfolio) -> Json:
    """slipway.portfolio/1."""
    types = found.members[0].priced.catalog.instance_types
    choices = [
        None if member.choice is None else candidate(member.choice, member.rank or 0, types) for member in found.members
    ]
    return json_of(
        {
            "schema": "slipway.portfolio/1",
            "as_of": found.now,
            "plans": [
                picked(each, "file=path name kind usd_per_month") | {"choice": choice}
                for each, choice in zip(found.members, choices, strict=True)
            ],
            "usd_per_month": found.usd_per_month,
            "incomplete": bool(found.unpriced),
            "unpriced": found.unpriced,
            "commitments": found.commitments,
            "one_chip": found.one_chip,
            "findings": found.findings,
        },
        {HeldCommitment: HELD},
    )


def page(found: Portfolio, width: int) -> list[str]:
    """The whole page."""
    total = found.usd_per_month
    spread = words.spread(total)
    plans = "1 plan" if len(found.members) == 1 else f"{len(found.members)} plans"
    text = f"{plans}: ${words.dollars(total.mid)} a month" + (f" ({spread})" if spread else "")
    if found.unpriced:
        text += f", without {', '.join(found.unpriced)}, which has no price"
    lines = ["", *wrapped(f"  {text}, each on its best option.", width), "", *_plans(found, width)]
    lines += [piece for commitment in found.commitments for piece in wrapped(f"  {_held(commitment)}", width)]
    lines += ["", *_chips(found, width), *wrapped("  A port to Neuron is not in these months.", width)]
    lines += [piece for finding in found.findings for piece in wrapped(f"  {finding_line(finding)}", width)]
    chosen = [member.priced.candidates[member.rank - 1] for member in found.members if member.rank is not None]
    lines += ["", *ages_lines(chosen, width), "  Nothing was called and nothing was spent.", ""]
    return [*lines, f"  next: {command(found.members[0].priced, 'compare')}"]


def _held(each: HeldCommitment) -> str:
    what = f"{each.instances} × {each.instance_type} in {each.region} for {each.term_years} y"
    return (
        f"Committed: {what}: ${words.dollars(each.usd_per_month)} a month whether it is used or not; "
        f"{', '.join(each.plans)} use{'s' if len(each.plans) == 1 else ''} {each.share:.0%} of it."
    )


def _plans(found: Portfolio, width: int) -> list[str]:
    columns: list[Column[Member]] = [
        Column("plan", lambda member: member.name),
        Column("", lambda member: KINDS[member.kind]),
        Column("best option", lambda member: words.machines(member.choice.plan.place) if member.choice else "no price"),
        Column("how", lambda member: _how(member.choice) if member.choice else ""),
        Column("where", lambda member: member.choice.plan.place.region if member.choice else "", yields=1),
        Column("$ a month", lambda member: words.middle(member.usd_per_month, "unpriced"), "point"),
        Column("", lambda member: words.spread(member.usd_per_month)),
    ]
    return render(columns, found.members, width)


def _how(choice: Quote) -> str:
    hosted = choice.serving.bedrock if choice.serving else None
    return (hosted.mode.value if hosted else words.option(choice.plan.place)).replace("-", " ")


def _chips(found: Portfolio, width: int) -> list[str]:
    columns: list[Column[OneChip]] = [
        Column("all on", lambda chip: chip.accelerator),
        Column("$ a month", lambda chip: words.dollars(chip.usd_per_month), "right"),
        Column("difference", lambda chip: _signed(chip.difference_usd), "right"),
        Column("cannot carry", lambda chip: ", ".join(chip.missing), shrinks=True),
    ]
    rows = found.one_chip[:MOST_CHIPS]
    return render(columns, rows, width) if rows else ["  No chip carries any of the plans at a known price."]


def _signed(usd: Decimal | None) -> str:
    return "" if usd is None else f"{'+' if usd >= 0 else '-'}{words.dollars(abs(usd) or Decimal(0))}"
