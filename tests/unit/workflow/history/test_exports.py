"""Bill exports: generated and FinOps Foundation files to the cent, every file format, and damaged files."""

import csv
import gzip
import io
import json
import os
import subprocess
import sys
import time
import zipfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from launcher.model.bill import ChargeKind, Period, Upfront
from launcher.model.errors import SlipwayError, UnreadableInputError
from launcher.records.bill_rows import RowReader
from launcher.records.stored_quote import read_quote
from launcher.workflow.history.bill import reconcile
from launcher.workflow.history.bill_exports import export_files, open_lines
from launcher.workflow.quote.quoted_lines import quoted_lines

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
NISE = HERE / "nise_cur.csv"
ALL = Period(datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
TAG = ("slipway:cluster", "nised")
CENT = Decimal("0.01")


def rows_of(place, tag=TAG, period=ALL, resources=()):
    reader = RowReader(tag=tag, period=period, resources=resources)
    export_rows = []
    for export_file in export_files(str(place), {}, "us-east-1"):
        with open_lines(export_file) as lines:
            export_rows += reader.rows(lines, export_file.name)
    return export_rows


def test_generated_report_is_reconciled_to_the_cent(quotes):
    """Against sums of the file's own cells."""
    with NISE.open(encoding="utf-8", newline="") as file:
        tagged_rows = [row for row in csv.DictReader(file) if row["resourceTags/user:slipway:cluster"] == "nised"]
    covered = [row for row in tagged_rows if row["lineItem/LineItemType"] == "SavingsPlanCoveredUsage"]
    others = [row for row in tagged_rows if row not in covered]
    billed = sum(Decimal(row["lineItem/UnblendedCost"]) for row in tagged_rows)
    spread = sum(Decimal(other["lineItem/UnblendedCost"]) for other in others)
    spread += sum(Decimal(row["savingsPlan/SavingsPlanEffectiveCost"]) for row in covered)
    lines, rows = quoted_lines(read_quote(quotes())), rows_of(NISE)
    assert len(rows) == len(tagged_rows) == 72
    paid = reconcile(lines, rows, Upfront.PAID)
    assert (paid.usd, paid.credits_usd, paid.tax_usd) == (billed, 0, 0)
    assert reconcile(lines, rows, Upfront.SPREAD).usd == spread
    assert billed.quantize(CENT) == Decimal("102.92")
    head = next(line for line in paid.lines if line.line.names == ("head node m6i.xlarge",))
    assert (head.quantity, head.usd) == (24, Decimal("4.608"))
    assert {charge.usage_type for charge in paid.unquoted} >= {"Requests-Tier2", "USE1-EBS:VolumeUsage"}


IN_PARQUET = """
import json, sys
sys.path.append(sys.argv[1])
from pathlib import Path
import pyarrow.csv as table, pyarrow.parquet as parquet, pyarrow as pa
from datetime import UTC, datetime
from launcher.model.bill import Period
from launcher.model.errors import SlipwayError
from launcher.records.bill_rows import RowReader
from launcher.workflow.history.bill import export_files, open_lines

folder = Path(sys.argv[2])
whole = table.read_csv(sys.argv[3])
period = Period(datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))

def read(place):
    reader, found = RowReader(tag=("slipway:cluster", "nised"), period=period), []
    for each in export_files(str(place), {}, "us-east-1"):
        with open_lines(each) as lines:
            found += reader.rows(lines, each.name)
    return found

# As the older report has it: a column a tag.
parquet.write_table(whole, folder / "older.parquet")
same = read(folder / "older.parquet") == read(sys.argv[3])
# As CUR 2.0 has it: other names, moments as timestamps, and all tags in one map column.
tag = "resourceTags/user:slipway:cluster"
tags = [[("user_slipway_cluster", value)] if value else [] for value in whole[tag].to_pylist()]
kept = {}
for name in whole.column_names:
    if name.startswith("resourceTags/"):
        continue
    group, _, own = name.partition("/")
    snake = "".join("_" + each.lower() if each.isupper() else each for each in f"{group}_{own[:1].lower()}{own[1:]}")
    kept[snake] = whole[name]
kept["resource_tags"] = pa.array(tags, pa.map_(pa.string(), pa.string()))
parquet.write_table(pa.table(kept), folder / "newer.parquet", compression="snappy")
data = (folder / "older.parquet").read_bytes()
(folder / "cut.parquet").write_bytes(data[: len(data) // 2])
try:
    read(folder / "cut.parquet")
    refused = ""
except SlipwayError as problem:
    refused = problem.message
print(json.dumps({"same": same, "newer": read(folder / "newer.parquet") == read(sys.argv[3]), "refused": refused}))
"""


@pytest.mark.focus
def test_parquet_rows_equal_csv_rows(tmp_path):
    """With the pyarrow that the FOCUS validator brings, in a process of its own."""
    (packages,) = (ROOT / ".venv-focus").glob("lib/python*/site-packages")
    command = [sys.executable, "-c", IN_PARQUET, packages, tmp_path, NISE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["same"], document["newer"]) == (True, True)
    assert document["refused"].startswith("cannot read cut.parquet: ")


@pytest.mark.skipif("SLIPWAY_VENDOR_DATA" not in os.environ, reason="SLIPWAY_VENDOR_DATA names no folder")
@pytest.mark.parametrize("tag", [("application", "BrightPathMatrix"), ("environment", "prod"), ("Project", "Foo")])
def test_real_focus_rows_are_reconciled_to_the_cent(quotes, tag):
    path = Path(os.environ["SLIPWAY_VENDOR_DATA"], "focus", "focus_sample.csv")
    with path.open(encoding="utf-8", newline="") as file:
        tagged_rows = [
            row
            for row in csv.DictReader(file)
            if row["Tags"] not in ("", "NULL") and json.loads(row["Tags"]).get(tag[0]) == tag[1]
        ]
    apart = [row for row in tagged_rows if row["ChargeCategory"] in ("Credit", "Tax")]
    rows = rows_of(path, tag)
    assert len(rows) == len(tagged_rows) > 10
    for upfront, column in ((Upfront.PAID, "BilledCost"), (Upfront.SPREAD, "EffectiveCost")):
        reconciled = reconcile(quoted_lines(read_quote(quotes())), rows, upfront)
        assert reconciled.usd == sum(Decimal(row[column]) for row in tagged_rows if row not in apart)
        assert reconciled.credits_usd + reconciled.tax_usd == sum(Decimal(row[column]) for row in apart)


FOCUS = {
    "BilledCost": "12.5",
    "EffectiveCost": "10",
    "BillingCurrency": "USD",
    "ChargeCategory": "Usage",
    "ChargePeriodStart": "2026-11-10T01:00:00Z",
    "ChargePeriodEnd": "2026-11-10T02:00:00Z",
    "PricingQuantity": "2",
    "PricingUnit": "Hours",
    "ServiceName": "Amazon Elastic Compute Cloud",
    "Tags": '{"user_slipway_cluster": "nised"}',
    "ResourceId": "i-1",
    "CapacityReservationId": "",
    "x_ServiceCode": "AmazonEC2",
    "x_UsageType": "USE2-BoxUsage:p5.48xlarge",
    "InvoiceId": "",
}


def write(path, *changes, columns=FOCUS):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**columns, **change} for change in changes or ({},))
    data = text.getvalue().encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(".gz"):
        data = gzip.compress(data)
    if path.name.endswith(".zip"):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("export.csv", data)
        data = packed.getvalue()
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.csv.zip"])
def test_packed_export_files_are_read(tmp_path, name):
    (row,) = rows_of(write(tmp_path / name))
    assert (row.service, row.usage_type) == ("AmazonEC2", "USE2-BoxUsage:p5.48xlarge")
    assert (row.usd, row.spread_usd, row.quantity, row.closed) == (Decimal("12.5"), 10, 2, False)


def test_newest_version_of_each_billing_period_counts(tmp_path):
    data = tmp_path / "out" / "data"
    old = write(data / "BILLING_PERIOD=2026-10" / "a-00001.csv.gz", {"BilledCost": "1"})
    first = write(data / "BILLING_PERIOD=2026-11" / "20261111T000000Z-aa" / "a-00001.csv.gz", {"BilledCost": "2"})
    folder = data / "BILLING_PERIOD=2026-11" / "20261112T000000Z-bb"
    second = [write(folder / f"a-0000{part}.csv.gz", {"BilledCost": "4"}) for part in (1, 2)]
    for number, path in enumerate((old, first, *second)):
        moment = time.time() - 1000 + number
        os.utime(path, (moment, moment))
    assert sorted(row.usd for row in rows_of(tmp_path)) == [1, 4, 4]


@pytest.mark.parametrize(
    "tags, expected",
    [
        ('{"slipway:cluster": "nised"}', 1),
        ('[["user_slipway_cluster", "nised"]]', 1),
        ('{"user_slipway_cluster": "nised-2"}', 0),
        ('{"user_other": "nised"}', 0),
        ("NULL", 0),
    ],
)
def test_tag_matches_whole_key_and_value(tmp_path, tags, expected):
    assert len(rows_of(write(tmp_path / "a.csv", {"Tags": tags}))) == expected


def test_reservation_fee_counts_untagged_at_any_time(tmp_path):
    fee = {
        "ChargeCategory": "Purchase",
        "ChargePeriodStart": "2026-10-01T00:00:00Z",
        "ChargePeriodEnd": "2026-10-01T01:00:00Z",
        "Tags": "",
    }
    others = [{"CapacityReservationId": "cr-2"}, {"CapacityReservationId": "cr-1", "ChargeCategory": "Usage"}]
    path = write(tmp_path / "a.csv", *({**fee, **columns} for columns in ({"CapacityReservationId": "cr-1"}, *others)))
    november = Period(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
    assert [row.kind for row in rows_of(path, period=november, resources=("cr-1",))] == [ChargeKind.FEE]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"BilledCost": "much"}, "a.csv, line 2: BilledCost is 'much', expected a number"),
        ({"BilledCost": "NaN"}, "expected a number"),
        ({"BillingCurrency": "EUR"}, "the currency is EUR, expected USD"),
        ({"ChargePeriodStart": "yesterday"}, "expected a time"),
        ({"ChargeCategory": "Gift"}, "ChargeCategory is 'Gift'"),
        ({"Tags": "{nised"}, "line 2"),
        ({"Tags": '"nised"'}, "no JSON object"),
    ],
)
def test_invalid_cell_is_named_with_line(tmp_path, change, message):
    with pytest.raises(UnreadableInputError) as refusal:
        rows_of(write(tmp_path / "a.csv", change))
    assert message in refusal.value.message


def test_file_without_export_refused_with_reason(tmp_path, monkeypatch):
    def refusal(make):
        path = tmp_path / "x"
        for file in path.glob("*") if path.is_dir() else ():
            file.unlink()
        path.mkdir(exist_ok=True)
        make(path)
        with pytest.raises(SlipwayError) as caught:
            rows_of(path)
        assert caught.value.exit_code == 2
        return f"{caught.value.message} {caught.value.hint}"

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install pyarrow" in refusal(lambda path: (path / "a.parquet").write_bytes(b"PAR1"))
    assert "contains no export" in refusal(lambda path: None)
    assert "no column" in refusal(lambda path: (path / "a.csv").write_text("a,b\n1,2\n"))
    assert "cannot read a.csv.gz" in refusal(lambda path: (path / "a.csv.gz").write_bytes(b"no gzip"))

    def cut(path):
        whole = write(path / "a.csv.gz", *[{"ResourceId": str(number)} for number in range(5000)]).read_bytes()
        (path / "a.csv.gz").write_bytes(whole[: len(whole) // 2])

    assert "cannot read a.csv.gz" in refusal(cut)

    def short(path):
        text = write(path / "a.csv").read_text(encoding="utf-8")
        (path / "a.csv").write_text(text.rstrip("\n").rpartition(",")[0], encoding="utf-8")

    assert "the file is cut short" in refusal(short)
    assert "a.csv" in refusal(lambda path: (path / "a.csv").write_bytes(b"\xff\xfe\x00"))
    with pytest.raises(UnreadableInputError):
        rows_of(tmp_path / "nothing")
