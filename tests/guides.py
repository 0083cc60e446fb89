"""The command blocks of the tutorial and the guides, and which of them a test runs."""

import re
from typing import NamedTuple

from tests.plans import ROOT

PAGES = (
    "README.md",
    "docs/index.md",
    "docs/tutorial.md",
    *(f"docs/howto/{path.name}" for path in sorted((ROOT / "docs/howto").glob("*.md"))),
)
NOT_RUN = ("aws", "not run")
BLOCK = re.compile(r"(?:<!-- (aws|not run|sandbox)(?:: ([^>]+))? -->\n)?```sh\n(.*?)```", re.DOTALL)


class Block(NamedTuple):
    """Some commands: "aws" and "not run" with the reason, "sandbox" where they take one with a run of tiny-gpt."""

    mark: str
    why: str
    text: str
    place: int


def blocks(page: str) -> list[Block]:
    """The blocks of a page of the repository."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [Block(found[1] or "", found[2] or "", found[3], found.start()) for found in BLOCK.finditer(text)]


def lines(block: Block) -> list[str]:
    """The commands of a block, without what a comment says."""
    return [each for line in block.text.replace("\\\n", " ").splitlines() if (each := line.partition("  #")[0].strip())]
