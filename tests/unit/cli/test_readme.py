"""The screen of output in README.md is what the command prints; `make golden` puts the present one there."""

from pathlib import Path

import pytest

from launcher.cli.plan_page import page
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.plans import NOW, ROOT

README = ROOT / "README.md"
PLAN = Path("examples/open/llama31-8b-sft.yaml")
OPENS, CLOSES = f"$ slipway plan {PLAN}\n", "```\n"


def test_the_screen_in_the_readme_is_the_real_one(
    request: pytest.FixtureRequest, golden: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    priced = price(PLAN, NOW, PriceOptions())
    shown = "\n".join([*page(priced, 120, everything=False), ""])
    before, found, rest = README.read_text(encoding="utf-8").partition(OPENS)
    assert found, f"README.md shows no {OPENS.strip()}"
    screen, _, after = rest.partition(CLOSES)
    if request.config.getoption("--update-golden"):
        README.write_text(f"{before}{OPENS}{shown}{CLOSES}{after}", encoding="utf-8", newline="\n")
        return
    assert screen == shown, "README.md shows an older screen: make golden"
