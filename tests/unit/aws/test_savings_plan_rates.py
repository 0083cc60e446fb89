"""Savings Plan rates, through real boto3."""

from launcher.aws import savings_plans
from tests.emulators.price_entries import ml_product, rate

P5 = "p5.48xlarge"


def rates(answer):
    keys = {plan_rate.key: str(plan_rate.usd) for plan_rate in answer.rates}
    return {(key.region, key.detail, key.term_years, key.payment): usd for key, usd in keys.items()}


def test_savings_plan_kinds_terms_and_payments_are_read_from_all_pages(price_services, session_of):
    price_services.page_size = 1
    price_services.rates = [
        rate(P5, "us-east-1", "41.5", plan_type="Compute", years=3, payment="No Upfront"),
        rate(P5, "us-east-1", "44.25", plan_type="EC2Instance", years=1, payment="All Upfront"),
        rate(P5, "us-west-2", "45", plan_type="EC2Instance", years=1, payment="Partial Upfront"),
        rate(P5, "eu-west-1", "46", plan_type="Compute", years=1, payment="No Upfront"),
        rate("p4d.24xlarge", "us-east-1", "17", plan_type="Compute", years=3, payment="No Upfront"),
    ]
    offers = savings_plans.ec2(session_of(), P5, ("us-east-1", "us-west-2"))
    assert rates(offers) == {
        ("us-east-1", "compute", 3, "no-upfront"): "41.5",
        ("us-east-1", "ec2-instance", 1, "all-upfront"): "44.25",
        ("us-west-2", "ec2-instance", 1, "partial-upfront"): "45",
    }
    assert price_services.operations() == ["DescribeSavingsPlansOfferingRates"] * 3


def test_unused_capacity_and_other_terms_are_left_out(price_services, session_of):
    price_services.rates = [
        rate(P5, "us-east-1", "41", plan_type="Compute", years=3, payment="No Upfront", usage=f"UnusedBox:{P5}"),
        rate(P5, "us-east-1", "40", plan_type="Compute", years=2, payment="No Upfront"),
    ]
    offers = savings_plans.ec2(session_of(), P5, ("us-east-1",))
    assert (offers.rates, offers.refusals) == ((), ())


def test_savings_plan_rate_of_another_currency_or_unit_or_zero_is_refused(price_services, session_of):
    one = {"plan_type": "Compute", "payment": "No Upfront"}
    price_services.rates = [
        rate(P5, "us-east-1", "300", years=1, offering={"currency": "CNY"}, **one),
        rate(P5, "us-east-1", "0", years=3, **one),
        rate(P5, "us-west-2", "40", years=3, unit="Request", **one),
    ]
    offers = savings_plans.ec2(session_of(), P5, ("us-east-1", "us-west-2"))
    assert offers.rates == ()
    assert [refusal.reason for refusal in offers.refusals] == [
        "the currency is CNY, expected USD",
        "the price is $0, expected more than 0",
        "the rate is per Request, expected Hrs",
    ]


def test_sagemaker_savings_plan_query_uses_usage_types_of_the_price_list(price_services, session_of):
    ml = f"ml.{P5}"
    price_services.products = [
        ml_product(ml, "us-east-1", "Training", "63.3", f"USE1-Train:{ml}"),
        ml_product(ml, "us-west-2", "Cluster", "63.3", f"USW2-Cluster:{ml}"),
    ]
    one = {"plan_type": "SageMaker", "years": 1, "payment": "No Upfront"}
    price_services.rates = [
        rate(ml, "", "50", usage=f"USE1-Train:{ml}", **one),
        rate(ml, "", "51", usage=f"USW2-Cluster:{ml}", **one),
        rate(ml, "", "99", usage=f"EUW1-Train:{ml}", **one),
    ]
    offers = savings_plans.sagemaker(session_of(), session_of(), ml, ("us-east-1", "us-west-2"))
    assert rates(offers) == {
        ("us-east-1", "sagemaker", 1, "no-upfront"): "50",
        ("us-west-2", "sagemaker", 1, "no-upfront"): "51",
    }


def test_type_unknown_to_sagemaker_has_no_savings_plan_query(price_services, session_of):
    assert savings_plans.sagemaker(session_of(), session_of(), "ml.trn9.48xlarge", ("us-east-1",)).rates == ()
    assert price_services.operations() == ["GetProducts"]
