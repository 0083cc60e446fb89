"""Listing what an endpoint's deployment leaves running."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher.aws.session import Session
from launcher.catalog.serving_images import load_images
from launcher.planning.endpoint import ServingDeployment
from launcher.workflow.deploy.endpoint import left_behind
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from tests.emulators import endpoint_runtime
from tests.emulators.endpoint_runtime import Runtime

EXAMPLE = Path(__file__).parents[4] / "examples/serve/pinned/embedding-inf2.yaml"
NAME = "embedding-inf2"
REMOVES = f"slipway down {NAME} removes it"
STACK = "slipway-small-serving"

pytestmark = pytest.mark.xdist_group("endpoint")


@pytest.fixture(scope="module")
def quoted_endpoint():
    """One inf2.xlarge, up to three: what was quoted and what was decided."""
    priced = price(EXAMPLE, datetime(2026, 11, 20, 12, tzinfo=UTC), PriceOptions())
    _, quoted = pick(priced, None)
    return quoted, ServingDeployment(plan=quoted.plan, catalog=priced.catalog, images=load_images()).endpoint


@pytest.fixture
def endpoint_left(quoted_endpoint):
    """What is left when AWS is like this."""

    def once(**how):
        with endpoint_runtime.served(Runtime(**how)) as state:
            return left_behind(
                quoted_endpoint[0], quoted_endpoint[1], Session(environment=state.environment(), region="us-east-1")
            )

    return once


@pytest.fixture(scope="module")
def rate(quoted_endpoint):
    quoted, decided = quoted_endpoint
    assert (quoted.plan.place.nodes, decided.most) == (1, 3)
    return f"at up to ${3 * quoted.usd_per_hour:.2f} an hour"


def test_endpoint_left_running_is_reported_with_the_rate_at_maximum_scale(endpoint_left, rate):
    message, stack = endpoint_left()
    assert message == (
        f"endpoint slipway-{NAME} runs, InService, {rate}: slipway endpoint test {NAME} sends a request, {REMOVES}"
    )
    assert (stack.name, stack.status) == (STACK, "CREATE_COMPLETE")


def test_endpoint_after_a_failed_update_is_reported_as_running(endpoint_left):
    assert "runs, InService" in endpoint_left(stack="UPDATE_ROLLBACK_COMPLETE")[0]


def test_stack_in_progress_is_reported_with_the_endpoint_and_the_rate(endpoint_left, rate):
    going, _ = endpoint_left(stack="UPDATE_IN_PROGRESS", status="Updating")
    assert going.startswith(
        f"CloudFormation continues (UPDATE_IN_PROGRESS), and endpoint slipway-{NAME} runs, Updating"
    )
    coming, _ = endpoint_left(stack="CREATE_IN_PROGRESS", gone=True)
    assert coming == (
        f"CloudFormation continues (CREATE_IN_PROGRESS), and the endpoint may still start, {rate}: {REMOVES}"
    )


@pytest.mark.parametrize("status", ["ROLLBACK_COMPLETE", "REVIEW_IN_PROGRESS", "CREATE_COMPLETE"])
def test_stack_without_an_endpoint_is_reported_with_the_removal_command(endpoint_left, status):
    message, _ = endpoint_left(stack=status, gone=True)
    assert message == f"stack {STACK} remains ({status}), without its endpoint: {REMOVES}"


def test_missing_stack_and_endpoint_give_no_message(endpoint_left):
    assert endpoint_left(deployed=False, gone=True) == (None, None)


def test_unreadable_account_is_reported_with_the_removal_command(quoted_endpoint):
    nobody = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    message, stack = left_behind(
        quoted_endpoint[0],
        quoted_endpoint[1],
        Session(environment={**nobody, "AWS_MAX_ATTEMPTS": "1"}, region="us-east-1"),
    )
    assert message.startswith("Slipway cannot read whether the endpoint runs and is billed (")
    assert message.endswith(f": {REMOVES}")
    assert stack is None
