"""Plans priced from text, on a fixed day."""

from collections.abc import Callable
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from launcher.catalog.load import Catalog, load
from launcher.pricing.priced import Priced
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price_request
from tests.plans import NOW, laid_over, request_of

Pricer = Callable[..., Priced]


@pytest.fixture(scope="session")
def priced() -> Pricer:
    """Price a plan: see `price_over`."""
    return price_over


def price_over(changes: dict[str, Any] | None = None, *, now: datetime = NOW, **options: Any) -> Priced:
    """Price a plan: a mapping laid over a small pinned one, and the options of the command line."""
    price_options = PriceOptions(**options)
    request = request_of(laid_over(BASE, changes or {}))
    return price_request(Path("plan.yaml"), request, _catalog(price_options.prices_as_of), now, price_options)


@lru_cache
def _catalog(day: date | None) -> Catalog:
    return load(prices_as_of=day)


BASE = {
    "slipway": 1,
    "name": "job",
    "workload": {"train": {"model": "llama-3.1-8b", "method": "pretrain", "hours": 10}},  # fetches no weights
    "target": {"kind": "parallelcluster", "instance_type": "p5.48xlarge", "nodes": 1, "region": "us-east-1"},
    "purchase": {"option": "on-demand"},
}
