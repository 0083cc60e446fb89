"""What a trainer reported, attempt by attempt."""

from collections.abc import Iterable, Iterator

from launcher.agent.metrics import figures_in
from launcher.model.meter import Point


def points_of(lines: Iterable[bytes]) -> Iterator[list[Point]]:
    """The lines of metrics that have a step and seconds, a list an attempt: each begins to count its seconds anew.

    >>> found = points_of([b'{"step": 1, "seconds": 5}', b'{"step": 2, "seconds": 9}', b'{"step": 2, "seconds": 4}'])
    >>> [[each.step for each in attempt] for attempt in found]
    [[1, 2], [2]]
    """
    found: list[Point] = []
    for line in lines:
        figures, _ = figures_in(line)
        if not {"step", "seconds"} <= figures.keys():
            continue
        point = Point(step=int(figures["step"]), tokens=figures.get("tokens"), seconds=float(figures["seconds"]))
        if found and (point.seconds <= found[-1].seconds or point.step <= found[-1].step):
            yield found
            found = []
        found.append(point)
    if found:
        yield found
