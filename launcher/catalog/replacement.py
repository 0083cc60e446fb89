"""Which changes of a resource replace it: CloudFormation makes another one and removes the one that was there."""

from collections.abc import Mapping

from launcher.catalog.tables import read_cells

REPLACEMENT = "replacement.csv"

Replacing = Mapping[str, Mapping[str, bool]]
"""By resource type the paths of properties (`LustreConfiguration/DeploymentType`) that cannot be changed in place, each
with whether that is certain: some depend on the values. A type that is not in it is not known."""


def load_replacing() -> Replacing:
    """Read the shipped facts."""
    found: dict[str, dict[str, bool]] = {}
    for row in read_cells(REPLACEMENT):
        of_type = found.setdefault(row["resource_type"], {})
        if row["property"]:
            of_type[row["property"]] = row["replaces"] == "yes"
    return found
