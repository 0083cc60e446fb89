"""The pictures of README and site are what the command shows at the prices of their day, and load nothing."""

import re
import xml.etree.ElementTree as ET

from benchmarks import picture
from tests.plans import ROOT


def test_the_pictures_are_the_screen_and_the_page_of_the_command(golden, monkeypatch):
    monkeypatch.chdir(ROOT)
    golden("../../docs/images/plan.svg", picture.picture())
    golden("../../docs/images/plan.html", picture.page())


def test_the_picture_is_a_drawing_that_asks_no_host():
    text = picture.svg(["$ slipway plan a.yaml", "", "  a < b & c: 1 × p5 · ~$2", "  next: slipway quote a.yaml"])
    drawing = ET.fromstring(text)
    words = ["".join(element.itertext()) for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert words == ["$ slipway plan a.yaml", "a < b & c: 1 × p5 · ~$2", "next: slipway quote a.yaml"]
    assert re.findall(r"(?:href|src|url)\W*[\"'(=]", text) == []
    assert re.findall(r"https?://[^\s\"']+", text) == ["http://www.w3.org/2000/svg"]


def test_the_first_thing_in_the_readme_is_the_picture():
    first = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")[1]
    assert re.fullmatch(r"!\[[^\]]{40,}\]\(docs/images/plan\.svg\)", first)
