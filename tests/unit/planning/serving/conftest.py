"""Shared fixtures of the serving estimate's tests."""

from collections.abc import Callable
from typing import Any

import pytest

from launcher.catalog.load import Catalog
from launcher.catalog.serving import load_serving
from launcher.model.serving import ServedModel, ServingFacts
from launcher.model.workload import ServingWorkload
from launcher.planning.serving.layout import LayoutChoice, layouts
from launcher.planning.serving.model import served_model


@pytest.fixture(scope="session")
def facts() -> ServingFacts:
    return load_serving()


@pytest.fixture(scope="session")
def model(catalog: Catalog) -> Callable[[str], ServedModel]:
    def find_model(name: str) -> ServedModel:
        spec = catalog.find_model(name)
        assert spec is not None
        return served_model(spec)

    return find_model


@pytest.fixture(scope="session")
def choose(catalog: Catalog, facts: ServingFacts, model: Callable[[str], ServedModel]) -> Callable[..., LayoutChoice]:
    """What a type serves of a model: `choose("inf2.48xlarge", "llama-3.1-8b", input_tokens=1500)`."""

    def chosen(instance_type: str, name: str, **workload: Any) -> LayoutChoice:
        serve = ServingWorkload(model=name, **{"requests_per_s": 1.0, **workload})
        known = catalog.instance_types[instance_type]
        return layouts(serve, model(name), known, catalog.accelerators[known.accelerator or ""], facts)

    return chosen
