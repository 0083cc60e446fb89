"""Bedrock by region and profile, with a prompt cache, in a batch, and with custom weights."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.load import load
from launcher.model.enums import BedrockMode, BedrockProfile, PurchaseOption
from launcher.model.errors import ImpossibleError
from launcher.pricing.verdict import ServingChoice
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.serving import price_serving
from tests.unit.pricing.serving.conftest import PATH, request

HAIKU = {"model": "claude-haiku-4-5", "requests_per_s": 1, "input_tokens": 2000, "output_tokens": 400}
MONTH_S = 730 * 3600
OWN = {"model_uri": "s3://weights/mine", "bedrock": {"import_copies": 1}}


def host(priced, serve, region="us-east-1", mode=BedrockMode.ON_DEMAND):
    """The quote of a plan's Bedrock candidate of one mode."""
    priced_plan = priced(serve, target={"region": region}, purchase={"option": "bedrock"})
    return next(quote for quote in priced_plan.quotes if quote.serving.bedrock.mode is mode)


def line(quoted, name):
    return next(component for component in quoted.components if name in component.name)


@pytest.mark.parametrize(
    "profile, region, id_, usd",
    [
        ("auto", "us-east-1", "us.anthropic.claude-haiku-4-5-20251001-v1:0", "1.1"),
        ("us", "us-east-1", "us.anthropic.claude-haiku-4-5-20251001-v1:0", "1.1"),
        ("global", "us-east-1", "global.anthropic.claude-haiku-4-5-20251001-v1:0", "1.0"),
        ("none", "us-east-1", "anthropic.claude-haiku-4-5-20251001-v1:0", "1.1"),
        ("auto", "eu-west-1", "anthropic.claude-haiku-4-5-20251001-v1:0", "1.1"),
        ("auto", "ap-northeast-1", "jp.anthropic.claude-haiku-4-5-20251001-v1:0", "1.1"),
        ("apac", "ap-northeast-1", "apac.anthropic.claude-haiku-4-5-20251001-v1:0", "1.1"),
        ("auto", "us-gov-west-1", "anthropic.claude-haiku-4-5-20251001-v1:0", "1.2"),
    ],
)
def test_price_is_of_the_region_and_the_inference_profile(serving_priced, profile, region, id_, usd):
    serve = {**HAIKU, "bedrock": {"model": "anthropic.claude-haiku-4-5-20251001-v1:0", "profile": profile}}
    quoted = host(serving_priced, serve, region)
    assert quoted.serving.bedrock.inference_id == id_
    assert quoted.serving.bedrock.input_usd_per_million == Decimal(usd)
    assert id_ in line(quoted, "input").name
    assert id_ in quoted.note


@pytest.mark.parametrize(
    "region, usd, source",
    [
        ("us-gov-east-1", "0.03", "litellm 1.110.2 of 2026-11-28"),
        ("us-gov-west-1", "0.11", "litellm 1.109.1 of 2026-11-12"),
        ("us-east-1", "0.02", "litellm 1.109.1 of 2026-11-12"),
    ],
)
def test_price_of_an_embedding_model_names_the_source_file_of_the_row(region, usd, source):
    prices = BedrockCatalog().rows["amazon.titan-embed-text-v2:0"]
    of_region = [price for price in prices if price.region == region] or [price for price in prices if not price.region]
    assert [(price.input_usd, price.source.startswith(source)) for price in of_region] == [(Decimal(usd), True)]


def test_withdrawn_profile_price_is_not_used(serving_priced):
    """The auto case of eu-west-1 above: the eu profile's price ended on 2026-10-15."""
    serve = {**HAIKU, "bedrock": {"model": "anthropic.claude-haiku-4-5-20251001-v1:0", "profile": "eu"}}
    assert "withdrawn" in host(serving_priced, serve, "eu-west-1").no_price_reason


def test_a_cheaper_profile_is_named(serving_priced):
    serve = {**HAIKU, "bedrock": {"model": "anthropic.claude-haiku-4-5-20251001-v1:0"}}
    findings = {finding.code: finding for finding in host(serving_priced, serve).findings}
    assert "global at $1.0 in and $5.0 out" in findings["cheaper-profile"].message
    assert "any region of the profile us" in findings["bedrock-profile"].message


def test_a_profile_of_elsewhere_is_refused(serving_priced):
    with pytest.raises(ImpossibleError) as refused:
        serving_priced({"bedrock": {"profile": "eu"}})
    (finding,) = [finding for finding in refused.value.findings if finding.code == "bedrock-profile"]
    assert finding.path == "workload.serve.bedrock.profile"
    assert "allowed: us, global, none, auto" in finding.message


def test_a_profile_without_a_price_is_unpriced(serving_priced):
    quoted = host(serving_priced, {"bedrock": {"profile": "global"}})
    assert "with profile global; of profiles there: us" in quoted.no_price_reason


def test_of_several_regions_the_cheapest_is_taken():
    catalog = BedrockCatalog()
    for model_id in ("meta.llama3-70b-instruct-v1:0", "anthropic.claude-haiku-4-5-20251001-v1:0"):
        for region in ("us-east-1", "ap-south-1", "eu-west-2"):
            price = catalog.price(model_id, region, BedrockProfile.NONE)
            assert price.profile == ""
            assert price.region in ("", region)


def test_regional_price_is_used_where_listed(serving_priced):
    serve = {"model": "llama-3-8b"}
    home, away = host(serving_priced, serve), host(serving_priced, serve, "ap-south-1")
    assert away.serving.bedrock.input_usd_per_million == Decimal("0.36")
    assert away.usd.mid > home.usd.mid
    both = serving_priced(serve, target={"region": ["ap-south-1", "us-east-1"]}, purchase={"option": "bedrock"})
    assert [candidate.place.region for candidate in both.candidates] == ["us-east-1"]


def test_prompt_cache_saves_the_price_difference_of_cached_input(serving_priced):
    id_ = {"model": "anthropic.claude-haiku-4-5-20251001-v1:0", "profile": "us"}
    plain = host(serving_priced, {**HAIKU, "bedrock": id_})
    cached = host(serving_priced, {**HAIKU, "bedrock": id_, "cached_input_fraction": 0.75})
    assert line(cached, "from the cache").unit_price_usd == Decimal("0.11")
    saved = Decimal("0.75") * 2000 * MONTH_S * (Decimal("1.1") - Decimal("0.11")) / 1_000_000
    assert plain.usd.mid - cached.usd.mid == pytest.approx(saved, rel=Decimal("1e-6"))
    assert "75% of the input" in next(
        assumption.value for assumption in cached.assumptions if assumption.name == "prompt cache"
    )


def test_rarely_used_prompt_cache_is_written_again(serving_priced):
    id_ = {"model": "anthropic.claude-haiku-4-5-20251001-v1:0", "profile": "us"}
    serve = {**HAIKU, "bedrock": id_, "cached_input_fraction": 0.75, "requests_per_s": 1 / 3000}
    quoted = host(serving_priced, serve)
    written, read = line(quoted, "to the cache"), line(quoted, "from the cache")
    assert written.unit_price_usd == Decimal("1.375")
    assert written.quantity / (written.quantity + read.quantity) == pytest.approx(0.9048, abs=1e-3)
    assert quoted.usd.mid > host(serving_priced, {**serve, "cached_input_fraction": 0}).usd.mid


def test_model_without_a_cache_price_pays_in_full_with_a_finding(serving_priced):
    quoted = host(serving_priced, {"cached_input_fraction": 0.5})
    assert quoted.usd.mid == host(serving_priced, {}).usd.mid
    assert "no-cache-price" in {finding.code for finding in quoted.findings}


def test_quote_of_instances_states_prompt_cache_as_not_counted(serving_priced):
    priced_plan = serving_priced({"cached_input_fraction": 0.5}, purchase={"option": "on-demand"})
    assert [
        assumption.value for assumption in priced_plan.quote(1).assumptions if assumption.name == "prompt cache"
    ] == ["not counted"]


def test_a_batch_is_half_the_price_where_requests_may_wait(serving_priced):
    waiting = {"asynchronous": True}
    plain, batch = (host(serving_priced, waiting, mode=mode) for mode in (BedrockMode.ON_DEMAND, BedrockMode.BATCH))
    assert batch.usd.mid == plain.usd.mid / 2
    assert "bedrock-batch" in {finding.code for finding in batch.findings}
    assert BedrockMode.BATCH not in {
        quote.serving.bedrock.mode for quote in serving_priced({}).quotes if quote.serving.bedrock
    }


def test_long_requests_cost_the_long_context_price(serving_priced):
    serve = {"model": "openai.gpt-5.4", "bedrock": {"profile": "us"}, "output_tokens": 400}
    row = BedrockCatalog().price("openai.gpt-5.4", "us-east-1", BedrockProfile.US)
    short, long = (host(serving_priced, {**serve, "input_tokens": tokens}) for tokens in (272_000, 272_001))
    assert short.serving.bedrock.input_usd_per_million == row.input_usd
    assert long.serving.bedrock.input_usd_per_million == row.parts["over_272k_input"] > row.input_usd


def test_imported_weights_are_billed_by_the_unit_and_the_minute(serving_priced):
    quoted = host(serving_priced, OWN, mode=BedrockMode.CUSTOM_IMPORT)
    run, storage = line(quoted, "imported, 1 × 2 units"), line(quoted, "kept")
    assert run.unit_price_usd == Decimal("0.05718")
    assert run.quantity == pytest.approx(2 * 730 * 60, rel=1e-3)
    assert storage.usd == Decimal("3.90")
    assert "other-weights" not in {finding.code for finding in quoted.findings}


def test_an_import_sleeps_between_rare_requests(serving_priced):
    quoted = host(serving_priced, {**OWN, "requests_per_s": 1 / 300}, mode=BedrockMode.CUSTOM_IMPORT)
    assert line(quoted, "2 units").quantity == pytest.approx(730 * 60)


def test_weights_missing_in_bedrock_can_be_imported(serving_priced):
    serve = {"model": {"params_b": 13}, "bedrock": {"import_copies": 2, "import_units": 3}}
    priced_plan = serving_priced(serve, purchase={"option": "bedrock"})
    (only,) = priced_plan.quotes
    assert only.serving.bedrock.mode is BedrockMode.CUSTOM_IMPORT
    assert only.plan.place.option is PurchaseOption.BEDROCK
    assert "import-without-uri" in {finding.code for finding in priced_plan.findings}


@pytest.mark.parametrize(
    "bedrock, region, message",
    [
        ({"mode": "custom-import"}, "us-east-1", "bedrock.import_copies"),
        ({"import_copies": 1}, "eu-west-1", "bedrock.import_usd_per_unit_minute"),
    ],
)
def test_import_without_copies_or_a_price_is_unpriced(serving_priced, bedrock, region, message):
    assert message in host(serving_priced, {"bedrock": bedrock}, region, BedrockMode.CUSTOM_IMPORT).no_price_reason


def test_import_without_known_units_is_unpriced_and_names_the_key(serving_priced):
    serve = {"model": "mistral-7b", "bedrock": {"import_copies": 1}}
    assert "bedrock.import_units" in host(serving_priced, serve, mode=BedrockMode.CUSTOM_IMPORT).no_price_reason


def test_override_of_the_import_price_replaces_the_listed_one(serving_priced):
    serve = {"bedrock": {"import_copies": 1, "import_usd_per_unit_minute": "0.1"}}
    assert line(host(serving_priced, serve, mode=BedrockMode.CUSTOM_IMPORT), "units").unit_price_usd == Decimal("0.1")


def test_a_verdict_against_an_import_names_no_volume(compared):
    comparison = compared({**OWN, "requests_per_s": 200, "bedrock": {"import_copies": 1, "mode": "custom-import"}})
    assert comparison.verdict.choice is ServingChoice.BEDROCK
    assert comparison.sides.turn is None


@pytest.mark.parametrize("now, reported", [("2026-02-01", False), ("2026-11-23", True)])
def test_an_announced_end_is_reported_from_a_year_before(now, reported):
    """AWS withdraws Llama 3 8B after 2027-03-30 (the catalog's row)."""
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    plan = request({"model": "llama-3-8b", "requests_per_s": 0.05})
    priced_plan = price_serving(PATH, plan, load(), moment, PriceOptions())
    rank = next(rank for rank, candidate in enumerate(priced_plan.candidates, 1) if candidate.place.option == "bedrock")
    quoted = priced_plan.quote(rank)
    ends = [finding.message for finding in quoted.findings if finding.code == "announced-end"]
    assert bool(ends) is reported
    assert ("ends 2027-03-30" in quoted.note) is reported
    if reported:
        assert quoted.expires_at.date() == date(2027, 3, 30)
        assert "2027-03-30" in ends[0]


def test_the_verdict_ends_with_the_model(compared):
    comparison = compared({"model": "llama-3-8b", "requests_per_s": 0.05})
    assert comparison.verdict.text.startswith("Do not deploy: Bedrock is cheaper")
    assert comparison.verdict.text.endswith("until 2027-03-30, when AWS withdraws the model.")
