"""The meter of a running job next to its quote: as a line, and as the key `meter` of slipway.status/1."""

from decimal import Decimal

from launcher.answers import lines, words
from launcher.model.meter import Meter, SpotNow, Terms
from launcher.model.money import Range, UsdRange
from launcher.model.units import HOUR_S, duration_text, number_of
from launcher.records.document import fill_record, json_object

SELDOM = 0.01
"""Expected interruptions below which the number says nothing."""


@json_object
class MeterDocument:
    """The current state of a job next to its quote."""

    step: int | None
    steps: int | None
    tokens: int | None
    tokens_per_s: float | None
    mfu: float | None
    hours_left: Range | None
    hours: float
    usd: Decimal | None
    forecast_usd: UsdRange | None
    spot: SpotNow | None
    interruptions: int
    next_checkpoint_s: float | None
    warnings: tuple[str, ...]
    quoted: Terms

    @classmethod
    def of(cls, meter: Meter) -> "MeterDocument":
        """The document of a meter."""
        return fill_record(
            cls,
            meter,
            hours_left=meter.left_h,
            forecast_usd=meter.forecast,
            warnings=tuple(meter.warnings.values()),
        )


def line(meter: Meter, *, bar: bool) -> str:
    """The meter line, without unknown values. `bar` draws the progress."""
    parts = [*_steps(meter, bar=bar), *_rate(meter), *_end(meter), *_dollars(meter), *_losses(meter)]
    return " · ".join(parts)


def _steps(meter: Meter, *, bar: bool) -> list[str]:
    if meter.step is None:
        return []
    if not meter.steps:
        return [f"step {meter.step:,}"]
    share = min(1.0, meter.step / meter.steps)
    drawn = f"{lines.bar(share)} " if bar else ""
    return [f"{drawn}step {meter.step:,} of {meter.steps:,} ({share:.0%})"]


def _rate(meter: Meter) -> list[str]:
    if meter.tokens_per_s is None:
        return []
    quoted = meter.quoted.tokens_per_s
    quoted_text = f", quoted {quoted.mid:,.0f}" if quoted is not None else ""
    mfu = f", MFU {meter.mfu:.2f}" if meter.mfu is not None else ""
    return [f"{meter.tokens_per_s:,.0f} tokens/s{quoted_text}{mfu}"]


def _end(meter: Meter) -> list[str]:
    remaining = meter.left_h
    if remaining is None:
        return []
    low, mid, high = (duration_text(hours * HOUR_S) for hours in (remaining.low, remaining.mid, remaining.high))
    span = words.between(low, high)
    waits = ", once the next attempt begins" if meter.waits else ""
    return [f"done in {mid}" + (f" ({span})" if span else "") + waits]


def _dollars(meter: Meter) -> list[str]:
    if meter.usd is None:
        return []
    parts = [f"${words.dollars(meter.usd)} so far"]
    quoted, forecast = meter.quoted, meter.forecast
    if forecast is not None:
        parts.append(f"forecast ${words.dollars(forecast.mid)}")
    if quoted.usd is not None:
        parts.append(f"quoted {words.cost(quoted.usd)}")
    if quoted.budget_usd is not None:
        parts.append(f"{quoted.budget_name} ${words.dollars(quoted.budget_usd)}")
    return [", ".join(parts), *_spot(meter)]


def _spot(meter: Meter) -> list[str]:
    """The current spot price next to the quoted one, and its time; an unknown price is a word."""
    if meter.spot is None:
        return []
    if meter.spot.usd_per_hour is None:
        return [f"spot now: {meter.spot.note}"]
    quoted = meter.quoted.usd_per_hour
    quoted_text = f", quoted ${words.dollars(quoted)}" if quoted is not None else ""
    return [f"spot now ${words.dollars(meter.spot.usd_per_hour)} an hour ({meter.spot.note}){quoted_text}"]


def _expected_text(count: float) -> str:
    """A number of interruptions, without an exponent.

    >>> _expected_text(0.84), _expected_text(9.2e-05), _expected_text(0)
    ('0.84', 'under 0.01', '0')
    """
    return "under 0.01" if 0 < count < SELDOM else f"{count:.2g}"


def _losses(meter: Meter) -> list[str]:
    expected = meter.quoted.interruptions
    lost = []
    if meter.interruptions or expected is not None:
        count = number_of(meter.interruptions, "interruption")
        lost.append(count + (f", {_expected_text(expected)} expected" if expected is not None else ""))
    until = meter.next_checkpoint_s
    if until is not None:
        lost.append(
            f"next checkpoint in {duration_text(until)}" if until > 0 else f"checkpoint {duration_text(-until)} late"
        )
    return lost
