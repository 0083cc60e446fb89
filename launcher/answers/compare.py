"""The options for one job, the port to Trainium and the verdict: `slipway compare`."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from launcher.answers import compare_screen, words
from launcher.answers.headline import headline
from launcher.answers.lines import finding_line, fold, sections
from launcher.answers.price_ages import ages_lines
from launcher.answers.table import Column, render
from launcher.model.enums import PurchaseOption
from launcher.model.quote import Quote
from launcher.model.units import HOURS_PER_MONTH, number_of
from launcher.pricing.candidate import Candidate
from launcher.pricing.port import Path, Port, weeks_text
from launcher.pricing.priced import NEURON, NVIDIA
from launcher.pricing.reasoning import SOURCE
from launcher.pricing.verdict import Choice
from launcher.workflow.quote.compare import Comparison

if TYPE_CHECKING:
    from launcher.workflow.quote.compare_serving import ServingComparison

MAX_TYPES = 8
OPTIONS = (
    PurchaseOption.SPOT,
    PurchaseOption.ON_DEMAND,
    PurchaseOption.CAPACITY_BLOCK,
    PurchaseOption.SAVINGS_PLAN,
    PurchaseOption.RESERVED,
)
TITLES = {PurchaseOption.CAPACITY_BLOCK: "block", PurchaseOption.SAVINGS_PLAN: "plan"}
PATHS = {
    "gpu": "train on GPUs",
    "port-first": "port first, then Trainium",
    "gpu-while-porting": "GPUs while porting, then Trainium",
}


def page(comparison: Comparison, width: int, *, called: bool = False, verbose: bool = False) -> list[str]:
    """The first screen, or with every type and reason (`verbose`); `called`: Slipway just requested AWS's offers."""
    if not verbose:
        return compare_screen.page(comparison, width, called=called)
    body = [*_matrix(comparison, width), *fold("  Dollars a run, the cheapest size and place of each.", width)]
    if comparison.port is not None:
        body += ["", *(piece for side in sides(comparison) for piece in fold(f"  {side}", width))]
        body += [*_port(comparison.port, width), *_overlap(comparison, comparison.port, width)]
    done = "with AWS's current offers" if called else "Nothing was called"
    lines = comparison_page(comparison, headline(comparison.priced), body, width, done)
    if comparison.verdict.choice is Choice.MEASURE_FIRST and comparison.simulated_types:
        types = " and ".join(comparison.simulated_types)
        text = f"What the sandbox measured on {types} is of this computer, and decides nothing."
        lines += fold(f"  {text}", width)
    return [*lines, "", *compare_screen.next_lines(comparison)]


def comparison_page(
    comparison: "Comparison | ServingComparison", heading: str, body: Iterable[str], width: int, done: str
) -> list[str]:
    """The page of a comparison without its last line; `body` is the comparison, `done` names the requests to AWS."""
    verdict = comparison.verdict
    lines = ["", *fold(f"  {heading}", width), "", *fold(f"  {verdict.text}", width), "", *body]
    lines += sections((("reasons", verdict.reasons), ("what would change this recommendation", verdict.flips)), width)
    lines += ["", *ages_lines(comparison.priced.candidates, width)]
    lines += fold(f"  The rules are those of {SOURCE}. {done} and nothing was spent.", width)
    return lines + [piece for finding in comparison.findings for piece in fold(f"  {finding_line(finding)}", width)]


def _matrix(comparison: Comparison, width: int) -> list[str]:
    cells: dict[str, dict[PurchaseOption, Candidate]] = {}
    for quoted in comparison.priced.candidates:
        cells.setdefault(quoted.place.instance_type, {}).setdefault(quoted.place.option, quoted)
    names = [
        name for name, row in cells.items() if any(option_quoted.usd is not None for option_quoted in row.values())
    ][:MAX_TYPES]
    names += [
        name
        for name, row in cells.items()
        if name not in names and comparison.priced.family(next(iter(row.values()))) == NEURON
    ]
    columns: list[Column[str]] = [
        Column("type", str),
        Column("", lambda name: next(iter(cells[name].values())).accelerator, yields=1),
    ]
    for option in OPTIONS:
        title = TITLES.get(option, option.value.replace("-", " "))
        columns.append(Column(title, partial(_cell, cells, option), "point"))
    return render(columns, names, width)


def _cell(cells: Mapping[str, Mapping[PurchaseOption, Candidate]], option: PurchaseOption, name: str) -> str:
    quoted = cells[name].get(option)
    if quoted is None:
        return "not sold"
    if quoted.refusals:
        return "refused"
    return "unpriced" if quoted.usd is None else words.dollars(quoted.usd)


def sides(comparison: Comparison) -> list[str]:
    """The two compared candidates, and cheaper candidates that are refused now or outside the plan."""
    lines = []
    for title, family, quoted in (("GPU", NVIDIA, comparison.gpu), ("Trainium", NEURON, comparison.trainium)):
        if quoted is None or quoted.usd is None:
            continue
        lines.append(f"{title}: {_side(quoted)}")
        other = comparison.outside(family)
        if other is not None and _side(other) != _side(quoted):
            within = comparison.pins(other.plan.place)
            lines.append(f"{'Cheaper, but refused now:' if within else 'Outside the plan it would be'} {_side(other)}")
    return lines


def _side(quoted: Quote) -> str:
    return "" if quoted.usd is None else f"{words.purchase(quoted.plan.place)}: {words.quoted_cost(quoted, 'a run')}"


def _port(port: Port, width: int) -> list[str]:
    weeks = port.weeks
    span = "" if weeks.low == weeks.high else f" ({weeks_text(weeks.low)} to {weeks_text(weeks.high)})"
    saved = port.saving_per_run.mid
    side = "saved" if saved >= 0 else "lost"
    lines = [
        f"  Port: {weeks_text(weeks.mid)}{span}, ${port.usd:,.0f}; {weeks.description}.",
        f"  Maintenance of a second stack: ${port.maintenance_usd_per_month:,.0f} a month (assumed).",
        f"  {_signed_dollars(saved)} {side} a run; {_paid_back(port)}.",
    ]
    lines = [piece for line in lines for piece in fold(line, width)]
    columns: list[Column[Path]] = [
        Column(f"all {port.runs:,} runs" if port.runs > 1 else "the one run", lambda path: PATHS[path.name]),
        Column("$", lambda path: f"{path.usd:,.0f}", "right"),
        Column("on GPU", lambda path: f"{path.runs_on_gpu:,}", "right"),
        Column("done on", lambda path: "–" if path.done_on is None else path.done_on.isoformat()),
    ]
    return [*lines, "", *render(columns, port.paths, width)]


def _overlap(comparison: Comparison, port: Port, width: int) -> list[str]:
    """The note that runs at the plan's pace overlap, if a run lasts longer than the time until the next."""
    hours = max((quote.hours.mid for quote in (comparison.gpu, comparison.trainium) if quote is not None), default=0.0)
    if port.runs == 1 or hours * port.runs_per_month <= HOURS_PER_MONTH:
        return []
    text = f"A run takes up to {hours:,.0f} h, and at {port.runs_per_month:g} a month runs overlap"
    return fold(f"  {text}: the dates hold only if several run concurrently.", width)


def _paid_back(port: Port) -> str:
    if port.break_even_run is None:
        return "the port never pays off"
    when = "" if port.break_even_on is None else f", on {port.break_even_on}"
    runs = number_of(port.break_even_run, "run")
    return f"the port is paid back after {runs}{when}" + ("" if port.pays else f", and the plan has only {port.runs:,}")


def _signed_dollars(amount: Decimal) -> str:
    return f"${words.dollars(abs(amount))}"
