"""Common parts of tests of plans: the examples, the time of their prices, and requests from mappings."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from launcher import plan_file
from launcher.catalog.catalog import Catalog
from launcher.model.plan import Plan
from launcher.model.request import PlanRequest
from launcher.planning.pin import pinned_plan

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
PLANS = [path for path in sorted(EXAMPLES.rglob("*.yaml")) if "\nslipway: 1" in path.read_text(encoding="utf-8")]
"""The plans of the examples; a recipe may have a trainer's configuration next to its plan."""
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
"""A day on which the shipped prices are valid."""


@cache
def example_request(path: Path) -> PlanRequest:
    """The request of an example, read once in a process: several modules choose their cases by it when collected."""
    return plan_file.load(path)


def request_of(data: Mapping[str, Any]) -> PlanRequest:
    """The request of a plan file with the mapping's content."""
    return plan_file.loads(yaml.safe_dump(data))


def ten_hours_on_p5(kind: str, region: str, **more: Any) -> dict[str, Any]:
    """The plan of ten hours on one p5.48xlarge on demand, with further keys."""
    return {
        "slipway": 1,
        "name": "small",
        "workload": {"train": {"hours": 10}},
        "target": {"kind": kind, "region": region, "instance_type": "p5.48xlarge", "nodes": 1},
        "purchase": {"option": "on-demand"},
        "run": {"command": ["true"]},
        **more,
    }


def two_node_plan(kind: str, catalog: Catalog) -> Plan:
    """The plan `probe` of two p5 instances in one zone of Ohio, on demand."""
    target = {"kind": kind, "instance_type": "p5.48xlarge", "nodes": 2, "region": "us-east-2", "az_id": "use2-az1"}
    job = {"slipway": 1, "name": "probe", "workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 2.0}}}
    return pinned_plan(request_of(job | {"target": target, "purchase": {"option": "on-demand"}}), catalog)


def laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping with another one merged into it, level by level."""
    merged = dict(base)
    for key, value in changes.items():
        deeper = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = laid_over(merged[key], value) if deeper else value
    return merged
