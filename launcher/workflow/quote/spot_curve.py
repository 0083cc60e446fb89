"""The total of a spot quote at interruption rates other than the assumed one."""

from pathlib import Path

from launcher.model.quote import Quote
from launcher.pricing.priced import Priced
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.sweep import sweep_request

KEY = "purchase.interruptions_per_node_hour"
LEAST, MOST, STEPS = 0.0003, 10.0, 16


def spot_curve(priced: Priced, quoted: Quote, options: PriceOptions) -> tuple[tuple[float, float, float, float], ...]:
    """Interruptions per node-hour, each with the low, middle and high total; empty if the quote is not on spot.

    The range ends at twice the rate at which spot stops paying, if such a rate exists.
    """
    if quoted.spot is None or quoted.usd is None or quoted.serving is not None:
        return ()
    nodes = quoted.plan.place.nodes
    edge = quoted.spot.break_even_interruptions_per_hour
    most = min(MOST, 2 * edge / nodes) if edge else 50 * quoted.spot.interruptions_per_hour / nodes
    most = max(most, LEAST * 10)
    rates = tuple(round(LEAST + (most - LEAST) * (step / STEPS) ** 2, 6) for step in range(STEPS + 1))
    request = quoted.plan.request
    result = sweep_request(Path(priced.path), request, priced.catalog, [(KEY, rates)], now=priced.now, options=options)
    points = []
    for point in result.points:
        usd = point.best.usd if point.best is not None else None
        if usd is not None:
            points.append((float(point.values[KEY]), float(usd.low), float(usd.mid), float(usd.high)))
    return tuple(points)
