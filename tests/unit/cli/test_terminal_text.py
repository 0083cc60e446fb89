"""Terminal escape sequences in a job's output are removed, even when they are split."""

import random
import re

import pytest

from launcher.answers.html.page import document
from launcher.cli.output import save_html
from launcher.cli.terminal_text import TerminalText, plain_text
from launcher.model.errors import ImpossibleError

STEERING = (
    *(
        "\x1b]0;title\x07",
        "\x1b]52;c;cm0gLXJm\x1b\\",
        "\x1b[2J",
        "\x1b[6n",
        "\x1bc",
        "\x1b(0",
        "\x1bP1$r\x1b\\",
        "\x9b2J",
    ),
    *("\x1b[?1049h", "\x07", "\x08", "\x1b_app\x1b\\", "\x1b^pm\x1b\\", "\x1bXsos\x1b\\", "\x1b]8;;http://x\x1b\\"),
)
KEPT = ("step 1 loss 2.5\n", "\x1b[1;31mred\x1b[0m", "ü漢\t", "50%|█████\r", "]0;plain")


@pytest.mark.parametrize("sequence", STEERING)
def test_control_sequence_is_removed_and_text_kept(sequence):
    shown_text = plain_text(f"before {sequence} after")
    assert shown_text.startswith("before ")
    assert shown_text.endswith(" after")
    assert not re.search("[\x1b\x07\x08\x80-\x9f]", shown_text)


def test_text_filtered_in_pieces_equals_text_filtered_whole():
    for seed in range(300):
        chance = random.Random(seed)
        text = "".join(chance.choice((*STEERING, *KEPT)) for _ in range(30))
        data, filtered, pieces = text.encode(), TerminalText(), []
        while data:
            size = chance.randint(1, 9)
            pieces.append(filtered.visible(data[:size]))
            data = data[size:]
        assert b"".join([*pieces, filtered.remainder()]).decode() == plain_text(text), seed
        assert not re.search(r"\x1b(?!\[[0-9;:]*m)|[\x80-\x9f\x07]", plain_text(text)), seed


def test_unterminated_sequence_releases_later_text():
    filtered = TerminalText()
    assert filtered.visible(b"a\x1b]0;" + b"x" * 100) == b"a"
    assert filtered.visible(b"y" * 5000).endswith(b"y" * 5000)


def test_html_replaces_only_slipway_pages(tmp_path):
    path = tmp_path / "page.html"
    for _ in range(2):
        save_html(path, document("x", []), show=False)
    (tmp_path / "plan.yaml").write_text("slipway: 1")
    with pytest.raises(ImpossibleError, match="is not a Slipway page: it is not replaced"):
        save_html(tmp_path / "plan.yaml", document("x", []), show=False)
    assert (tmp_path / "plan.yaml").read_text() == "slipway: 1"


def test_html_over_a_file_larger_than_memory_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "page.html"
    with path.open("wb") as stream:
        stream.truncate(8 << 40)
    with pytest.raises(ImpossibleError, match="is not a Slipway page: it is not replaced"):
        save_html(path, document("x", []), show=False)
