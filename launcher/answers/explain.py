"""`--explain ID`: each number of a row, step by step, with its source."""

from launcher.answers import words
from launcher.answers.lines import fold
from launcher.answers.range_causes import why_wide
from launcher.model.enums import PurchaseOption
from launcher.model.money import Price
from launcher.model.quote import Quote
from launcher.pricing.hazard import STRESS
from launcher.pricing.priced import Priced

PERCENTILES = "10th, 50th and 90th percentile of one joint distribution"


def page(priced: Priced, rank: int, width: int) -> list[str]:
    """The explanation of a row, to be read from top to bottom."""
    quoted = priced.quote(rank)
    place, hours = quoted.plan.place, quoted.hours
    lines = [
        "",
        (
            f"  {priced.short_id(rank)}: {words.place_instances(place)}, {words.option(place)}"
            f" in {place.az_id or place.region}"
        ),
        "",
    ]
    for assumption in quoted.assumptions:
        lines += _block(
            f"{assumption.name}: {assumption.amount}",
            assumption.steps,
            assumption.source,
            width,
        )
    hosted = place.option is PurchaseOption.BEDROCK
    if isinstance(quoted.price, Price):
        price = quoted.price
        value = f"price of one {'hour of the month' if hosted else 'instance-hour'}: ${words.exact(price.usd)}"
        note = (price.note,) if price.note else ()
        lines += _block(value, note, words.origin(price.source, price.basis.value, price.as_of), width)
    spread = f"{words.hours(hours.low)} to {words.hours(hours.high)}"
    if quoted.serving is None:
        lines += _block(f"hours of the job: {words.hours(hours.mid)} ({spread})", _hours(quoted), "", width)
    for line in quoted.components:
        cost = f"${line.usd:f}" if line.usd is not None else f"unpriced: {line.unpriced}"
        unit = line.unit_price_usd
        step = f"{line.quantity:.6g} {line.unit} x ${words.exact(unit)}" if unit is not None else ""
        source = words.origin(line.source, line.basis.value, line.as_of) if line.basis else ""
        lines += _block(f"{line.name}: {cost}", (step,) if step else (), source, width)
    if quoted.usd is not None:
        low, mid, high = (words.dollars(usd) for usd in (quoted.usd.low, quoted.usd.mid, quoted.usd.high))
        lines += _block(f"total: ${mid}, from ${low} to ${high}", _total(quoted), "", width)
    return lines


def _hours(quoted: Quote) -> tuple[str, ...]:
    factors = "speed, failures and restarts"
    spot = quoted.spot
    if spot is None:
        return (f"{PERCENTILES} of {factors}",)
    edge = spot.break_even_interruptions_per_hour
    paying = "no candidate that is not on spot has a price"
    if edge is not None:
        paying = f"at {edge:.3g} interruptions an hour it costs what the cheapest other way does"
    return (
        f"{PERCENTILES} of {factors}, and interruptions",
        f"{spot.interruptions_expected:.3g} interruptions expected at {spot.interruptions_per_hour:.3g} an hour",
        paying,
    )


def _total(quoted: Quote) -> tuple[str, ...]:
    """What the total's percentiles are of, its mean, and the stress case."""
    if quoted.serving is not None or quoted.usd is None:
        return ("the total of the lines above",)
    price = ", the spot price while the job runs" if quoted.spot is not None else ""
    beyond = ", and an overrun of the offering" if quoted.overrun_probability is not None else ""
    steps = [f"{PERCENTILES} of hours, start-up{price}{beyond}; the 50th is the total of the lines above"]
    if quoted.usd.mean is not None:
        steps.append(f"on average ${words.dollars(quoted.usd.mean)}")
    causes = quoted.range_causes
    if causes is not None:
        steps.append(why_wide(quoted))
        if causes.stress is not None:
            steps.append(f"{STRESS}: ${words.dollars(causes.stress.usd)}")
    return tuple(steps)


def _block(title: str, steps: tuple[str, ...], source: str, width: int) -> list[str]:
    lines = fold(f"  {title}", width)
    for step in steps:
        lines += fold(f"      {step}", width)
    if source:
        lines += fold(f"      source: {source}", width)
    return lines
