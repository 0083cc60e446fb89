"""The monthly cost of serving at other traffic, on Bedrock, Neuron and GPUs."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.model.quote import Quote
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.sweep import Axis, sweep_request

if TYPE_CHECKING:
    from launcher.workflow.quote.compare_serving import ServingComparison

FLAT, HOURLY = "workload.serve.requests_per_s", "workload.serve.hourly_requests_per_s"
SHARES = (0.05, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0)
"""Shares of the plan's own traffic."""
Curve = tuple[str, str, tuple[tuple[float, float, float, float], ...]]


def traffic_curves(comparison: "ServingComparison", options: PriceOptions) -> tuple[Curve, ...]:
    """For each side its name, a class, and requests a second with low, middle and high dollars a month.

    Purchase option and place stay the same. Hourly traffic keeps its shape; the curve uses its mean.
    """
    serve = comparison.request.workload.serve
    if serve is None:
        return ()
    hourly = serve.hourly_requests_per_s
    if hourly:
        axis: Axis = HOURLY, tuple([round(rate * share, 6) for rate in hourly] for share in SHARES)
    elif serve.requests_per_s:
        axis = FLAT, tuple(round(serve.requests_per_s * share, 6) for share in SHARES)
    else:
        return ()
    sides = (
        ("Bedrock", "a", comparison.sides.hosted),
        ("Neuron", "b", comparison.sides.neuron),
        ("GPU", "c", comparison.sides.gpu),
    )
    curves = []
    for name, kind, quoted in sides:
        points = () if quoted is None else _points(comparison, quoted, axis, options)
        if len(points) > 1:
            curves.append((name, kind, points))
    return tuple(curves)


def _points(
    comparison: "ServingComparison", quoted: Quote, axis: Axis, options: PriceOptions
) -> tuple[tuple[float, float, float, float], ...]:
    """One side at each rate, with type and place pinned, and instance count and layout open."""
    place = quoted.plan.place
    request = comparison.request
    target = replace(
        request.target, region=(place.region,), instance_type=(place.instance_type,) if place.instance_type else None
    )
    pinned = replace(request, target=target, purchase=replace(request.purchase, option=(place.option,)))
    swept = sweep_request(
        Path(comparison.priced.path),
        pinned,
        comparison.priced.catalog,
        [axis],
        now=comparison.priced.now,
        options=options,
    )
    points = []
    for point in swept.points:
        usd = point.best.usd if point.best is not None else None
        if usd is not None:
            points.append((_mean(point.values[axis[0]]), float(usd.low), float(usd.mid), float(usd.high)))
    return tuple(points)


def _mean(rate: float | list[float]) -> float:
    return sum(rate) / len(rate) if isinstance(rate, list) else float(rate)
