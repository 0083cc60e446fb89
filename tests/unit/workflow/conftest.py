"""An account that the workflow tests examine."""

import pytest

from launcher.aws.session import Session
from tests.emulators import aws_account, endpoint_runtime
from tests.emulators.endpoint_runtime import Runtime
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


@pytest.fixture
def runtime(request):
    """A SageMaker endpoint that answers, with the settings of the test module's RUNTIME."""
    with endpoint_runtime.served(Runtime(**getattr(request.module, "RUNTIME", {}))) as state:
        yield state


@pytest.fixture
def endpoint_session(runtime):
    return Session(environment=runtime.environment(), region="us-east-1")
