"""Plots as SVG text: scales with round ticks, marks, and a description for screen readers.

Horizontal positions are per cent of the plot's width, vertical ones are pixels: a plot fits narrow and wide screens.
"""

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from html import escape

from launcher.answers.words import cents
from launcher.model.record import record

START, END = 1.5, 95.0
LEFT_MARGIN = 10.0
"""The left end of lines in a plot with a vertical axis, right of the axis' labels."""
TOP, BOTTOM = 14.0, 44.0
WANTED_TICKS = 6
LOG_FROM = 12.0
"""Ratio of largest to smallest value above which an axis is logarithmic."""


@record
class Scale:
    """Maps values on one axis to positions between two ends of the plot."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The position of a value; an outside value is moved to the edge."""
        low, high, clamped = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, clamped = math.log(low), math.log(high), math.log(clamped)
        return self.start + (self.end - self.start) * ((clamped - low) / (high - low) if high > low else 0.5)

    def ticks(self) -> list[float]:
        """Round values between the ends.

        >>> Scale(low=0, high=97, start=0, end=1).ticks()
        [0.0, 20.0, 40.0, 60.0, 80.0]
        >>> Scale(low=8, high=2000, start=0, end=1, log=True).ticks()
        [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0]
        """
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            every = [digit * 10.0**power for power in range(first, last + 1) for digit in (1, 2, 5)]
            inside = [tick for tick in every if self.low <= tick <= self.high]
            return (
                inside if len(inside) <= WANTED_TICKS + 2 else [tick for tick in inside if f"{tick:e}".startswith("1")]
            )
        step = _step((self.high - self.low) / WANTED_TICKS)
        count = math.floor(self.high / step + 1e-9)
        return [round(step * index, 10) for index in range(math.ceil(self.low / step - 1e-9), count + 1)]


def _step(rough: float) -> float:
    """The next round step.

    >>> _step(16.1), _step(0.3), _step(0)
    (20.0, 0.5, 1.0)
    """
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return float(next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9)))


def scale_of(values: Iterable[float], start: float, end: float, *, zero: bool = False) -> Scale:
    """A scale that holds values; from zero if requested, logarithmic if the values lie far apart."""
    known = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if not zero and low > 0 and high / low >= LOG_FROM:
        return Scale(low=low / 1.15, high=high * 1.15, start=start, end=end, log=True)
    low = 0.0 if zero or low < high / 2 else low - (high - low) * 0.1
    return Scale(low=low, high=high * 1.05 if high > 0 else 1.0, start=start, end=end)


def short(value: float) -> str:
    """A number on an axis.

    >>> short(0.0), short(1500.0), short(2.5), short(0.012), short(3e6)
    ('0', '1,500', '2.5', '0.012', '3M')
    """
    if abs(value) >= 1e6:  # noqa: PLR2004 - a million
        return f"{value / 1e6:,.3g}M"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"  # noqa: PLR2004


def _tick(value: float, unit: str) -> str:
    """A number on an axis with its unit; dollars have no single decimal.

    >>> _tick(0.1, "$"), _tick(2.0, "$"), _tick(0.025, "$"), _tick(0.1, "")
    ('$0.10', '$2', '$0.025', '0.1')
    """
    text = short(value)
    one_decimal = text[-2:-1] == "."
    return f"{unit}{text}0" if unit == "$" and one_decimal else f"{unit}{text}"


@record
class Plot:
    """One figure: a heading, a description in words, its marks, its height, and a class and name for each key."""

    key: str
    title: str
    description: str
    body: str
    height: float
    caption: str = ""
    keys: Sequence[tuple[str, str]] = ()

    def text(self) -> str:
        """The figure."""
        key, title, description = escape(self.key), escape(self.title), escape(self.description)
        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        named = "".join(f'<span><i class="{kind}"></i>{escape(name)}</span> ' for kind, name in self.keys)
        keys = f'<p class="keys">{named}</p>' if named else ""
        return (
            f'<figure id="{key}"><h2>{title}</h2>{keys}<svg height="{self.height:g}" role="img" '
            f'aria-labelledby="{key}-t {key}-d"><title id="{key}-t">{title}</title>'
            f'<desc id="{key}-d">{description}</desc>{self.body}</svg>{caption}</figure>'
        )


def text_at(x: float, y: float, text: str, kind: str = "", anchor: str = "start", *, shift: float = 0) -> str:
    """Text at a position, `shift` pixels to its right."""
    moved = f' dx="{shift:g}"' if shift else ""
    return f'<text x="{x:.2f}%" y="{y:.1f}"{moved} class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line."""
    return f'<line x1="{x1:.2f}%" y1="{y1:.1f}" x2="{x2:.2f}%" y2="{y2:.1f}" class="{kind}"/>'


def dot(x: float, y: float, kind: str, *, data: str = "", label: str = "") -> str:
    """A round mark; `data` are attributes for the script or a test, `label` is shown under the mouse pointer."""
    inside = f"<title>{escape(label)}</title>" if label else ""
    return f'<circle cx="{x:.2f}%" cy="{y:.1f}" r="5" class="{kind}"{data}>{inside}</circle>'


def bar(y: float, end: float, height: float, kind: str, usd: Decimal) -> str:
    """A bar from the left edge with its dollars to the right of it."""
    width = max(0.2, end - START)
    return (
        f'<rect x="{START:g}%" y="{y:g}" width="{width:.2f}%" height="{height:g}" class="{kind}" data-usd="{usd:f}">'
        f"<title>${usd:,.2f}</title></rect>{text_at(START + width, y + height - 1, f'${cents(usd)}', 'tick', shift=6)}"
    )


def paths(height: float, drawn: Iterable[tuple[Sequence[tuple[float, float]], str]]) -> str:
    """Lines through points, each with its class, in a plot of the given height."""
    lines = "".join(
        f'<path d="M{"L".join(f"{x:.2f} {y:.1f}" for x, y in points)}" class="{kind}"/>'
        for points, kind in drawn
        if points
    )
    return f'<svg viewBox="0 0 100 {height:g}" preserveAspectRatio="none">{lines}</svg>'


def across(scale: Scale, top: float, bottom: float, title: str, unit: str = "") -> str:
    """The axis below a plot, with vertical grid lines."""
    parts = []
    for tick in scale.ticks():
        x = scale.at(tick)
        parts += [line(x, top, x, bottom, "grid"), text_at(x, bottom + 16, _tick(tick, unit), "tick", "middle")]
    return "".join((*parts, text_at((scale.start + scale.end) / 2, bottom + 36, title, "axis", "middle")))


def upright(scale: Scale, unit: str = "") -> str:
    """The axis at the side of a plot: horizontal grid lines, each with its value above its left end."""
    parts = []
    for tick in scale.ticks():
        y = scale.at(tick)
        parts += [line(0, y, 100, y, "grid"), text_at(0, y - 3, _tick(tick, unit), "tick")]
    return "".join(parts)


def lines_plot(
    key: str,
    title: str,
    series: Sequence[tuple[str, str, Sequence[tuple[float, float]]]],
    *,
    x_title: str,
    description: str,
    unit: str = "$",
    marks: Sequence[tuple[float, str, str]] = (),
    bands: Sequence[tuple[str, Sequence[tuple[float, float, float]]]] = (),
    caption: str = "",
    zero: bool = True,
    x_zero: bool = True,
) -> Plot:
    """Lines over one axis: series of a name, a class and points; marks are vertical lines with a class and words.

    `zero` and `x_zero`: the axis begins at zero; another axis is logarithmic if its values lie far apart.
    """
    height = 320.0
    bottom = height - BOTTOM
    every = [point for _, _, points in series for point in points]
    tall = [y for _, y in every] + [y for _, rows in bands for _, low, high in rows for y in (low, high)]
    wide = scale_of([x for x, _ in every] + [x for x, _, _ in marks], LEFT_MARGIN, END, zero=x_zero)
    high = scale_of(tall, bottom, TOP, zero=zero)
    drawn = [
        (
            [
                *((wide.at(x), high.at(top)) for x, _, top in rows),
                *((wide.at(x), high.at(low)) for x, low, _ in rows[::-1]),
            ],
            f"band {kind}",
        )
        for kind, rows in bands
    ]
    drawn += [([(wide.at(x), high.at(y)) for x, y in points], f"line {kind}") for _, kind, points in series]
    upright_marks = [line(wide.at(x), TOP, wide.at(x), bottom, f"mark {kind}") for x, kind, _ in marks]
    keys = [(f"line {kind}", name) for name, kind, _ in series]
    keys += dict.fromkeys((f"mark {kind}", label) for _, kind, label in marks if label)
    return Plot(
        key=key,
        title=title,
        description=description,
        body="".join([across(wide, TOP, bottom, x_title), upright(high, unit), *upright_marks, paths(height, drawn)]),
        height=height,
        caption=caption,
        keys=keys,
    )
