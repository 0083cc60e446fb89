"""A command that `slipway mcp` started for an agent, as JSON."""

from collections.abc import Mapping
from typing import Any, Literal

from launcher.records.document import json_object


@json_object
class StartedDocument:
    """A launch, deployment or removal that the server started.

    `exit_code` is null while the command runs; `lines` are the last ones that it printed; `result` is its document:
    the report, the deployment, the removal, or the error.
    """

    schema: Literal["slipway.started/1"] = "slipway.started/1"
    id: str
    action: str
    name: str
    running: bool
    exit_code: int | None
    lines: tuple[str, ...]
    result: Mapping[str, Any] | None
