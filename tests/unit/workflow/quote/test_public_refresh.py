"""Prices without an account: AWS's public files from a loopback server, into the cache, in their real shapes."""

import json
from datetime import date, timedelta
from decimal import Decimal

import pytest

from launcher.answers.refresh import refresh_page
from launcher.aws.session import CredentialsError
from launcher.catalog import tables
from launcher.catalog.listing import rows
from launcher.model.enums import Basis, Payment
from launcher.model.money import Price
from launcher.records.cache_folder import cache_folder
from launcher.workflow.quote.prices import known_catalog
from launcher.workflow.quote.refresh import refresh_file
from tests.emulators.price_entries import ec2_product, ml_product, reserved_term, term
from tests.emulators.public_prices import (
    ADVISOR_DAY,
    SPOT_DAY,
    PublicPrices,
    advisor_file,
    item_product,
    offer_path,
    served,
    spot_file,
)
from tests.plans import NOW

pytestmark = pytest.mark.server
P5, REGION = "p5.48xlarge", "us-east-2"
EC2 = offer_path("AmazonEC2", REGION)
SERVICES = (
    *("AmazonCloudWatch", "AmazonECR", "AmazonEKS", "AmazonS3", "AWSSecretsManager", "AmazonVPC", "AWSLambda"),
    *("awskms", "AWSELB", "AmazonFSx", "AmazonSNS", "AWSDataTransfer"),
)
EVERYWHERE = ("AmazonCloudWatch", "AmazonRoute53")
ZONES = (("0", "25", "0.5500000000"), ("25", "Inf", "0.1500000000"))
LUSTRE = {"fileSystemType": "Lustre", "storageType": "SSD", "family": "Storage"}


@pytest.fixture
def site():
    with served(PublicPrices()) as state:
        state.offer(
            "AmazonEC2",
            REGION,
            ec2_product(P5, REGION, term("50.0400000000"), reserved=(reserved_term(3, "No Upfront", "20.5", "0"),)),
            ec2_product(P5, REGION, term("99"), operatingSystem="Windows"),
            ec2_product(P5, REGION, term("0.0000000000"), marketoption="CapacityBlock"),
            ec2_product("x9.nobody", REGION, term("1")),
            item_product("USE2-EBS:VolumeUsage.gp3", REGION, "GB-Mo", ("0", "Inf", "0.0900000000")),
            item_product("USE2-EBS:VolumeP-Throughput.gp3", REGION, "GiBps-mo", ("0", "Inf", "51.2")),
            item_product("USE2-NatGateway-Hours", REGION, "Hrs", ("0", "Inf", "0.0460000000")),
        )
        state.offer(
            "AmazonSageMaker",
            REGION,
            ml_product(f"ml.{P5}", REGION, "Cluster", "66.5", f"USE2-Cluster:ml.{P5}"),
            item_product(
                "USE2-Host:VolumeUsage.gp2", REGION, "GB-Mo", ("0", "Inf", "0.15"), volumeType="General Purpose-Hosting"
            ),
            item_product("USE2-Hst:Data-Bytes-Out", REGION, "GB", ("0", "Inf", "0.017"), operation="Invoke-Endpoint"),
        )
        for service in SERVICES:
            state.offer(service, REGION)
        for service in EVERYWHERE:
            state.offer(service, "*")
        state.offer(
            "AWSELB",
            REGION,
            *(
                item_product(usage, REGION, "Hrs", ("0", "Inf", usd), family=f"Load Balancer{kind}")
                for usage, kind, usd in (
                    ("USE2-LoadBalancerUsage", "", "0.9"),
                    ("USE2-LoadBalancerUsage", "-Application", "0.8"),
                    ("USE2-LoadBalancerUsage", "-Network", "0.0235"),
                    ("USE2-LCUUsage", "-Network", "0.0065"),
                    ("USE2-LCUUsage", "-Application", "0.7"),
                )
            ),
        )
        state.offer(
            "AmazonFSx",
            REGION,
            *(
                item_product(f"USE2-{mb}", REGION, "GB-Mo", ("0", "Inf", usd), throughputCapacity=mb, **LUSTRE)
                for mb, usd in (("50", "0.9"), ("125", "0.155"), ("250", "0.225"), ("1000", "0.6"), ("1000", "0.7"))
            ),
            item_product("USE2-Z", REGION, "GB-Mo", ("0", "Inf", "0.09"), throughputCapacity="125", family="Storage"),
        )
        state.offer(
            "AmazonSNS",
            REGION,
            item_product(
                "USE2-Requests-Tier1",
                REGION,
                "Requests",
                ("0", "1000000", "0.0000000000"),
                ("1000000", "Inf", "0.0000006000"),
            ),
        )
        state.offer(
            "AWSDataTransfer",
            REGION,
            item_product(
                "USE2-DataTransfer-Regional-Bytes", "", "GB", ("0", "Inf", "0.011"), transferType="IntraRegion"
            ),
            item_product("USE2-DataTransfer-Regional-Bytes", "", "GB", ("0", "Inf", "0.5"), transferType="Other"),
        )
        state.offer("AmazonRoute53", "*", item_product("HostedZone", "", "HostedZone", *ZONES, family="DNS Zone"))
        state.offer(
            "AmazonCloudWatch",
            "*",
            item_product("DashboardsUsageHour", "", "Dashboards", ("0", "Inf", "3.5")),
            item_product("Global-DashboardsUsageHour", "", "Dashboards", ("0", "3", "0")),
            item_product("DashboardsUsageHour-Basic", "", "Dashboards", ("0", "Inf", "3.1")),
        )
        storage = (("0", "51200", "0.0240000000"), ("51200", "Inf", "0.0230000000"))
        state.offer(
            "AmazonS3",
            REGION,
            item_product("USE2-TimedStorage-ByteHrs", REGION, "GB-Mo", *storage, volumeType="Standard"),
            item_product("USE2-TimedStorage-ByteHrs", REGION, "GB-Mo", ("0", "Inf", "0.9"), volumeType="Overhead"),
            item_product("USE2-TimedStorage-SIA-ByteHrs", REGION, "GB-Mo", ("0", "Inf", "0.0125")),
            item_product("USE2-Requests-Tier1", REGION, "Requests", ("0", "Inf", "0.0000060000"), group="S3-API-Tier1"),
        )
        state.offer(
            "AWSLambda",
            REGION,
            item_product("USE2-Lambda-GB-Second", REGION, "Lambda-GB-Second", ("0", "6000000000", "0.0000170000")),
            item_product("USE2-Lambda-GB-Second-ARM", REGION, "Lambda-GB-Second", ("0", "Inf", "0.0000130000")),
            item_product("USE2-Request", REGION, "Requests", ("0", "Inf", "0.0000003000")),
            item_product("USE2-Request-ARM", REGION, "Requests", ("0", "Inf", "0.9")),
        )
        state.offer(
            "awskms",
            REGION,
            item_product("us-east-2-KMS-Keys", REGION, "Keys", ("0", "Inf", "1.1000000000")),
            item_product("us-east-2-KMS-Requests", REGION, "Requests", ("0", "Inf", "0.0000040000")),
            item_product("us-east-2-KMS-Requests-Asymmetric", REGION, "Requests", ("0", "Inf", "0.0000150000")),
        )
        state.offer(
            "AmazonCloudWatch",
            REGION,
            item_product("USE2-CW:CompositeAlarmMonitorUsage", REGION, "Alarms", ("0", "Inf", "0.6000000000")),
        )
        state.files["/spot.json"] = spot_file(
            {REGION: {P5: "21.5", "m6i.large": "9.0E-2", "c6i.large": "N/A*"}, "us-east-1-atl-1": {P5: "1.5"}}
        )
        state.files["/advisor.json"] = advisor_file({REGION: {P5: (52, 4)}})
        state.changed = {"/spot.json": SPOT_DAY, "/advisor.json": ADVISOR_DAY}
        yield state


@pytest.fixture
def refresh_region(site, tmp_path):
    """A refresh of one region, and its messages."""

    def refreshed(*regions, now=NOW, **options):
        messages = []
        environment = site.environment(tmp_path)
        report = refresh_file(
            None, regions or (REGION,), environment=environment, now=now, notify=messages.append, **options
        )
        return report, messages

    return refreshed


@pytest.fixture
def next_catalog(site, tmp_path):
    return lambda: known_catalog(site.environment(tmp_path), NOW)


def test_every_published_kind_is_read_with_source(refresh_region, next_catalog):
    report, messages = refresh_region()
    assert (report.complete, report.public) == (True, True)
    assert report.unasked == ("capacity-block", "training-plan", "savings-plan")
    assert any("no AWS credentials" in line for line in messages)
    known = next_catalog()
    machine = known.on_demand(P5, REGION)
    assert isinstance(machine, Price)
    assert (machine.usd, machine.as_of, machine.basis) == (Decimal("50.0400000000"), NOW.date(), Basis.LISTED)
    assert "public offer file of AmazonEC2" in machine.source
    reserved = known.reserved_rate(P5, REGION, "standard", 3, Payment.NO_UPFRONT)
    managed = known.sagemaker(f"ml.{P5}", REGION, "cluster")
    spot = known.spot(P5, REGION)[""]
    assert isinstance(reserved, Price)
    assert isinstance(managed, Price)
    assert (str(reserved.usd), str(managed.usd), str(spot.usd)) == ("20.5", "66.5", "21.5")
    assert (spot.as_of, "one zone's price" in spot.note) == (date(2026, 11, 20), True)
    band = known.interruption_band(P5, REGION)
    assert band is not None
    assert (band.low_percent, band.savings_percent, band.as_of) == (20, 52, date(2026, 3, 20))


def test_older_zone_spot_price_replaced_by_spot_page(refresh_region, next_catalog):
    assert str(next_catalog().spot(P5, REGION)["use2-az1"].usd) == "20.3632"
    refresh_region()
    assert str(next_catalog().spot(P5, REGION)["use2-az1"].usd) == "21.5"


def test_bill_items_have_catalog_units_and_tiers(refresh_region, next_catalog):
    refresh_region()
    known = next_catalog()
    items = {name: known.bill_item(name, REGION) for name in ("ebs.gp3-storage", "s3.put-requests", "vpc.nat-gateway")}
    assert {name: str(price.usd) for name, price in items.items()} == {
        "ebs.gp3-storage": "0.09",
        "s3.put-requests": "0.006",
        "vpc.nat-gateway": "0.046",
    }
    throughput, storage = (known.bill_item(name, REGION) for name in ("ebs.gp3-throughput", "s3.standard-storage"))
    assert [(tier.start, str(tier.usd)) for tier in throughput.tiers] == [(0, "0"), (125, "0.05")]
    assert [(tier.start, str(tier.usd)) for tier in storage.tiers] == [(0, "0.024"), (51200, "0.023")]
    assert {price.as_of for price in items.values()} == {NOW.date()}


@pytest.mark.parametrize(
    "item, usd",
    [
        ("lambda.duration-x86", "0.000017"),
        ("lambda.duration-arm64", "0.000013"),
        ("lambda.requests", "0.3"),
        ("kms.key", "1.1"),
        ("kms.requests", "0.04"),
        ("cloudwatch.composite-alarm", "0.6"),
        ("cloudwatch.dashboard", "3.5"),
        ("elb.network-load-balancer", "0.0235"),
        ("elb.network-load-balancer-units", "0.0065"),
        ("fsx.lustre-persistent-125", "0.155"),
        ("fsx.lustre-persistent-250", "0.225"),
        ("route53.hosted-zone", "0.55"),
        ("sagemaker.endpoint-data-out", "0.017"),
        ("sagemaker.endpoint-storage", "0.15"),
        ("sns.requests", "0.6"),
        ("transfer.inter-az", "0.011"),
    ],
)
def test_surrounding_services_have_live_prices(refresh_region, next_catalog, item, usd):
    """Of usage types that begin alike the one that is meant, whatever AWS has before it for the region."""
    refresh_region()
    price = next_catalog().bill_item(item, REGION)
    assert (price.usd, price.as_of) == (Decimal(usd), NOW.date())


def test_differing_or_missing_products_are_reported_and_unused(refresh_region, next_catalog):
    before = {name: next_catalog().bill_item(name, REGION) for name in ("fsx.lustre-persistent-1000", "kms.requests")}
    report, _ = refresh_region()
    unmatched = {entry.item: (entry.region, entry.reason) for entry in report.unmatched}
    assert unmatched["fsx.lustre-persistent-1000"] == (REGION, "2 products that differ, at $0.6, $0.7")
    assert unmatched["eks.cluster"] == unmatched["fsx.lustre-persistent-500"] == (REGION, "no such product")
    assert "kms.requests" not in unmatched
    known = next_catalog()
    assert known.bill_item("fsx.lustre-persistent-1000", REGION).basis is Basis.DERIVED
    assert known.bill_item("kms.requests", REGION) != before["kms.requests"]
    page = " ".join(" ".join(refresh_page(report, 80)).split())
    assert "2 products that differ, at $0.6, $0.7 in us-east-2: fsx.lustre-persistent-1000" in page


def test_unconfirmed_bill_item_has_note(refresh_region, next_catalog):
    refresh_region()
    assert "not confirmed" in next_catalog().bill_item("fsx.lustre-persistent-125", REGION).note
    assert "not confirmed" not in next_catalog().bill_item("elb.network-load-balancer", REGION).note


def test_bill_item_in_other_unit_is_ignored(site, refresh_region, next_catalog):
    before = next_catalog().bill_item("ebs.gp3-throughput", REGION)
    site.offer(
        "AmazonEC2", REGION, item_product("EBS:VolumeP-Throughput.gp3", REGION, "MiBps-Mo", ("0", "Inf", "0.04"))
    )
    refresh_region()
    assert next_catalog().bill_item("ebs.gp3-throughput", REGION) == before


def test_unchanged_file_is_not_downloaded_again_and_dated_today(site, refresh_region, next_catalog):
    refresh_region()
    later = NOW + timedelta(days=1)
    report, _ = refresh_region(now=later)
    assert report.complete
    assert site.statuses(EC2) == [200, 304]
    assert site.statuses("/spot.json") == [200, 304]
    known = next_catalog().at(None)
    assert max(row.as_of for row in rows(known, instance_type=P5, region=REGION, option="on-demand")) == later.date()
    assert known.spot(P5, REGION)[""].as_of == date(2026, 11, 20)


def test_truncated_download_resumes_at_offset(site, refresh_region, next_catalog):
    size = len(site.files[EC2])
    site.cuts[EC2] = [1000, 700]
    report, _ = refresh_region()
    assert report.complete
    ranges = [(stated, status) for path, stated, status in site.requests if path == EC2]
    assert ranges == [("", 200), ("bytes=1000-", 206), ("bytes=1700-", 206)]
    assert size > 1700
    assert next_catalog().on_demand(P5, REGION).as_of == NOW.date()


def test_file_changed_during_download_restarts(site, refresh_region, next_catalog):
    site.cuts[EC2] = [1000] * 5
    report, _ = refresh_region()
    assert [source for source, _ in report.failures] == [f"price file of AmazonEC2 in {REGION}"]
    assert "run it again" in report.failures[0][1].hint
    site.offer("AmazonEC2", REGION, ec2_product(P5, REGION, term("49.5")))
    report, _ = refresh_region(now=NOW + timedelta(minutes=1))
    assert report.complete
    assert next_catalog().on_demand(P5, REGION).usd == Decimal("49.5")


@pytest.mark.parametrize(
    "path, body",
    [
        (EC2, b"<html>moved</html>"),
        (EC2, b'{"products": {"S": {"attributes": {}}}'),
        (EC2, b'{"terms": {}, "products": {}}'),
        (EC2, b"[]"),
        ("/spot.json", b"callback({});"),
        ("/spot.json", b'{"config": {"regions": []}}'),
        ("/advisor.json", b'{"spot_advisor": {"us-east-2": {"Linux": {"p5.48xlarge": {"s": 52, "r": 9}}}}}'),
        ("/advisor.json", b"{}"),
    ],
)
def test_unknown_file_format_is_reported_beside_others(site, refresh_region, next_catalog, path, body):
    before = next_catalog().interruption_band(P5, REGION)
    site.files[path] = body
    report, _ = refresh_region()
    assert len(report.failures) == 1
    assert "format" in report.failures[0][1].message
    assert report.answered == report.asked - 1
    known = next_catalog()
    assert (known.on_demand(P5, REGION).as_of == NOW.date()) is (path != EC2)
    assert (known.interruption_band(P5, REGION) == before) is (path == "/advisor.json")


def test_missing_price_file_is_reported_with_address(site, refresh_region):
    del site.files[EC2]
    report, _ = refresh_region()
    ((source, problem),) = report.failures
    assert source == f"price file of AmazonEC2 in {REGION}"
    assert (EC2 in problem.message, "403" in problem.message) == (True, True)


def test_refresh_without_region_reads_first_price_files_with_note(site, tmp_path):
    messages = []
    report = refresh_file(None, (), environment=site.environment(tmp_path), now=NOW, notify=messages.append)
    assert any("price files of us-east-1, us-east-2, us-west-2 only" in line for line in messages)
    regions = {path.split("/")[6] for path, _, _ in site.requests if path.startswith("/offers")}
    assert regions == {"us-east-1", "us-east-2", "us-west-2", "index.json"}
    assert report.failures


def test_region_setting_selects_price_files(site, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text("slipway: 1\nname: job\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2}}\n")
    settings = (f"target.region={REGION}", f"target.instance_type={P5}")
    environment = site.environment(tmp_path)
    refresh_file(plan, (), environment=environment, now=NOW, notify=lambda _: None, settings=settings)
    assert {path.split("/")[6] for path, _, _ in site.requests if path.startswith("/offers")} <= {REGION, "index.json"}


def test_incomplete_keys_are_error_instead_of_public_refresh(site, tmp_path):
    environment = {**site.environment(tmp_path), "AWS_ACCESS_KEY_ID": "AKID"}
    with pytest.raises(CredentialsError):
        refresh_file(None, (REGION,), environment=environment, now=NOW, notify=lambda _: None)
    assert site.requests == []


def test_stored_extract_is_small_and_download_is_removed(site, refresh_region, tmp_path):
    refresh_region()
    folder = cache_folder(site.environment(tmp_path)).parent / "feeds"
    assert len(json.loads((folder / f"AmazonEC2-{REGION}.json").read_text())["products"]) == 4
    assert {path.name for path in folder.glob("*.part") if path.stat().st_size == len(site.files[EC2])} == set()


def test_public_refresh_cache_can_be_read_back(refresh_region, site, tmp_path):
    refresh_region()
    folder = cache_folder(site.environment(tmp_path))
    for table in (tables.ON_DEMAND, tables.SPOT, tables.INTERRUPTIONS, tables.BILL_ITEMS):
        assert list(tables.read_checked(table, folder))


PCS_PLAN = {
    "slipway": 1,
    "name": "small",
    "workload": {"train": {"hours": 1}},
    "target": {"kind": "pcs", "instance_type": P5, "nodes": 1, "region": REGION},
}
INDEX = "/offers/v1.0/aws/index.json"


def told_fees(site, tmp_path, codes):
    (tmp_path / "plan.json").write_text(json.dumps(PCS_PLAN))
    if codes is not None:
        offers = {code: {"offerCode": code, "currentVersionUrl": f"/offers/v1.0/aws/{code}/current"} for code in codes}
        site.files[INDEX] = json.dumps({"formatVersion": "v1.0", "offers": offers}).encode()
    messages = []
    environment = site.environment(tmp_path)
    refresh_file(tmp_path / "plan.json", (), environment=environment, now=NOW, notify=messages.append)
    return [message for message in messages if "PCS" in message or "    " in message[:4]]


def test_listed_pcs_fees_are_reported_and_unused(site, tmp_path):
    hours = item_product("USE2-Controller-Small", REGION, "Hrs", ("0", "Inf", "0.6"))
    site.offer("AWSPCS", REGION, hours)
    first, *rest = told_fees(site, tmp_path, ["AmazonEC2", "AmazonVPC", "AWSPCS"])
    assert "by service AWSPCS (not confirmed; none of it prices a plan" in first
    assert rest == ["    USE2-Controller-Small: $0.6 per Hrs"]


@pytest.mark.parametrize(
    "codes, message", [(["AmazonEC2", "AmazonVPC"], "no service of that name"), (None, "403"), ([], "no service")]
)
def test_unlisted_pcs_fees_are_reported(site, tmp_path, codes, message):
    (line,) = told_fees(site, tmp_path, codes)
    assert message in line
    keys = "pcs/controller, pcs/node, pcs/accounting, pcs/accounting-storage"
    assert line.endswith(f"set your account's price in purchase.price_overrides: {keys}")
