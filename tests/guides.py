"""The command blocks of README, tutorial and guides, and how a test runs each."""

import re
from typing import NamedTuple

from tests.plans import ROOT

PAGES = (
    "README.md",
    "docs/index.md",
    "docs/tutorial.md",
    *(f"docs/howto/{path.name}" for path in sorted((ROOT / "docs/howto").glob("*.md"))),
)
MARKS = {
    "": "in an empty folder with the examples",
    "install": "in a shell, in the repository",
    "sandbox": "after the tutorial's launch",
    "running job": "while a job of tiny-gpt runs",
    "own sandbox": "with no sandbox running",
    "own trainer": "with the plan of the page and a train.py",
    "aws": "in an account; the reason follows the mark",
}
"""The mark in a comment before a block, and where the block runs."""
BLOCK = re.compile(r"(?:<!-- ([a-z ]+)(?:: ([^>]+))? -->\n)?```sh\n(.*?)```", re.DOTALL)


class Block(NamedTuple):
    """A block of commands, with its mark and the mark's reason."""

    mark: str
    why: str
    text: str
    place: int


def blocks(page: str) -> list[Block]:
    """The blocks of a page of the repository."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [Block(match[1] or "", match[2] or "", match[3], match.start()) for match in BLOCK.finditer(text)]


def marked(mark: str) -> list[Block]:
    """The blocks of all pages that have the mark."""
    return [block for page in PAGES for block in blocks(page) if block.mark == mark]


def lines(block: Block) -> list[str]:
    """The commands of a block, without comments."""
    bare = (line.partition("  #")[0].strip() for line in block.text.replace("\\\n", " ").splitlines())
    return [line for line in bare if line]
