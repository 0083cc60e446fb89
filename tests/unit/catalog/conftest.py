"""The shipped catalog, without a cache beside it."""

import pytest

from launcher.catalog.load import Catalog, load


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load()
