"""The last look at the nodes of a run (`slipway top`), kept in its run folder for the page of its report."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from launcher.agent.shape import read
from launcher.model.chip_use import ChipUse
from launcher.model.errors import UnreadableInputError
from launcher.records.document import json_object
from launcher.records.run_folder import RunFolder

LOOK_FILE = "top.json"


@json_object
class NodeNow:
    """A node of the job; `unknown` is the reason if its chips are not known."""

    name: str
    chips: ChipUse | None
    unknown: str


class NodeLook(NamedTuple):
    """The keys of slipway.top/1 that the page draws."""

    as_of: datetime
    step_s: float | None
    usd_per_hour: Decimal | None
    nodes: tuple[NodeNow, ...]


def keep_look(folder: RunFolder, document: Mapping[str, Any]) -> None:
    """Keep a look in the run folder; one without nodes replaces no earlier one."""
    if document["nodes"]:
        folder.write_json(LOOK_FILE, document)


def kept_look(folder: RunFolder) -> NodeLook | None:
    """The last look at a run; None if there was none.

    Raises:
        UnreadableInputError: the file is no look.
    """
    if not (folder.path / LOOK_FILE).is_file():
        return None
    try:
        return read(NodeLook, folder.read_json(LOOK_FILE))
    except ValueError as problem:
        raise UnreadableInputError(
            f"{folder.path / LOOK_FILE} is no look at nodes: {problem}",
            hint="delete it; the next look writes it: slipway top NAME",
        ) from problem
