"""`--explain RANK`: each number of a row, step by step, with its source."""

from launcher.cli import words
from launcher.cli.plan_table import wrapped
from launcher.model.money import Price
from launcher.workflow.price import Priced, pick


def page(priced: Priced, rank: int, width: int) -> list[str]:
    """The row's story, to be read from top to bottom."""
    _, quoted = pick(priced, str(rank))
    place, hours = quoted.plan.place, quoted.hours
    lines = [
        "",
        f"  {rank}. {place.nodes} × {place.instance_type}, {words.option(place)} in {place.az_id or place.region}",
        "",
    ]
    for each in quoted.assumptions:
        lines += _block(f"{each.name}: {each.value} {each.unit}".rstrip(), each.steps, each.source, width)
    if isinstance(quoted.price, Price):
        price = quoted.price
        value = f"price of one instance-hour: ${price.usd:f}"
        note = (price.note,) if price.note else ()
        lines += _block(value, note, f"{price.source}, {price.basis.value}, {price.as_of}", width)
    spread = f"{words.hours(hours.low)} to {words.hours(hours.high)}"
    lines += _block(f"hours of the job: {words.hours(hours.mid)} ({spread})", (), "", width)
    for line in quoted.components:
        cost = f"${line.usd:f}" if line.usd is not None else f"unpriced: {line.unpriced}"
        step = f"{line.quantity:.6g} {line.unit} x ${line.unit_price_usd:f}" if line.unit_price_usd is not None else ""
        source = f"{line.source}, {line.basis.value}, {line.as_of}" if line.basis else ""
        lines += _block(f"{line.name}: {cost}", (step,) if step else (), source, width)
    if quoted.usd is not None:
        low, mid, high = (words.dollars(each) for each in (quoted.usd.low, quoted.usd.mid, quoted.usd.high))
        lines += _block(f"total: ${mid}, from ${low} to ${high}", ("the sum of the lines above",), "", width)
    return lines


def _block(title: str, steps: tuple[str, ...], source: str, width: int) -> list[str]:
    """One number: what it is, how it came about, where from."""
    lines = wrapped(f"  {title}", width)
    for step in steps:
        lines += wrapped(f"      {step}", width)
    if source:
        lines += wrapped(f"      source: {source}", width)
    return lines
