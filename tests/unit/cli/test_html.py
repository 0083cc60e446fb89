"""Every page in a real browser: no errors, no requests to a host, plots match the JSON, three widths."""

import itertools
import json
import re
import sys
from pathlib import Path

import pytest

from launcher.answers.html.page import table
from launcher.answers.table import Column
from launcher.cli import app
from launcher.records import run_folder
from tests.unit.cli.reports import QUOTE

# The pages are made once, which takes seconds.
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("pages")]
ROOT = Path(__file__).resolve().parents[3]
TRAIN, SERVE = ROOT / "examples/open/llama31-8b-sft.yaml", ROOT / "examples/serve/llama31-8b.yaml"
SWEEP = ["--sweep", "nodes=1,2,4", "--sweep", "precision=bf16,fp8"]
PAGES = {
    "plan": ["plan", str(TRAIN)],
    "serving-plan": ["plan", str(SERVE)],
    "quote": ["quote", str(TRAIN), "--pick", "4"],
    "compare": ["compare", str(TRAIN)],
    "serving-compare": ["compare", str(SERVE)],
    "report": ["report", "tiny"],
    "ledger": ["ledger", "--by", "name"],
    "sweep": ["plan", str(TRAIN), *SWEEP],
}


def type_command(*arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["slipway", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        app.main()
    return exit_info.value.code


def recorded_run(root):
    """A run of two attempts, the first interrupted, with what its trainer reported."""
    from datetime import UTC, datetime

    folder = run_folder.create("tiny", datetime(2026, 11, 20, 12, tzinfo=UTC), root)
    spans = [("12:00:00", "12:05:00", "spot-interruption", 0, 40), ("12:06:00", "12:10:00", "completed", 40, 80)]
    attempts = [
        {
            "started_at": f"2026-11-20T{began}+00:00",
            "ended_at": f"2026-11-20T{ended}+00:00",
            "exit_code": 0,
            "ended_by": why,
            "resumed_from_step": first,
            "last_step": last,
        }
        for began, ended, why, first, last in spans
    ]
    report = {
        "schema": "slipway.report/1",
        "name": "tiny",
        "status": "succeeded",
        "scheduler": "slurm",
        "simulated": False,
        "attempts": attempts,
        "quoted": {"usd": "12.5", "hours": 0.5, "usd_per_hour": "36", "prices_as_of": "2026-11-20"},
        "actual": {"hours": 0.15, "usd_at_quoted_rate": "5.4"},
        "stacks": [],
        "verified_resources": ["vpc <b>: yes"],
        "not_emulated": [],
    }
    folder.write_json("report.json", report)
    job = folder.path / "job"
    job.mkdir()
    steps = [
        (step, 60.0 * (step // 10 - (4 if step > 40 else 0)), step * 1000, 5.0 / step) for step in range(10, 90, 10)
    ]
    lines = [json.dumps({"step": s, "seconds": t, "tokens": n, "loss": loss}) for s, t, n, loss in steps]
    (job / "metrics.jsonl").write_text("\n".join(lines), encoding="utf-8")
    saved = {"event": "checkpoint-uploaded", "time": "2026-11-20T12:04:00Z", "attempt": 1, "step": 40}
    (job / "events.jsonl").write_text(json.dumps(saved) + "\n", encoding="utf-8")


def recorded_dollars(root):
    """Three runs that were quoted and used; two have a bill, one was in the sandbox."""
    from datetime import UTC, datetime

    for day, minutes, billed, simulated in ((3, 36, "11.9", False), (5, 90, "29.25", False), (9, 21, None, True)):
        folder = run_folder.create("llama", datetime(2026, 11, day, tzinfo=UTC), root)
        quote = QUOTE | {"target": "parallelcluster", "instance_type": "p5.48xlarge", "nodes": 1, "region": "us-east-2"}
        quote |= {"purchase_option": "spot", "usd_per_hour": "20", "serving": None}
        quote |= {"hours": {"low": 0.6, "mid": 1.0, "high": 1.9}}
        folder.write_json("quote.json", quote | {"usd": {"low": "10", "mid": "16.5", "high": "31"}})
        attempt = {"ended_by": "completed", "exit_code": 0, "resumed_from_step": 0, "last_step": 9}
        attempt["started_at"] = f"2026-11-{day:02}T00:00:00+00:00"
        attempt["ended_at"] = f"2026-11-{day:02}T{minutes // 60:02}:{minutes % 60:02}:00+00:00"
        report = {"schema": "slipway.report/1", "name": "llama", "status": "succeeded", "scheduler": "slurm"}
        report |= {"simulated": simulated, "stacks": [], "verified_resources": [], "not_emulated": []}
        report |= {"quoted": {"usd": "16.5", "hours": 1, "usd_per_hour": "20", "prices_as_of": "2026-11-20"}}
        used = {"hours": minutes / 60, "usd_at_quoted_rate": f"{minutes / 3}"}
        folder.write_json("report.json", report | {"attempts": [attempt], "actual": used})
        if billed:
            folder.write_json("billed.json", {"billed_usd": billed})


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Every page, and the JSON of the same moment, by name."""
    root = tmp_path_factory.mktemp("pages")
    paths = {}
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(root)
        recorded_run(root)
        recorded_dollars(root)
        for name, arguments in PAGES.items():
            path = root / f"{name}.html"
            assert type_command(*arguments, "--html", str(path), monkeypatch=monkeypatch) == 0
            paths[name] = path
    return paths


@pytest.mark.parametrize("name", PAGES)
def test_page_is_one_file_without_external_references(pages, name):
    text = pages[name].read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    for mark in (' src="', "@import", "url(", "fetch(", '<link rel="stylesheet'):
        assert mark not in text
    assert 'href="http' not in text
    assert "NaN" not in text.partition("<script>")[0]


@pytest.mark.browser
@pytest.mark.parametrize("name,table", [("plan", "candidates"), ("quote", "bill"), ("sweep", "points")])
def test_table_on_wide_screen_and_paper_is_not_clipped(browser, pages, name, table):
    hidden = """key => {
        const table = document.getElementById(key), box = table.parentElement.getBoundingClientRect();
        return Math.max(table.getBoundingClientRect().right - box.right, box.right - innerWidth, -box.left);
    }"""
    for width, media in ((1400, "screen"), (720, "print")):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.emulate_media(media=media)
        page.goto(pages[name].as_uri())
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        assert page.evaluate(hidden, table) < 1
        page.close()


def test_page_escapes_markup_in_values(pages):
    assert "vpc &lt;b&gt;: yes" in pages["report"].read_text(encoding="utf-8")


def test_open_flag_alone_writes_page_below_slipway_and_opens_browser(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    monkeypatch.chdir(tmp_path)
    assert type_command("quote", str(TRAIN), "--open", monkeypatch=monkeypatch) == 0
    page = tmp_path / ".slipway" / "pages" / "llama31-8b-sft-quote.html"
    assert shown == [page.as_uri()]
    assert page.is_file()


@pytest.fixture
def open_page(browser, pages):
    """Opens a page; its requests and console errors are recorded."""
    contexts = []

    def go(name, width=1400, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.requests, page.wrong = [], []
        page.on("request", lambda request: page.requests.append(request.url))
        page.on("console", lambda entry: page.wrong.append(entry.text) if entry.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.goto(pages[name].as_uri())
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        return page

    yield go
    for browser_context in contexts:
        browser_context.close()


def across(dot):
    """Where a mark stands, in per cent of the plot's width."""
    return float(dot.get_attribute("cx").removesuffix("%"))


@pytest.mark.browser
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [360, *(pytest.param(wider, marks=pytest.mark.slow) for wider in (480, 800, 1200))])
def test_page_sends_no_requests_has_no_console_errors_and_fits_width(open_page, name, width):
    page = open_page(name, width, color_scheme="dark" if width == 360 else "light")
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
    assert page.wrong == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Nothing is cut: no box scrolls, no mark or word of a plot is beyond the edges of the page.
    beyond = """() => [
        ...[...document.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth),
        ...[...document.querySelectorAll("figure > svg :is(text, circle, rect, line), td, th")].filter(mark => {
            const place = mark.getBoundingClientRect();
            return place.left < -1 || place.right > innerWidth + 1;
        }),
    ].map(each => each.outerHTML.slice(0, 120))"""
    assert page.evaluate(beyond) == []
    figures = page.locator("figure > svg")
    assert figures.count() >= 1
    for figure in figures.all():
        assert figure.get_attribute("role") == "img"
        assert len(figure.locator("desc").text_content()) > 10


@pytest.mark.browser
def test_facts_of_a_quote_on_a_phone_break_between_words(open_page):
    broken = """() => [...document.querySelectorAll("#facts :is(th, td):not(:last-child)")].flatMap(cell => {
        const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
        while (walker.nextNode()) for (const match of walker.currentNode.data.matchAll(/[^\\s-]+/g)) {
            const range = document.createRange();
            range.setStart(walker.currentNode, match.index);
            range.setEnd(walker.currentNode, match.index + match[0].length);
            if (range.getClientRects().length > 1) found.push(match[0]);
        }
        return found;
    })"""
    assert open_page("quote", 400).evaluate(broken) == []


@pytest.mark.browser
def test_plan_plots_equal_json_values(open_page, monkeypatch, capsys):
    page = open_page("plan")
    assert type_command("plan", str(TRAIN), "--json", monkeypatch=monkeypatch) == 0
    candidates = {str(candidate["rank"]): candidate for candidate in json.loads(capsys.readouterr().out)["candidates"]}
    dots = page.locator("#ranges circle").all()
    assert len(dots) > 3
    places = []
    for dot in dots:
        usd = candidates[dot.get_attribute("data-rank")]["usd"]
        for part in ("low", "mid", "high"):
            assert float(dot.get_attribute(f"data-{part}")) == pytest.approx(float(usd[part]))
        places.append((float(usd["mid"]), across(dot)))
    assert sorted(places) == sorted(places, key=lambda pair: pair[1])
    front = page.locator("#times circle.front").all()
    points = sorted(
        (float(circle.get_attribute("data-h")), float(circle.get_attribute("data-usd"))) for circle in front
    )
    assert [usd for _, usd in points] == sorted((usd for _, usd in points), reverse=True)
    assert all(later > sooner * 1.01 for (sooner, _), (later, _) in itertools.pairwise(points))
    every = [
        (float(circle.get_attribute("data-h")), float(circle.get_attribute("data-usd")))
        for circle in page.locator("#times circle").all()
    ]
    assert not [(h, usd) for h, usd in points if any(a < h and b < usd for a, b in every)]
    assert "us-east-2" in page.locator("#ranges desc").text_content()


@pytest.mark.browser
def test_table_header_click_sorts_and_scenario_changes_totals(open_page):
    page = open_page("plan")
    head = page.locator("#candidates th", has_text="hours")
    head.locator("button").click()
    column = page.locator("#candidates tbody tr td:nth-child(7)")
    hours = [float(cell.get_attribute("data-v")) for cell in column.all()]
    assert head.get_attribute("aria-sort") == "ascending"
    assert hours == sorted(hours)
    head.locator("button").click()
    hours = [float(cell.get_attribute("data-v")) for cell in column.all()]
    assert hours == sorted(hours, reverse=True)
    total = page.locator("#candidates td[data-mid]").first
    page.locator("#scenario").fill("100")
    assert float(total.get_attribute("data-v")) == pytest.approx(float(total.get_attribute("data-high")))
    dot = page.locator("#ranges circle").first
    assert across(dot) == pytest.approx(float(dot.get_attribute("data-xhigh")), abs=0.1)
    notes = "rows => rows.every(row => row.previousElementSibling.cells[0].textContent.match(/^[0-9a-f]{6}$/))"
    assert page.locator("#candidates tr.more").evaluate_all(notes)


@pytest.mark.browser
def test_report_page_marks_interruption_and_dollars_saved(open_page):
    page = open_page("report")
    assert page.locator("#loss line.bad").count() == 1
    assert page.locator("#loss line.save").count() == 1
    assert "$6.00 after 10 min" in page.locator("#usd desc").text_content()


@pytest.mark.browser
def test_quote_page_plots_spot_break_even_and_sorted_bill(open_page):
    page = open_page("quote")
    assert page.locator("#spot line.bad").count() == 1
    sums = [float(bar.get_attribute("data-usd")) for bar in page.locator("#money rect").all()]
    assert sums == sorted(sums, reverse=True)
    shown = page.locator("#bill td[data-t='$']").all_text_contents()
    assert all(re.fullmatch(r"[\d,]+\.\d\d|<0\.01|unpriced", amount) for amount in shown)


@pytest.mark.browser
def test_ledger_page_shows_used_and_billed_beside_quoted(open_page, pages, monkeypatch, capsys):
    monkeypatch.chdir(pages["ledger"].parent)
    page = open_page("ledger")
    assert type_command("ledger", "--json", monkeypatch=monkeypatch) == 0
    runs = {f"{run['name']}/{run['run']}": run for run in json.loads(capsys.readouterr().out)["runs"]}
    real = {key: run for key, run in runs.items() if run["billed_usd"] is not None}
    assert len(real) == 2
    drawn = page.locator("#estimate circle[data-run]").all()
    shown = {(circle.get_attribute("data-run"), circle.get_attribute("data-kind")): circle for circle in drawn}
    assert {key for key, _ in shown} == real.keys()
    for key, run in real.items():
        usd = {"quoted": run["quoted_usd"]["mid"], "used": run["usd_used"], "billed": run["billed_usd"]}
        for kind, amount in usd.items():
            assert float(shown[key, kind].get_attribute("data-usd")) == pytest.approx(float(amount))
    assert "used $42.00, billed $41.15" in page.locator("#sums desc").text_content()
    assert page.locator("#runs tbody tr").count() == len(runs)
    assert page.locator("#groups tbody tr").count() == len({run["name"] for run in runs.values()})


@pytest.mark.browser
def test_sweep_page_draws_every_point_of_json(open_page, monkeypatch, capsys):
    page = open_page("sweep")
    assert type_command("plan", str(TRAIN), *SWEEP, "--json", monkeypatch=monkeypatch) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    known = {
        str(number): point["candidate"]["usd"] for number, point in enumerate(points, start=1) if point["candidate"]
    }
    dots = page.locator("#ranges circle").all()
    assert {dot.get_attribute("data-rank") for dot in dots} == known.keys()
    for dot in dots:
        for part in ("low", "mid", "high"):
            usd = known[dot.get_attribute("data-rank")][part]
            assert float(dot.get_attribute(f"data-{part}")) == pytest.approx(float(usd))
    assert page.locator("#swept path.line").count() == 2
    assert page.locator("#swept path.band").count() == 2
    assert page.locator("#points tbody tr:not(.more)").count() == len(points)


@pytest.mark.parametrize("name", ["plan", "serving-plan", "compare", "serving-compare"])
def test_page_draws_the_rows_of_the_terminal(pages, name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert type_command(*PAGES[name], monkeypatch=monkeypatch) == 0
    text = capsys.readouterr().out
    page = pages[name].read_text(encoding="utf-8")
    drawn = re.findall(r'class="tick name"[^>]*>([0-9a-f]{6}) (.*?), ', page)
    figure = page.partition('id="ranges"')[2].partition("</figure>")[0]
    assert drawn
    assert len(drawn) == figure.count("<circle")
    if name == "compare":
        shown = re.findall(r"(\d+×\S+xlarge)", text)
        assert shown == [instances.replace(" ", "") for _, instances in drawn][: len(shown)]
    else:
        assert [short_id for short_id, _ in drawn] == re.findall(r"^ +([0-9a-f]{6}) ", text, re.MULTILINE)
    if "compare" not in name:
        assert "slipway compare" not in page.partition("<h2>")[0]


def test_comparison_page_marks_cheaper_rows_outside_plan(tmp_path, monkeypatch, capsys):
    plan, page = str(ROOT / "examples/p5-spot.yaml"), tmp_path / "page.html"
    monkeypatch.setenv("SLIPWAY_VERBOSE", "1")
    assert type_command("compare", plan, "--html", str(page), monkeypatch=monkeypatch) == 0
    capsys.readouterr()
    assert type_command("compare", plan, monkeypatch=monkeypatch) == 0
    text = " ".join(capsys.readouterr().out.split())
    (sentence,) = re.findall(r"<p class=\"\">(Outside the plan[^<]*)</p>", page.read_text(encoding="utf-8"))
    assert sentence in text
    rows = re.findall(r'<tr><td data-t="id">.*?</tr>(?:<tr class="more">.*?</tr>)?', page.read_text())
    inside = [row for row in rows if "outside the plan" not in row]
    assert 0 < len(inside) < len(rows)
    assert all("p5.48xlarge" in row and ">spot<" in row for row in inside)


def test_serving_comparison_has_a_card_for_the_choice_and_for_each_side(pages):
    text = pages["serving-compare"].read_text(encoding="utf-8").partition("<h2>Reasons")[0]
    assert text.count('class="card"') == 4
    assert "use Bedrock" in text
    assert len(re.findall(r"\$[\d,]+ a month<", text)) == 3


def test_serving_comparison_lines_cross_at_equal_monthly_cost(pages):
    text = pages["serving-compare"].read_text(encoding="utf-8")
    description = text.partition('id="traffic-d">')[2].partition("</desc>")[0]
    sides = {}
    for part in description.split("; "):
        name, _, rest = part.partition(": ")
        if rest:
            sides[name] = [
                (float(x), float(usd.replace(",", ""))) for x, usd in re.findall(r"([\d.]+)/s \$([\d,]+)", rest)
            ]
    marks = re.findall(r"(\w+) = (\w+) at ([\d.e+-]+)/s", description)
    changes = 0
    for (one, points), (two, other) in itertools.combinations(sides.items(), 2):
        known = dict(other)
        signs = [(x, usd > known[x]) for x, usd in points if x in known]
        for (before, left), (after, right) in itertools.pairwise(signs):
            if left != right:
                changes += 1
                assert any({one, two} == {a, b} and before <= float(x) <= after for a, b, x in marks)
    assert len(marks) == changes >= 1


def test_monthly_amount_breaks_before_word_month():
    columns = [Column("quoted $", str, "point")]
    assert ">29,529/<wbr>month</td>" in table("runs", columns, ["29,529/month"], key="runs")
