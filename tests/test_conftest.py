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
    @pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
    def test_unlisted_skip_fails_in_ci(self, project, monkeypatch, workers):
        monkeypatch.setenv("CI", "true")
        project.makepyfile(SKIPS)
        result = project.runpytest_subprocess("-rs", "-n", workers)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.assert_outcomes(passed=1, failed=1, xfailed=1)
        result.stdout.fnmatch_lines(["*no line of tests/allowed_skips.txt allows it: no such thing here"])

    @pytest.mark.parametrize("pattern, workers", [("no such thing*", "2"), ("*::test_skips", "0")])
    def test_listed_skip_passes_in_ci_and_is_shown(self, project, monkeypatch, pattern, workers):
        monkeypatch.setenv("CI", "true")
        (project.path / "allowed_skips.txt").write_text(f"{pattern}  # the reason\n")
        project.makepyfile(SKIPS)
        result = project.runpytest_subprocess("-rs", "-n", workers)
        assert result.ret == pytest.ExitCode.OK
        result.assert_outcomes(passed=1, skipped=1, xfailed=1)
        result.stdout.fnmatch_lines(["SKIPPED*no such thing here"])

    def test_skip_outside_ci_is_a_skip(self, project):
        project.makepyfile(SKIPS)
        project.runpytest_subprocess("-n", "0").assert_outcomes(passed=1, skipped=1, xfailed=1)

    @pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
    def test_skipped_module_fails_in_ci(self, project, monkeypatch, workers):
        monkeypatch.setenv("CI", "true")
        project.makepyfile("import pytest\npytest.importorskip('absent_module')\ndef test_one(): pass")
        result = project.runpytest_subprocess("-n", workers)
        assert result.ret != pytest.ExitCode.OK
        result.stdout.fnmatch_lines(
            ["*no line of tests/allowed_skips.txt allows it: could not import 'absent_module'*"]
        )

    def test_every_allowed_skip_has_a_reason(self):
        lines = (TESTS / "allowed_skips.txt").read_text().splitlines()
        assert [line for line in lines if not line.startswith("#") and not line.partition("  # ")[2]] == []

    def test_excluded_component_is_named_in_the_skip(self, project, monkeypatch):
        monkeypatch.setenv("SLURM", "0")
        project.makeini("[pytest]\nmarkers = slurm: x")
        project.makepyfile("import pytest\n@pytest.mark.slurm\ndef test_one(): raise AssertionError")
        result = project.runpytest_subprocess("-rs", "-n", "0")
        result.assert_outcomes(skipped=1)
        result.stdout.fnmatch_lines(["SKIPPED*left out by SLURM=0"])


class TestGolden:
    TEST = "def test_table(golden): golden('case/table.txt', 'a  1\\nb  2\\n')\ndef test_other(): raise AssertionError"

    def test_golden_difference_is_shown_line_by_line(self, project):
        (project.path / "golden" / "case").mkdir(parents=True)
        (project.path / "golden" / "case" / "table.txt").write_text("a  1\nb  3\n")
        project.makepyfile(self.TEST)
        result = project.runpytest_subprocess("-n", "0", "-k", "table")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["-b  3", "+b  2", "*make golden*"])

    def test_missing_golden_file_is_a_failure(self, project):
        project.makepyfile(self.TEST)
        project.runpytest_subprocess("-n", "0", "-k", "table").assert_outcomes(failed=1)
        assert not (project.path / "golden").exists()

    def test_golden_update_writes_the_file_and_runs_golden_tests_only(self, project):
        project.makepyfile(self.TEST)
        project.runpytest_subprocess("-n", "0", "--update-golden").assert_outcomes(passed=1, deselected=1)
        assert (project.path / "golden" / "case" / "table.txt").read_text() == "a  1\nb  2\n"
        project.runpytest_subprocess("-n", "0", "-k", "table").assert_outcomes(passed=1, deselected=1)

    def test_golden_file_similar_to_another_is_kept_as_a_difference(self, project):
        test = "def test_table(golden): golden('table.txt', 'a  1\\nb  {b}\\n', 'base.txt')"
        (project.path / "golden").mkdir()
        (project.path / "golden" / "base.txt").write_text("a  1\nb  9\n")
        project.makepyfile(test.format(b=2))
        project.runpytest_subprocess("-n", "0", "--update-golden").assert_outcomes(passed=1)
        diff = (project.path / "golden" / "table.txt.diff").read_text()
        assert diff.splitlines()[2:] == ["@@ -1,2 +1,2 @@", " a  1", "-b  9", "+b  2"]
        project.runpytest_subprocess("-n", "0").assert_outcomes(passed=1)
        project.makepyfile(test.format(b=3))
        project.runpytest_subprocess("-n", "0").assert_outcomes(failed=1)


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


@pytest.mark.parametrize("before, workers", [("pass", "0"), (UNWINDS, "0"), (UNWINDS, "1")])
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
    import pytest

    def test_single():
        pass

    @pytest.mark.xdist_group("launch")
    def test_launch():
        pass

    @pytest.mark.xdist_group("slurm-job")
    def test_slurm():
        pass
"""


def test_longest_groups_run_first_and_the_slowest_are_reported(project):
    project.makepyfile(ORDERED)
    result = project.runpytest_subprocess("-n", "1", "--dist", "loadgroup", "--no-loadscope-reorder", "-v")
    result.stdout.re_match_lines(
        [r".*PASSED.*test_slurm", r".*PASSED.*test_launch", r".*PASSED.*test_single", ".*slowest groups", "0s "]
    )


def test_child_process_is_interruptible_in_a_background_test_run(project):
    project.makepyfile("""
        import signal, subprocess, sys

        def test_a_child_is_interrupted():
            program = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
            assert subprocess.run([sys.executable, "-c", program], capture_output=True).stdout == b"True\\n"
    """)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        result = project.runpytest_subprocess("-n", "1")
    finally:
        signal.signal(signal.SIGINT, before)
    result.assert_outcomes(passed=1)


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
