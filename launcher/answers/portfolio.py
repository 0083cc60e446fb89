"""Several plans, each with its best option, one monthly total, and all on one chip: `slipway portfolio`."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from launcher.answers import words
from launcher.answers.lines import finding_line, fold
from launcher.answers.price_ages import ages_lines
from launcher.answers.table import Column, render
from launcher.model.finding import Finding
from launcher.model.money import UsdRange
from launcher.model.quote import Quote
from launcher.pricing.held_commitments import HeldCommitment
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object
from launcher.records.quote_document import CandidateObject
from launcher.workflow.quote.commands import command
from launcher.workflow.quote.portfolio import Member, OneChip, Portfolio

MAX_CHIPS = 8
KINDS = {"train": "training", "serve": "serving", "cluster": "cluster"}


@json_object
class PlanChoice:
    """A plan with its best option; null if none can be launched."""

    file: str
    name: str
    kind: str
    usd_per_month: UsdRange | None
    choice: CandidateObject | None

    @classmethod
    def of(cls, member: Member) -> "PlanChoice":
        """The object of a plan."""
        choice = None
        if member.choice is not None:
            choice = CandidateObject.of(member.choice, member.rank or 0, member.priced.catalog.instance_types)
        return fill_record(cls, member, file=str(member.path), choice=choice)


@json_object
class PortfolioDocument:
    """Several plans, each with its best option."""

    schema: Literal["slipway.portfolio/1"] = "slipway.portfolio/1"
    as_of: datetime
    plans: tuple[PlanChoice, ...]
    usd_per_month: UsdRange
    incomplete: bool
    unpriced: tuple[str, ...]
    commitments: tuple[HeldCommitment, ...]
    one_chip: tuple[OneChip, ...]
    findings: tuple[Finding, ...]


def document(portfolio: Portfolio) -> Json:
    """slipway.portfolio/1."""
    return as_json(
        fill_record(
            PortfolioDocument,
            portfolio,
            as_of=portfolio.now,
            plans=tuple(PlanChoice.of(member) for member in portfolio.members),
            unpriced=portfolio.unpriced_plans,
            incomplete=bool(portfolio.unpriced_plans),
        )
    )


def page(portfolio: Portfolio, width: int) -> list[str]:
    """The complete page."""
    total = portfolio.usd_per_month
    plans = "1 plan" if len(portfolio.members) == 1 else f"{len(portfolio.members)} plans"
    text = f"{plans}: {words.cost(total, 'a month')}"
    if portfolio.unpriced_plans:
        text += f", without {', '.join(portfolio.unpriced_plans)}, which has no price"
    lines = ["", *fold(f"  {text}, each on its best option.", width), "", *_plans(portfolio, width)]
    lines += [
        piece for commitment in portfolio.commitments for piece in fold(f"  {_commitment_lines(commitment)}", width)
    ]
    chips = "All on one chip: with any type, size and purchase option, also where a plan names one."
    lines += ["", *_chips(portfolio, width), *fold(f"  {chips} A port to Neuron is not in these months.", width)]
    lines += [piece for finding in portfolio.findings for piece in fold(f"  {finding_line(finding)}", width)]
    chosen = [member.priced.candidates[member.rank - 1] for member in portfolio.members if member.rank is not None]
    lines += ["", *ages_lines(chosen, width), "  Nothing was called and nothing was spent.", ""]
    return [*lines, f"  next: {command(portfolio.members[0].priced, 'compare')}"]


def _commitment_lines(commitment: HeldCommitment) -> str:
    nodes = f"{commitment.instances} × {commitment.instance_type} in {commitment.region} for {commitment.term_years} y"
    return (
        f"Committed: {nodes}: ${words.dollars(commitment.usd_per_month)} a month whether it is used or not; "
        f"{', '.join(commitment.plans)} use{'s' if len(commitment.plans) == 1 else ''} "
        f"{commitment.utilisation:.0%} of it."
    )


def _plans(portfolio: Portfolio, width: int) -> list[str]:
    columns: list[Column[Member]] = [
        Column("plan", lambda member: member.name),
        Column("", lambda member: KINDS[member.kind]),
        Column(
            "best option",
            lambda member: words.place_instances(member.choice.plan.place) if member.choice else "no price",
        ),
        Column("how", lambda member: _purchase_text(member.choice) if member.choice else ""),
        Column("where", lambda member: member.choice.plan.place.region if member.choice else "", yields=1),
        Column("$ a month", lambda member: words.middle(member.usd_per_month, "unpriced"), "point"),
        Column("", lambda member: words.usd_bounds(member.usd_per_month)),
    ]
    return render(columns, portfolio.members, width)


def _purchase_text(choice: Quote) -> str:
    hosted = choice.serving.bedrock if choice.serving else None
    return (hosted.mode.value if hosted else words.option(choice.plan.place)).replace("-", " ")


def _chips(portfolio: Portfolio, width: int) -> list[str]:
    columns: list[Column[OneChip]] = [
        Column("all on", lambda chip: chip.accelerator),
        Column("$ a month", lambda chip: words.dollars(chip.usd_per_month), "right"),
        Column("difference", lambda chip: _signed_dollars(chip.difference_usd), "right"),
        Column("cannot carry", lambda chip: ", ".join(chip.missing), shrinks=True),
    ]
    rows = portfolio.one_chip[:MAX_CHIPS]
    return render(columns, rows, width) if rows else ["  No chip carries any of the plans at a known price."]


def _signed_dollars(usd: Decimal | None) -> str:
    return "" if usd is None else f"{'+' if usd >= 0 else '-'}{words.dollars(abs(usd) or Decimal(0))}"
