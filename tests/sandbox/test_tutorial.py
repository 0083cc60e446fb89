"""The tutorial, typed as it is written; before it removes its cluster, what the guides do in the sandbox."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.sandbox import staying
from tests.guides import PAGES, blocks, lines
from tests.plans import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tutorial")]
REMOVE = "## Remove everything"
PATIENCE_S = 1800


@pytest.fixture
def typed(tmp_path, monkeypatch):
    """Runs a line in a folder with the examples; the sandbox that it starts ends with the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    def run(line):
        done = subprocess.run(
            shlex.split(line), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    yield run
    staying.stop(os.environ)


def test_the_tutorial_and_the_guides_work_as_they_are_written(typed):
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    tutorial = [block for block in blocks("docs/tutorial.md") if not block.mark]
    first = [each for each in tutorial if each.place < text.index(REMOVE)]
    guides = [block for page in PAGES for block in blocks(page) if block.mark == "sandbox"]
    assert first
    assert guides
    said = "".join(typed(line) for block in first for line in lines(block))
    assert "attempt 2 resumes from step" in said
    for block in guides:
        for line in lines(block):
            typed(line)
    said = "".join(typed(line) for block in tutorial[len(first) :] for line in lines(block))
    assert "the sandbox has stopped" in said
