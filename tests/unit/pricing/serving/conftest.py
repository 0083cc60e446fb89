"""Serving plans priced from a mapping, on a fixed day."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.catalog.load import load
from launcher.pricing.serving.quoting import ServingPriced
from launcher.workflow.quote.compare_serving import ServingComparison, compare_serving
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.serving import price_serving
from tests.plans import NOW, request_of

CATALOG = load()
PATH = Path("plan.yaml")
CHAT = {"model": "llama-3.1-8b", "input_tokens": 1500, "output_tokens": 250, "requests_per_s": 4}


def request(serve: dict[str, Any] | None = None, **sections: Any):
    """A plan of Llama 3.1 8B in us-east-1 with a workload and sections laid over it."""
    target = {"region": "us-east-1", **sections.pop("target", {})}
    plan = {
        "slipway": 1,
        "name": "chat",
        "workload": {"serve": {**CHAT, **(serve or {})}},
        "target": target,
        **sections,
    }
    return request_of(plan)


@pytest.fixture(scope="session")
def serving_priced() -> Callable[..., ServingPriced]:
    """The candidates of a serving plan."""

    def price(serve: dict[str, Any] | None = None, *, options: PriceOptions | None = None, **sections: Any):
        return price_serving(PATH, request(serve, **sections), CATALOG, NOW, options or PriceOptions())

    return price


@pytest.fixture(scope="session")
def compared() -> Callable[..., ServingComparison]:
    """The comparison of a serving plan."""

    def compare(serve: dict[str, Any] | None = None, **sections: Any):
        return compare_serving(PATH, request(serve, **sections), CATALOG, NOW, PriceOptions())

    return compare
