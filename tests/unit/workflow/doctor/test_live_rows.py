"""Current offers as rows of a plan: with their own fee, id and source, among the other rows."""

from datetime import timedelta
from decimal import Decimal

import pytest

from launcher.answers.plan import page
from launcher.model.enums import PurchaseOption
from launcher.model.errors import ImpossibleError
from launcher.workflow.doctor.live_offers import compared_live, with_live_offers
from launcher.workflow.quote.compare import compare
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.emulators.aws_account import EC2_DENIED
from tests.unit.workflow.doctor.conftest import BEGINS, NOW, PLAN, block

pytestmark = pytest.mark.server
OPTIONS = PriceOptions(any_age=True)


@pytest.fixture
def with_live_rows(offering, tmp_path):
    def ask(text=PLAN, story=price, live=with_live_offers):
        path = tmp_path / "plan.yaml"
        path.write_text(text, encoding="utf-8")
        messages = []
        before = story(path, NOW, OPTIONS)
        return before, live(before, OPTIONS, environment=offering.environment, notify=messages.append), messages

    return ask


def live_rows(priced):
    return [
        priced.quote(rank)
        for rank in range(1, len(priced.candidates) + 1)
        if priced.quote(rank).note.startswith("offered")
    ]


def test_offered_capacity_block_becomes_row_at_fee(with_live_rows):
    before, after, messages = with_live_rows()
    two, one = sorted(live_rows(after), key=lambda row: row.price.usd)
    assert [row.plan.place.option for row in (one, two)] == [PurchaseOption.CAPACITY_BLOCK] * 2
    # $2,500 for two instances over 24 hours.
    assert round(one.price.usd, 6) == round(Decimal(2500) / 48, 6)
    # It is not bought yet: all of it is still to be paid.
    assert one.cash_usd == pytest.approx(one.usd.mid)
    assert one.price.source == "AWS, DescribeCapacityBlockOfferings at this moment"
    assert one.price.as_of == NOW.date()
    assert "cb-00000000000000001" in one.note
    assert f"from {BEGINS:%Y-%m-%d %H:%M} UTC" in one.note
    assert len(after.candidates) == len(before.candidates) + 2
    totals = [candidate.usd for candidate in after.candidates if candidate.usd is not None]
    assert totals == sorted(totals)
    assert messages[-1].startswith("2 current offers")
    text = " ".join(" ".join(page(after, 120, everything=True, called=True)).split())
    assert "cb-00000000000000001" in text
    assert "nothing was spent" in text


def test_short_offers_give_no_row_and_refused_requests_are_reported(with_live_rows, offering):
    offering.canned["ec2.DescribeCapacityBlockOfferings"] = {
        "CapacityBlockOfferings": [block(9, 1, "1.00", NOW, EndDate=NOW + timedelta(minutes=30))]
    }
    before, after, _ = with_live_rows()
    assert not live_rows(after)
    assert len(after.candidates) == len(before.candidates)
    offering.canned["ec2.DescribeCapacityBlockOfferings"] = EC2_DENIED
    _, after, messages = with_live_rows()
    assert not live_rows(after)
    assert any(line.startswith("? Capacity Blocks of") for line in messages)


def test_comparison_includes_live_rows(with_live_rows):
    _, after, _ = with_live_rows(story=compare, live=compared_live)
    assert live_rows(after.priced)
    cheapest = min(candidate.usd for candidate in after.priced.candidates if candidate.usd is not None)
    assert after.gpu.usd.mid >= cheapest


def test_live_rows_for_endpoint_refused(with_live_rows):
    text = (
        "slipway: 1\nname: chat\nworkload: {serve: {model: llama-3.1-8b, model_uri: s3://models-of-the-team/x, "
        "input_tokens: 500, output_tokens: 100, requests_per_s: 1}}\n"
        "target: {kind: sagemaker-endpoint, instance_type: g6e.2xlarge, region: us-east-1}\n"
    )
    with pytest.raises(ImpossibleError, match="offers are looked up for jobs only"):
        with_live_rows(text)
