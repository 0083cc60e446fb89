"""Shell completion in real shells with the Tab key, after `--install-completion`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.cli import completion
from launcher.cli.app import SUMMARIES
from tests.terminal import terminal, until

PLAN = "slipway: 1\nname: my-job\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}\n"
LINES = {
    "slipway laun": "launch",
    "slipway plan nig": "nightly.yaml",
    "slipway quote jobs/": "jobs/deep.yaml",
    "slipway status my-": "my-job",
    "slipway down shared-": "shared-pool",
    "slipway plan nightly.yaml --region eu-nor": "eu-north-1",
    "slipway prices show --type trn2u": "trn2u.48xlarge",
    "slipway prices show --option sav": "savings-plan",
    "slipway plan nightly.yaml --sweep precis": "precision=",
}
"""What is typed before Tab, and what becomes of its last word."""
FEW = ("slipway laun", "slipway plan nig", "slipway prices show --option sav")
EVERY = (pytest.param(FEW, marks=pytest.mark.long), pytest.param(tuple(LINES), marks=pytest.mark.slow))


@pytest.fixture
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with plan files, others, and two plans' runs, one of them on another's cluster."""
    here = tmp_path / "work"
    (here / "jobs" / "old" / "older").mkdir(parents=True)
    for name in ("nightly.yaml", "jobs/deep.yaml", "jobs/old/older/too-deep.yaml", ".hidden.yaml", "two words.yaml"):
        (here / name).write_text(PLAN)
    (here / "saved.json").write_text(json.dumps({"schema": "slipway.saved-plan/1", "plan": {"workload": {}}}, indent=2))
    (here / "compose.yaml").write_text("services: {}\n# workload is a word here\n")
    (here / "binary.json").write_bytes(b"\xff\xfe\x00")
    for name, target in (("my-job", {}), ("guest", {"cluster": "shared-pool"})):
        run = here / ".slipway" / "runs" / name / "20260101T000000Z"
        run.mkdir(parents=True)
        (run / "plan.json").write_text(json.dumps({"name": name, "target": target}))
        (run.parent / "latest").symlink_to(run.name)
    monkeypatch.chdir(here)
    return here


def test_plan_file_completion_lists_only_files_with_workload(work_folder: Path) -> None:
    assert completion.plan_files("") == ["jobs/deep.yaml", "nightly.yaml", "saved.json"]
    assert completion.plan_files("jobs/d") == ["jobs/deep.yaml"]
    assert completion.plan_files(f"{work_folder}/jobs/old/") == [f"{work_folder}/jobs/old/older/too-deep.yaml"]
    assert completion.plan_files("no-such-folder/") == []


def test_cluster_completion_lists_clusters_of_runs(work_folder: Path) -> None:
    assert completion.run_names("") == ["guest", "my-job"]
    assert completion.cluster_names("") == ["my-job", "shared-pool"]
    (work_folder / ".slipway" / "runs" / "guest" / "latest" / "plan.json").write_text("{")
    assert completion.cluster_names("") == ["my-job"]


def test_catalog_completion_lists_regions_types_and_price_kinds() -> None:
    assert {"us-east-1", "ap-southeast-2"} <= set(completion.regions(""))
    assert {"trn2.48xlarge", "ml.trn2.48xlarge", "c5.12xlarge"} <= set(completion.instance_types(""))
    assert "trn2.48xlarge" in completion.accelerated_types("")
    assert not [name for name in completion.accelerated_types("") if name.startswith("c5.")]
    assert {"on-demand", "spot", "bill-item"} <= set(completion.price_kinds(""))


def test_completion_loads_no_pricing_planning_or_aws_modules() -> None:
    script = (
        "import json, sys\n"
        "from launcher.cli.app import application\n"
        "from launcher.cli import completion\n"
        "application()\n"
        "for each in (completion.instance_types, completion.regions, completion.price_kinds): each('')\n"
        "completion.clusters_and_files('')\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert {f"launcher.cli.{name}" for name in SUMMARIES} <= loaded
    unwanted = {"launcher.pricing", "launcher.planning", "launcher.aws", "launcher.workflow", "boto3", "jinja2", "rich"}
    assert not unwanted & loaded


@pytest.mark.parametrize(
    "line", ["slipway nonsense", "slipway plan --no-such", "slipway quote 'open", "slipway --version"]
)
def test_completion_of_invalid_line_prints_no_error(line: str, work_folder: Path) -> None:
    done = run_completion(line + " ")
    assert done.stderr == ""
    assert not {"Error", "slipway"} & set(done.stdout.split())


def test_completion_in_removed_folder_ends_with_1_without_output(tmp_path: Path) -> None:
    done = run_completion("slipway status ", "sh", "-c", 'rmdir "$0" && exec slipway', str(tmp_path), cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_option_help_in_fish_completion_is_one_line() -> None:
    """Typer has rich wrap it at 80 columns; zsh then completes nothing, and fish shows the first line alone."""
    for word, sentence in (("launch", SUMMARIES["launch"]), ("compare", SUMMARIES["compare"])):
        assert run_completion(f"slipway {word}", kind="fish").stdout == f"{word}\t{sentence}\n"


@pytest.mark.parametrize("line", LINES)
def test_completion_of_each_argument_kind_lists_expected_words(line: str, work_folder: Path) -> None:
    assert run_completion(line).stdout == f"{LINES[line]}\n"


def run_completion(
    line: str, *command: str, cwd: Path | None = None, kind: str = "bash"
) -> subprocess.CompletedProcess[str]:
    """Run the completion of slipway for a line whose last word is incomplete."""
    variables = {"bash": {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}}
    fish = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    bin_folder = Path(sys.executable).parent
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, completion.VARIABLE: f"complete_{kind}", **variables.get(kind, fish)}
    arguments = command or (str(bin_folder / "slipway"),)
    return subprocess.run(arguments, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


# -------------------------------------------------------------------------------------------------------- real shells


def shell(name: str) -> str:
    """A shell's program; without it the test is skipped."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"not installed: {name} (apt-get install zsh fish)")
    return path


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The environment of a person who has just installed slipway."""
    place = tmp_path / "home"
    place.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"HOME": str(place), "PATH": path, "TERM": "dumb", "LANG": "C.UTF-8"}


def install(program: str, environment: dict[str, str]) -> None:
    """Type `slipway --install-completion` in a shell, as the README says."""
    # A second command keeps the shell there: which one it is, is read from the processes.
    command = [program, "-c", "slipway --install-completion; echo done"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "completion installed in" in done.stdout


@pytest.mark.parametrize("lines", EVERY, ids=["few", "every"])
@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_tab_completes_a_word(name: str, lines: tuple[str, ...], work_folder: Path, home: dict[str, str]) -> None:
    program = shell(name)
    install(program, home)
    if name == "zsh":
        # Of a terminal that can do nothing, zsh's line editor shows nothing.
        home["TERM"] = "vt100"
    with (Path(home["HOME"]) / f".{name}rc").open("a") as stream:
        stream.write("PS1='ready> '\n")
    with terminal([program, "-i"], home, work_folder) as file:
        until(file, "ready> ")
        if name == "zsh":
            # Typer's script is loaded by the first Tab of a terminal, and answers from the second on.
            os.write(file, b"slipway \t")
            until(file, "\a")
            os.write(file, b"\x15")
        for line in lines:
            word = LINES[line]
            os.write(file, line.encode() + b"\t")
            until(file, f"{word} ")
            # Ctrl-U takes the line away, and nothing is run.
            os.write(file, b"\x15")


@pytest.mark.parametrize("lines", EVERY, ids=["few", "every"])
def test_fish_completes_a_word(lines: tuple[str, ...], work_folder: Path, home: dict[str, str]) -> None:
    program = shell("fish")
    install(program, home)
    script = "\n".join(f"complete -C '{line}'" for line in lines)
    done = subprocess.run(
        [program, "-c", script], cwd=work_folder, env=home, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == [LINES[line] for line in lines]


def test_completion_offers_ranks_and_sweepable_plan_keys() -> None:
    assert completion.ranks("")[:3] == ["1", "2", "3"]
    keys = completion.swept_keys("")
    assert {"nodes=", "instance_type=", "precision=", "max_usd="} <= set(keys)
    assert "workload=" not in keys
