"""Prices before a deployment: refreshed when credentials exist, and gated twice."""

from decimal import Decimal

import pytest

from launcher.model.errors import ImpossibleError, OverBudgetError, UnpricedError
from launcher.model.sizing import head_node
from launcher.records.cache_folder import cache_folder
from launcher.workflow.quote.fresh import Kept, fresh_quote, gated_quote
from launcher.workflow.quote.options import PriceOptions
from tests.emulators.aws_prices import AwsPrices, served
from tests.emulators.price_entries import ec2_product, ml_product, spot_entry, term
from tests.plans import NOW
from tests.waiting import replace_sleep

pytestmark = pytest.mark.server
TYPE, REGION = "p5.48xlarge", "us-east-2"
PLAN = """
slipway: 1
name: x
workload: {train: {model: {params_b: 0.1}, hours: 1}}
target: {instance_type: p5.48xlarge, nodes: 1, region: us-east-2, az_id: use2-az1}
purchase: {option: OPTION}
"""


@pytest.fixture
def p5_prices(monkeypatch):
    replace_sleep(monkeypatch, "botocore.endpoint")
    with served(AwsPrices()) as state:
        state.products = [ec2_product(TYPE, REGION, term("60.00")), ec2_product("m6i.xlarge", REGION, term("0.192"))]
        state.spot = [
            spot_entry(TYPE, REGION, "us-east-2a", "19.5", since="2026-11-20T09:00:00.000Z", zone_id="use2-az1")
        ]
        yield state


@pytest.fixture
def ask_fresh(p5_prices, tmp_path):
    """A fresh quote of a plan with one purchase option, and its messages."""

    def ask(option, *, credentials=True, budget=""):
        path = tmp_path / "plan.yaml"
        path.write_text(PLAN.replace("OPTION", option) + budget)
        environment = p5_prices.environment(tmp_path)
        if not credentials:
            environment = {
                name: value for name, value in environment.items() if "KEY" not in name and "TOKEN" not in name
            }
            environment["AWS_EC2_METADATA_DISABLED"] = "true"
        messages = []
        options = PriceOptions(cache=cache_folder(environment))
        _, _, quote = fresh_quote(path, NOW, options, selection=None, environment=environment, notify=messages.append)
        return quote, messages

    return ask


@pytest.mark.parametrize("option,usd", [("on-demand", "60.00"), ("spot", "19.5")])
def test_outdated_price_is_refreshed_and_allowed(option, usd, ask_fresh):
    quote, _ = ask_fresh(option)
    assert quote.price.usd == Decimal(usd)
    assert quote.price.as_of == NOW.date()
    assert quote.gate.allows_launch


def test_outdated_price_without_credentials_refused(ask_fresh):
    with pytest.raises(UnpricedError, match="days old"):
        ask_fresh("spot", credentials=False)


def test_plan_over_budget_refused_before_refresh(p5_prices, ask_fresh):
    with pytest.raises(OverBudgetError):
        ask_fresh("spot", budget="budget: {max_usd: 1}\n")
    assert p5_prices.operations() == []


def test_refreshed_price_over_budget_refused(p5_prices, ask_fresh):
    p5_prices.products[0] = ec2_product(TYPE, REGION, term("190.00"))
    with pytest.raises(OverBudgetError):
        ask_fresh("on-demand", budget="budget: {max_usd: 150}\n")
    assert p5_prices.operations()


def test_price_gone_after_refresh_refused(p5_prices, ask_fresh):
    p5_prices.spot = []
    with pytest.raises(UnpricedError, match="no longer publishes"):
        ask_fresh("spot")


SERVING = """
slipway: 1
name: embed
workload:
  serve:
    model: qwen3-embedding-0.6b
    artifacts_uri: s3://models/embed
    task: embedding
    input_tokens: 400
    requests_per_s: 5
    tensor_parallel: 2
    max_instances: 1
target: {kind: sagemaker-endpoint, region: us-east-2, instance_type: inf2.xlarge}
purchase: {option: on-demand}
"""


def is_requested_spot(text, aws, folder):
    """A fresh quote of a plan file with credentials."""
    path = folder / "plan.yaml"
    path.write_text(text)
    environment = aws.environment(folder)
    options = PriceOptions(cache=cache_folder(environment))
    return fresh_quote(path, NOW, options, selection=None, environment=environment, notify=lambda _: None)[2]


def test_endpoint_price_is_refreshed_before_deployment(p5_prices, tmp_path):
    p5_prices.products = [ml_product("ml.inf2.xlarge", "us-east-2", "Hosting", "0.95", "USE2-Host:ml.inf2.xlarge")]
    quote = is_requested_spot(SERVING, p5_prices, tmp_path)
    assert quote.gate.allows_launch
    assert (quote.price.usd, quote.price.as_of) == (Decimal("0.95"), NOW.date())
    assert p5_prices.operations()


def test_verdict_against_endpoint_precedes_refresh(p5_prices, tmp_path):
    chat = SERVING.replace("qwen3-embedding-0.6b", "llama-3.1-8b").replace("    task: embedding\n", "")
    chat = chat.replace("input_tokens: 400", "input_tokens: 400\n    output_tokens: 100").replace("_s: 5", "_s: 0.01")
    with pytest.raises(ImpossibleError, match="the verdict is against it"):
        is_requested_spot(chat.replace("inf2.xlarge", "inf2.8xlarge"), p5_prices, tmp_path)
    assert p5_prices.operations() == []


@pytest.mark.parametrize("there, head", [(None, "m6i.2xlarge"), ("m6i.xlarge", "m6i.xlarge")])
@pytest.mark.parametrize("fresh", [False, True])
def test_existing_cluster_keeps_head_node_type(p5_prices, tmp_path, there, head, fresh):
    """17 nodes want a larger one, which ParallelCluster would not change."""
    path, messages = tmp_path / "plan.yaml", []
    path.write_text(PLAN.replace("OPTION", "on-demand").replace("nodes: 1", "nodes: 17, kind: parallelcluster"))
    options, how = (
        PriceOptions(any_age=True),
        {"selection": None, "notify": messages.append, "deployed": lambda plan: Kept(there)},
    )
    environment = p5_prices.environment(tmp_path)
    if fresh:
        _, _, quote = fresh_quote(path, NOW, options, environment=environment, **how)
    else:
        _, _, quote = gated_quote(path, NOW, options, **how)
    assert head_node(17, quote.plan.request.storage.head_node) == head
    assert any(head in line.name for line in quote.components)
    assert any("keeps its head node, m6i.xlarge" in line for line in messages) is (there is not None)
