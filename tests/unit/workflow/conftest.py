"""An account that the workflow tests examine."""

import pytest

from tests.emulators import aws_account
from tests.waiting import replace_sleep


@pytest.fixture(scope="package")
def one_account():
    with aws_account.served() as state:
        yield state


@pytest.fixture
def account(one_account, monkeypatch):
    """That account, empty again; botocore does not wait before it tries again."""
    replace_sleep(monkeypatch, "botocore.endpoint")
    aws_account.reset(one_account)
    return one_account
