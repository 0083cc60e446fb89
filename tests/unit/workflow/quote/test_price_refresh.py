"""Refreshing prices into the cache: failures, refusals, changed prices, and resuming."""

import json
import re
from datetime import date, timedelta
from decimal import Decimal

import pytest

from launcher import plan_file
from launcher.aws.session import CredentialsError
from launcher.catalog import tables
from launcher.catalog.listing import rows
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.money import Price
from launcher.records.cache_folder import cache_folder
from launcher.workflow.quote.price_needs import Question
from launcher.workflow.quote.prices import known_catalog
from launcher.workflow.quote.refresh import refresh, refresh_file, refresh_for
from tests.emulators.aws_prices import BROKEN, CUT, EXPIRED, THROTTLED, AwsPrices, Fault, served
from tests.emulators.price_entries import block, ec2_product, rate, spot_entry, term
from tests.emulators.public_prices import item_product
from tests.plans import NOW
from tests.waiting import replace_sleep

pytestmark = pytest.mark.server
P5, P4 = "p5.48xlarge", "p4d.24xlarge"
REGION = ("us-east-2",)
ON_DEMAND = Question(kind="on-demand", names=(P5,), regions=REGION)
OTHER = Question(kind="on-demand", names=(P4,), regions=REGION)
SPOT = Question(kind="spot", names=(P5,), regions=REGION)
BLOCK = Question(kind="capacity-block", names=(P5,), regions=REGION)
PLANS = Question(kind="savings-plan", names=(P5,), regions=REGION)
ALL = (ON_DEMAND, OTHER, SPOT, BLOCK, PLANS)


def usual(aws):
    """Prices close to the known ones."""
    aws.products = [
        ec2_product(P5, "us-east-2", term("55.04")),
        ec2_product(P4, "us-east-2", term("21.957642")),
        ec2_product("m6i.large", "us-east-2", term("0.192")),
    ]
    aws.spot = [spot(zone, price) for zone, price in (("use2-az1", "14"), ("use2-az2", "15"), ("use2-az3", "16"))]
    aws.blocks = [block(P5, "us-east-2", "996.672")]
    aws.rates = [rate(P5, "us-east-2", "41.5", plan_type="Compute", years=3, payment="No Upfront")]


def spot(zone, price):
    return spot_entry(P5, "us-east-2", "us-east-2a", price, since="2026-11-20T09:00:00.000Z", zone_id=zone)


@pytest.fixture
def usual_prices(monkeypatch):
    replace_sleep(monkeypatch, "botocore.endpoint")
    with served(AwsPrices()) as state:
        usual(state)
        yield state


@pytest.fixture
def refresh_prices(usual_prices, tmp_path):
    """A refresh of some questions, and its messages."""

    def refreshed(*questions, now=NOW):
        environment = usual_prices.environment(tmp_path)
        messages = []
        catalog = known_catalog(environment, NOW)
        return refresh(questions, catalog=catalog, environment=environment, now=now, notify=messages.append), messages

    return refreshed


@pytest.fixture
def refreshed_catalog(usual_prices, tmp_path):
    """The catalog as the next command sees it."""
    return lambda: known_catalog(usual_prices.environment(tmp_path), NOW)


class TestKept:
    def test_every_service_answers_and_catalog_has_prices(self, refresh_prices, refreshed_catalog):
        report, messages = refresh_prices(*ALL)
        assert report.complete
        assert (report.asked, report.answered, report.resumed, report.prices) == (5, 5, 0, 7)
        assert (report.jumped, report.refused, report.failures, report.skipped_regions) == ((), (), (), ())
        prices = refreshed_catalog()
        assert prices.on_demand(P5, "us-east-2").as_of == date(2026, 11, 20)
        assert prices.on_demand(P5, "us-east-2").source == "AWS Price List API, GetProducts AmazonEC2"
        assert prices.spot(P5, "us-east-2")["use2-az1"].usd == Decimal(14)
        assert prices.spot(P5, "us-east-2")["use2-az1"].note == "since 2026-11-20 09:00 UTC"
        assert prices.capacity_block(P5, "us-east-2").usd == Decimal("41.528")
        assert prices.on_demand(P5, "us-west-2").as_of < date(2026, 11, 20)
        assert messages[0] == "  5 questions to AWS"
        assert len(messages) == 1 + 5
        assert all(re.match(r"  [1-5]/5  ", line) for line in messages[1:])
        assert any("spot of p5.48xlarge in us-east-2: 3 prices" in line for line in messages)

    def test_next_refresh_requests_all_prices_again(self, usual_prices, refresh_prices):
        refresh_prices(ON_DEMAND, SPOT)
        before = len(usual_prices.requests)
        report, _ = refresh_prices(ON_DEMAND, SPOT, now=NOW + timedelta(minutes=1))
        assert report.resumed == 0
        assert len(usual_prices.requests) == 2 * before

    def test_daily_refresh_appears_in_history(self, usual_prices, refresh_prices, refreshed_catalog):
        refresh_prices(SPOT, now=NOW - timedelta(days=1))
        usual_prices.spot = [spot("use2-az1", "14"), spot("use2-az2", "20"), spot("use2-az3", "16")]
        refresh_prices(SPOT)
        history = rows(refreshed_catalog(), instance_type=P5, region="us-east-2", option="spot")
        assert [str(row.usd) for row in history if row.zone == "use2-az2"][-2:] == ["15", "20"]

    def test_duplicate_question_counts_once(self, refresh_prices):
        report, _ = refresh_prices(SPOT, SPOT)
        assert report.asked == 1


def _dimension(product):
    return next(iter(next(iter(product["terms"]["OnDemand"].values()))["priceDimensions"].values()))


class TestFailures:
    @pytest.mark.parametrize(
        "fault, message",
        [
            (BROKEN, "InternalFailure"),
            (Fault(code="RequestLimitExceeded", message="slow down"), "RequestLimitExceeded"),
            (CUT, "cut short"),
            (Fault(code="UnauthorizedOperation", message="not you"), "not you"),
        ],
    )
    def test_one_failed_service_keeps_others_fresh(
        self, usual_prices, refresh_prices, refreshed_catalog, fault, message
    ):
        usual_prices.always["DescribeSpotPriceHistory"] = fault
        report, lines = refresh_prices(*ALL)
        assert not report.complete
        assert (report.asked, report.answered) == (5, 4)
        ((question, problem),) = report.failures
        assert question == "spot of p5.48xlarge in us-east-2"
        assert message in problem.message
        assert any(f"{question}: failed: " in line for line in lines)
        prices = refreshed_catalog()
        assert prices.on_demand(P5, "us-east-2").as_of == NOW.date()
        assert prices.spot(P5, "us-east-2")["use2-az1"].as_of < NOW.date()
        assert report.vanished == ()

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda product: product["product"]["attributes"].update(usagetype=7),
            lambda product: product.update(terms=[]),
            lambda product: product["terms"].update(OnDemand=["x"]),
            lambda product: product["terms"]["OnDemand"].update(x={"priceDimensions": [], "effectiveDate": 7}),
            lambda product: next(iter(product["terms"]["OnDemand"].values())).update(priceDimensions="x"),
            lambda product: _dimension(product).update(pricePerUnit=["1"]),
            lambda product: _dimension(product).update(pricePerUnit="55.04"),
            lambda product: _dimension(product).update(pricePerUnit={"USD": ["55.04"]}),
            lambda product: product.update(odd=json.loads("[" * 500 + "]" * 500)),
        ],
    )
    def test_malformed_product_fails_only_one_question(self, usual_prices, refresh_prices, refreshed_catalog, spoil):
        spoil(usual_prices.products[0])
        report, _ = refresh_prices(*ALL)
        assert report.answered >= 4
        assert [question for question, _ in report.failures] in ([], ["on demand of p5.48xlarge in us-east-2"])
        assert report.failures or report.refused
        assert refreshed_catalog().on_demand(P5, "us-east-2").as_of < NOW.date()
        assert refreshed_catalog().on_demand(P4, "us-east-2").as_of == NOW.date()

    def test_next_refresh_requests_only_failed_questions(self, usual_prices, refresh_prices, refreshed_catalog):
        usual_prices.always["DescribeSavingsPlansOfferingRates"] = THROTTLED
        refresh_prices(*ALL)
        usual_prices.always.clear()
        usual_prices.requests.clear()
        report, messages = refresh_prices(*ALL, now=NOW + timedelta(minutes=5))
        assert usual_prices.operations() == ["DescribeSavingsPlansOfferingRates"]
        assert (report.complete, report.asked, report.answered, report.resumed) == (True, 5, 5, 4)
        assert messages[0] == "  4 of 5 answers are reused from the unfinished refresh"

    def test_expired_credentials_stop_refresh_and_keep_data(self, usual_prices, refresh_prices, refreshed_catalog):
        usual_prices.always["DescribeSpotPriceHistory"] = EXPIRED
        refresh_prices(ON_DEMAND)
        with pytest.raises(CredentialsError, match="ExpiredTokenException") as caught:
            refresh_prices(SPOT, now=NOW + timedelta(minutes=1))
        assert "data already read is kept" in caught.value.hint
        assert refreshed_catalog().on_demand(P5, "us-east-2").as_of == NOW.date()

    def test_interrupted_refresh_keeps_data_and_resumes(self, usual_prices, tmp_path, refresh_prices):
        environment, messages = usual_prices.environment(tmp_path), []

        def append_then_interrupt(line):
            messages.append(line)
            if line.startswith("  2/5"):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            refresh(
                ALL,
                catalog=known_catalog(environment, NOW),
                environment=environment,
                now=NOW,
                notify=append_then_interrupt,
            )
        assert messages[-1].startswith("  interrupted: received prices are stored")
        report, _ = refresh_prices(*ALL, now=NOW + timedelta(minutes=1))
        assert report.complete
        assert report.resumed >= 2

    def test_zero_price_and_other_currency_refused_and_requested_again(
        self, usual_prices, refresh_prices, refreshed_catalog
    ):
        usual_prices.products[0] = ec2_product(P5, "us-east-2", term("0.0000000000"))
        usual_prices.products[1] = ec2_product(P4, "us-east-2", term("150", currency="CNY"))
        report, messages = refresh_prices(ON_DEMAND, OTHER, SPOT)
        assert not report.complete
        assert [(refusal.key.name, refusal.reason) for refusal in report.refused] == [
            (P4, "the currency is CNY, expected USD"),
            (P5, "the price is $0.0000000000, expected more than 0"),
        ]
        assert (report.failures, report.vanished) == ((), ())
        assert refreshed_catalog().on_demand(P5, "us-east-2").as_of < NOW.date()
        assert any("no price, 1 refused" in line for line in messages)
        usual(usual_prices)
        report, _ = refresh_prices(ON_DEMAND, OTHER, SPOT, now=NOW + timedelta(minutes=1))
        assert (report.complete, report.resumed) == (True, 1)


class TestMoves:
    def test_price_change_over_half_is_reported_and_used(self, usual_prices, refresh_prices, refreshed_catalog):
        refresh_prices(SPOT, now=NOW - timedelta(days=1))
        usual_prices.spot = [spot("use2-az1", "21.0001"), spot("use2-az2", "7.4999"), spot("use2-az3", "24")]
        report, _ = refresh_prices(SPOT)
        moves = {jump.key.zone: (str(jump.before), str(jump.after), jump.percent) for jump in report.jumped}
        assert moves == {"use2-az1": ("14", "21.0001", 50.0), "use2-az2": ("15", "7.4999", -50.0)}
        assert report.complete
        assert refreshed_catalog().spot(P5, "us-east-2")["use2-az1"].usd == Decimal("21.0001")

    def test_vanished_price_is_reported_and_ages(self, usual_prices, refresh_prices, refreshed_catalog):
        refresh_prices(SPOT, ON_DEMAND, now=NOW - timedelta(days=1))
        usual_prices.spot = [spot("use2-az1", "14")]
        usual_prices.products = []
        report, _ = refresh_prices(SPOT, ON_DEMAND)
        assert [(price.key.kind, price.key.zone, str(price.before)) for price in report.vanished] == [
            ("on-demand", "", "55.04"),
            ("spot", "use2-az2", "15"),
            ("spot", "use2-az3", "16"),
        ]
        assert report.price_ended(P5, "spot", "us-east-2", "use2-az3")
        assert report.price_ended(P5, "on-demand", "us-east-2", "use2-az3")
        assert not report.price_ended(P5, "spot", "us-east-2", "use2-az1")
        assert refreshed_catalog().spot(P5, "us-east-2")["use2-az3"].as_of == date(2026, 11, 19)

    def test_reserved_rates_come_with_on_demand_rates(self, refresh_prices):
        report, _ = refresh_prices(Question(kind="on-demand", names=(P5,), regions=REGION, reserved=True))
        assert {price.key.kind for price in report.vanished} == {"reserved"}


class TestRegions:
    REGIONS = ("us-east-2", "us-west-2", "af-south-1")

    def questions(self):
        return [Question(kind="spot", names=(P5,), regions=(region,)) for region in self.REGIONS]

    def test_disabled_regions_are_skipped_and_reported(self, usual_prices, refresh_prices):
        report, _ = refresh_prices(*self.questions())
        assert report.skipped_regions == ("af-south-1",)
        assert {
            request.region for request in usual_prices.requests if request.operation == "DescribeSpotPriceHistory"
        } == {
            "us-east-2",
            "us-west-2",
        }
        assert report.complete

    def test_all_regions_requested_without_region_list(self, usual_prices, refresh_prices):
        usual_prices.always["DescribeRegions"] = Fault(code="UnauthorizedOperation", message="not you")
        report, messages = refresh_prices(*self.questions())
        assert messages[0] == "  describe the regions: UnauthorizedOperation: not you: requesting all regions"
        assert report.asked == 3

    def test_single_region_is_requested_without_region_list(self, usual_prices, refresh_prices):
        refresh_prices(SPOT)
        assert usual_prices.operations() == ["DescribeSpotPriceHistory"]


class TestForPlans:
    @pytest.fixture
    def path(self, tmp_path):
        path = tmp_path / "plan.yaml"
        target = f"{{kind: parallelcluster, instance_type: {P5}, region: us-east-2, nodes: 1}}"
        path.write_text(f"slipway: 1\nname: x\ntarget: {target}\npurchase: {{option: spot}}\n")
        return path

    def test_plan_file_requests_only_needed_prices(self, usual_prices, path, tmp_path, refreshed_catalog):
        report = refresh_file(
            path, (), environment=usual_prices.environment(tmp_path), now=NOW, notify=lambda line: None
        )
        assert (report.complete, report.asked, report.prices) == (True, 20, 6)
        assert set(usual_prices.operations()) == {"DescribeSpotPriceHistory", "GetProducts"}
        services = {
            request.body["ServiceCode"] for request in usual_prices.requests if request.operation == "GetProducts"
        }
        assert services >= {"AmazonEC2", "AmazonS3", "AmazonVPC", "AmazonCloudWatch", "AmazonEKS"}
        assert isinstance(refreshed_catalog().on_demand("m6i.large", "us-east-2"), Price)

    def test_plan_file_refresh_includes_bill_items_and_bands(self, usual_prices, path, tmp_path, refreshed_catalog):
        gp3 = item_product("USE2-EBS:VolumeUsage.gp3", "us-east-2", "GB-Mo", ("0", "Inf", "0.0850"), family="Storage")
        usual_prices.products.append({"serviceCode": "AmazonEC2", **gp3})
        report = refresh_file(
            path, (), environment=usual_prices.environment(tmp_path), now=NOW, notify=lambda line: None
        )
        assert (report.complete, report.prices) == (True, 7)
        price, band = (
            refreshed_catalog().bill_item("ebs.gp3-storage", "us-east-2"),
            refreshed_catalog().interruption_band(P5, "us-east-2"),
        )
        assert isinstance(price, Price)
        assert (price.usd, price.as_of) == (Decimal("0.085"), NOW.date())
        assert (band.low_percent, band.savings_percent, band.as_of) == (5, 50, NOW.date())

    def test_products_with_other_region_attribute_are_found(self, usual_prices, path, tmp_path, refreshed_catalog):
        usual_prices.filtering = True
        between = {"transferType": "IntraRegion", "family": "Data Transfer"}
        usage, price = "DataTransfer-Regional-Bytes", ("0", "Inf", "0.012")
        zone = item_product("HostedZone", "", "HostedZone", ("0", "25", "0.55"), family="DNS Zone")
        balancer = item_product("USE2-LoadBalancerUsage", "us-east-2", "Hrs", price, family="Load Balancer-Network")
        here = item_product(f"USE2-{usage}", "", "GB", price, fromRegionCode="us-east-2", **between)
        there = item_product(f"USW2-{usage}", "", "GB", ("0", "Inf", "0.9"), fromRegionCode="us-west-2", **between)
        for service, product in (
            ("AmazonRoute53", zone),
            ("AWSELB", balancer),
            ("AWSDataTransfer", here),
            ("AWSDataTransfer", there),
        ):
            usual_prices.products.append({"serviceCode": service, **product})
        refresh_file(path, (), environment=usual_prices.environment(tmp_path), now=NOW, notify=lambda line: None)
        known = refreshed_catalog()
        names = ("route53.hosted-zone", "elb.network-load-balancer", "transfer.inter-az")
        assert [str(known.bill_item(name, "us-east-2").usd) for name in names] == ["0.55", "0.012", "0.012"]

    def test_highest_transfer_price_counts_and_pair_has_own(self, usual_prices, path, tmp_path, refreshed_catalog):
        usual_prices.filtering = True
        for origin, end, code, usd in (
            ("us-east-2", "us-east-1", "USE2-USE1", "0.0100000000"),
            ("us-east-2", "eu-west-1", "USE2-EU", "0.0300000000"),
            ("us-east-1", "eu-west-1", "USE1-EU", "0.9000000000"),
        ):
            between = {"fromRegionCode": origin, "toRegionCode": end, "family": "Data Transfer"}
            usage, price = f"{code}-AWS-Out-Bytes", ("0", "Inf", usd)
            product = item_product(usage, "", "GB", price, transferType="InterRegion Outbound", **between)
            usual_prices.products.append({"serviceCode": "AWSDataTransfer", **product})
        report = refresh_file(
            path, (), environment=usual_prices.environment(tmp_path), now=NOW, notify=lambda line: None
        )
        known = refreshed_catalog()
        ends = ("us-east-1", "eu-west-1")
        assert [str(known.transfer("us-east-2", end).usd) for end in ends] == ["0.01", "0.03"]
        assert "transfer.to-us-east-2" not in {unmatched.item for unmatched in report.unmatched}

    def test_region_option_replaces_plan_regions(self, usual_prices, path, tmp_path):
        environment = usual_prices.environment(tmp_path)
        refresh_file(path, ["us-west-2"], environment=environment, now=NOW, notify=lambda line: None)
        assert {
            request.region for request in usual_prices.requests if request.operation == "DescribeSpotPriceHistory"
        } == {"us-west-2"}

    def test_unknown_region_refused_before_requests(self, usual_prices, path, tmp_path):
        with pytest.raises(UnreadableInputError, match="no region us-eest-1"):
            refresh_file(
                path, ["us-eest-1"], environment=usual_prices.environment(tmp_path), now=NOW, notify=lambda line: None
            )
        assert usual_prices.requests == []

    def test_empty_price_request_list_refused(self, usual_prices, path, tmp_path):
        path.write_text(path.read_text().replace("nodes: 1", "nodes: 1, az_id: use2-az1"))
        with pytest.raises(ImpossibleError, match="there are no prices to request"):
            refresh_file(
                path, ["us-west-2"], environment=usual_prices.environment(tmp_path), now=NOW, notify=lambda line: None
            )

    def test_launch_refresh_requests_plan_prices(self, usual_prices, path, tmp_path, refreshed_catalog):
        report = refresh_for(
            plan_file.load(path),
            catalog=refreshed_catalog(),
            environment=usual_prices.environment(tmp_path),
            now=NOW,
            notify=lambda line: None,
        )
        assert (report.complete, report.asked) == (True, 3)

    def test_refresh_without_file_requests_all_prices(self, usual_prices, tmp_path):
        messages = []
        environment = usual_prices.environment(tmp_path)
        report = refresh_file(None, ["us-east-2"], environment=environment, now=NOW, notify=messages.append)
        assert report.asked == report.answered > 200
        assert {request.region for request in usual_prices.requests if request.operation.startswith("Describe")} <= {
            "us-east-1",
            "us-east-2",
        }


class TestCache:
    def test_missing_credentials_reported_before_requests(self, usual_prices, tmp_path):
        environment = {"XDG_CACHE_HOME": str(tmp_path)}
        with pytest.raises(CredentialsError, match="no AWS credentials") as caught:
            refresh((SPOT,), catalog=known_catalog(environment, NOW), environment=environment, now=NOW, notify=print)
        assert caught.value.exit_code == 1
        assert caught.value.hint

    def test_unwritable_cache_reported_before_requests(self, usual_prices, tmp_path):
        (tmp_path / "slipway").write_text("in the way")
        environment = usual_prices.environment(tmp_path)
        with pytest.raises(ImpossibleError, match="cannot write the price cache"):
            refresh((SPOT,), catalog=known_catalog(environment, NOW), environment=environment, now=NOW, notify=print)
        assert usual_prices.requests == []

    def test_every_cache_file_can_be_read_back(self, usual_prices, refresh_prices, tmp_path):
        refresh_prices(*ALL)
        folder = cache_folder(usual_prices.environment(tmp_path))
        written = [table for table in (*tables.PRICE_TABLES, tables.SOURCES) if (folder / table.path).is_file()]
        assert len(written) == 5
        assert all(list(tables.read_checked(table, folder)) for table in written)
        assert not (folder / "unfinished.json").exists()
