"""slipway.sandbox/1: whether a sandbox stays, and what is in it."""

from collections.abc import Mapping, Sequence
from typing import Any


def no_sandbox_document() -> dict[str, Any]:
    """None is there."""
    return {"schema": "slipway.sandbox/1", "running": False}


def sandbox_document(
    *,
    endpoint: str,
    scheduler: str,
    since: str,
    stacks: Sequence[Mapping[str, str]],
    clusters: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """One that runs: its AWS, what schedules in clusters with Slurm, since when, and what was deployed into it."""
    return {
        "schema": "slipway.sandbox/1",
        "running": True,
        "endpoint": endpoint,
        "scheduler": scheduler,
        "since": since,
        "stacks": [dict(each) for each in stacks],
        "clusters": [dict(each) for each in clusters],
    }
