"""examples/README.md lists every plan, and links to nothing that is not there."""

import re

from tests.checks import some
from tests.plans import EXAMPLES, PLANS


def test_every_plan_is_listed_once() -> None:
    linked = re.findall(r"^\| \[(.+?)\]\((.+?)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert all(name == target for name, target in linked)
    assert sorted(target for _, target in linked) == sorted(str(path.relative_to(EXAMPLES)) for path in PLANS)


def test_every_link_leads_to_an_existing_file() -> None:
    targets = re.findall(r"\]\((.+?)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    assert [target for target in some(targets) if not (EXAMPLES / target).is_file()] == []
