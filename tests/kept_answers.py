"""Answers of vendors' linters, kept from one run to the next as mypy and ruff keep theirs.

A key has all that an answer depends on: the text, the sources that put the question, the packages of the environment
that answers. With CI set nothing is kept, and `make clean` removes what is.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tests.plans import ROOT

FOLDER = ROOT / ".pytest_cache" / "d" / "answers"


def kept(key: Iterable[str], ask: Callable[[], Any], folder: Path = FOLDER) -> Any:
    """The answer to a question: as it was kept, or a new one. One that is no JSON, such as a finding, is not kept."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        return ask()
    digest = hashlib.sha256(json.dumps([*key]).encode()).hexdigest()
    path = folder / f"{digest}.json"
    if path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    answer = ask()
    try:
        text = json.dumps(answer)
    except TypeError:
        return answer
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
    return answer


@cache
def packages(python: Path) -> list[str]:
    """The packages of an interpreter's environment, with their versions."""
    return sorted(path.name for path in python.parents[1].glob("lib/python*/site-packages/*.dist-info"))


@cache
def sources(*paths: Path) -> list[str]:
    """The contents of files that put a question."""
    return [path.read_text(encoding="utf-8") for path in paths]
