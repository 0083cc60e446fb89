"""Invalid input from a seed, through commands and parsers: an answer or an error message, never a traceback.

A small round runs in `make test`; `make test-all` runs 20,000. One that failed comes back with its number:
`SLIPWAY_FUZZ=plans:1234 python -m pytest tests/attack -k plans`.
"""

import json
import os
import random
import shutil
import traceback
from pathlib import Path

import pytest
import yaml

from launcher import plan_file
from launcher.agent.node.notice import parse_notice, rebalance_notice, spot_notice
from launcher.catalog import tables
from launcher.catalog.load import load
from launcher.model.document import document
from launcher.model.enums import Payment, SavingsPlanKind
from launcher.model.errors import SlipwayError
from launcher.planning.pin import pinned_plan
from launcher.submit import slurm_output
from launcher.workflow.quote import prices
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.attack.commands import run
from tests.attack.odd import changed, damaged, text_of
from tests.plans import NOW, ROOT

ALL = 4_000
"""Of each of five kinds, in `make test-all`."""
FEW = 60
ALLOWED = frozenset((0, 2, 3, 4, 5, 6, 7))


def rounds(kind):
    """The numbers of the rounds to run: a few, all, or the selected one."""
    setting = os.environ.get("SLIPWAY_FUZZ", "")
    if setting.startswith(f"{kind}:"):
        number = int(setting.partition(":")[2])
        return [range(number, number + 1)]
    full = pytest.param(range(ALL), marks=pytest.mark.slow, id="all")
    return [pytest.param(range(FEW), id="few"), full]


def run_round(kind, numbers, attempt):
    """Make every attempt of a round; what failed is named once a place, with the first number that shows it."""
    failed = {}
    for number in numbers:
        try:
            attempt(random.Random(f"{kind}:{number}"))
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is what is looked for
            last = traceback.extract_tb(problem.__traceback__)[-1]
            place = f"{Path(last.filename).name}:{last.lineno}"
            message = f"SLIPWAY_FUZZ={kind}:{number} {type(problem).__name__} in {place}: {str(problem)[:300]}"
            failed.setdefault((type(problem), place, str(problem)[:60]), message)
    assert not failed, "\n".join(failed.values())


def check_readable(refusal):
    """A refusal is one that a person can read."""
    assert refusal.message
    assert refusal.exit_code in {*ALLOWED, 1}


def answered(*arguments):
    """Run a command and hold it to its exit codes; what it printed."""
    code, out, err = run(*arguments)
    assert code in ALLOWED, f"slipway {' '.join(map(str, arguments))} left with {code}: {err.strip()[-300:]}"
    assert "internal error" not in err
    assert "Traceback" not in out + err
    return out


EXAMPLES = sorted((ROOT / "examples").glob("**/*.yaml"))


@pytest.mark.parametrize("numbers", rounds("plans"))
def test_random_plans_give_an_answer_or_a_clear_error(numbers, tmp_path):
    catalog, texts = load(), [path.read_text(encoding="utf-8") for path in EXAMPLES if "slipway: 1" in path.read_text()]
    whole = [yaml.safe_load(text) for text in texts]
    # With every key written out there is more to spoil.
    whole += [json.loads(json.dumps(document(plan_file.loads(text)))) for text in texts]

    def attempt(chance):
        if chance.random() < 0.2:
            data = damaged(chance, chance.choice(texts))
        else:
            data = text_of(chance, changed(chance, chance.choice(whole), chance.randint(1, 4)))
        path = tmp_path / "plan.yaml"
        path.write_bytes(data)
        try:
            pinned_plan(plan_file.load(path), catalog)
            if chance.random() < 0.1:
                str(price(path, NOW, PriceOptions()).quote(1)).encode()
        except SlipwayError as refusal:
            check_readable(refusal)
        if chance.random() < 0.05:
            answered("plan", path, *(["--json"] if chance.random() < 0.5 else []))

    run_round("plans", numbers, attempt)


ROWS = {
    tables.ON_DEMAND: ["p5.48xlarge", "us-east-1", "", "49.5", "2026-11-19", "listed", "price-list", ""],
    tables.SPOT: ["p5.48xlarge", "us-east-2", "use2-az1", "20", "2026-11-19", "listed", "price-list", ""],
    tables.CAPACITY_BLOCKS: ["p5.48xlarge", "us-east-1", "", "31", "2026-11-19", "listed", "price-list", ""],
    tables.RESERVED: [
        *("p5.48xlarge", "us-east-1", "standard", "1", "30", "29", "28", "2026-11-19", "listed", "price-list", "")
    ],
    tables.SAVINGS_PLANS: [
        *("p5.48xlarge", "us-east-1", "compute", "1", "30", "29", "28", "2026-11-19", "listed", "price-list", "")
    ],
    tables.SAGEMAKER: ["ml.p5.48xlarge", "us-east-1", "training", "60", "2026-11-19", "listed", "price-list", ""],
    tables.SPOT_RANGES: ["p5.48xlarge", "us-east-1", "10", "20", "30", "2026-11-19", "listed", "price-list", ""],
    tables.INTERRUPTIONS: ["p5.48xlarge", "us-east-1", "0", "60", "2026-11-19", "spot-advisor"],
    tables.SOURCES: ["price-list", "price-list", "AWS Price List", ""],
}
CELLS = (
    *(
        "",
        "0",
        "-1",
        "NaN",
        "inf",
        "1e999",
        "1e-999",
        "9" * 400,
        "free",
        "2099-01-01",
        "20261119",
        "x" * 2000,
        "\u202e",
    ),
    *(
        "p9.48xlarge",
        "us-nowhere-1",
        "listed",
        "memory",
        "unverified",
        "user",
        "\0",
        '"',
        "a\nb",
        "0.01",
        "4000",
        "3.5",
    ),
)


@pytest.mark.parametrize("numbers", rounds("caches"))
def test_random_price_caches_give_an_answer_or_a_clear_error(numbers, tmp_path):
    def attempt(chance):
        folder = tmp_path / "cache"
        shutil.rmtree(folder, ignore_errors=True)
        for table, row in ROWS.items():
            rows = [list(row) for _ in range(chance.randint(1, 3))]
            for _ in range(chance.randint(0, 2)):
                one = chance.choice(rows)
                one[chance.randrange(len(one))] = chance.choice(CELLS)
            text = "\n".join([",".join(table.columns), *(",".join(one) for one in rows)]) + "\n"
            path = folder / table.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(damaged(chance, text) if chance.random() < 0.1 else text.encode())
        catalog = load(overlay=folder, today=NOW.date())
        queries = (
            lambda: catalog.on_demand("p5.48xlarge", "us-east-1"),
            lambda: catalog.spot("p5.48xlarge", "us-east-2"),
            lambda: catalog.capacity_block("p5.48xlarge", "us-east-1"),
            lambda: catalog.savings_plan("p5.48xlarge", "us-east-1", SavingsPlanKind.COMPUTE, 1, Payment.NO_UPFRONT),
            lambda: catalog.interruption_band("p5.48xlarge", "us-east-1"),
            lambda: prices.show(catalog, prices.PriceFilter(instance_type="p5.48xlarge"), NOW, history=True),
        )
        for query in queries:
            try:
                str(query()).encode()
            except SlipwayError as refusal:
                check_readable(refusal)

    run_round("caches", numbers, attempt)


@pytest.mark.parametrize("numbers", rounds("folders"))
def test_random_run_folders_give_an_answer_or_a_clear_error(numbers, tmp_path, monkeypatch, run_folder_files):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nonexistent")  # no ssh: nothing is asked of another machine
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    def attempt(chance):
        shutil.rmtree(tmp_path / ".slipway", ignore_errors=True)
        folder = tmp_path / ".slipway" / "runs" / "tiny-gpt" / "20261120T120000Z"
        (folder / "logs").mkdir(parents=True)
        (folder / "logs" / chance.choice(("attempt-1.log", "attempt-x.log", "attempt-.log"))).write_bytes(
            b"step 1\xff\n"
        )
        (folder.parent / "latest").symlink_to(folder.name)
        spoilt = chance.sample(sorted(run_folder_files), chance.randint(1, 2))
        for name, body in run_folder_files.items():
            if name in spoilt or name != "submission.json":
                (folder / name).write_bytes(_spoilt(chance, body) if name in spoilt else json.dumps(body).encode())
        if chance.random() < 0.05:
            missing, hidden = chance.sample(sorted(run_folder_files), 2)
            (folder / missing).unlink(missing_ok=True)
            (folder / hidden).unlink(missing_ok=True)
            (folder / hidden).mkdir()
        for command in ("report", "runs", "status", "logs"):
            arguments = [command] if command == "runs" else [command, "tiny-gpt"]
            as_json = command != "logs" and chance.random() < 0.5
            output = answered_with_aws(*arguments, *(["--json"] if as_json else []))
            if as_json:
                json.loads(output, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))

    run_round("folders", numbers, attempt)


def _spoilt(chance, body):
    """A file of a run folder, changed; events stand one a line."""
    odd = changed(chance, body, chance.randint(1, 3))
    if isinstance(body, list) and isinstance(odd, list):
        return b"\n".join(text_of(chance, line) for line in odd) + b"\n"
    return text_of(chance, odd)


def answered_with_aws(*arguments):
    """As `answered`; without ssh and credentials exit 1 may say that a cluster cannot be reached."""
    code, out, err = run(*arguments)
    assert code in {*ALLOWED, 1}, f"slipway {' '.join(arguments)} left with {code}: {err.strip()[-300:]}"
    assert "internal error" not in out + err, (arguments, (out + err)[-300:])
    return out


SQUEUE = (
    "JobId=7 JobName=tiny-gpt UserId=ubuntu(1000) JobState=RUNNING Reason=None Dependency=(null) Requeue=1 Restarts=1 "
    "BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:10:00 SubmitTime=2026-11-20T12:00:00 StartTime=1795176000 "
    "NodeList=p5-st-p5-[1-4,7] NumNodes=5 WorkDir=/home/ubuntu/slipway/x\n"
)
SACCT = (
    "PREEMPTED|1795176000|1795177800|0:15|p5-st-p5-[1-4]|None\n"
    "CANCELLED by 1000|1795179000|Unknown|0:0|p5-st-p5-[1-4]|None\n"
)
SINFO = "p5-48xlarge* p5.48xlarge,efa up 4\nother (null) up 1\n"


@pytest.mark.parametrize("numbers", rounds("schedulers"))
def test_random_answers_of_schedulers_give_a_result_or_a_clear_error(numbers):
    readers = (
        (slurm_output.parse_sbatch, "Submitted batch job 7\n", ()),
        (slurm_output.parse_scontrol, SQUEUE, ()),
        (slurm_output.parse_sacct, SACCT, ()),
        (slurm_output.partition_of, SINFO, ("p5-48xlarge", "p5.48xlarge")),
        (slurm_output.hosts, "p5-st-p5-[1-4,7,0012-0015],q-[1-2]-x", ()),
        (slurm_output.state_of, "CANCELLED by 1000", ()),
    )

    def attempt(chance):
        read, text, more = chance.choice(readers)
        printed = damaged(chance, text).decode("utf-8", errors="replace")
        if chance.random() < 0.3:
            at = chance.randrange(len(printed) + 1)
            printed = (
                printed[:at] + chance.choice(("9" * 400, "[1-999999999]", "|", "|||", "=", "\n", "\0")) + printed[at:]
            )
        try:
            answer = read(printed, *more)
        except SlipwayError as refusal:
            check_readable(refusal)
        else:
            assert len(str(answer)) < 10_000_000

    run_round("schedulers", numbers, attempt)


NOTICES = (
    (lambda text: spot_notice(text, now=NOW), {"action": "terminate", "time": "2026-11-20T12:02:00Z"}),
    (rebalance_notice, {"noticeTime": "2026-11-20T12:00:00Z"}),
    (lambda text: parse_notice(text, now=NOW), {"source": "spot", "detail": "stop", "at": "2026-11-20T12:02:00Z"}),
)


@pytest.mark.parametrize("numbers", rounds("metadata"))
def test_random_metadata_answers_give_a_notice_or_a_clear_error(numbers):
    def attempt(chance):
        read, body = chance.choice(NOTICES)
        text = text_of(chance, changed(chance, body, chance.randint(1, 2))).decode("latin-1")
        try:
            notice = read(text)
        except ValueError:
            return  # what the agent takes for trouble of the service, and tells
        assert notice.source in ("spot", "rebalance", *("signal", "cancel", "capacity-end", "node"))
        json.loads(notice.to_json(), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
        notice.to_json().encode()

    run_round("metadata", numbers, attempt)
