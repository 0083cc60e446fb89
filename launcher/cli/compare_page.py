"""The page of `slipway compare`: the verdict, the matrix of options, the arithmetic of the port."""

from decimal import Decimal

from launcher.cli import words
from launcher.cli.lines import finding_line, wrapped
from launcher.cli.plan_table import headline
from launcher.cli.price_ages import ages_lines
from launcher.cli.table import Column, align_points, render
from launcher.model.calendar import HOURS_PER_MONTH
from launcher.model.enums import PurchaseOption
from launcher.model.quote import Quote
from launcher.pricing.candidate import Candidate
from launcher.pricing.port import Path, Port, weeks_words
from launcher.pricing.priced import NEURON, NVIDIA
from launcher.pricing.reasoning import SOURCE
from launcher.pricing.verdict import Choice
from launcher.workflow.quote.compare import Comparison

MOST_TYPES = 8
COLUMNS = (
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


def page(found: Comparison, width: int, *, called: bool = False) -> list[str]:
    """The whole page; `called` says that AWS was just asked what it offers."""
    lines = ["", *wrapped(f"  {headline(found.priced)}", width), "", *wrapped(f"  {found.verdict.text}", width), ""]
    lines += [*_matrix(found, width), *wrapped("  Dollars a run, the cheapest size and place of each.", width)]
    if found.port is not None:
        lines += ["", *_sides(found, width), *_port(found.port, width), *_overlap(found, found.port, width)]
    for title, sentences in (("because", found.verdict.reasons), ("it would change with", found.verdict.flips)):
        if sentences:
            lines += ["", f"  {title}", *(piece for each in sentences for piece in wrapped(f"    {each}", width))]
    lines += ["", *ages_lines(found.priced.candidates, width)]
    done = "AWS was asked what it offers" if called else "Nothing was called"
    lines += wrapped(f"  The rules are those of {SOURCE}. {done} and nothing was spent.", width)
    lines += [piece for each in found.findings for piece in wrapped(f"  {finding_line(each)}", width)]
    if found.verdict.choice is Choice.MEASURE_FIRST and found.simulated:
        text = f"What the sandbox measured on {' and '.join(found.simulated)} is of this computer, and decides nothing."
        lines += wrapped(f"  {text}", width)
    return [*lines, "", *_next(found)]


def _next(found: Comparison) -> list[str]:
    """The next command: to measure what is too close to call, a command a side."""
    if found.verdict.choice is Choice.MEASURE_FIRST and found.unmeasured:
        return [f"  next: {found.priced.command('spike', '--type', name)}" for name in found.unmeasured]
    return [f"  next: {found.priced.command('plan')}"]


def _matrix(found: Comparison, width: int) -> list[str]:
    """Types by ways of buying: the cheapest types, and every Trainium type."""
    cells: dict[str, dict[PurchaseOption, Candidate]] = {}
    for candidate in found.priced.candidates:
        cells.setdefault(candidate.place.instance_type, {}).setdefault(candidate.place.option, candidate)
    names = [name for name, row in cells.items() if any(each.usd is not None for each in row.values())][:MOST_TYPES]
    names += [
        name
        for name, row in cells.items()
        if name not in names and found.priced.family(next(iter(row.values()))) == NEURON
    ]
    columns = [Column(title="type"), Column(title="", yields=1)]
    columns += [Column(title=TITLES.get(each, each.value.replace("-", " ")), right=True) for each in COLUMNS]
    rows = [[name, _accelerator(cells[name]), *(_cell(cells[name].get(each)) for each in COLUMNS)] for name in names]
    for index in range(2, len(columns)):
        for row, text in zip(rows, align_points([row[index] for row in rows]), strict=True):
            row[index] = text
    return render(columns, rows, width)


def _accelerator(row: dict[PurchaseOption, Candidate]) -> str:
    """The chip of a row."""
    return next(iter(row.values())).accelerator


def _cell(candidate: Candidate | None) -> str:
    """The total of one way of buying, or why there is none."""
    if candidate is None:
        return "not sold"
    if candidate.refusals:
        return "refused"
    return "unpriced" if candidate.usd is None else words.dollars(candidate.usd)


def _sides(found: Comparison, width: int) -> list[str]:
    """The two candidates that are compared."""
    lines = []
    for title, family, quoted in (("GPU", NVIDIA, found.gpu), ("Trainium", NEURON, found.trainium)):
        if quoted is None or quoted.usd is None:
            continue
        lines += wrapped(f"  {title}: {_side(quoted)}", width)
        other = found.outside(family)
        if other is not None:
            lines += wrapped(f"  Outside the plan it would be {_side(other)}", width)
    return lines


def _side(quoted: Quote) -> str:
    """One candidate in a line."""
    place, usd = quoted.plan.place, quoted.usd
    if usd is None:
        return ""
    spread = words.between(words.dollars(usd.low), words.dollars(usd.high))
    what = f"{place.nodes} × {place.instance_type}, {words.option(place)} in {place.region}"
    return f"{what}: ${words.dollars(usd.mid)} a run" + (f" ({spread})" if spread else "")


def _port(port: Port, width: int) -> list[str]:
    """The arithmetic of the port, and the paths through all runs."""
    weeks = port.weeks
    span = "" if weeks.low == weeks.high else f" ({weeks_words(weeks.low)} to {weeks_words(weeks.high)})"
    saved = port.saving_per_run.mid
    side = "saved" if saved >= 0 else "lost"
    lines = [
        f"  Port: {weeks_words(weeks.mid)}{span}, ${port.usd:,.0f}; {weeks.words}.",
        f"  Upkeep of a second stack: ${port.upkeep_usd_per_month:,.0f} a month (assumed).",
        f"  {_signed(saved)} {side} a run; {_paid_back(port)}.",
    ]
    lines = [piece for line in lines for piece in wrapped(line, width)]
    columns = [
        Column(title=f"all {port.runs:,} runs" if port.runs > 1 else "the one run"),
        Column(title="$", right=True),
        Column(title="on GPU", right=True),
        Column(title="done on"),
    ]
    return [*lines, "", *render(columns, [_path(each) for each in port.paths], width)]


def _overlap(found: Comparison, port: Port, width: int) -> list[str]:
    """That runs at the plan's pace overlap, where one takes longer than the time until the next."""
    hours = max((each.hours.mid for each in (found.gpu, found.trainium) if each is not None), default=0.0)
    if port.runs == 1 or hours * port.runs_per_month <= HOURS_PER_MONTH:
        return []
    text = f"A run takes up to {hours:,.0f} h, and at {port.runs_per_month:g} a month runs overlap"
    return wrapped(f"  {text}: the dates hold where several go on at once.", width)


def _paid_back(port: Port) -> str:
    """When the port is paid back."""
    if port.break_even_run is None:
        return "the port is never paid back"
    when = "" if port.break_even_on is None else f", on {port.break_even_on}"
    runs = f"{port.break_even_run:,} run{'s' if port.break_even_run != 1 else ''}"
    return f"the port is paid back after {runs}{when}" + ("" if port.pays else f", and there are only {port.runs:,}")


def _path(each: Path) -> list[str]:
    """One path as a row."""
    done = "–" if each.done_on is None else each.done_on.isoformat()
    return [PATHS[each.name], f"{each.usd:,.0f}", f"{each.runs_on_gpu:,}", done]


def _signed(amount: Decimal) -> str:
    """Dollars without their sign, which the words carry."""
    return f"${words.dollars(abs(amount))}"
