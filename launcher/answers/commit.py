"""The best commitment for several plans, and the command that buys it: `slipway commit`, slipway.commit/1."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from launcher.answers import words
from launcher.answers.lines import fold
from launcher.answers.table import Column, dollars, render
from launcher.model.administrator import ADMINISTRATOR
from launcher.model.commitment_choice import CommitmentChoice, CommitmentOption
from launcher.model.enums import Payment
from launcher.model.finding import Finding
from launcher.model.units import number_of
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object

SHOWN = 10
UPFRONT = {Payment.NO_UPFRONT: "none", Payment.PARTIAL_UPFRONT: "partial", Payment.ALL_UPFRONT: "all"}
"""The part of a commitment that is paid at purchase."""


@json_object
class Demand:
    """What a commitment covers, in dollars an hour on demand."""

    floor_usd_per_hour: Decimal
    mean_usd_per_hour: Decimal


@json_object
class LeftOut:
    """A plan that does not count, and the reason."""

    plan: str
    reason: str


@json_object
class CommitDocument:
    """The commitments for several plans, and the best one; null if none saves anything."""

    schema: Literal["slipway.commit/1"] = "slipway.commit/1"
    as_of: datetime
    demand: Demand
    options: tuple[CommitmentOption, ...]
    choice: CommitmentOption | None
    findings: tuple[Finding, ...]
    left_out: tuple[LeftOut, ...]


def document(choice: CommitmentChoice) -> Json:
    """slipway.commit/1."""
    return as_json(
        fill_record(
            CommitDocument,
            choice,
            demand=fill_record(Demand, choice),
            left_out=tuple(LeftOut(plan=plan, reason=reason) for plan, reason in choice.left_out),
        )
    )


def page(choice: CommitmentChoice, width: int, *, everything: bool) -> list[str]:
    """The complete page; the best few commitments unless `everything` is requested."""
    lines = ["", *[piece for text in _answer(choice) for piece in fold(f"  {text}", width)]]
    for finding in choice.findings:
        lines += fold(f"  warning: {finding.message} ({finding.hint})", width)
    shown = choice.options if everything else choice.options[:SHOWN]
    if shown:
        lines += ["", *_table(shown, width)]
        hidden = len(choice.options) - len(shown)
        lines += [f"  {hidden} more; --all shows them."] if hidden else []
    if choice.choice is not None:
        lines += _choice_lines(choice.choice, width)
    for plan, reason in choice.left_out:
        lines += fold(f"  not counted: {plan}: {reason}", width)
    return [*lines, "", *fold("  Nothing was bought. A commitment is paid in every hour of its term.", width)]


def _answer(commitment: CommitmentChoice) -> list[str]:
    floor, mean = words.dollars(commitment.floor_usd_per_hour), words.dollars(commitment.mean_usd_per_hour)
    demand = f"Demand that a commitment covers: ${floor} in every hour, ${mean} an hour on average, on demand."
    choice = commitment.choice
    if commitment.derived_choice is not None:
        saved = words.dollars(commitment.derived_choice.saving_usd)
        text = (
            f"Commit to nothing yet: the {commitment.derived_choice.instrument} that would save most"
            f" (${saved} over its term) rests on a derived rate of {commitment.derived_choice.as_of}."
        )
        return [demand, text]
    if choice is None:
        why = (
            "nothing runs in every hour" if not commitment.floor_usd_per_hour else "no commitment to it saves anything"
        )
        more = " The table shows the result of committing to the average." if commitment.options else ""
        return [demand, f"Commit to nothing: {why}.{more}"]
    saved = words.dollars(choice.saving_usd)
    term = number_of(choice.term_years, "year")
    article = "an" if choice.instrument.startswith("ec2") else "a"
    instrument = "a reservation" if choice.instrument == "reserved" else f"{article} {choice.instrument}"
    purchase = f"{instrument} of ${words.dollars(choice.usd_per_hour)} an hour for {term}"
    return [demand, f"Commit to {purchase}, 75 % of the floor: it saves ${saved} over the term."]


def _table(shown: tuple[CommitmentOption, ...], width: int) -> list[str]:
    columns: list[Column[CommitmentOption]] = [
        Column("instrument", lambda option: option.instrument),
        Column("covers", lambda option: option.covers, yields=1),
        Column("years", lambda option: str(option.term_years), "right"),
        Column("upfront", lambda option: UPFRONT[option.payment]),
        Column("level", lambda option: option.level, yields=4),
        dollars("$/h", lambda option: option.usd_per_hour),
        dollars("commitment $", lambda option: option.commitment_usd),
        dollars("saves $", lambda option: option.saving_usd),
        Column("used", lambda option: f"{option.utilisation:.0%}", "right", yields=2),
        Column("even at", lambda option: f"{option.break_even:.0%}", "right", yields=3),
        Column("rate", lambda option: f"{option.basis.value} {option.as_of}", yields=5),
    ]
    return render(columns, shown, width, number="#")


def _choice_lines(choice: CommitmentOption, width: int) -> list[str]:
    """The choice's risks, the effect of one more dollar, and the commands, not wrapped so that they can be pasted."""
    lines = ["", *fold(f"  rate: {choice.basis.value}, {choice.as_of}: {choice.source}", width)]
    lines += ["", "  what can go wrong"]
    lines += [piece for risk in choice.risks for piece in fold(f"    {risk}", width)]
    lines += ["", "  one more dollar an hour, where so much is committed already"]
    for marginal in choice.marginal:
        sign = "+" if marginal.value > 0 else ""
        lines.append(f"    at ${words.dollars(marginal.usd_per_hour)}: {sign}{marginal.value:.2f} an hour")
    return [*lines, "", f"  to buy it, {ADMINISTRATOR}", f"    {choice.command}"]
