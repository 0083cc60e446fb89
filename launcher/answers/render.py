"""The rendered files as JSON: `slipway render`, slipway.render/1."""

from typing import Literal

from launcher.records.document import json_object


@json_object
class RenderDocument:
    """The files of a plan."""

    schema: Literal["slipway.render/1"] = "slipway.render/1"
    name: str
    digest: str
    folder: str
    files: tuple[str, ...]
