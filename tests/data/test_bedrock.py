"""The shipped Bedrock prices and measured serving rows."""

import csv
from datetime import date
from decimal import Decimal

import pytest

from launcher.catalog.bedrock import DATA, BedrockCatalog
from launcher.catalog.load import load
from launcher.catalog.serving import load_serving, model_of
from launcher.model.enums import Basis, BedrockProfile
from tests.checks import some

CATALOG = BedrockCatalog()


def test_bedrock_prices_have_a_date_and_a_source():
    for rows in some(CATALOG.rows.values()):
        for row in rows:
            assert date(2026, 11, 12) <= row.as_of <= date(2026, 11, 28)
            assert f" of {row.as_of}," in row.source
            assert row.input_usd >= 0
            assert row.output_usd >= 0
            assert (row.basis is Basis.UNVERIFIED) is row.source.endswith("without a source")


def test_bedrock_keys_are_unique_and_sorted():
    with (DATA / "bedrock.csv").open(encoding="utf-8", newline="") as file:
        keys = [(row["model_id"], row["profile"], row["region"]) for row in csv.DictReader(file)]
    assert len(keys) == len(set(keys))
    assert keys == sorted(keys)


def test_same_weights_name_bedrock_and_catalog_models():
    for model_id, model in some(CATALOG.same_weights.items()):
        assert model_id in CATALOG.rows
        assert model in load().models
        assert CATALOG.same_weights[CATALOG.model_id(model)] == model


@pytest.mark.parametrize(
    "name, inputs, outputs",
    [
        ("meta.llama3-1-8b-instruct-v1:0", "0.22", "0.22"),
        ("meta.llama3-3-70b-instruct-v1:0", "0.72", "0.72"),
        ("nova-micro", "0.035", "0.14"),
        ("nova-premier", "2.5", "12.5"),
        ("claude-haiku-4-5", "1.0", "5.0"),
        ("Claude Opus 5.5", "4.0", "20.0"),
        ("deepseek.r1-v1:0", "1.35", "5.4"),
        ("openai.gpt-oss-120b-1:0", "0.15", "0.6"),
    ],
)
def test_bedrock_prices_of_known_models_are_as_published(name, inputs, outputs):
    rows = CATALOG.rows[CATALOG.find(name) or ""]
    assert (Decimal(inputs), Decimal(outputs)) in {(row.input_usd, row.output_usd) for row in rows}


def test_bedrock_price_of_the_region_precedes_the_profile():
    own = next(row for row in CATALOG.rows["amazon.nova-micro-v1:0"] if row.region)
    assert CATALOG.price("amazon.nova-micro-v1:0", own.region) == own
    assert CATALOG.price("amazon.nova-micro-v1:0", "us-east-1").region == ""
    assert CATALOG.price("amazon.nova-micro-v1:0", "eu-west-1", BedrockProfile.EU).profile == "eu"
    assert CATALOG.price("nothing", "us-east-1") is None


@pytest.mark.parametrize("region, inputs", [("us-east-1", "0.15"), ("us-east-2", "0.15"), ("us-gov-west-1", "0.18")])
def test_bedrock_price_of_govcloud_is_of_govcloud_only(region, inputs):
    for profile in (None, BedrockProfile.NONE):
        price = CATALOG.price("openai.gpt-oss-120b-1:0", region, profile)
        assert price is not None
        assert price.input_usd == Decimal(inputs)
        assert (price.basis is Basis.LISTED) is (region != "us-east-2")


def test_no_bedrock_price_of_a_commercial_region_is_derived_from_govcloud():
    prices = (CATALOG.price(name, region) for name in some(CATALOG.rows) for region in ("us-east-1", "us-west-2"))
    assert not [price for price in some(filter(None, prices)) if "price of us-gov" in price.source]


def test_bedrock_price_is_unknown_before_the_first_day():
    early = BedrockCatalog(prices_as_of=date(2026, 11, 11))
    assert early.price("amazon.nova-micro-v1:0", "us-east-1") is None
    assert early.find("nova-micro") == "amazon.nova-micro-v1:0"


def test_measured_serving_rows_are_of_neuron_models():
    measured = load_serving().measured
    assert measured
    for serving in measured:
        assert serving.accelerator in ("Inferentia2", "Trainium1")
        assert serving.model in load().models
        assert serving.tokens_per_s > 0
        assert "optimum-neuron" in serving.source


@pytest.mark.parametrize(
    "label, name",
    [
        ("Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Llama-2-7b-hf", "llama-2-7b"),
        ("Llama-2-70B-GPTQ", "llama-2-70b"),
        ("CodeLlama-13b-hf", "llama-2-13b"),
        ("Mistral-7B-Instruct-v0.2", "mistral-7b"),
        ("Llama-3-8B (fine-tune)", "llama-3-8b"),
        ("LLaMA-7B", "llama-1-7b"),
        ("Nobody-7B", None),
    ],
)
def test_model_labels_of_rows_are_recognised(label, name):
    spec = model_of(label, load())
    assert (spec.name if spec else None) == name


class TestRegionalPrice:
    """What a region without a row of its own is quoted."""

    @pytest.mark.parametrize("model", ["anthropic.claude-sonnet-4-6", "anthropic.claude-haiku-4-5-20251001-v1:0"])
    def test_call_in_the_region_is_not_quoted_at_the_global_profiles_price(self, model):
        own = CATALOG.price(model, "us-east-1", BedrockProfile.NONE)
        geographic = CATALOG.price(model, "us-east-1", BedrockProfile.US)
        assert (own.input_usd, own.output_usd) == (geographic.input_usd, geographic.output_usd)
        assert own.basis is Basis.DERIVED
        assert "the us profile's price" in own.source

    def test_region_without_a_row_has_the_highest_price_of_the_area(self):
        model = "minimax.minimax-m2.5"
        own = CATALOG.price(model, "eu-west-3", BedrockProfile.NONE)
        area = [row for row in CATALOG.rows[model] if row.region.startswith("eu-") and not row.profile]
        assert own.input_usd == max(row.input_usd for row in area)
        assert own.basis is Basis.DERIVED

    def test_region_with_a_separate_row_keeps_the_price(self):
        model = "minimax.minimax-m2.5"
        row = next(row for row in CATALOG.rows[model] if row.region and not row.profile)
        assert CATALOG.price(model, row.region, BedrockProfile.NONE) == row

    def test_bedrock_prefix_is_removed_from_the_model_id(self):
        assert CATALOG.find("bedrock/us.meta.llama3-1-8b-instruct-v1:0") == "meta.llama3-1-8b-instruct-v1:0"
