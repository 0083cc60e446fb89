"""Damaged price feeds, from a seed: a price in dollars above zero, a refusal, or a failed question."""

import json
import random
from collections import Counter
from functools import partial

import pytest

from launcher.aws import price_list
from launcher.aws.feeds import public_files
from launcher.catalog.fetched_prices import FetchedPrices
from launcher.model.errors import AwsError
from launcher.workflow.quote.price_needs import Question
from launcher.workflow.quote.price_tasks import answers
from tests.attack.odd import changed, text_of
from tests.emulators.price_entries import ec2_product, ml_product, reserved_term, term
from tests.emulators.public_prices import advisor_file
from tests.plans import NOW

P5, REGION = "p5.48xlarge", "us-east-2"


def offer(*entries):
    """An offer file of some products, as the stand-in of the site makes it."""
    products = {f"SKU{number}": entry["product"] for number, entry in enumerate(entries)}
    terms = {}
    for number, entry in enumerate(entries):
        for kind, terms_of_kind in entry["terms"].items():
            terms.setdefault(kind, {})[f"SKU{number}"] = terms_of_kind
    return {"formatVersion": "v1.0", "products": products, "terms": terms}


EC2 = offer(
    ec2_product(P5, REGION, term("50.04"), reserved=(reserved_term(3, "No Upfront", "20.5", "0"),)),
    ec2_product("p4d.24xlarge", REGION, term("21.96")),
)
SAGEMAKER = offer(ml_product(f"ml.{P5}", REGION, "Cluster", "66.5", f"USE2-Cluster:ml.{P5}"))


def ec2_case(path):
    offers = public_files.products(path, "EC2", lambda _: True)
    return price_list.ec2_answer(offers, {P5, "p4d.24xlarge"}, {REGION}, NOW, reserved=True)


def sagemaker_file(path):
    names, regions = {f"ml.{P5}"}, {REGION}
    offers = public_files.products(path, "SageMaker", lambda stated: price_list.is_managed(stated, names, regions))
    return price_list.sagemaker_answer(offers, NOW)


def of_advisor(path):
    return FetchedPrices(bands=public_files.bands(path, {P5}, {REGION}, NOW.date()))


def _answer(read, path, _):
    return read(path)


FEEDS = ((ec2_case, EC2), (sagemaker_file, SAGEMAKER), (of_advisor, json.loads(advisor_file({REGION: {P5: (60, 1)}}))))


@pytest.mark.parametrize("rounds", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_price_feed_gives_prices_or_an_error(seed, rounds, tmp_path):
    chance, outcomes = random.Random(seed), Counter()
    question = Question(kind="price-file", names=("AmazonEC2",), regions=(REGION,))
    for _ in range(rounds):
        read, document = chance.choice(FEEDS)
        path = tmp_path / "feed.json"
        path.write_bytes(text_of(chance, changed(chance, document, chance.randint(0, 3))))
        ((_, outcome),) = next(answers([question], partial(_answer, read, path)))
        assert isinstance(outcome, FetchedPrices | AwsError)
        if isinstance(outcome, FetchedPrices):
            assert all(rate.usd.is_finite() and rate.usd > 0 for rate in outcome.rates)
        outcomes[type(outcome).__name__] += 1
    assert min(outcomes["FetchedPrices"], outcomes["AwsError"]) > rounds / 20, outcomes
