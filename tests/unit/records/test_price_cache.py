"""The user's price cache: complete files, history without duplicates, and resuming an unfinished refresh."""

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Thread

import pytest

from launcher.catalog import tables
from launcher.catalog.fetched_prices import FetchedPrice
from launcher.catalog.load import load
from launcher.catalog.selector import Key
from launcher.catalog.tables import read_checked
from launcher.model.enums import Basis, Payment, SavingsPlanKind
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.money import Price
from launcher.records.cache_folder import cache_folder
from launcher.records.price_cache import PriceCache, merge_rows
from tests.plans import NOW

DAY = date(2026, 11, 20)


@pytest.fixture
def cache(tmp_path):
    return PriceCache(folder=tmp_path / "slipway" / "prices")


def spot(zone, usd, note=""):
    return FetchedPrice(key=Key("spot", "p5.48xlarge", "us-east-2", zone), usd=Decimal(usd), note=note)


def rows(cache, table=tables.SPOT):
    return list(read_checked(table, cache.folder))


class TestFolder:
    @pytest.mark.parametrize("stated", ["", "relative/path"])
    def test_cache_folder_without_an_absolute_xdg_cache_home_is_below_home(self, stated):
        environment = {"XDG_CACHE_HOME": stated, "HOME": "/home/me"}
        assert cache_folder(environment) == Path("/home/me/.cache/slipway/prices")

    @pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL_PRICING"])
    def test_cache_folder_of_another_endpoint_is_apart_from_aws_prices(self, name):
        home = {"HOME": "/home/me"}
        apart = cache_folder({**home, name: "http://127.0.0.1:5000"})
        assert not apart.is_relative_to(cache_folder(home))
        assert apart != cache_folder({**home, name: "http://127.0.0.1:5001"})
        assert cache_folder({**home, name: "https://vpce-1.ec2.us-east-1.vpce.amazonaws.com"}) == cache_folder(home)

    def test_unwritable_price_cache_is_refused_with_a_hint(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(ImpossibleError, match="cannot write the price cache") as caught:
            PriceCache(folder=tmp_path / "file" / "prices").keep([spot("use2-az1", "20")], DAY)
        assert "XDG_CACHE_HOME" in caught.value.hint


class TestKeeping:
    def test_every_kind_of_cached_price_is_found_by_the_catalog(self, cache):
        name, region, ml = "p5.48xlarge", "us-east-2", "ml.p5.48xlarge"
        years = {"term_years": 3, "payment": "no-upfront"}
        prices = {
            Key("on-demand", name, region): "50",
            Key("spot", name, region, "use2-az1"): "20",
            Key("capacity-block", name, region): "41",
            Key("training-plan", name, region): "45",
            Key("sagemaker", ml, region, detail="training"): "60",
            Key("reserved", name, region, detail="standard", **years): "30",
            Key("reserved", name, region, detail="standard", term_years=3, payment="all-upfront"): "28",
            Key("savings-plan", name, region, detail="compute", **years): "42",
            Key("savings-plan", ml, region, detail="sagemaker", **years): "51",
        }
        cache.keep([FetchedPrice(key=key, usd=Decimal(usd)) for key, usd in prices.items()], DAY)
        catalog = load(overlay=cache.folder)
        upfront = Payment.NO_UPFRONT
        catalog_prices = [
            catalog.on_demand(name, region),
            catalog.spot(name, region)["use2-az1"],
            catalog.capacity_block(name, region),
            catalog.training_plan(name, region),
            catalog.sagemaker(ml, region, "training"),
            catalog.reserved_rate(name, region, "standard", 3, upfront),
            catalog.reserved_rate(name, region, "standard", 3, Payment.ALL_UPFRONT),
            catalog.savings_plan(name, region, SavingsPlanKind.COMPUTE, 3, upfront),
            catalog.savings_plan(ml, region, SavingsPlanKind.SAGEMAKER, 3, upfront),
        ]
        assert [str(price.usd) for price in catalog_prices if isinstance(price, Price)] == list(prices.values())
        assert {(price.as_of, price.basis) for price in catalog_prices} == {(DAY, Basis.LISTED)}
        assert all(" API" in price.source for price in catalog_prices)

    def test_price_cache_leaves_shipped_files_unchanged(self, cache):
        before = {path: path.stat().st_mtime_ns for path in tables.SNAPSHOT.rglob("*") if path.is_file()}
        cache.keep([spot("use2-az1", "20")], DAY)
        assert {path: path.stat().st_mtime_ns for path in tables.SNAPSHOT.rglob("*") if path.is_file()} == before

    def test_price_of_the_same_day_is_replaced_and_older_ones_are_kept(self, cache):
        cache.keep([spot("use2-az1", "20"), spot("use2-az2", "30")], DAY - timedelta(days=1))
        cache.keep([spot("use2-az1", "21")], DAY)
        cache.keep([spot("use2-az1", "22")], DAY)
        assert [(row[2], row[3], row[4]) for row in rows(cache)] == [
            ("use2-az1", "20", "2026-11-19"),
            ("use2-az1", "22", "2026-11-20"),
            ("use2-az2", "30", "2026-11-19"),
        ]

    def test_first_and_last_day_of_an_unchanged_price_are_kept(self, cache):
        for ago, usd in reversed([*enumerate(("22", "20", "20", "20", "20", "21"))]):
            cache.keep([spot("use2-az1", usd, f"note of {ago}")], DAY - timedelta(days=ago))
        retained = [(row[3], row[4]) for row in rows(cache)]
        assert retained == [("21", "2026-11-15"), ("20", "2026-11-16"), ("20", "2026-11-19"), ("22", "2026-11-20")]

    def test_old_spot_prices_are_dropped_and_old_on_demand_prices_kept(self):
        old, new = "2026-08-01", "2026-11-20"
        before = [("p5", "us-east-1", "z", "20", old, "listed", "s", "")]
        after = [("p5", "us-east-1", "z", "21", new, "listed", "s", "")]
        assert [row[4] for row in merge_rows(tables.SPOT, before, after, DAY)] == [new]
        assert [row[4] for row in merge_rows(tables.ON_DEMAND, before, after, DAY)] == [old, new]

    def test_temporary_file_of_a_killed_process_is_removed(self, cache):
        cache.keep([spot("use2-az1", "20")], DAY)
        leftover = cache.folder / "prices" / ".spot.csv.0a1b2c3d"
        leftover.write_text("half a li")
        cache.keep([spot("use2-az1", "21")], DAY)
        assert not leftover.exists()
        assert [row[3] for row in rows(cache)] == ["21"]

    def test_cache_file_of_another_format_is_not_overwritten(self, cache):
        path = cache.folder / tables.SPOT.path
        path.parent.mkdir(parents=True)
        path.write_text("my own notes\n")
        with pytest.raises(UnreadableInputError, match=r"spot\.csv, line 1"):
            cache.keep([spot("use2-az1", "20")], DAY)
        assert path.read_text() == "my own notes\n"

    def test_concurrent_cache_writers_lose_no_rows(self, cache):
        def write(letter):
            for number in range(8):
                cache.keep([spot(f"{letter}{number}", "20")], DAY)

        writers = [Thread(target=write, args=(letter,)) for letter in "ab"]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert len(rows(cache)) == 16


class TestJournal:
    def test_answered_queries_are_remembered_for_one_hour(self, cache):
        cache.note(["a"], NOW)
        cache.note(["b"], NOW + timedelta(minutes=50))
        assert cache.answered_queries(NOW + timedelta(minutes=60)) == {"a", "b"}
        assert cache.answered_queries(NOW + timedelta(minutes=61)) == frozenset()
        assert cache.answered_queries(NOW - timedelta(minutes=1)) == frozenset()

    def test_refresh_after_an_hour_forgets_earlier_answers(self, cache):
        cache.note(["a"], NOW)
        cache.note(["b"], NOW + timedelta(hours=2))
        assert cache.answered_queries(NOW + timedelta(hours=2)) == {"b"}

    def test_finished_refresh_forgets_the_answers(self, cache):
        cache.note(["a"], NOW)
        cache.finish()
        cache.finish()
        assert cache.answered_queries(NOW) == frozenset()

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"begun": "now", "answered": []}', '{"begun": 7}'])
    def test_damaged_refresh_journal_is_ignored(self, cache, text):
        cache.folder.mkdir(parents=True)
        (cache.folder / "unfinished.json").write_text(text)
        assert cache.answered_queries(NOW) == frozenset()
        cache.note(["a"], NOW)
        assert cache.answered_queries(NOW) == {"a"}
