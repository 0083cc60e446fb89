"""Words of others in what commands print: each character is shown, none is obeyed."""

import json

import pytest

from launcher.answers.html.page import document as html_page
from launcher.cli import output
from launcher.model.errors import SlipwayError
from launcher.model.finding import error
from launcher.model.visible_text import csv_cell
from tests.checks import refuse_obeyed

HOSTILE = (
    *(
        "\x1b]0;title\x07",
        "\x1b[2J",
        "\x9b2J",
        "\x08\x08ok",
        "\x7f",
        "\u202egpj.exe",
        "\u2066a\u2069",
        "zero\u200bwidth",
    ),
    *("\ufeffmark", "\u2028line", "\x00", "\U000e0041tag", "soft\xadhyphen", "a\rb"),
)
COMMANDS = ("\n::error file=x::pwned", "\n  ::add-mask::1", "x\r\n::stop-commands::t", "\n##[error]x", "##vso[task.x]y")


@pytest.mark.parametrize("words", [*HOSTILE, *COMMANDS])
def test_control_characters_in_any_output_are_escaped(capsys, words, monkeypatch):
    monkeypatch.setattr("sys.argv", ["slipway"])
    output.WRITTEN.clear()
    output.result([f"  job {words} ran"])
    output.page([f"  {words}", f"  next: slipway logs {words}"])
    output.say(words, f"  cluster says {words}")
    output.refusal(SlipwayError(words, hint=words, findings=[error("x", f"run.{words}", words, words)]))
    captured = capsys.readouterr()
    refuse_obeyed(captured.out)
    refuse_obeyed(captured.err)
    assert captured.out.count("\n") == 2, "a line feed in a value begins no line"


@pytest.mark.parametrize("words", HOSTILE)
def test_json_keeps_value_without_control_characters(capsys, words):
    output.document({"a": words})
    output.long_document({"rows": []}, "rows", [json.dumps({"b": words}, ensure_ascii=False)])
    text = capsys.readouterr().out
    refuse_obeyed(text)
    first, _ = json.JSONDecoder().raw_decode(text)
    assert first == {"a": words}


def test_html_page_shows_direction_marks_escaped(tmp_path):
    output.save_html(tmp_path / "a.html", html_page("x", ["<p>\u202etxt.exe\x9b</p>"]), show=False)
    text = (tmp_path / "a.html").read_text()
    assert "\\u202etxt.exe\\x9b" in text
    refuse_obeyed(text)


def test_ordinary_unicode_text_is_unchanged(capsys):
    text = "  ▰▰▱ 50 % · 漢字 ü é \u00a0 – “quotes” std::vector a::b #3 ##"
    output.result([text])
    assert capsys.readouterr().out == text + "\n"


def test_key_of_untrusted_plan_is_escaped(slipway, tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text('slipway: 1\nname: a\n"k\\e]0;x\\a": 1\nrun: {env: {"A\\n::error file=x::pwned\\u202e": b}}\n')
    ended = slipway("plan", str(path))
    assert ended.code == 2
    refuse_obeyed(ended.out + ended.err)
    assert "k\\x1b]0;x\\x07" in ended.err


@pytest.mark.parametrize(
    "cell, written",
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\\r=1"),
        ("\uff1d1", "'\uff1d1"),
        ("-12.50", "-12.50"),
        ("+3e5", "+3e5"),
        ("team=a;x=-1", "team=a;x=-1"),
        ("", ""),
        ("::error file=x::pwned", "\\::error file=x::pwned"),
        ("a ##vso[task.x]y", "a ##\\vso[task.x]y"),
    ],
)
def test_csv_cell_with_formula_prefix_is_quoted(cell, written):
    assert csv_cell(cell) == written
