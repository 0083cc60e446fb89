"""A snapshot of prices: packed, checked by its digest, imported completely or not at all."""

import json
import subprocess
import sys
import zipfile
from datetime import timedelta

import pytest

from launcher.catalog import tables
from launcher.cli import app
from launcher.model.errors import UnreadableInputError
from launcher.records.price_snapshot import pack
from launcher.workflow.quote.price_import import take_snapshot
from launcher.workflow.quote.prices import PriceFilter, known_catalog, show
from tests.plans import NOW

P5 = ("p5.48xlarge", "us-east-1", "")
DAY = NOW.date().isoformat()


def row(usd, day=DAY):
    return (*P5, usd, day, "listed", "aws-price-list", "")


@pytest.fixture
def home_variables(tmp_path):
    return {"HOME": str(tmp_path / "home")}


@pytest.fixture
def snapshot(tmp_path):
    """Packs rows of on-demand prices."""

    def pack_rows(*rows, text=None):
        folder, path = tmp_path / "made", tmp_path / "prices.zip"
        file = folder / tables.ON_DEMAND.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(tables.encode(tables.ON_DEMAND, rows) if text is None else text, encoding="utf-8")
        return path, pack(folder, path)

    return pack_rows


def price(home):
    price_filter = PriceFilter(instance_type="p5.48xlarge", region="us-east-1", option="on-demand")
    (price_row,) = (
        price_row
        for price_row in show(known_catalog(home, NOW), price_filter, NOW, history=False)
        if not price_row.zone
    )
    return price_row


def test_snapshot_prices_are_used_and_changes_named(snapshot, home_variables):
    path, digest = snapshot(row("40"))
    before = price(home_variables)
    report = take_snapshot(path, None, home_variables, NOW)
    assert (report.prices, report.snapshot) == (1, digest)
    assert [(move.key.name, move.after) for move in report.jumped] == [("p5.48xlarge", 40)]
    assert report.jumped[0].before == before.usd != price(home_variables).usd
    assert take_snapshot(path, digest.upper(), home_variables, NOW).jumped == ()


def test_equal_prices_give_equal_snapshot_checked_by_sha256sum(snapshot):
    path, digest = snapshot(row("55"))
    assert snapshot(row("55"))[1] == digest
    subprocess.run(["sha256sum", "--check", f"{path.name}.sha256"], cwd=path.parent, check=True, capture_output=True)


@pytest.mark.parametrize(
    "rows,text,message",
    [
        (
            [row("55", (NOW.date() + timedelta(days=30)).isoformat())],
            None,
            "line 2: as_of is .* which is in the future",
        ),
        ([], "no,columns\n", r"prices/on_demand.csv, line 1: columns are no,columns"),
        ([], ",".join(tables.ON_DEMAND.columns) + "\n" + ",".join(row("-1")) + "\n", "price is -1, expected"),
    ],
)
def test_invalid_snapshot_refused_whole(snapshot, home_variables, rows, text, message):
    path, _ = snapshot(*rows, text=text)
    with pytest.raises(UnreadableInputError, match=message) as caught:
        take_snapshot(path, None, home_variables, NOW)
    assert str(path) in caught.value.message
    assert price(home_variables).as_of.isoformat() < DAY


def test_wrong_missing_or_invalid_digest_refused(snapshot, home_variables, tmp_path):
    path, digest = snapshot(row("55"))
    with pytest.raises(UnreadableInputError, match=f"its SHA-256 is {digest}, expected {'0' * 64}"):
        take_snapshot(path, "0" * 64, home_variables, NOW)
    beside = path.with_name("prices.zip.sha256")
    beside.write_text("not a digest\n")
    with pytest.raises(UnreadableInputError, match="does not begin with a SHA-256"):
        take_snapshot(path, None, home_variables, NOW)
    beside.unlink()
    with pytest.raises(UnreadableInputError, match="no digest") as caught:
        take_snapshot(path, None, home_variables, NOW)
    assert "--sha256" in caught.value.hint
    with pytest.raises(UnreadableInputError, match="No such file"):
        take_snapshot(tmp_path / "none.zip", None, home_variables, NOW)
    digest = pack(tmp_path / "empty", path)
    with pytest.raises(UnreadableInputError, match="no price file in it"):
        take_snapshot(path, digest, home_variables, NOW)


def test_oversized_or_outside_snapshot_member_is_not_written(snapshot, home_variables, tmp_path, monkeypatch):
    path, _ = snapshot(row("55"))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../outside.csv", "x")
    import hashlib

    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    take_snapshot(path, digest, home_variables, NOW)
    assert list(tmp_path.rglob("outside.csv")) == []
    monkeypatch.setattr("launcher.records.price_snapshot.MAX_BYTES", 50)
    with pytest.raises(UnreadableInputError, match="larger than 50 bytes"):
        take_snapshot(path, digest, home_variables, NOW)


def test_refresh_command_accepts_snapshot_and_reports_digest(snapshot, tmp_path, monkeypatch, capsys):
    path, digest = snapshot(row("55"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for options, code in ((["--json"], 0), (["--all"], 2)):
        monkeypatch.setattr(sys, "argv", ["slipway", "prices", "refresh", "--from", str(path), *options])
        with pytest.raises(SystemExit) as caught:
            app.main()
        assert caught.value.code == code
    out, err = capsys.readouterr()
    assert json.loads(out)["refresh"]["snapshot"] == digest
    assert "leave out FILE, --all and --region" in err
