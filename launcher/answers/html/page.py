"""One HTML file that loads nothing from any host: style, a small script, figures and tables."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from html import escape

from launcher.answers.html.svg import Plot
from launcher.answers.table import Column, Row
from launcher.model.money import UsdRange

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'"
STYLE = """
:root{--ink:#1b1f24;--soft:#57606a;--paper:#fff;--line:#d8dee4;--a:#0a5fb4;--b:#b35900;--c:#1a7f37;--d:#8250df;
--bad:#c0262d}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9da7b3;--paper:#0d1117;--line:#30363d;--a:#58a6ff;
--b:#f0a04b;--c:#56d364;--d:#c297ff;--bad:#ff7b72}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:75rem;padding:1rem;font:16px/1.5 system-ui,sans-serif;color:var(--ink);
background:var(--paper)}
h1{font-size:1.4rem;margin:.2rem 0 .6rem}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}
p,li,figcaption{max-width:60rem;margin:.3rem 0;overflow-wrap:anywhere}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(12rem,1fr));gap:.8rem;margin:.8rem 0 1.2rem}
.card{border:1px solid var(--line);border-radius:.6rem;padding:.7rem .9rem}
.card h2{margin:0;font-size:.8rem;color:var(--soft);font-weight:600;text-transform:uppercase;letter-spacing:.04em}
.card p{margin:.15rem 0 0;font-size:.9rem;color:var(--soft)}
.card .big{font-size:1.5rem;color:var(--ink);line-height:1.25}
details{margin:1.2rem 0}summary{cursor:pointer;font-weight:600;padding:.3rem 0}
ul{max-width:60rem;margin:.3rem 0;padding-left:1.2rem}
.bar.off{stroke:var(--soft)}
.lead{font-size:1.1rem}.soft,figcaption{color:var(--soft);font-size:.9rem}
figure{margin:0;max-width:60rem}figure>svg{width:100%;display:block;overflow:visible}
.keys{display:flex;flex-wrap:wrap;gap:.1rem 1.2rem;color:var(--soft);font-size:.9rem}
.keys i{display:inline-block;width:1.4rem;margin-right:.4rem;vertical-align:middle;border-top:3px solid var(--a)}
.keys i.b{border-color:var(--b);border-top-style:dashed}.keys i.c{border-color:var(--c);border-top-style:dotted}
.keys i.d{border-color:var(--d)}.keys i.mark{border-color:var(--soft);border-top-style:dashed}
.keys i.bad{border-color:var(--bad)}
.keys i:is(.dot,.front,.refused){width:.7rem;height:.7rem;border:2px solid var(--a);border-radius:50%;
background:var(--a)}
.keys i.front{background:var(--b);border-color:var(--b)}.keys i.refused{background:none;border-color:var(--soft)}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);font-size:.9rem}
th,td{padding:.3rem .5rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;overflow-wrap:anywhere}
#facts :is(th,td):not(:last-child){overflow-wrap:normal}
.wide td:not(.long,[colspan]){white-space:nowrap}
tr:has(+.more) td{border-bottom:0}.more td{padding-top:0;color:var(--soft);font-size:.85rem}
.n{text-align:right;white-space:nowrap}
th button{font:inherit;font-weight:600;color:inherit;background:none;border:0;padding:0;cursor:pointer}
th button::after{content:" \\2195";color:var(--soft)}
th[aria-sort=ascending] button::after{content:" \\2191"}th[aria-sort=descending] button::after{content:" \\2193"}
@media screen and (44rem<width<60rem){.wide{font-size:.8rem}.wide th,.wide td{padding:.3rem .2rem;overflow-wrap:normal}
.wide th{white-space:normal}}
@media screen and (max-width:44rem){.wide,.wide tbody,.wide caption{display:block}
.wide thead tr{display:flex;flex-wrap:wrap}
.wide th,.wide td{border:0;padding:.1rem .4rem;text-align:left;white-space:normal!important}
.wide tbody tr{display:grid;grid-template-columns:repeat(4,1fr);border-top:1px solid var(--line);padding:.3rem 0}
.wide tbody tr.more{display:block;border:0;padding-top:0}.more td:empty{display:none}
.wide td[data-t]::before{content:attr(data-t);display:block;color:var(--soft);font-size:.75rem}
.wide td.long{grid-column:span 2}}
label{display:block;margin:.6rem 0}input[type=range]{width:min(24rem,100%);vertical-align:middle;accent-color:var(--a)}
text{fill:var(--ink);font:13px system-ui,sans-serif}.tick{fill:var(--soft);font-size:12px}.axis{fill:var(--soft)}
.head{font-weight:600}.head,.name{paint-order:stroke;stroke:var(--paper);stroke-width:6px;stroke-linejoin:round}
.grid{stroke:var(--line)}.bar{stroke:var(--a);stroke-width:7;stroke-linecap:round;opacity:.35}
.dot{fill:var(--a)}.refused{fill:none;stroke:var(--soft);stroke-width:2}.front{fill:var(--b)}
.box{fill:var(--a)}.g-storage{fill:var(--c)}.g-network{fill:var(--b)}.g-other{fill:var(--d)}
.line,.band{vector-effect:non-scaling-stroke}
.line{fill:none;stroke:var(--a);stroke-width:2.5}.line.b{stroke:var(--b);stroke-dasharray:7 4}
.line.c{stroke:var(--c);stroke-dasharray:2 4}.line.d{stroke:var(--d)}
.band{fill:var(--a);opacity:.14;stroke:none}.band.b{fill:var(--b)}.band.c{fill:var(--c)}
.mark{stroke:var(--soft);stroke-dasharray:3 3}.mark.bad{stroke:var(--bad);stroke-width:2}.mark.save{opacity:.35}
@media print{body{max-width:none;font-size:11pt}label,th button::after{display:none}figure,tr{break-inside:avoid}
.scroll{overflow:visible}table{font-size:8pt}th,td{padding:.2rem .25rem}.wide td{white-space:normal!important}
.n{white-space:normal}}
"""
SCRIPT = """
"use strict";
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th"), table = head.closest("table"), body = table.tBodies[0];
    const up = head.getAttribute("aria-sort") !== "ascending", column = head.cellIndex;
    for (const each of head.parentNode.children) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => {
      const cell = row.cells[column], raw = cell.dataset.v ?? cell.textContent.trim();
      const number = Number(raw);
      return raw !== "" && !Number.isNaN(number) ? number : raw;
    };
    const rows = [...body.querySelectorAll("tr:not(.more)")], below = new Map();
    for (const row of rows) if (row.nextElementSibling?.matches(".more")) below.set(row, row.nextElementSibling);
    rows.sort((a, b) => {
      const x = key(a), y = key(b);
      if (x === "" || y === "") return (x === "") - (y === "");
      const plain = typeof x === "number" && typeof y === "number";
      return (plain ? x - y : String(x).localeCompare(String(y))) * (up ? 1 : -1);
    });
    body.append(...rows.flatMap(row => below.has(row) ? [row, below.get(row)] : [row]));
  });
}
const slider = document.getElementById("scenario");
if (slider) {
  const words = document.getElementById("scenario-words");
  const between = (low, mid, high, t) => t <= 50 ? low + (mid - low) * t / 50 : mid + (high - mid) * (t - 50) / 50;
  const show = () => {
    const t = Number(slider.value);
    const far = Math.abs(2 * t - 100), side = t < 50 ? "low" : "high";
    words.textContent = t === 50 ? "middle" : `${far} % of the way to ${side}`;
    for (const each of document.querySelectorAll("[data-low]")) {
      const d = each.dataset;
      if (each.tagName === "circle") {
        each.setAttribute("cx", between(Number(d.xlow), Number(d.xmid), Number(d.xhigh), t) + "%");
      } else {
        const usd = between(Number(d.low), Number(d.mid), Number(d.high), t);
        each.dataset.v = usd;
        const digits = usd < 100 ? 2 : 0;
        each.textContent = usd.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
      }
    }
  };
  slider.addEventListener("input", show);
}
"""
MAX_NARROW = 4
"""Columns of a table that fits a phone's screen unchanged."""
LONG = 12
"""Characters of a cell above which a phone shows it at twice the width."""
SLIDER = (
    '<label for="scenario">Scenario, low to high: <input id="scenario" type="range" min="0" max="100" '
    'value="50" step="1"> <output id="scenario-words" for="scenario">middle</output></label>'
)
BEGIN = '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
"""The beginning of every page."""


def table(
    caption: str,
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    *,
    key: str,
    spans: Mapping[str, Callable[[Row], UsdRange | None]] | None = None,
    below: Callable[[Row], str] | None = None,
) -> str:
    """A sortable table: `spans` are, by title, the columns whose dollars the scenario changes.

    `below` is a row's note, on a separate line. A narrow screen shows each row of a wide table as a block.
    """
    head = "".join(
        f'<th scope="col"{"" if column.align == "left" else " class=n"}>'
        f'<button type="button">{escape(column.title)}</button></th>'
        for column in columns
    )
    moved = spans or {}
    body = "".join(
        f"<tr>{''.join(_cell(column, row, moved.get(column.title)) for column in columns)}</tr>"
        + (_below(below(row), len(columns)) if below else "")
        for row in rows
    )
    kind = ' class="wide"' if len(columns) > MAX_NARROW else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table id="{key}"{kind}>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _below(note: str, columns: int) -> str:
    return f'<tr class="more"><td></td><td colspan="{columns - 1}">{escape(note)}</td></tr>' if note else ""


def _cell(column: Column[Row], row: Row, span: Callable[[Row], UsdRange | None] | None) -> str:
    text = column.cell(row)
    data = f' data-t="{escape(column.title)}"'
    data += "" if column.value is None else f' data-v="{_sorted_by(column.value(row))}"'
    usd = None if span is None else span(row)
    if usd is not None:
        data += f' data-low="{usd.low:f}" data-mid="{usd.mid:f}" data-high="{usd.high:f}"'
    kind = " ".join((["n"] if column.align != "left" else []) + (["long"] if len(text) > LONG else []))
    shown = escape(text).replace("/month", "/<wbr>month")  # a narrow cell breaks there, not within the word
    return f"<td{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}{data}>{shown}</td>"


def _sorted_by(value: float | Decimal | None) -> str:
    if value is None or isinstance(value, int):
        return "" if value is None else str(value)
    return f"{value:f}" if isinstance(value, Decimal) else f"{value:.4f}"


def cards(items: Sequence[tuple[str, str, str]]) -> str:
    """Boxes side by side: the title, the value and a sentence of each."""
    boxes = "".join(
        f'<div class="card"><h2>{escape(title)}</h2><p class="big">{escape(value)}</p><p>{escape(text)}</p></div>'
        for title, value, text in items
    )
    return f'<div class="cards">{boxes}</div>'


def bullets(title: str, sentences: Sequence[str]) -> str:
    """A heading with one bullet for each sentence; nothing without sentences."""
    items = "".join(f"<li>{escape(sentence.strip())}</li>" for sentence in sentences)
    return f"<h2>{escape(title)}</h2><ul>{items}</ul>" if items else ""


def collapsible_section(title: str, body: str) -> str:
    """A part of the page that opens on a click."""
    return f"<details><summary>{escape(title)}</summary>{body}</details>"


def paragraphs(lines: Sequence[str], kind: str = "") -> str:
    """One paragraph per line."""
    return "".join(f'<p class="{kind}">{escape(line.strip())}</p>' for line in lines if line.strip())


def document(title: str, parts: Sequence[str | Plot]) -> str:
    """The complete file."""
    body = "\n".join(part.text() if isinstance(part, Plot) else part for part in parts)
    return (
        f"{BEGIN}"
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{STYLE}</style></head>\n'
        f"<body><main><h1>{escape(title)}</h1>\n{body}\n</main><script>{SCRIPT}</script></body></html>\n"
    )
