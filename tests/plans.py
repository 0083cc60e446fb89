"""Common parts of tests of plans: the examples, the time of their prices, and requests from mappings."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from launcher import plan_file
from launcher.model.request import PlanRequest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
PLANS = [path for path in sorted(EXAMPLES.rglob("*.yaml")) if "\nslipway: 1" in path.read_text(encoding="utf-8")]
"""The plans of the examples; a recipe may have a trainer's configuration next to its plan."""
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
"""A day on which the shipped prices are valid."""


def request_of(data: Mapping[str, Any]) -> PlanRequest:
    """The request of a plan file with the mapping's content."""
    return plan_file.loads(yaml.safe_dump(data))


def laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping with another one merged into it, level by level."""
    merged = dict(base)
    for key, value in changes.items():
        deeper = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = laid_over(merged[key], value) if deeper else value
    return merged
