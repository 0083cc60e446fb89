"""The pictures of README and site: the screen and the page of `slipway plan`, at the prices of a fixed day.

    python -m benchmarks.picture

It writes docs/images/plan.svg and docs/images/plan.html. Both are drawn by the code of the command from the shipped
catalog, so that they change only with the catalog, the estimate or the screen; a test compares them.
"""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from xml.sax.saxutils import escape

from launcher.answers import plan as screen
from launcher.answers.html import plan as plan_page
from launcher.pricing.priced import Priced
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
PLAN = Path("examples/open/llama31-8b-sft.yaml")
NOW, PRICES = datetime(2026, 11, 20, 9, tzinfo=UTC), date(2026, 11, 20)
COLUMNS = 88
CHARACTER, LINE, BORDER, BAR = 8.4, 20, 22, 30
"""Pixels: the width of a character, the height of a line, the space around the text, the height of the title bar."""
HEADINGS = ("can be launched now", "cheaper, once prices are refreshed")
STYLE = (
    "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d5dbe3}"
    "text{white-space:pre}"
    ".heading{fill:#ffffff;font-weight:600}.command{fill:#7cc7ff}.soft{fill:#8b97a6}"
)


def priced() -> Priced:
    """The plan of the pictures, priced; its path is relative to the root of the repository.

    The current folder must be that root.
    """
    return price(PLAN, NOW, PriceOptions(prices_as_of=PRICES))


def svg(lines: Sequence[str]) -> str:
    """A terminal with these lines, as a picture that loads nothing."""
    width = round(2 * BORDER + CHARACTER * max(map(len, lines)))
    height = BAR + 2 * BORDER + LINE * len(lines) - LINE // 2
    size = f'width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size} role="img">',
            "<title>slipway plan</title>",
            f"<style>{STYLE}</style>",
            f'<rect {size} rx="10" fill="#141a22"/>',
            *(f'<circle cx="{BORDER + 18 * at}" cy="20" r="6" fill="#3a4656"/>' for at in range(3)),
            *_texts(lines),
            "</svg>\n",
        ]
    )


def _texts(lines: Sequence[str]) -> Iterator[str]:
    for at, line in enumerate(lines):
        if text := line.strip():
            left = BORDER + CHARACTER * (len(line) - len(line.lstrip()))
            # The length is given, so that columns stay in line in any monospaced font.
            place = f'x="{left:.1f}" y="{BAR + BORDER + LINE * at}" textLength="{CHARACTER * len(text):.1f}"'
            yield f'<text class="{_kind(text)}" xml:space="preserve" {place}>{escape(text)}</text>'


def _kind(text: str) -> str:
    if text.startswith(("$ ", "next: ")):
        return "command"
    return "heading" if text.startswith(HEADINGS) else "soft" if text[0].isdigit() and ": --all." in text else "plain"


def picture() -> str:
    """The first screen of `slipway plan`."""
    shown = screen.page(priced(), COLUMNS, everything=False)
    return svg([f"$ slipway plan {PLAN} --prices-as-of {PRICES}", *shown])


def page() -> str:
    """The page of `slipway plan --html`."""
    return plan_page.page(priced(), None)


def main() -> None:
    """Write the pictures."""
    os.chdir(ROOT)
    IMAGES.mkdir(exist_ok=True)
    for name, text in (("plan.svg", picture()), ("plan.html", page())):
        (IMAGES / name).write_text(text, encoding="utf-8")
        print(f"docs/images/{name}")


if __name__ == "__main__":
    main()
