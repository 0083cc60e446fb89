"""Real boto3 against an emulator of AWS's price services; server and clients are shared, the state is per test."""

import dataclasses

import pytest

from launcher.aws.clients import Sessions
from launcher.aws.session import Session
from tests.emulators.aws_prices import SERVICES, AwsPrices, served
from tests.waiting import replace_sleep


@pytest.fixture(scope="package")
def served_prices(tmp_path_factory):
    """The services and the sessions that talk to them."""
    with served(AwsPrices()) as state:
        sessions = Sessions(state.environment(tmp_path_factory.mktemp("cache")))
        yield state, sessions
        sessions.close()


@pytest.fixture
def price_services(served_prices, monkeypatch):
    """The services, empty; botocore does not wait between its attempts."""
    replace_sleep(monkeypatch, "botocore.endpoint")
    state, _ = served_prices
    for name, value in vars(AwsPrices(url=state.url)).items():
        setattr(state, name, value)
    return state


@pytest.fixture
def session_of(price_services, served_prices):
    """Sessions of regions with clients of all four services."""
    _, sessions = served_prices

    def session(region: str = "us-east-1") -> Session:
        for service in SERVICES:
            service_session = sessions.session(region, service.lower())
        return dataclasses.replace(service_session)

    return session
