"""Current offers as rows of a plan: with their own fee, id and source, among the other rows."""

from datetime import timedelta
from decimal import Decimal

import pytest

from launcher.answers.plan import page
from launcher.model.enums import PurchaseOption
from launcher.model.errors import ImpossibleError
from launcher.planning.quotas import DEFAULT_QUOTA
from launcher.pricing.standing import Standing
from launcher.pricing.stop_findings import LIMIT_NEEDED, STOPPED_BY_QUOTA
from launcher.workflow.doctor.live_offers import compared_live, with_live_offers
from launcher.workflow.quote.compare import compare
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.emulators.aws_account import DENIED, EC2_DENIED
from tests.unit.workflow.doctor.conftest import BEGINS, NOW, PLAN, block, quotas

pytestmark = pytest.mark.server
OPTIONS = PriceOptions(max_price_age=3650)


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
    keys = [(after.standing(rank), row.usd) for rank, row in enumerate(after.candidates, 1) if row.usd is not None]
    assert keys == sorted(keys)
    assert [(row.gate.verdict, row.gate.exit_code) for row in (one, two)] == [("refuse", 5)] * 2
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


SAGEMAKER = {
    "ml.p5.48xlarge for training job usage": 2.0,
    "Longest run time for a training job": 1_209_600.0,
    "Number of instances across all training jobs": 4.0,
    "Maximum number of instances per training job": 20.0,
}
LONG_JOB = (
    "slipway: 1\nname: probe\nworkload: {train: {hours: 150}}\n"
    "target: {kind: sagemaker-training, instance_type: p5.48xlarge, nodes: 2, region: us-east-2}\n"
    "purchase: {option: on-demand}\n"
)


def quotas_of(offering, **changed):
    """The account's quotas of SageMaker, some changed by the first word of their names."""
    values = {name: changed.get(name.partition(" ")[0].replace(".", "_"), value) for name, value in SAGEMAKER.items()}
    listed = [
        {"ServiceCode": "sagemaker", "QuotaName": name, "QuotaCode": f"L-{number:08d}", "Value": value}
        for number, (name, value) in enumerate(values.items())
    ]
    offering.canned["service-quotas.ListServiceQuotas"] = lambda sent: {
        "Quotas": listed if sent["ServiceCode"] == "sagemaker" else quotas(sent["ServiceCode"])
    }


def test_quota_of_longer_runs_lets_training_job_lead_and_names_the_key(with_live_rows, offering):
    quotas_of(offering)
    before, after, messages = with_live_rows(LONG_JOB)
    assert before.standing(1) is Standing.STOPPED
    assert after.standing(1) is Standing.ALLOWED
    assert "reading the quotas of sagemaker in us-east-2" in messages
    (finding,) = [finding for finding in after.quote(1).findings if finding.path == "run.time_limit_h"]
    assert finding.code == LIMIT_NEEDED
    assert "'Longest run time for a training job' is 336 h" in finding.message
    assert "without run.time_limit_h: 168 it is stopped after 120 h" in finding.message
    for width in (80, 120):
        assert "the account's quota 'Longest run time" in " ".join(
            " ".join(page(after, width, everything=False, called=True)).split()
        )
    with_key = LONG_JOB + "run: {time_limit_h: 300}\n"
    before, after, _ = with_live_rows(with_key)
    codes = [[finding.code for finding in priced.quote(1).findings] for priced in (before, after)]
    assert [STOPPED_BY_QUOTA in found for found in codes] == [True, False]
    assert [DEFAULT_QUOTA in found for found in codes] == [True, False]


@pytest.mark.parametrize(
    "changed, said, asked",
    [
        ({"ml_p5_48xlarge": 1.0}, "'ml.p5.48xlarge for training job usage' in us-east-2 is 1 instance", "value 2 "),
        ({"Number": 1.0}, "'Number of instances across all training jobs' in us-east-2 is 1 instance", "value 2 "),
    ],
)
def test_quota_that_forbids_a_row_refuses_it_with_the_request_to_make(with_live_rows, offering, changed, said, asked):
    quotas_of(offering, **changed)
    _, after, _ = with_live_rows(LONG_JOB)
    assert after.standing(1) is Standing.IMPOSSIBLE
    gate = after.quote(1).gate
    assert not gate.allows_launch
    assert said in gate.reason
    assert "the plan needs 2 (" in gate.reason
    assert "aws service-quotas request-service-quota-increase --region us-east-2 --service-code sagemaker" in gate.hint
    assert asked in gate.hint
    assert said in " ".join(" ".join(page(after, 80, everything=False, called=True)).split())


def test_shorter_quota_of_the_account_stops_the_job_earlier(with_live_rows, offering):
    quotas_of(offering, Longest=86_400.0)
    before, after, _ = with_live_rows(LONG_JOB.replace("150", "60"))
    assert before.standing(1) is Standing.ALLOWED
    assert after.standing(1) is Standing.IMPOSSIBLE
    assert "is 86,400 seconds, the plan needs 432,000" in after.quote(1).gate.reason


def test_quota_that_is_not_listed_or_not_read_stays_unknown(with_live_rows, offering):
    offering.canned["service-quotas.ListServiceQuotas"] = {"Quotas": []}
    before, after, _ = with_live_rows(LONG_JOB)
    assert after.standing(1) is before.standing(1) is Standing.STOPPED
    assert after.quote(1).findings == before.quote(1).findings
    offering.canned["service-quotas.ListServiceQuotas"] = DENIED
    _, after, messages = with_live_rows(LONG_JOB)
    assert after.standing(1) is Standing.STOPPED
    assert any(line.startswith("? list the quotas of sagemaker in us-east-2: ") for line in messages)


def test_ec2_quota_refuses_a_row_of_a_cluster(with_live_rows, offering):
    offering.canned["service-quotas.ListServiceQuotas"] = lambda sent: {
        "Quotas": quotas(sent["ServiceCode"], L_417A185B=192.0)
    }
    text = PLAN.replace("target: {", "target: {kind: parallelcluster, ") + "purchase: {option: on-demand}\n"
    _, after, messages = with_live_rows(text)
    assert after.standing(1) is Standing.IMPOSSIBLE
    assert "'Running On-Demand P instances' in us-east-2 is 192 vCPUs, the plan needs 384" in after.quote(1).gate.reason
    assert "reading the quotas of ec2 in us-east-2" in messages


ENDPOINT = (
    "slipway: 1\nname: chat\nworkload: {serve: {model: llama-3.1-8b, model_uri: s3://models-of-the-team/x, "
    "input_tokens: 500, output_tokens: 100, requests_per_s: 1}}\n"
    "target: {kind: sagemaker-endpoint, instance_type: g6e.2xlarge, region: us-east-1}\n"
)


def test_endpoint_quota_refuses_an_endpoint_and_offers_are_not_looked_up(with_live_rows, offering):
    listed = {"QuotaName": "ml.g6e.2xlarge for endpoint usage", "QuotaCode": "L-1", "Value": 0.0}
    offering.canned["service-quotas.ListServiceQuotas"] = {"Quotas": [listed]}
    before, after, messages = with_live_rows(ENDPOINT)
    rank = next(
        rank for rank, candidate in enumerate(after.candidates, 1) if candidate.place.instance_type == "g6e.2xlarge"
    )
    assert before.standing(1) is Standing.ALLOWED
    assert after.standing(rank) is Standing.IMPOSSIBLE
    assert "'ml.g6e.2xlarge for endpoint usage' in us-east-1 is 0 instances" in after.quote(rank).gate.reason
    assert any("search-training-plan-offerings" in line for line in messages)
    assert not [operation for operation, _ in offering.requests if "CapacityBlock" in operation]


def test_comparison_of_endpoints_with_live_offers_refused(with_live_rows):
    with pytest.raises(ImpossibleError, match="offers are looked up for jobs only"):
        with_live_rows(ENDPOINT, story=compare, live=compared_live)
