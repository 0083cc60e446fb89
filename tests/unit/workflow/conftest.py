"""An account that every room of the stories examines."""

import pytest

from tests.stand_ins import aws_account


@pytest.fixture(scope="package")
def one_account():
    with aws_account.served() as state:
        yield state
