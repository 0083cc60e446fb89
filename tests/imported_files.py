"""Files of other tools that tests import into plans."""

from pathlib import Path

from launcher import plan_file
from launcher.catalog.load import load
from launcher.model.request import PlanRequest
from launcher.workflow.quote.imports.imported import Imported
from launcher.workflow.quote.imports.read import import_file, plan_text


def read(tmp_path: Path, name: str, text: str) -> tuple[Imported, PlanRequest]:
    """What a file gives, and the request of the plan that is written for it."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    imported = import_file(path, load())
    return imported, plan_file.loads(plan_text(imported, path))
