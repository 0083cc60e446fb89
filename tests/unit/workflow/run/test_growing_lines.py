"""A log that grows: progress bars, lines without an end, and lines of hundreds of megabytes."""

import tracemalloc

import pytest

from launcher.workflow.run import growing_lines
from launcher.workflow.run.growing_lines import GrowingLines, last_lines
from tests.memory import held_by


def show(lines):
    """What a reader writes of the new content."""
    return "".join(f"{text}\n" if ends else text for text, ends in lines.pieces())


@pytest.mark.parametrize(
    "written,expected",
    [
        ([b"one\ntwo\n"], "one\ntwo\n"),
        ([b"o", b"ne\ntw", b"o\n"], "one\ntwo\n"),
        ([b"one\r\ntwo\r\n"], "one\ntwo\n"),
        ([b"\r 1%|", b"\r 2%|\r", b"\r99%|\n[slipway] done\n"], "99%|\n[slipway] done\n"),
        ([b" 1%|\r", b" 2%|\r", b"\n"], " 2%|\n"),
        (["é模".encode()[:1], "é模".encode()[1:4], "é模".encode()[4:] + b"\n"], "é模\n"),
        ([b"\xff\n"], "\ufffd\n"),
    ],
)
def test_growing_lines_show_terminal_result(tmp_path, written, expected):
    path, text = tmp_path / "log", ""
    lines = GrowingLines(path)
    assert show(lines) == ""
    for data in written:
        with path.open("ab") as stream:
            stream.write(data)
        text += show(lines)
    assert text + lines.rest() == expected


def test_growing_lines_return_unfinished_last_line_as_rest(tmp_path):
    (tmp_path / "log").write_text("one\n 1%|\r 2%|")
    lines = GrowingLines(tmp_path / "log")
    assert (show(lines), lines.rest(), lines.rest()) == ("one\n", " 2%|", "")


@pytest.mark.parametrize("character", ["x", "模"])
def test_growing_lines_read_long_line_once_in_bounded_memory(tmp_path, character):
    path, size = tmp_path / "log", 40 << 20
    path.write_text(character * (size // len(character.encode())))
    lines, count, peak = GrowingLines(path), 0, 0
    tracemalloc.start()
    for number, (text, ends) in enumerate(lines.pieces()):
        assert not ends
        assert text.count(character) == len(text)
        count += len(text.encode())
        if number % 64 == 0:
            peak = max(peak, held_by(growing_lines))
    tracemalloc.stop()
    assert count + len(lines._open) == path.stat().st_size
    assert 1 << 20 <= peak < 8 << 20, "a block and what follows of it"
    assert list(lines.pieces()) == []  # nothing is read again


def test_growing_lines_show_long_progress_bar_as_one_line(tmp_path):
    (tmp_path / "log").write_bytes(b"".join(b"\r%07d|####" % number for number in range(1_000_000)) + b"\n")
    assert show(GrowingLines(tmp_path / "log")) == "0999999|####\n"


@pytest.mark.parametrize(
    "written, expected",
    [
        ("", []),
        ("[slipway] attempt-started part=0\n\n", []),
        ("one\ntwo\n\nthree\n[slipway] failed exit_code=1\n", ["two", "three"]),
        ("one\n 1%|\r 2%|", ["one", " 2%|"]),
        ("x" * (1 << 17) + "\none", ["one"]),
        ("x" * (1 << 17), ["x" * (1 << 16)]),
    ],
)
def test_last_lines_are_of_job_alone_and_read_from_end(tmp_path, written, expected):
    (tmp_path / "log").write_text(written)
    assert last_lines(tmp_path / "log", 2) == expected
