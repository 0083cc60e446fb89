"""Applies to every test: no network, no AWS account, separate caches, golden files, and the rule about skips.

pytest-socket closes all sockets but loopback (pyproject.toml). Tests that call AWS are marked `aws` and run only with
`pytest --live -m aws tests/live`, which does not change the environment and the sockets.
"""

import difflib
import gc
import hashlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from contextvars import copy_context
from fnmatch import fnmatchcase
from functools import cache
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn

import pytest
from _pytest.doctest import DoctestModule
from botocore.stub import Stubber
from hypothesis import HealthCheck, settings

from launcher.aws.session import share_descriptions
from launcher.catalog.load import Catalog, load
from launcher.cdk import toolchain
from launcher.cli.output import VERBOSE
from tests.compiled import compile_share
from tests.emulators.answers import check_by_model
from tests.warm_app import WarmApp
from tests.warm_cli import WarmCli
from tests.warm_process import shared_places
from tests.warm_server import WarmServer

TESTS = Path(__file__).resolve().parent
FOLDER_MARKS = {"attack": ["server"], "enforced": ["server"], "infra": ["cdk"], "live": ["aws"], "sandbox": ["server"]}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MINISTACK = TESTS.parent / ".venv-ministack" / "bin" / "ministack"
LONGEST_FIRST = (
    "cdk",
    "hyperpod",
    "slurm-job",
    "guard",
    "instances",
    "closed-launches",
    "slurm-launch",
    "slurm-submit",
    "tests/sandbox/aws/test_pcs.py",
    "tests/sandbox/kubernetes/test_rendered_job.py",
    "sandbox",
    "second-eks",
    "second-parallelcluster",
    "training-job",
    "hf-jit",
    "budget-stop",
    "slurm",
    "pcluster",
    "slurm-commands",
    "tests/unit/submit/test_callers_environment.py",
    "tests/enforced/test_execution_role.py",
    "tests/sandbox/aws/test_auto_scaling.py",
    "launch",
    "tests/unit/cli/test_compare.py",
    "tests/sandbox/kubernetes/test_agents_in_pods.py",
    "tests/unit/agent/test_scratch.py",
    "tests/test_conftest.py",
    "endpoints",
    "tests/sandbox/submit/test_checkpoints.py",
    "existing-cluster",
    "pages",
    "tests/unit/pricing/test_properties.py",
    "shared-cluster",
    "tests/sandbox/kubernetes/test_jobs.py",
    "torch",
    "interrupted",
    "tests/sandbox/kubernetes/test_existing.py",
    "tests/sandbox/test_running_sandbox.py",
    "tests/sandbox/test_other_computer.py",
    "tests/unit/rendering/test_batch_command.py",
    "tests/unit/rendering/test_neuron_environment.py",
    "tests/sandbox/aws/test_training_jobs.py",
    "endpoint",
    "tests/unit/workflow/quote/test_public_refresh.py",
    "tests/unit/rendering/test_instance_boot.py",
    "tests/unit/rendering/test_preflight.py",
    "tests/unit/rendering/test_instance_program.py",
    "tests/enforced/test_roles.py",
    "tests/sandbox/test_node_names.py",
    "tests/unit/rendering/test_training_job.py",
    "tests/enforced/test_guards.py",
)
"""Groups of tests that one worker runs in sequence, longest first; the end of a run prints the time of each.

The last dozen are short but mostly wait. All other tests run after them: at the end no long group remains, when only
one worker is busy, and tests that compute keep the processors busy.
"""
SPREAD = 0.5
"""The share of the groups among which tests without a group are spread."""
NO_NAMESPACE = "no network namespace can be made here"
SLURM_PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch")
STATE = pytest.StashKey[pytest.MonkeyPatch]()
CACHES = pytest.StashKey[Path]()
SHARED = pytest.StashKey[ExitStack]()
PLACES_FOLDER = pytest.StashKey[str]()
PLACES = "warm_places"
"""The key of a worker's input for the folder with the places of persistent processes."""
# How long an example takes says something of the machine: no test of properties is judged by it.
settings.register_profile("slipway", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("full", settings.get_profile("slipway"), max_examples=300)  # make test-all
settings.load_profile("slipway")

FOR_TESTS = frozenset({"SLIPWAY_ATTACK_SEED", "SLIPWAY_FAILED", "SLIPWAY_FUZZ", "SLIPWAY_VENDOR_DATA"})
"""Variables for the tests, not for Slipway."""

# --------------------------------------------------------------------------------------------------------- environment


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the files of tests/golden instead of comparing"
    )
    parser.addoption(
        "--live", action="store_true", help="keep the AWS environment and the network, for tests marked aws"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Change the environment before any test module is imported: boto3 and jsii read it at their import."""
    if config.getoption("--live"):
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell gives that to what it runs in the background, and so would every command that a test interrupts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    state = config.stash[STATE] = pytest.MonkeyPatch()
    caches = config.stash[CACHES] = Path(tempfile.mkdtemp(prefix="slipway-tests-"))
    for name in list(os.environ):
        if (name.startswith(("AWS_", "SLIPWAY_")) and name not in FOR_TESTS) or name in {
            "CLICOLOR_FORCE",
            "COLUMNS",
            "FORCE_COLOR",
            "LINES",
            *("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"),  # every server of the tests is on loopback
            "PYTHONDONTWRITEBYTECODE",  # hundreds of processes would compile the same modules
            "PYTHONUNBUFFERED",  # print() then writes in pieces, and tests read files that several processes print to
        }:
            state.delenv(name)
    for name, value in {
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "CDK_HOME": str(caches / "cdk"),
        # jsii unpacks the CDK's packages (200 MB) once for this environment, not once for each cache folder of a test.
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(Path(sys.prefix) / ".jsii"),
        "SLIPWAY_AGENT_CACHE": str(caches / "agent"),  # unpacked and compiled once, not in the home of each sandbox
        "NODE_COMPILE_CACHE": str(caches / "node"),  # the CDK CLI is 16 MB of JavaScript, compiled at each start
        "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",  # 0.3 s for each account and region, and none is used
        "XDG_CACHE_HOME": str(caches / "xdg"),
        "XDG_CONFIG_HOME": str(caches / "config"),  # no defaults of this computer's user
        "XDG_STATE_HOME": str(caches / "state"),
        **toolchain.variables(os.environ),
    }.items():
        state.setenv(name, value)
    share_descriptions()
    config.pluginmanager.register(Doctests())  # as a plugin it is asked about the files of every folder


def pytest_unconfigure(config: pytest.Config) -> None:
    if SHARED in config.stash:
        config.stash[SHARED].close()
    if STATE in config.stash:
        config.stash[STATE].undo()
        shutil.rmtree(config.stash[CACHES], ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give each worker of xdist the folder in which workers find their persistent processes."""
    stash = node.config.stash
    if SHARED not in stash:
        stash[SHARED] = ExitStack()
        stash[PLACES_FOLDER] = stash[SHARED].enter_context(shared_places("app", "server"))
    node.workerinput[PLACES] = stash[PLACES_FOLDER]


# ------------------------------------------------------------------------------------------------------------- the end

ENDED = (128 + signal.SIGINT, 128 + signal.SIGTERM)
"""Exit codes of a sandbox that gets a signal while a test has it open."""


def pytest_sessionstart(session: pytest.Session) -> None:
    """End a run on SIGTERM: fixtures are torn down, together with the processes that they started."""
    pid = os.getpid()

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        if os.getpid() != pid:  # a fork that has not set its own
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        end_run(session)

    signal.signal(signal.SIGTERM, end)
    worker = getattr(session.config, "workerinput", None)
    if worker is not None and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        compile_share(session.config, int(worker["workerid"].removeprefix("gw")), worker["workercount"])


def end_run(session: pytest.Session) -> NoReturn:
    """Run no further test, even if the current test catches the exception. xdist passes no other exit code on."""
    session.shouldstop = "terminated"
    pytest.exit("terminated", returncode=pytest.ExitCode.INTERRUPTED)


SECONDS: Counter[str] = Counter()
"""The time of each group."""


def group_of(nodeid: str) -> tuple[str, str | None]:
    """A test's own id, and the group that xdist appends to it; None without a group."""
    test_id, marked, group = nodeid.rpartition("@")
    return (test_id, group) if marked and "]" not in group else (nodeid, None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add a test's seconds to its group."""
    _, group = group_of(report.nodeid)
    if group is not None:
        SECONDS[group] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the times of the groups, which determine LONGEST_FIRST; write failed tests to a file for `make test`."""
    if SECONDS:
        terminalreporter.section("slowest groups")
    for group, seconds in SECONDS.most_common(len(LONGEST_FIRST)):
        terminalreporter.line(f"{seconds:.0f}s {group}")
    if "SLIPWAY_FAILED" in os.environ:
        reports = [report for outcome in ("failed", "error") for report in terminalreporter.stats.get(outcome, [])]
        names = dict.fromkeys(group_of(report.nodeid)[0] for report in reports)
        Path(os.environ["SLIPWAY_FAILED"]).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


# ---------------------------------------------------------------------------------------------------------- collection


class Doctests:
    """Removes modules without an example from `--doctest-modules`: they took half of the collection's time."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        collectors = yield
        if file_path.suffix != ".py" or b">>> " in file_path.read_bytes():
            return collectors
        return [collector for collector in collectors if not isinstance(collector, DoctestModule)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their folder, skip those whose component is missing, keep only golden tests for an update."""
    missing = {mark: reason for mark, reason in missing_components().items() if reason}
    live = config.getoption("--live")
    for item in items:
        for mark in FOLDER_MARKS.get(place_of(item.path).partition("/")[0], ()):
            item.add_marker(mark)
        marks = {mark.name for mark in item.iter_markers()}
        if "xdist_group" not in marks and (group := own_group(item, marks)):
            item.add_marker(pytest.mark.xdist_group(group))
        if live and "aws" in marks:
            item.add_marker("enable_socket")
        for mark in missing.keys() & marks:
            item.add_marker(pytest.mark.skip(reason=missing[mark]))
    units = {item: group_name(item) or item for item in items}
    places = start_places(units.values())
    items.sort(key=lambda item: places[units[item]])
    if config.getoption("--update-golden"):
        others = [item for item in items if "golden" not in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=others)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude imported and collected objects from garbage collection, because they exist until the end.

    Objects of tests are collected every 20,000 instead of every 700: that takes a twentieth less processor time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


def own_group(item: pytest.Item, marks: set[str]) -> str | None:
    """The default group of a test with these marks: one jsii process for tests/infra, one set-up for other modules.

    None for tests that share no set-up and mostly wait: xdist distributes them, whatever their module.
    """
    place = place_of(item.path)
    if "cdk" in marks:
        return "cdk"
    if place.startswith(("attack/", "sandbox/agent/")):
        return None
    return f"{TESTS.name}/{place}" if place else item.path.relative_to(TESTS.parent).as_posix()


@cache
def place_of(path: Path) -> str:
    """The path of a file below tests/, once for its hundreds of tests; "" for any other file."""
    return path.relative_to(TESTS).as_posix() if TESTS in path.parents else ""


def group_name(item: pytest.Item) -> str | None:
    """The group of a test; None for one that xdist distributes alone."""
    mark = item.get_closest_marker("xdist_group")
    return mark.args[0] if mark and mark.args else None


def start_places(units: Iterable[str | pytest.Item]) -> dict[str | pytest.Item, tuple[int, float]]:
    """The place of each group, and of each test without one, in the order of their start.

    Tests without a group mostly wait, some for a minute: they are spread among the first groups, whose tests keep the
    processors busy, so that none of them begins near the end. Those of each file are spread by themselves: they wait
    equally long, and side by side they would leave the processors idle.
    """
    kinds = {unit: None if isinstance(unit, str) else unit.path for unit in units}
    counts, seen = Counter(kinds.values()), Counter[Path | None]()
    places: dict[str | pytest.Item, tuple[int, float]] = {}
    for unit, kind in kinds.items():
        first = LONGEST_FIRST.index(unit) if unit in LONGEST_FIRST else len(LONGEST_FIRST)
        share = seen[kind] / counts[kind]
        places[unit] = first, share if kind is None else share * SPREAD
        seen[kind] += 1
    return places


def missing_components() -> dict[str, str]:
    """Why tests with a mark cannot run here; an empty reason if they can."""
    path = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin"
    absent = [name for name in SLURM_PROGRAMS if shutil.which(name, path=path) is None]
    slurm = f"not installed: {', '.join(absent)} (apt-get install slurm-wlm munge)" if absent else ""
    without_torch = "left out by TORCH=0" if os.environ.get("TORCH") == "0" else ""
    torch = "" if importlib.util.find_spec("torch") else "not installed: torch (make setup-torch)"
    focus = (TESTS.parent / ".venv-focus" / "bin" / "focus-validator").exists()
    elastic = (TESTS.parent / ".venv-elastic" / "bin" / "hyperpodrun").exists()
    pcluster = (TESTS.parent / ".venv-pcluster" / "bin" / "pcluster").exists()
    trainers = (TESTS.parent / ".venv-trainers" / ".made").exists()
    site = (TESTS.parent / ".venv-site" / ".made").exists()
    browser = [name for name in BROWSERS if shutil.which(name)] and importlib.util.find_spec("playwright")
    return {
        "browser": "" if browser else "not installed: chromium or playwright (make setup-browser)",
        "elastic": without_torch or ("" if elastic else "not installed: HyperPod's elastic agent (make setup-elastic)"),
        "iam": unenforced(),
        "focus": "" if focus else "not installed: the FOCUS validator (make setup-focus)",
        "pcluster": "" if pcluster else "not installed: ParallelCluster (make setup-pcluster)",
        "site": "" if site else "not installed: mkdocs (make site)",
        "slurm": "left out by SLURM=0" if os.environ.get("SLURM") == "0" else slurm,
        "torch": without_torch or torch,
        "trainers": without_torch or ("" if trainers else "not installed: the frameworks (make setup-trainers)"),
    }


def unenforced() -> str:
    """Why no account with an enforcing IAM can run here; empty if one can.

    ministack listens on every address of the host: it runs in a separate network namespace or not at all.
    """
    if not MINISTACK.exists():
        return "not installed: ministack (make setup-ministack)"
    tried = [shutil.which("unshare") or "false", "--user", "--map-root-user", "--net", "true"]
    return "" if subprocess.run(tried, check=False, capture_output=True).returncode == 0 else NO_NAMESPACE


@pytest.fixture(scope="session", autouse=True)
def judged_stubs() -> Iterator[None]:
    """Validate every canned answer in botocore's Stubber against botocore's model."""
    taken = Stubber.add_response

    def add_checked(stub: Stubber, method: str, service_response: dict[str, Any], *rest: Any, **more: Any) -> None:
        model = stub.client.meta.service_model.operation_model(stub.client.meta.method_to_api_mapping[method])
        check_by_model(model, service_response)
        taken(stub, method, service_response, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stubber, "add_response", add_checked)
        yield


def pytest_runtest_teardown() -> None:
    """Reset the verbosity variable: a command that a test ran in this process with -v sets it for later tests too."""
    os.environ.pop(VERBOSE, None)


# --------------------------------------------------------------------------------------------------------------- skips


def allowed_skips() -> list[str]:
    """The patterns of allowed_skips.txt: one per line, with the reason after two blanks and a #."""
    lines = (TESTS / "allowed_skips.txt").read_text(encoding="utf-8").splitlines()
    patterns = [line.partition("  #")[0].strip() for line in lines]
    return [pattern for pattern in patterns if pattern and not pattern.startswith("#")]


def refuse_unlisted_skip(report: pytest.TestReport | pytest.CollectReport) -> pytest.TestReport | pytest.CollectReport:
    """The report; with CI set, a failure for a skip that no line of the list allows by reason or by test."""
    if not report.skipped or hasattr(report, "wasxfail") or os.environ.get("CI", "").lower() not in {"1", "true"}:
        return report
    reason = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else report.longreprtext
    if not any(fnmatchcase(text, pattern) for pattern in allowed_skips() for text in (reason, report.nodeid)):
        report.outcome = "failed"
        report.longrepr = f"skipped, and no line of tests/allowed_skips.txt allows it: {reason}"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport | pytest.CollectReport]:
    if call.excinfo is not None and isinstance(call.excinfo.value, SystemExit) and call.excinfo.value.code in ENDED:
        end_run(item.session)
    return refuse_unlisted_skip((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.TestReport | pytest.CollectReport]:
    return refuse_unlisted_skip((yield))


# --------------------------------------------------------------------------------------------------------- environment


@pytest.fixture(autouse=True)
def aws_environment_of_a_test() -> Iterator[None]:
    """Restore AWS's variables after a test: moto leaves its own credentials in the environment."""
    before = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    yield
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(autouse=True)
def recent_runs_of_a_test(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A list of recent runs of its own: a test finds no run of another test by its name."""
    digest = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]
    monkeypatch.setenv("XDG_STATE_HOME", str(request.config.stash[CACHES] / "states" / digest))


# ------------------------------------------------------------------------------------------------ what tests work with

FOLDER_NUMBERS = count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder for each test: pytest's own fixture lists those of all earlier tests to number the next one."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}{next(FOLDER_NUMBERS)}", numbered=False)


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """The shipped catalog with its prices."""
    return load()


class Ended(NamedTuple):
    """An ended command: its exit code, its result, its other output."""

    code: int
    out: str
    err: str


@pytest.fixture
def slipway(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run a command in this process, in the folder and with the environment of the test."""
    from launcher.cli.app import main

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr("sys.argv", ["slipway", *arguments])
        # Click would say how this interpreter was started: `python -m pytest`.
        monkeypatch.setattr(sys.modules["__main__"], "__package__", None, raising=False)
        with pytest.raises(SystemExit) as exit_info:
            copy_context().run(main)  # what a command keeps for its own duration is not the next one's
        printed = capsys.readouterr()
        if "--json" in arguments and printed.out.startswith("{"):
            from tests.documents import read_document

            read_document(printed.out)
        return Ended(int(exit_info.value.code or 0), *printed)

    return run


def shared_place(config: pytest.Config, name: str) -> Path | None:
    """The place of a persistent process that all workers use; None in a run without workers."""
    worker = getattr(config, "workerinput", None)
    return Path(worker[PLACES], name) if worker else None


@pytest.fixture(scope="session")
def warm_app(pytestconfig: pytest.Config) -> Iterator[WarmApp]:
    """The CDK app in a persistent process."""
    app = WarmApp(place=shared_place(pytestconfig, "app"))
    yield app
    app.close()


@pytest.fixture(scope="session")
def warm_server(pytestconfig: pytest.Config) -> Iterator[WarmServer]:
    """A process that has imported moto, from which embedded servers are forked."""
    server = WarmServer(place=shared_place(pytestconfig, "server"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def warm_cli() -> Iterator[WarmCli]:
    """The CDK CLI in a persistent process."""
    cli = WarmCli()
    yield cli
    cli.close()


@pytest.fixture(scope="module")
def warm_launches(warm_app: WarmApp, warm_server: WarmServer, warm_cli: WarmCli) -> Iterator[None]:
    """Let persistent processes synthesise and serve the launches and deployments of a module's tests."""
    with warm_app.used(), warm_server.used(), warm_cli.used():
        yield


# -------------------------------------------------------------------------------------------------------------- golden


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compare a text with tests/golden/<name>; `pytest --update-golden` (make golden) writes the file instead.

    A text that differs from another golden file in a few lines is stored as a diff: `like` names that file, and the
    differences are in tests/golden/<name>.diff. If both change, make golden writes the second on its second run.
    """

    def compare(name: str, text: str, like: str | None = None) -> None:
        if like is not None and like != name:
            base = TESTS / "golden" / like
            if not base.is_file():
                pytest.fail(f"no golden file tests/golden/{like}: write it with make golden", pytrace=False)
            old, new = base.read_text(encoding="utf-8").splitlines(keepends=True), text.splitlines(keepends=True)
            name, text = f"{name}.diff", "".join(difflib.unified_diff(old, new, like, name, n=1))
        path = TESTS / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        if not path.is_file():
            pytest.fail(f"no golden file tests/golden/{name}: write it with make golden, and read it", pytrace=False)
        expected = path.read_text(encoding="utf-8")
        if text != expected:
            old, new = expected.splitlines(keepends=True), text.splitlines(keepends=True)
            difference = "".join(difflib.unified_diff(old, new, f"tests/golden/{name}", "now"))
            pytest.fail(f"{difference}\nif this is what it should be: make golden", pytrace=False)

    return compare


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    program = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()
