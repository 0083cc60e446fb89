"""examples/recipes: each page shows the recipe's cost; `make golden` updates it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.answers.quote import page as quote_page
from launcher.answers.serving_compare import page as compare_page
from launcher.workflow.quote.compare import compare
from launcher.workflow.quote.compare_serving import ServingComparison
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.plans import EXAMPLES, NOW, ROOT

RECIPES = EXAMPLES / "recipes"
WIDTH = 100
SCREEN = re.compile(r"(```\n\$ slipway (quote|compare) (\S+)\n)(.*?)(```\n)", re.DOTALL)


def screen(command: str, path: str) -> Iterator[str]:
    """The answer to the end of its table, without what a launch on that day would be refused for."""
    options = PriceOptions(max_price_age=3650)
    if command == "quote":
        priced = price(Path(path), NOW, options)
        lines = quote_page(priced.quote(1), 1, WIDTH, priced)
    else:
        compared = compare(Path(path), NOW, options)
        assert isinstance(compared, ServingComparison)
        lines = compare_page(compared, WIDTH)
    rules = 0
    for line in lines[1:]:
        yield f"{line.rstrip()}\n"
        rules += "───" in line
        if rules == 2:
            return


@pytest.mark.parametrize("recipe", sorted(path.name for path in RECIPES.iterdir()))
def test_recipe_page_shows_current_quote(
    recipe: str, request: pytest.FixtureRequest, golden: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    page = RECIPES / recipe / "README.md"
    text = page.read_text(encoding="utf-8")
    shown = SCREEN.sub(lambda match: match[1] + "".join(screen(match[2], match[3])) + match[5], text)
    assert f"$ slipway quote examples/recipes/{recipe}/plan.yaml\n" in text
    if request.config.getoption("--update-golden"):
        page.write_text(shown, encoding="utf-8", newline="\n")
        return
    assert text == shown, f"{page} shows an older screen: make golden"


@pytest.mark.parametrize("recipe", sorted(path.name for path in RECIPES.iterdir()))
def test_recipe_page_has_at_most_90_lines_and_valid_links(recipe: str) -> None:
    text = (RECIPES / recipe / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 90
    links = [link for link in re.findall(r"\]\((.+?)\)", text) if not link.startswith("https:")]
    assert [link for link in links if not (RECIPES / recipe / link.partition("#")[0]).is_file()] == []
