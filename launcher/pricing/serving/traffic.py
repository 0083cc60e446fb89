"""Traffic over a day in words: requests of a month, and the instances that they need."""

from dataclasses import replace

from launcher.model.endpoint import FILLED, rollout_of
from launcher.model.fleet import (
    AWAKE_H,
    DEPLOYMENT_H,
    DEPLOYMENTS_PER_MONTH,
    SECONDS_PER_HOUR,
    Fleet,
    Hosting,
    served_per_s,
)
from launcher.model.money import Assumption
from launcher.model.schedule import hours_of_day, timezones
from launcher.model.serving import ServingEstimate
from launcher.model.units import HOURS_PER_MONTH
from launcher.model.workload import HOURS_A_DAY, ServingWorkload


def requests_per_month(workload: ServingWorkload) -> float:
    """Served requests in a month of 730 hours."""
    return sum(served_per_s(workload)) / HOURS_A_DAY * SECONDS_PER_HOUR * HOURS_PER_MONTH


def requests_text(count: float) -> str:
    """A number of requests to three digits.

    >>> requests_text(17_520_000.0), requests_text(1_234.4), requests_text(2.51e9)
    ('17.5 million', '1,234', '2.51 billion')
    """
    if count >= 1e9:  # noqa: PLR2004 - a billion
        return f"{count / 1e9:.3g} billion"
    return f"{count / 1e6:.3g} million" if count >= 1e6 else f"{count:,.0f}"  # noqa: PLR2004 - a million


def rollout_text(workload: ServingWorkload, hosting: Hosting) -> str:
    """How a new version replaces the old one, in words."""
    return "pods one after the other" if hosting.mode is None else rollout_of(workload, hosting.mode).value


def fleet_lines(
    serve: ServingWorkload, estimate: ServingEstimate, load: Fleet, hosting: Hosting
) -> tuple[Assumption, ...]:
    """The instances that the traffic needs, as lines of the quote."""
    peak = load.instances.most
    lines = [
        Assumption(
            name="traffic", value=f"{requests_per_month(serve):,.0f}", unit="requests a month", source="workload.serve"
        ),
        Assumption(
            name="instances",
            value=f"{load.instances.mean:.3g} on average, {load.instances.least:.3g} to {peak}",
            unit="",
            source=f"hour by hour, each filled to {FILLED:.0%} of {estimate.requests_per_s:.3g} requests/s",
        ),
        Assumption(
            name="deployments",
            value=f"{DEPLOYMENTS_PER_MONTH:g} a month of {DEPLOYMENT_H:g} h",
            unit=rollout_text(serve, hosting)
            + (": old and new version run together" if hosting.mode is not None else ""),
            source="assumption, not measured",
        ),
    ]
    if serve.schedule and hosting.mode is not None:
        lines.append(_clock(serve))
    if not serve.min_instances:
        lines.append(
            Assumption(
                name="an instance that was woken stays for",
                value=f"{AWAKE_H:g}",
                unit=f"h, of {HOURS_PER_MONTH:g} h a month",
                source="assumption, not measured",
            )
        )
    return tuple(lines)


def _clock(serve: ServingWorkload) -> Assumption:
    ranges, monthly_requests = hours_of_day(serve.schedule), requests_per_month(replace(serve, schedule=()))
    slots = [slot for hour in ranges for slot in hour]
    spans = dict.fromkeys(f"{slot.least} to {slot.most}" for slot in sorted(slots, key=lambda item: item[1:]))
    closed = sum(slot.share for slot in slots if not slot.most) / HOURS_A_DAY
    away = monthly_requests - requests_per_month(serve)
    text = f"closed for {closed:.0%} of the time" if closed else "never closed"
    if away:
        text += f", when {away:,.0f} requests a month are not served, nor counted on Bedrock"
    return Assumption(
        name="schedule",
        value=", ".join(spans) + " instances by the clock",
        unit=text,
        source=f"workload.serve.schedule, hours of the day in {timezones(serve.schedule)[0]}",
    )
