"""The rules that conftest.py gives every test, tried on a small project with the same conftest."""

import os
import signal
import socket
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, settings
from pytest_socket import SocketConnectBlockedError

from tests import compiled
from tests.compiled import compile_share

pytestmark = pytest.mark.long

TESTS = Path(__file__).resolve().parent

SKIPS = """
    import pytest

    def test_passes():
        pass

    def test_skips():
        pytest.skip("no such thing here")

    @pytest.mark.xfail(reason="known", strict=True)
    def test_fails_as_expected():
        raise AssertionError
"""


@pytest.fixture
def project(pytester, monkeypatch):
    """A folder with this conftest and an empty list of allowed skips; CI is not set."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    pytester.makeconftest((TESTS / "conftest.py").read_text())
    (pytester.path / "allowed_skips.txt").write_text("# nothing yet\n")
    return pytester


class TestSkips:
    @pytest.mark.parametrize("workers", ["0", "1"])
    def test_ci_refuses_unlisted_skips_alone(self, project, monkeypatch, workers):
        """Skips listed by their reason or by their test pass and are shown; the run has one of each kind."""
        monkeypatch.setenv("CI", "true")
        listed = "another thing*  # the reason\n*test_by_name.py::test_skips  # the reason\n"
        (project.path / "allowed_skips.txt").write_text(listed)
        project.makepyfile(
            test_unlisted=SKIPS,
            test_by_name=SKIPS,
            test_by_reason=SKIPS.replace("no such thing", "another thing"),
            test_module="import pytest\npytest.importorskip('absent_module')\ndef test_one(): pass",
        )
        result = project.runpytest_subprocess("-rs", "-n", workers, "--continue-on-collection-errors")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.assert_outcomes(passed=3, failed=1, skipped=2, xfailed=3, errors=1)
        refused = "*no line of tests/allowed_skips.txt allows it:"
        result.stdout.fnmatch_lines_random(
            [
                f"{refused} no such thing here",
                f"{refused} could not import 'absent_module'*",
                "SKIPPED*test_by_name.py*no such thing here",
                "SKIPPED*test_by_reason.py*another thing here",
            ]
        )

    def test_listed_skips_pass_in_ci(self, project, monkeypatch):
        monkeypatch.setenv("CI", "true")
        (project.path / "allowed_skips.txt").write_text("no such thing*  # the reason\n")
        project.makepyfile(SKIPS)
        result = project.runpytest_subprocess("-n", "0")
        assert result.ret == pytest.ExitCode.OK
        result.assert_outcomes(passed=1, skipped=1, xfailed=1)

    def test_skips_outside_ci_are_skips_and_name_an_excluded_component(self, project, monkeypatch):
        monkeypatch.setenv("SLURM", "0")
        project.makeini("[pytest]\nmarkers = slurm: x")
        project.makepyfile(SKIPS + "\n    @pytest.mark.slurm\n    def test_one(): raise AssertionError\n")
        result = project.runpytest_subprocess("-rs", "-n", "0")
        result.assert_outcomes(passed=1, skipped=2, xfailed=1)
        result.stdout.fnmatch_lines(["SKIPPED*left out by SLURM=0"])

    def test_every_allowed_skip_has_a_reason(self):
        lines = (TESTS / "allowed_skips.txt").read_text().splitlines()
        assert [line for line in lines if not line.startswith("#") and not line.partition("  # ")[2]] == []


class TestGolden:
    TEST = """
        def test_table(golden): golden("case/table.txt", "a  1\\nb  2\\n")
        def test_like(golden): golden("like.txt", "a  1\\nb  2\\n", "base.txt")
        def test_absent(golden): golden("absent.txt", "a  1\\n")
        def test_other(): raise AssertionError
    """

    @pytest.fixture
    def written(self, project):
        """The folder of golden files, with a table, a base and a difference to the base that the tests do not make."""
        project.makepyfile(self.TEST)
        folder = project.path / "golden"
        (folder / "case").mkdir(parents=True)
        (folder / "case" / "table.txt").write_text("a  1\nb  3\n")
        (folder / "base.txt").write_text("a  1\nb  9\n")
        (folder / "like.txt.diff").write_text("--- base.txt\n+++ like.txt\n@@ -1,2 +1,2 @@\n a  1\n-b  9\n+b  3\n")
        return folder

    def test_golden_difference_is_shown_line_by_line_and_a_missing_file_fails(self, project, written):
        result = project.runpytest_subprocess("-n", "0", "-k", "not other")
        result.assert_outcomes(failed=3, deselected=1)
        result.stdout.fnmatch_lines(["-b  3", "+b  2", "*make golden*"])
        assert not (written / "absent.txt").exists()

    def test_golden_update_writes_files_and_differences_and_runs_golden_tests_only(self, project, written):
        project.runpytest_subprocess("-n", "0", "--update-golden").assert_outcomes(passed=3, deselected=1)
        assert (written / "case" / "table.txt").read_text() == "a  1\nb  2\n"
        diff = (written / "like.txt.diff").read_text()
        assert diff.splitlines()[2:] == ["@@ -1,2 +1,2 @@", " a  1", "-b  9", "+b  2"]
        project.runpytest_subprocess("-n", "0", "-k", "not other").assert_outcomes(passed=3, deselected=1)


ASKED = """
    import os

    def test_what_is_there():
        assert os.environ.get("SLIPWAY_ATTACK_SEED") == "7"
        assert os.environ.get("SLIPWAY_FUZZ") == "plans:12"
        assert os.environ.get("SLIPWAY_HOME") != "here"
"""


class TestEnvironment:
    @pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
    def test_attack_settings_reach_the_tests_and_personal_settings_do_not(self, project, monkeypatch, workers):
        for name, value in (("ATTACK_SEED", "7"), ("FUZZ", "plans:12"), ("HOME", "here")):
            monkeypatch.setenv(f"SLIPWAY_{name}", value)
        project.makepyfile(ASKED)
        project.runpytest_subprocess("-n", workers).assert_outcomes(passed=1)

    def test_tests_have_no_aws_account(self):
        names = {name for name in os.environ if name.startswith("AWS_")}
        assert names == {"AWS_CONFIG_FILE", "AWS_EC2_METADATA_DISABLED", "AWS_SHARED_CREDENTIALS_FILE"}

    def test_loopback_connections_are_allowed(self):
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
            assert client.getpeername() == server.getsockname()

    def test_other_connections_are_blocked(self):
        warned = pytest.warns(UserWarning, match=r"192\.0\.2\.1")
        with socket.socket() as client, warned, pytest.raises(SocketConnectBlockedError):
            client.connect(("192.0.2.1", 443))


TERMINATED = """
    import os, pathlib, signal, sys

    def test_first():
        {before}
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Exception:
            pass

    def test_second():
        pathlib.Path("ran").touch()
"""


UNWINDS = "signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))"
"""As a sandbox has it while it is open."""


@pytest.mark.parametrize(
    "before, workers", [("pass", "0"), pytest.param(UNWINDS, "0", marks=pytest.mark.slow), (UNWINDS, "1")]
)
def test_sigterm_ends_a_test_run(project, before, workers):
    project.makepyfile(TERMINATED.format(before=before))
    result = project.runpytest_subprocess("-n", workers)
    assert (result.ret, (project.path / "ran").exists()) == (pytest.ExitCode.INTERRUPTED, False)


GROUP = """
    import pytest

    pytestmark = pytest.mark.xdist_group("one")

    @pytest.mark.parametrize("number", range(8))
    def test_where(number):
        pass
"""


def test_tests_of_a_group_run_on_one_worker(project):
    """They share what their modules set up, and some follow one another."""
    project.makepyfile(GROUP)
    result = project.runpytest_subprocess("-n", "2", "--dist", "loadgroup", "-v")
    result.assert_outcomes(passed=8)
    lines = [line for line in result.outlines if "PASSED" in line]
    assert len({line.partition("]")[0] for line in lines}) == 1, lines


ORDERED = """
    import signal, subprocess, sys

    import pytest

    def test_child_is_interruptible():
        program = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
        assert subprocess.run([sys.executable, "-c", program], capture_output=True).stdout == b"True\\n"

    @pytest.mark.xdist_group("launch")
    def test_launch():
        pass

    @pytest.mark.xdist_group("slurm-job")
    def test_slurm():
        pass
"""


def test_longest_groups_run_first_and_the_slowest_are_reported(project):
    """Run as a shell runs a command in the background: what a test starts is interruptible all the same."""
    project.makepyfile(ORDERED)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        result = project.runpytest_subprocess("-n", "1", "--dist", "loadgroup", "--no-loadscope-reorder", "-v")
    finally:
        signal.signal(signal.SIGINT, before)
    result.stdout.re_match_lines(
        [r".*PASSED.*test_slurm", r".*PASSED.*test_launch", r".*PASSED.*test_child", ".*slowest groups", "0s "]
    )
    result.assert_outcomes(passed=3)


def test_tests_that_wait_start_among_those_that_compute(project):
    project.makepyfile(**{"attack/test_waits": "def test_one(): pass\ndef test_two(): pass"})
    for module in ("test_first", "test_second"):
        project.makepyfile(**{module: "def test_computes(): pass\ndef test_more(): pass"})
    result = project.runpytest_subprocess("--collect-only", "-q", "-n", "0")
    assert [line.rpartition("/")[2] for line in result.outlines if "::" in line] == [
        "test_waits.py::test_one",
        "test_first.py::test_computes",
        "test_first.py::test_more",
        "test_waits.py::test_two",
        "test_second.py::test_computes",
        "test_second.py::test_more",
    ]


def test_hypothesis_has_no_deadline_and_no_too_slow_check():
    """A slow machine finds no fault in what is right."""
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check


class TestCompileShare:
    """Test modules compiled by one worker for all of them."""

    @pytest.fixture
    def modules(self, tmp_path, monkeypatch):
        monkeypatch.setattr(compiled, "TESTS", tmp_path)
        monkeypatch.setattr(sys, "dont_write_bytecode", False)
        for name in ("test_a", "test_b", "test_c", "test_wrong"):
            (tmp_path / f"{name}.py").write_text("assert 1\n" if name != "test_wrong" else "assert (\n")
        return tmp_path

    @staticmethod
    def found(modules):
        """The modules whose bytecode pytest takes as theirs."""
        paths = {path: rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}" for path in modules.glob("*.py")}
        return {path.stem for path, bytecode in paths.items() if rewrite._read_pyc(path, bytecode) is not None}

    def test_compile_share_of_all_workers_is_every_compilable_module(self, modules, pytestconfig):
        compile_share(pytestconfig, 0, 2)
        assert self.found(modules) == {"test_a", "test_c"}
        compile_share(pytestconfig, 1, 2)
        assert self.found(modules) == {"test_a", "test_b", "test_c"}

    def test_compile_share_compiles_a_changed_module_again(self, modules, pytestconfig):
        compile_share(pytestconfig, 0, 1)
        (modules / "test_b.py").write_text("assert 1 + 1\n")
        assert "test_b" not in self.found(modules)
        compile_share(pytestconfig, 0, 1)
        assert "test_b" in self.found(modules)

    def test_compile_share_without_bytecode_writes_no_file(self, modules, pytestconfig, monkeypatch):
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        compile_share(pytestconfig, 0, 1)
        assert list(modules.rglob("*.pyc")) == []
