"""The meter of a running job beside its quote: as a line, and as the key `meter` of slipway.status/1."""

from launcher.answers import lines, words
from launcher.model.meter import Meter
from launcher.model.units import HOUR_S, spoken
from launcher.records.codec import Json, picked

METER = (
    "step steps tokens tokens_per_s mfu hours_left=left_h hours usd forecast_usd=forecast spot interruptions "
    "next_checkpoint_s warnings"
)
QUOTED = "usd usd_per_hour hours tokens_per_s interruptions budget_usd"


def document(found: Meter | None) -> Json | None:
    """One moment of a job beside its quote; None for a run without one."""
    if found is None:
        return None
    warnings = {"warnings": list(found.warnings.values())}
    return picked(found, METER) | warnings | {"quoted": picked(found.quoted, QUOTED)}


def line(found: Meter, *, bar: bool) -> str:
    """The line; what is not known is left out. `bar` draws how far it has come."""
    parts = [*_steps(found, bar=bar), *_rate(found), *_end(found), *_dollars(found), *_losses(found)]
    return " · ".join(parts)


def _steps(found: Meter, *, bar: bool) -> list[str]:
    if found.step is None:
        return []
    if not found.steps:
        return [f"step {found.step:,}"]
    share = min(1.0, found.step / found.steps)
    drawn = f"{lines.bar(share)} " if bar else ""
    return [f"{drawn}step {found.step:,} of {found.steps:,} ({share:.0%})"]


def _rate(found: Meter) -> list[str]:
    if found.tokens_per_s is None:
        return []
    quoted = found.quoted.tokens_per_s
    beside = f", quoted {quoted.mid:,.0f}" if quoted is not None else ""
    mfu = f", MFU {found.mfu:.2f}" if found.mfu is not None else ""
    return [f"{found.tokens_per_s:,.0f} tokens/s{beside}{mfu}"]


def _end(found: Meter) -> list[str]:
    left = found.left_h
    if left is None:
        return []
    low, mid, high = (spoken(each * HOUR_S) for each in (left.low, left.mid, left.high))
    span = words.between(low, high)
    return [f"done in {mid}" + (f" ({span})" if span else "")]


def _dollars(found: Meter) -> list[str]:
    if found.usd is None:
        return []
    parts = [f"${words.dollars(found.usd)} so far"]
    quoted, forecast = found.quoted, found.forecast
    if forecast is not None:
        parts.append(f"forecast ${words.dollars(forecast.mid)}")
    if quoted.usd is not None:
        span = words.spread(quoted.usd)
        parts.append(f"quoted ${words.dollars(quoted.usd.mid)}" + (f" ({span})" if span else ""))
    if quoted.budget_usd is not None:
        parts.append(f"budget ${words.dollars(quoted.budget_usd)}")
    return [", ".join(parts), *_spot(found)]


def _spot(found: Meter) -> list[str]:
    """What spot costs now beside what was quoted, and since when; a price that is not known is a word."""
    if found.spot is None:
        return []
    if found.spot.usd_per_hour is None:
        return [f"spot now: {found.spot.note}"]
    quoted = found.quoted.usd_per_hour
    beside = f", quoted ${words.dollars(quoted)}" if quoted is not None else ""
    return [f"spot now ${words.dollars(found.spot.usd_per_hour)} an hour ({found.spot.note}){beside}"]


def _losses(found: Meter) -> list[str]:
    expected = found.quoted.interruptions
    lost = []
    if found.interruptions or expected is not None:
        count = f"{found.interruptions} interruption{'' if found.interruptions == 1 else 's'}"
        lost.append(count + (f", {expected:.2g} expected" if expected is not None else ""))
    until = found.next_checkpoint_s
    if until is not None:
        lost.append(f"next checkpoint in {spoken(until)}" if until > 0 else f"checkpoint {spoken(-until)} late")
    return lost
