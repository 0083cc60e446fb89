"""What bash does with the lines of `run.setup`, and with other people's scripts in them."""

import subprocess

import pytest

from launcher.rendering.setup_lines import setup_text

CONDA = """if [ "${CONDA_BUILD}" = 1 ]; then export X=1; fi
export CONDA_BACKUP_CXX=$CXX
_tc_activation() { for word in $1; do :; done; [ -n "$GDB" ] && unset GDB; false; true; }
_tc_activation "$HOST $BUILD"
export CONDA_PREFIX=/opt/envs/train CONDA_SHLVL=$((CONDA_SHLVL + 1))
"""
LMOD = """export MODULEPATH=$MODULEPATH:/opt/modulefiles
module() { [ "$2" != missing ] && export LOADED="$LOADED:$2"; }
grep -q no-such-word /dev/null
grep -q no-such-word /dev/null | cat
declare -A SEEN=([x]=kept)
"""
SHOW = ("bash", "-c", 'echo "$CONDA_PREFIX $CONDA_SHLVL $LOADED"')


@pytest.fixture
def run(tmp_path):
    """Run set-up lines and a command: the exit code, the output and the errors."""
    for name, text in {"conda.sh": CONDA, "lmod.sh": LMOD, "late.sh": 'A=1\n[ -n "$UNSET"  ] && B=2\n'}.items():
        (tmp_path / name).write_text(text)

    def done(*lines, command=SHOW):
        words = ["bash", "-c", setup_text(lines), "setup", *command]
        ended = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
        )
        return ended.returncode, ended.stdout.strip(), ended.stderr.strip()

    return done


@pytest.mark.parametrize(
    "lines",
    [
        ("source conda.sh", ". ./lmod.sh", "module load cuda"),
        ("source conda.sh\n. lmod.sh\nmodule load cuda",),
        ("source conda.sh; . ./lmod.sh; module load cuda",),
        ("if true; then", "source conda.sh", "fi", ". ./lmod.sh", "module load cuda", '[ "${SEEN[x]}" = kept ]'),
    ],
)
def test_activation_scripts_run_as_they_were_written(run, lines):
    assert run(*lines) == (0, "/opt/envs/train 1 :cuda", "")


@pytest.mark.parametrize(
    "lines, message",
    [
        (("source missing.sh",), "slipway: run.setup: source missing.sh ended with 1"),
        ((". ./lmod.sh", "module load missing"), "slipway: run.setup: module load missing ended with 1"),
        (("source late.sh",), "slipway: run.setup: source late.sh ended with 1"),
        (("source conda.sh", "false"), "slipway: run.setup: false ended with 1"),
        (("source conda.sh\nfalse\ntrue",), "slipway: run.setup: false ended with 1"),
        (("source conda.sh; false; true",), "slipway: run.setup: false ended with 1"),
        (("grep -q x /dev/null | cat",), "slipway: run.setup: cat ended with 1"),
    ],
)
def test_failed_line_ends_the_job_and_is_named(run, lines, message):
    code, output, errors = run(*lines)
    assert (code, output) == (1, "")
    assert message in errors


def test_command_has_no_options_and_traps_of_the_lines(run):
    command = ("bash", "-c", "false; echo $- $(trap) $UNSET on")
    code, output, errors = run("source late.sh || true", command=command)
    assert (code, errors) == (0, "")
    assert output.endswith("on")
    assert "e" not in output.split()[0]


def test_here_document_of_the_lines_is_unchanged(run):
    lines = ("cat >x.sh <<EOF", ". ./conda.sh", "EOF", "cat x.sh")
    assert run(*lines, command=("true",)) == (0, ". ./conda.sh", "")


def test_lines_within_quotes_of_a_set_up_line_are_unchanged(run):
    lines = ("python3 -c '\neval (\"print(7)\")\n'  # it's a number", ". ./conda.sh", '[ "$CONDA_SHLVL" = 1 ]')
    assert run(*lines, command=("true",)) == (0, "7", "")


@pytest.mark.parametrize("link", ["&&", "&& \\", "|| false &&"])
def test_sourced_script_after_a_failed_condition_is_not_run(run, link):
    assert "/opt/envs" not in run(f"cd missing {link}\n  . ./conda.sh", "echo $CONDA_PREFIX")[1]
