"""On-demand, reserved and SageMaker rates from the Price List, through real boto3."""

from decimal import Decimal

import pytest

from launcher.aws import price_list
from launcher.model.errors import AwsError
from tests.emulators.price_entries import ec2_product, ml_product, reserved_term, term
from tests.plans import NOW

P5 = "p5.48xlarge"


def rates(answer):
    return {(rate.key.region, rate.key.zone or rate.key.detail): str(rate.usd) for rate in answer.rates}


def read(session, *regions, reserved=False, name=P5):
    return price_list.ec2(session, name, regions, NOW, reserved=reserved)


class TestOnDemand:
    def test_price_query_of_one_region_filters_by_region(self, price_services, session_of):
        price_services.products = [
            ec2_product(P5, region, term("55.0400000000")) for region in ("us-east-1", "us-west-2")
        ]
        assert rates(read(session_of(), "us-west-2")) == {("us-west-2", ""): "55.0400000000"}
        (request,) = price_services.requests
        filters = {filter_["Field"]: (filter_["Type"], filter_["Value"]) for filter_ in request.body["Filters"]}
        assert filters == {
            "instanceType": ("TERM_MATCH", P5),
            "operatingSystem": ("TERM_MATCH", "Linux"),
            "tenancy": ("TERM_MATCH", "Shared"),
            "preInstalledSw": ("TERM_MATCH", "NA"),
            "capacitystatus": ("TERM_MATCH", "Used"),
            "marketoption": ("TERM_MATCH", "OnDemand"),
            "regionCode": ("TERM_MATCH", "us-west-2"),
        }

    def test_price_query_of_several_regions_is_one_paged_query(self, price_services, session_of):
        names = [f"eu-test-{number}" for number in range(5)]
        price_services.page_size = 2
        price_services.products = [ec2_product(P5, region, term(f"5{number}")) for number, region in enumerate(names)]
        price_services.products.append(ec2_product(P5, "us-east-1-atl-1", term("56")))
        listed = read(session_of(), *names, "us-east-1")
        expected = {(name, ""): f"5{number}" for number, name in enumerate(names)}
        assert rates(listed) == {**expected, ("us-east-1", "us-east-1-atl-1"): "56"}
        assert price_services.operations() == ["GetProducts"] * 3

    def test_prices_of_other_regions_are_left_out(self, price_services, session_of):
        price_services.products = [
            ec2_product(P5, region, term("55")) for region in ("us-east-1", "us-east-2", "us-west-2")
        ]
        assert set(rates(read(session_of(), "us-east-1", "us-west-2"))) == {("us-east-1", ""), ("us-west-2", "")}

    @pytest.mark.parametrize(
        "attributes",
        [
            {"marketoption": "CapacityBlock"},
            {"usagetype": f"Reservation:{P5}"},
            {"capacitystatus": "UnusedCapacityReservation"},
            {"operatingSystem": "RHEL"},
        ],
    )
    def test_products_of_capacity_blocks_and_other_kinds_are_left_out(self, price_services, session_of, attributes):
        price_services.products = [
            ec2_product(P5, "us-east-1", term("55")),
            ec2_product(P5, "us-east-1", term("99"), **attributes),
        ]
        price_services.filtering = False
        assert rates(read(session_of(), "us-east-1")) == {("us-east-1", ""): "55"}

    def test_newest_begun_term_is_the_price_and_the_next_is_noted(self, price_services, session_of):
        terms = (term("98.32", "2024-01-01"), term("55.04", "2025-06-01"), term("50.1000", "2026-12-01"))
        price_services.products = [ec2_product(P5, "us-east-1", *terms)]
        (rate,) = read(session_of(), "us-east-1").rates
        assert rate.usd == Decimal("55.04")
        assert rate.note == "from 2026-12-01 on: $50.1"

    def test_dearer_of_two_products_is_the_price(self, price_services, session_of):
        price_services.products = [ec2_product(P5, "us-east-1", term(usd)) for usd in ("55", "56", "54")]
        assert rates(read(session_of(), "us-east-1")) == {("us-east-1", ""): "56"}

    @pytest.mark.parametrize(
        "refused, reason",
        [
            (term("0.0000000000"), "the price is $0.0000000000, expected more than 0"),
            (term("-1"), "the price is $-1, expected more than 0"),
            (term("NaN"), "the price is $NaN, expected more than 0"),
            (term("fifty"), "the price is 'fifty', expected a number"),
            (term("398.12", currency="CNY"), "the currency is CNY, expected USD"),
            (term("55", unit="Quantity"), "the price is not by the hour"),
            (term("55", "2027-01-01"), "the price holds from 2027-01-01 on"),
            ({"effectiveDate": "soon", "priceDimensions": {}}, "the price has no effective date"),
        ],
    )
    def test_invalid_price_is_refused_with_the_reason(self, price_services, session_of, refused, reason):
        price_services.products = [ec2_product(P5, "us-east-1", refused), ec2_product(P5, "us-west-2", term("55"))]
        listed = read(session_of(), "us-east-1", "us-west-2")
        assert rates(listed) == {("us-west-2", ""): "55"}
        (refusal,) = listed.refusals
        assert (refusal.key.name, refusal.key.region, refusal.reason) == (P5, "us-east-1", reason)

    def test_missing_product_gives_no_price(self, price_services, session_of):
        listed = read(session_of(), "us-east-1")
        assert (listed.rates, listed.refusals) == ((), ())

    @pytest.mark.parametrize("text", ["{", '"words"', '{"product": {}}'])
    def test_invalid_price_entry_fails_the_whole_query(self, price_services, session_of, text):
        price_services.products = [ec2_product(P5, "us-east-1", term("55"))]
        price_services.raw_entries = [text]
        with pytest.raises(AwsError, match=r"Price List of p5\.48xlarge: the answer is cut short"):
            read(session_of(), "us-east-1")


class TestReserved:
    def test_reserved_rate_is_hourly_plus_the_upfront_share(self, price_services, session_of):
        reserved = (
            reserved_term(1, "No Upfront", "40.5", "0"),
            reserved_term(3, "Partial Upfront", "10", "26280"),
            reserved_term(3, "All Upfront", "0.0000000000", "525600", "convertible"),
        )
        price_services.products = [ec2_product(P5, "us-east-1", term("55"), reserved=reserved)]
        rate_by_terms = {
            (rate.key.detail, rate.key.term_years, rate.key.payment): str(rate.usd)
            for rate in read(session_of(), "us-east-1", reserved=True).rates
            if rate.key.kind == "reserved"
        }
        assert rate_by_terms == {
            ("standard", 1, "no-upfront"): "40.500000",
            ("standard", 3, "partial-upfront"): "11.000000",
            ("convertible", 3, "all-upfront"): "20.000000",
        }

    def test_reserved_rates_are_left_out_by_default(self, price_services, session_of):
        reserved = (reserved_term(1, "No Upfront", "40.5", "0"),)
        price_services.products = [ec2_product(P5, "us-east-1", term("55"), reserved=reserved)]
        assert [rate.key.kind for rate in read(session_of(), "us-east-1").rates] == ["on-demand"]

    def test_free_reserved_rate_is_refused(self, price_services, session_of):
        reserved = (reserved_term(1, "No Upfront", "0", "0"),)
        price_services.products = [ec2_product(P5, "us-east-1", term("55"), reserved=reserved)]
        (refusal,) = read(session_of(), "us-east-1", reserved=True).refusals
        assert (refusal.key.kind, refusal.reason) == ("reserved", "the price is $0, expected more than 0")


class TestSageMaker:
    def test_sagemaker_rates_are_listed_by_component(self, price_services, session_of):
        ml = f"ml.{P5}"
        price_services.products = [
            ml_product(ml, "us-west-2", component, usd, f"USW2-{usage}:{ml}")
            for component, usd, usage in (
                ("Hosting", "63.3", "Host"),
                ("Training", "63.296", "Train"),
                ("Cluster", "63.2", "Cluster"),
                ("Studio-JupyterLab", "63.1", "Studio"),
                ("Cluster-Reserved", "0.0000000000", "Cluster"),
                ("SpotTraining", "20", "SpotTrain"),
            )
        ]
        price_services.products.append(
            ml_product("ml.g5.xlarge", "us-west-2", "Hosting", "1.4", "USW2-Host:ml.g5.xlarge")
        )
        listed = price_list.sagemaker(session_of(), ml, ("us-west-2",), NOW)
        assert rates(listed) == {
            ("us-west-2", "hosting"): "63.3",
            ("us-west-2", "training"): "63.296",
            ("us-west-2", "cluster"): "63.2",
            ("us-west-2", "studio"): "63.1",
        }
        assert listed.refusals == ()
