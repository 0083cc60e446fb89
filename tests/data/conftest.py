"""The shipped catalog, as every data test sees it."""

import pytest

from launcher.catalog.load import Catalog, load


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load()
