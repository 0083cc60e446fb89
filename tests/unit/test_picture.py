"""The pictures of README and site are what the command shows at the prices of their day, and load nothing."""

import re
import xml.etree.ElementTree as ET

from benchmarks import picture
from tests.plans import ROOT


def test_pictures_equal_the_current_command_output(golden, monkeypatch):
    monkeypatch.chdir(ROOT)
    golden("../../docs/images/plan.svg", picture.picture())
    golden("../../docs/images/plan.html", picture.page())


def test_picture_makes_no_network_requests():
    text = picture.svg(["$ slipway plan a.yaml", "", "  a < b & c: 1 × p5 · ~$2", "  next: slipway quote a.yaml"])
    drawing = ET.fromstring(text)
    words = ["".join(element.itertext()) for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert words == ["$ slipway plan a.yaml", "a < b & c: 1 × p5 · ~$2", "next: slipway quote a.yaml"]
    assert re.findall(r"(?:href|src|url)\W*[\"'(=]", text) == []
    assert re.findall(r"https?://[^\s\"']+", text) == ["http://www.w3.org/2000/svg"]


def test_readme_begins_with_the_picture():
    first = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")[1]
    assert re.fullmatch(r"!\[[^\]]{40,}\]\(docs/images/plan\.svg\)", first)
