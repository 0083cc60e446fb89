"""Writes which regions' CloudFormation registries lack a resource type of Slipway's stacks: catalog/data/registry.csv.

    python -m benchmarks.registry     after a new cfn-lint in requirements.lock (make lock runs it)

The types are those of permissions/handlers.csv, the regions those of regions.csv that cfn-lint has a registry of. A
regions without a registry in cfn-lint are those of the first row: whether they lack a type is unknown.
"""

import csv
import io
import json
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from launcher.catalog.permissions import HANDLERS
from launcher.catalog.registry import EVERY_TYPE, REGISTRY
from launcher.catalog.tables import SNAPSHOT, read_cells

COLUMNS = ("resource_type", "lacking", "as_of", "basis", "source")
SOURCE = "cfn-registry-regions"


@cache
def _data() -> Path:
    """The folder of cfn-lint's data; importing cfn-lint takes a second, and only its files are read here."""
    package = find_spec("cfnlint")
    if package is None or package.origin is None:
        raise SystemExit("cfn-lint is not installed: make setup")
    return Path(package.origin).parent / "data/schemas"


@cache
def types_by_region() -> dict[str, frozenset[str]]:
    """The resource types of every region with a registry in cfn-lint's data."""
    return {
        path.stem: frozenset(json.loads(path.read_text(encoding="utf-8")))
        for path in (_data() / "providers").glob("*.json")
    }


def text() -> str:
    """The file's text."""
    day = _day()
    types = sorted({row["resource_type"] for row in read_cells(HANDLERS)})
    known, regions = types_by_region(), sorted(row["name"] for row in read_cells("regions.csv"))
    everywhere = frozenset().union(*known.values())
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerow((EVERY_TYPE, "|".join(region for region in regions if region not in known), day, "listed", SOURCE))
    for name in types:
        # A custom resource is in no registry: the stack brings it.
        if name in everywhere:
            lacking = [region for region in regions if region in known and name not in known[region]]
            table.writerow((name, "|".join(lacking), day, "listed", SOURCE))
    return written.getvalue()


def _day() -> str:
    """The day of cfn-lint's data."""
    return str(json.loads((_data() / "version.json").read_text(encoding="utf-8"))["schema_date"]).partition("T")[0]


def main() -> int:
    """Write the file."""
    (SNAPSHOT / REGISTRY).write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
