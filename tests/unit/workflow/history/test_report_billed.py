"""`slipway report NAME --billed`: from Cost Explorer and from exports, on the terminal, as JSON and in the ledger."""

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from launcher.cli import options
from tests.emulators.aws_account import DENIED, THROTTLED, Refused
from tests.unit.workflow.history.billing import MADE, cost, day, explorer

EC2, OTHER = "Amazon Elastic Compute Cloud - Compute", "EC2 - Other"
P5 = "USE2-BoxUsage:p5.48xlarge"


@pytest.fixture(autouse=True)
def two_weeks_later(monkeypatch):
    moment = datetime(2026, 11, 24, 9, tzinfo=UTC)
    monkeypatch.setattr(options, "now", lambda: moment)


@pytest.fixture
def columns(request, monkeypatch):
    """The width of the terminal."""
    monkeypatch.setenv("COLUMNS", str(request.param))
    return request.param


def billed_rows(slipway, *arguments, code=0):
    ended = slipway("report", "billed", "--billed", "--json", *arguments)
    assert ended.code == code, ended.err
    return json.loads(ended.out)


def test_cost_explorer_request_has_cluster_tag_and_run_days(exported_account, billed_run, slipway, quotes):
    folder = billed_run()
    exported_account.canned["ce.GetCostAndUsage"] = explorer(
        [day("2026-11-10", (EC2, P5, cost("1100", quantity="20", unit="Hrs")), (OTHER, "USE2-Odd", cost("2")))],
        [day("2026-11-10", ("Credit", "NoUsageType", cost("-100")), ("Tax", "NoUsageType", cost("90")))],
    )
    bill = billed_rows(slipway)["billed"]
    (_, first), (_, second) = exported_account.requests
    assert first["TimePeriod"] == {"Start": "2026-11-10", "End": "2026-11-25"}
    tagged = {"Tags": {"Key": "slipway:cluster", "Values": ["billed"], "MatchOptions": ["EQUALS"]}}
    assert first["Filter"]["And"][0] == second["Filter"]["And"][0] == tagged
    assert (bill["billed_usd"], bill["credits_usd"], bill["tax_usd"]) == ("1102", "-100", "90")
    machines = bill["lines"][0]
    components = [component for component in quotes()["components"] if component["group"] == "compute"]
    assert Decimal(machines["quoted"]["usd"]) == sum(Decimal(component["usd"]) for component in components)
    assert machines["billed"] == {"quantity": 20.0, "usd": "1100"}
    parts = Decimal(machines["of_quantity_usd"]) + Decimal(machines["of_rate_usd"])
    assert parts == Decimal(machines["difference_usd"]) == 1100 - Decimal(machines["quoted"]["usd"])
    assert [(charge["usage_type"], charge["usd"]) for charge in bill["unquoted"]] == [("USE2-Odd", "2")]
    assert bill["final"] is True
    assert bill["missing"] is None
    assert json.loads((folder.path / "billed.json").read_text())["billed_usd"] == "1102"


def test_ledger_shows_billed_amount_after_report(exported_account, billed_run, slipway):
    billed_run()
    assert json.loads(slipway("ledger", "--json").out)["runs"][0]["billed_usd"] is None
    exported_account.canned["ce.GetCostAndUsage"] = explorer([day("2026-11-10", (EC2, P5, cost("1100")))])
    billed_rows(slipway)
    (run,) = json.loads(slipway("ledger", "--json").out)["runs"]
    assert (run["billed_usd"], run["usd"]) == ("1100", "1100")


def test_unbilled_run_is_reported_as_missing(exported_account, billed_run, slipway, monkeypatch):
    billed_run()
    exported_account.canned["ce.GetCostAndUsage"] = explorer([day("2026-11-10")])
    bill = billed_rows(slipway)["billed"]
    assert bill["billed_usd"] is None
    assert "13 days after the run" in bill["missing"]
    assert "--billing" in bill["missing"]
    monkeypatch.setattr(options, "now", lambda: MADE + timedelta(hours=14))
    assert "nothing has arrived yet" in billed_rows(slipway)["billed"]["missing"]
    assert "Nothing is billed yet under slipway:cluster=billed" in slipway("report", "billed", "--billed").out


def test_export_rows_ending_before_run_are_reported_by_hour(billed_run, slipway, tmp_path):
    billed_run()
    export(tmp_path / "e.csv", [("2026-11-10T00:00:00Z", "2026-11-10T07:00:00Z", "billed", "100")])
    bill = billed_rows(slipway, "--export", "e.csv")["billed"]
    assert bill["billed_usd"] == "100"
    assert bill["missing"].startswith("what was used from 2026-11-10 07:00 to 12:00 UTC has not arrived")


def test_two_runs_of_one_cluster_share_no_row(billed_run, slipway, tmp_path):
    billed_run()
    rows = [(f"2026-11-10T{at:02}:00:00Z", f"2026-11-10T{at + 1:02}:00:00Z", "billed", "1") for at in range(23)]
    export(tmp_path / "e.csv", [*rows, ("2026-11-10T01:00:00Z", "2026-11-10T02:00:00Z", "another", "1000")])
    assert billed_rows(slipway, "--export", "e.csv")["billed"]["billed_usd"] == "23"
    (tmp_path / ".slipway" / "runs" / "notes" / "of mine").mkdir(parents=True)
    folder = billed_run(started_at=MADE + timedelta(hours=13, minutes=20))
    assert billed_rows(slipway, "--export", "e.csv")["billed"]["billed_usd"] == "10"
    (folder.path.parent / "latest").unlink()
    (folder.path.parent / "latest").symlink_to(f"{MADE:%Y%m%dT%H%M%SZ}")
    assert billed_rows(slipway, "--export", "e.csv")["billed"]["billed_usd"] == "13"


def test_upfront_spread_spreads_fees(exported_account, billed_run, slipway):
    billed_run()
    exported_account.canned["ce.GetCostAndUsage"] = explorer(
        [day("2026-11-10", (EC2, P5, cost("0", "640", quantity="20")))]
    )
    assert billed_rows(slipway)["billed"]["billed_usd"] == "0"
    assert billed_rows(slipway, "--upfront", "spread")["billed"]["billed_usd"] == "640"


@pytest.mark.parametrize("columns", [80, 120], indirect=True)
def test_billed_report_page_equals_golden(exported_account, billed_run, slipway, columns, golden):
    billed_run()
    exported_account.canned["ce.GetCostAndUsage"] = explorer(
        [
            day("2026-11-10", (EC2, P5, cost("1100", quantity="20", unit="Hrs"))),
            day(
                "2026-11-11",
                (OTHER, "USE2-NatGateway-Hours", cost("0.9", quantity="20")),
                (OTHER, "USE2-EBS:SnapshotUsage", cost("2.31", quantity="46", unit="GB-Mo")),
                ("Amazon Polly", "USE2-SynthesizeSpeech-Characters", cost("0.001")),
                estimated=True,
            ),
        ],
        [day("2026-11-10", ("Credit", "NoUsageType", cost("-100")))],
    )
    ended = slipway("report", "billed", "--billed")
    assert ended.code == 0
    assert max(map(len, ended.out.splitlines())) <= columns
    golden(f"billed/report-{columns}.txt", ended.out)


@pytest.mark.parametrize("answer, message", [(DENIED, "AccessDeniedException"), (THROTTLED, "ThrottlingException")])
def test_refused_cost_request_is_reported_without_stored_file(exported_account, billed_run, slipway, answer, message):
    folder = billed_run()
    exported_account.canned["ce.GetCostAndUsage"] = answer
    ended = slipway("report", "billed", "--billed")
    assert ended.code == 1
    assert message in ended.err
    assert not (folder.path / "billed.json").exists()


@pytest.mark.parametrize("place", ["s3://bills/cur", "s3://bills/cur/data.csv.gz"])
def test_refused_export_names_the_command_that_writes_its_policies(exported_account, billed_run, slipway, place):
    billed_run()
    exported_account.canned["s3."] = Refused("AccessDenied", "Access Denied", 403)
    ended = slipway("report", "billed", "--billed", "--export", place)
    assert ended.code == 1
    assert f"-o policies --export {place} writes the policies" in " ".join(ended.err.split())


def test_bill_in_other_currency_refused(exported_account, billed_run, slipway):
    billed_run()
    euro = {**cost("5"), "UnblendedCost": {"Amount": "5", "Unit": "EUR"}}
    exported_account.canned["ce.GetCostAndUsage"] = explorer([day("2026-11-10", (EC2, P5, euro))])
    ended = slipway("report", "billed", "--billed")
    assert (ended.code, "is in EUR, expected USD" in ended.err) == (1, True)


def test_bill_of_sandbox_run_refused(billed_run, slipway):
    billed_run(simulated=True)
    ended = slipway("report", "billed", "--billed")
    assert ended.code == 5
    assert "in the sandbox" in ended.err


def test_export_without_tags_or_several_exports_refused(billed_run, slipway, tmp_path):
    billed_run()
    export(tmp_path / "bare.csv", [("2026-11-10T00:00:00Z", "2026-11-10T01:00:00Z", "billed", "1")], tags=False)
    ended = slipway("report", "billed", "--billed", "--export", "bare.csv")
    assert (ended.code, "has no tags" in ended.err) == (5, True)
    for name in ("one", "two"):
        folder = tmp_path / "both" / name / "data" / "BILLING_PERIOD=2026-11"
        folder.mkdir(parents=True)
        export(folder / "a.csv", [("2026-11-10T00:00:00Z", "2026-11-10T01:00:00Z", "billed", "1")])
    ended = slipway("report", "billed", "--billed", "--export", "both")
    assert (ended.code, "contains 2 exports" in ended.err) == (5, True)
    assert slipway("report", "billed", "--export", "both").code == 2


def test_capacity_block_fee_is_on_node_line(billed_run, slipway, tmp_path):
    billed_run(option="capacity-block", reservation={"id": "cr-0123456789abcdef0"})
    export(
        tmp_path / "e.csv",
        [("2026-11-10T00:00:00Z", "2026-11-10T01:00:00Z", "billed", "3")],
        fee=("2026-10-20T00:00:00Z", "2026-10-20T01:00:00Z", "900"),
    )
    bill = billed_rows(slipway, "--export", "e.csv")["billed"]
    assert bill["lines"][0]["names"][0] == "2 x p5.48xlarge capacity-block"
    assert bill["lines"][0]["billed"]["usd"] == "900"
    assert any("not confirmed" in note for note in bill["notes"])


def export(path, rows, *, tags=True, fee=None):
    """A FOCUS export with rows of begin, end, cluster and dollars."""
    head = "BilledCost,EffectiveCost,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,PricingQuantity,PricingUnit,"
    head += "ServiceName,x_UsageType,CapacityReservationId" + (",Tags" if tags else "")
    lines = [head]
    for begin, end, cluster, usd in rows:
        tagged = f',"{{""user_slipway_cluster"": ""{cluster}""}}"' if tags else ""
        lines.append(f"{usd},{usd},Usage,{begin},{end},1,Hours,Amazon Elastic Compute Cloud,{P5},{tagged}")
    if fee is not None:
        begin, end, usd = fee
        text = f"{usd},{usd},Purchase,{begin},{end},1,Quantity,Amazon Elastic Compute Cloud,,cr-0123456789abcdef0,"
        lines.append(text)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_html_report_shows_billed_lines_of_json(exported_account, billed_run, slipway, tmp_path):
    billed_run()
    exported_account.canned["ce.GetCostAndUsage"] = explorer(
        [day("2026-11-10", (EC2, P5, cost("1100", quantity="20", unit="Hrs")), (OTHER, "USE2-<Odd>", cost("2")))]
    )
    assert slipway("report", "billed", "--billed", "--html", "page.html").code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    bill = billed_rows(slipway)["billed"]
    drawn = [Decimal(amount) for amount in re.findall(r'<rect [^>]*data-usd="([-0-9.]+)"', page)]
    largest = [Decimal(bill["lines"][0][side]["usd"]) for side in ("quoted", "billed")]
    assert drawn[:2] == largest
    assert "Quote against billed" in page
    assert "<Odd>" not in page
    assert "Quote against billed" not in (
        slipway("report", "billed", "--html", "bare.html") and (tmp_path / "bare.html").read_text(encoding="utf-8")
    )
