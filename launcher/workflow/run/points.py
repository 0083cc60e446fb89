"""What a trainer reported, attempt by attempt."""

from collections.abc import Iterable, Iterator

from launcher.agent.forecast import Point, point_of
from launcher.agent.metrics import figures_in


def points_of(lines: Iterable[bytes]) -> Iterator[list[Point]]:
    """The lines of metrics that have a step and seconds, a list an attempt: each begins to count its seconds anew.

    >>> found = points_of([b'{"step": 1, "seconds": 5}', b'{"step": 2, "seconds": 9}', b'{"step": 2, "seconds": 4}'])
    >>> [[each.step for each in attempt] for attempt in found]
    [[1, 2], [2]]
    """
    found: list[Point] = []
    for line in lines:
        figures, _ = figures_in(line)
        point = point_of(figures)
        if point is None:
            continue
        if found and not point.follows(found[-1]):
            yield found
            found = []
        found.append(point)
    if found:
        yield found
