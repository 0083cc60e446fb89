"""The running sandbox as JSON: `slipway sandbox`, slipway.sandbox/1."""

from typing import Any, Literal

from launcher.records.document import json_object


@json_object
class NoSandboxDocument:
    """No sandbox runs for this folder."""

    schema: Literal["slipway.sandbox/1"] = "slipway.sandbox/1"
    running: Literal[False] = False


@json_object
class StackObject:
    """A stack in the sandbox."""

    name: str
    region: str
    status: str


@json_object
class JobObject:
    """A job of a cluster."""

    id: Any
    name: str
    state: str


@json_object
class ClusterObject:
    """A cluster in the sandbox."""

    name: str
    scheduler: str
    nodes: int
    jobs: tuple[JobObject, ...]


@json_object
class SandboxDocument:
    """The sandbox of this folder, with its stacks and clusters."""

    schema: Literal["slipway.sandbox/1"] = "slipway.sandbox/1"
    running: Literal[True] = True
    name: str
    endpoint: str
    scheduler: str
    since: str
    stacks: tuple[StackObject, ...]
    clusters: tuple[ClusterObject, ...]
