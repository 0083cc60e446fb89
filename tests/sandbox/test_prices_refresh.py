"""`slipway prices refresh` as its own process: real boto3, AWS's services emulated on loopback."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launcher.catalog import tables
from launcher.records.cache_folder import cache_folder
from tests.emulators.aws_prices import EXPIRED, HELD, AwsPrices, Fault, served
from tests.emulators.price_entries import block, ec2_product, spot_entry, term

P5 = "p5.48xlarge"
PLAN = f"""
slipway: 1
name: fresh
workload: {{train: {{model: llama-3.1-8b, tokens_b: 0.5}}}}
target: {{kind: parallelcluster, instance_type: {P5}, region: us-east-2, nodes: 1}}
purchase: {{option: [spot, capacity-block]}}
"""
DENIED = Fault(code="UnauthorizedOperation", message="You are not authorized to perform this operation.")
DEADLINE_S = 60


@pytest.fixture
def price_server():
    with served(AwsPrices()) as state:
        state.products = [
            ec2_product(P5, "us-east-2", term("55.04")),
            ec2_product("m6i.large", "us-east-2", term("0.2")),
        ]
        state.spot = [
            spot_entry(P5, "us-east-2", "us-east-2a", "17.5", since="2026-11-20T09:00:00.000Z", zone_id="use2-az1")
        ]
        state.blocks = [block(P5, "us-east-2", "996.672")]
        yield state


@pytest.fixture
def price_environment(price_server, tmp_path):
    """Nothing of the machine's but its programs."""
    names = ("PATH", "LANG", "AWS_CONFIG_FILE", "AWS_EC2_METADATA_DISABLED")
    inherited = {name: os.environ[name] for name in names if name in os.environ}
    shared = {"AWS_SHARED_CREDENTIALS_FILE": os.devnull, "HOME": str(tmp_path), "COLUMNS": "300"}
    (tmp_path / "plan.yaml").write_text(PLAN)
    return {**inherited, **shared, **price_server.environment(tmp_path / "cache")}


@pytest.fixture
def slipway_process(price_environment, tmp_path):
    """A command, run to its end."""

    def run(*arguments, **more):
        command = [sys.executable, "-m", "launcher", *arguments]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env={**price_environment, **more},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


WITHOUT_SPOT = {"prices/on_demand.csv", "prices/capacity_blocks.csv", "prices/interruptions.csv", "sources.csv"}
"""The cache's files when every question but the one about spot has its answer."""


def files(environment) -> dict[str, list[list[str]]]:
    """Every file of the cache, read as the catalog reads it."""
    folder = cache_folder(environment)
    every = (*tables.PRICE_TABLES, tables.SOURCES)
    return {table.path: list(tables.read_checked(table, folder)) for table in every if (folder / table.path).is_file()}


def until(holds, process) -> None:
    """Wait for a running command to get somewhere."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert process.poll() is None, "it ended too early"
        assert time.monotonic() < deadline, "it does not get there"
        time.sleep(0.02)


class TestFresh:
    def test_plan_file_refreshes_needed_prices_for_next_command(self, slipway_process, price_server):
        done = slipway_process("prices", "refresh", "plan.yaml", "-v")
        assert done.returncode == 0, done.stderr
        assert "  5 prices read from AWS, 21 of 21 answers; kept in " in done.stdout
        assert "21 questions to AWS" in done.stderr
        assert "spot of p5.48xlarge in us-east-2: 1 price" in done.stderr
        shown = slipway_process("prices", "show", "--type", P5, "--region", "us-east-2", "--json")
        document = json.loads(shown.stdout)
        fresh = {row["kind"]: row for row in document["rows"] if row["age_days"] == 0 and row["current"]}
        assert {kind: row["usd_per_hour"] for kind, row in fresh.items()} == {
            "on-demand": "55.04",
            "spot": "17.5",
            "capacity-block": "41.528",
        }
        assert fresh["spot"]["source"] == "EC2 API, DescribeSpotPriceHistory"
        again = slipway_process("prices", "refresh", "plan.yaml", "--json")
        report = json.loads(again.stdout)
        assert (report["schema"], report["refresh"]["answered"]) == ("slipway.prices/1", 21)

    def test_known_prices_shown_without_boto3(self, price_environment, tmp_path):
        code = (
            "import sys\n"
            "from launcher.cli.app import main\n"
            "sys.argv = ['slipway', *sys.argv[1:]]\n"
            "try:\n"
            "    main()\n"
            "finally:\n"
            "    print('loaded', [name for name in ('boto3', 'botocore') if name in sys.modules])\n"
        )
        for arguments in (["prices", "show", "--type", P5], ["prices", "diff", "2025-04-01", "2025-06-25"], ["--help"]):
            done = subprocess.run(
                [sys.executable, "-c", code, *arguments],
                cwd=tmp_path,
                env=price_environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert "loaded []" in done.stdout, done.stderr


class TestRefused:
    def test_one_failed_service_keeps_others_fresh_and_exits_with_1(
        self, slipway_process, price_server, price_environment
    ):
        price_server.always["DescribeSpotPriceHistory"] = DENIED
        done = slipway_process("prices", "refresh", "plan.yaml")
        assert done.returncode == 1
        assert "failed; the older prices stay in use" in done.stdout
        assert "You are not authorized" in done.stdout
        assert set(files(price_environment)) == WITHOUT_SPOT
        price_server.always.clear()
        price_server.requests.clear()
        again = slipway_process("prices", "refresh", "plan.yaml")
        assert again.returncode == 0
        assert price_server.operations() == ["DescribeSpotPriceHistory"]
        assert "20 of 21 answers are reused" in again.stderr

    def test_zero_price_exits_with_1(self, slipway_process, price_server):
        price_server.spot[0]["spotPrice"] = "0.000000"
        done = slipway_process("prices", "refresh", "plan.yaml", "--json")
        assert done.returncode == 1
        (refused,) = json.loads(done.stdout)["refresh"]["refused"]
        assert (refused["az_id"], refused["reason"]) == ("use2-az1", "the price is $0.000000, expected more than 0")

    @pytest.mark.parametrize("json_asked", [False, True])
    def test_incomplete_access_key_refused_with_fix(self, slipway_process, json_asked):
        variables = {"AWS_SECRET_ACCESS_KEY": ""}
        done = slipway_process("prices", "refresh", "plan.yaml", *(["--json"] if json_asked else []), **variables)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        if json_asked:
            document = json.loads(done.stdout)
            assert (document["schema"], document["exit_code"]) == ("slipway.error/1", 1)
            assert "credentials" in document["message"] or "AWS_ACCESS_KEY_ID" in document["message"]
        else:
            assert "fix: set AWS_PROFILE or AWS_ACCESS_KEY_ID" in done.stderr

    def test_expired_credentials_refused_with_fix(self, slipway_process, price_server):
        for operation in ("GetProducts", "DescribeSpotPriceHistory", "DescribeCapacityBlockOfferings"):
            price_server.always[operation] = EXPIRED
        done = slipway_process("prices", "refresh", "plan.yaml")
        assert done.returncode == 1
        assert "ExpiredTokenException" in done.stderr
        assert "log in again" in done.stderr

    @pytest.mark.parametrize(
        "words, code, message",
        [
            (("nowhere.yaml",), 2, "nowhere.yaml"),
            (("plan.yaml", "--region", "us-eest-1"), 2, "no region us-eest-1"),
            (("--regoin", "us-east-1"), 2, "--regoin"),
        ],
    )
    def test_invalid_refresh_arguments_exit_with_error_before_requests(
        self, slipway_process, price_server, words, code, message
    ):
        done = slipway_process("prices", "refresh", *words)
        assert (done.returncode, price_server.requests) == (code, [])
        assert message in done.stderr


class TestInterrupted:
    def start(self, environment, tmp_path):
        """A refresh whose spot question is held back, once everything else is kept."""
        command = [sys.executable, "-m", "launcher", "prices", "refresh", "plan.yaml"]
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        journal = cache_folder(environment) / "unfinished.json"
        until(lambda: journal.is_file() and len(json.loads(journal.read_text())["answered"]) == 20, process)
        return process

    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
    def test_interrupted_refresh_keeps_cache_whole_and_resumes(
        self, slipway_process, price_server, price_environment, tmp_path, how
    ):
        price_server.faults["DescribeSpotPriceHistory"].append(HELD)
        process = self.start(price_environment, tmp_path)
        process.send_signal(how)
        _, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == {signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}[how]
        assert how == signal.SIGKILL or "interrupted: received prices are stored" in err
        assert "Traceback" not in err
        assert set(files(price_environment)) == WITHOUT_SPOT
        price_server.requests.clear()
        again = slipway_process("prices", "refresh", "plan.yaml")
        assert again.returncode == 0, again.stderr
        assert price_server.operations() == ["DescribeSpotPriceHistory"]
        assert len(files(price_environment)["prices/spot.csv"]) == 1
        assert not (cache_folder(price_environment) / "unfinished.json").exists()

    def test_refresh_never_changes_shipped_snapshot(self, slipway_process):
        before = {path: path.read_bytes() for path in Path(tables.SNAPSHOT).rglob("*.csv")}
        slipway_process("prices", "refresh", "plan.yaml")
        assert {path: path.read_bytes() for path in Path(tables.SNAPSHOT).rglob("*.csv")} == before
