"""README.md shows a plan that runs as it stands; its picture is checked by test_picture.py."""

import re
from pathlib import Path

import pytest

from launcher import plan_file
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.plans import EXAMPLES, NOW, PLANS, ROOT

README = ROOT / "README.md"


def test_readme_plan_runs_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = re.search(r"```yaml\n(.+?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert text is not None
    path = tmp_path / "plan.yaml"
    path.write_text(text[1], encoding="utf-8")
    run = plan_file.load(path).run
    # Whoever copies it stands where README.md lies.
    assert (ROOT / run.workdir / run.command[-1]).is_file()
    monkeypatch.chdir(tmp_path)
    gate = price(path, NOW, PriceOptions(max_price_age=3650)).quote(1).gate
    assert gate.allows_launch, gate.reason


OPEN_OR_UNPRICED = {
    "hyperpod/trn2-on-demand.yaml": 4,
    "pcs/p5-spot.yaml": 4,
    "pcs/p5en-capacity-block.yaml": 4,
}
"""The cheapest of the first is a commitment that nobody has bought; of the others AWS has published no price."""


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.relative_to(EXAMPLES).as_posix())
def test_every_example_passes_budget_of_plan(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    gate = price(path, NOW, PriceOptions(max_price_age=3650)).quote(1).gate
    assert gate.exit_code == OPEN_OR_UNPRICED.get(path.relative_to(EXAMPLES).as_posix(), 0), gate.reason
