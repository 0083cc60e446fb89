"""`slipway run`: the plan file of a command, and what it refuses."""

import json
import os
from pathlib import Path

import pytest

from launcher import plan_file
from launcher.cli.run import WRITTEN
from launcher.model.errors import UnreadableInputError
from launcher.workflow.quote.command_plan import command_plan, name_of

REFUSED = ("--max-usd", "0.01", "--max-price-age", "9999")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print(1)\n", encoding="utf-8")


def test_run_plan_has_command_and_settings():
    text = command_plan(
        Path("x.yaml"),
        "x",
        ["python", "train.py", "--lr", "1"],
        2,
        ("target.instance_type=g6e.xlarge", "run.env.A=007"),
        region=None,
    )
    request = plan_file.loads(text)
    assert (request.run.command, request.run.env) == (("python", "train.py", "--lr", "1"), {"A": "007"})
    assert (request.workload.train.hours, request.target.instance_type) == (2, ("g6e.xlarge",))


def test_run_with_model_setting_replaces_assumed_hours():
    given = ("target.instance_type=p5.48xlarge", "workload.train.model=llama-3.1-8b", "tokens_b=2")
    train = plan_file.loads(
        command_plan(Path("x.yaml"), "x", ["python", "t.py"], 1, given, region="us-east-1")
    ).workload.train
    assert (train.model, train.tokens_b, train.hours) == ("llama-3.1-8b", 2, None)


def test_run_takes_nodes_type_and_purchase_from_the_files_of_defaults():
    Path("slipway.toml").write_text(
        "[target]\nnodes = 2\ninstance_type = 'g6e.xlarge'\n[purchase]\noption = 'spot'\n", encoding="utf-8"
    )
    path = Path("x.yaml")
    path.write_text(command_plan(path, "x", ["python", "t.py"], 1, (), region=None), encoding="utf-8")
    request = plan_file.load(path)
    assert (request.target.nodes.minimum, request.purchase.option) == (2, ("spot",))
    path.write_text(command_plan(path, "x", ["python", "t.py"], 1, ("target.nodes=3",), region=None), encoding="utf-8")
    assert plan_file.load(path).target.nodes.minimum == 3


def test_run_without_instance_type_refused_with_example():
    with pytest.raises(UnreadableInputError, match="no instance type is given") as caught:
        command_plan(Path("x.yaml"), "x", ["python", "t.py"], 1, (), region=None)
    assert "--type" in caught.value.hint


@pytest.mark.parametrize(
    "command,name",
    [
        (["python", "-m", "my.train", "--x"], "my"),
        (["bash", "run.sh"], "run"),
        (["accelerate", "launch", "src/Fine_Tune.py"], "fine-tune"),
        (["./trainer", "--config", "a.yaml"], "trainer"),
    ],
)
def test_run_name_derives_from_script_name(command, name):
    assert name_of(command) == name


@pytest.mark.parametrize("earlier, verb", [(None, "write"), (f"{WRITTEN}\nslipway: 1\n", "replace")])
def test_run_dry_run_leaves_plan_file_unchanged(slipway, earlier, verb):
    if earlier is not None:
        Path("train.slipway.yaml").write_text(earlier, encoding="utf-8")
    code, _, err = slipway("run", "--type", "g6e.xlarge", "--dry-run", *REFUSED, "--", "python", "train.py")
    assert code == 3
    assert f"would {verb} train.slipway.yaml" in err
    files = {path.name: path.read_text(encoding="utf-8") for path in Path().glob("*.slipway.yaml")}
    assert files == ({} if earlier is None else {"train.slipway.yaml": earlier})


def test_run_that_the_gate_refuses_keeps_plan_file(slipway):
    code, _, err = slipway("run", "--type", "g6e.xlarge", "--yes", *REFUSED, "--", "python", "train.py")
    assert code == 3
    assert Path("train.slipway.yaml").read_text(encoding="utf-8").startswith(WRITTEN)
    assert "wrote train.slipway.yaml" in err


@pytest.mark.parametrize(
    "make,reason",
    [(os.mkfifo, "it is a named pipe"), (lambda path: Path(path).symlink_to("/dev/zero"), "it is a device")],
)
def test_run_ends_where_its_plan_file_is_a_pipe_or_device(slipway, make, reason):
    make("train.slipway.yaml")
    code, _, err = slipway("run", "--type", "g6e.xlarge", "--dry-run", "--", "python", "train.py")
    assert code == 5
    assert f"cannot write train.slipway.yaml: {reason}" in err


def test_run_keeps_plan_file_of_another_author(slipway):
    Path("train.slipway.yaml").write_text("slipway: 1\n", encoding="utf-8")
    code, _, err = slipway("run", "--type", "g6e.xlarge", "--dry-run", "--", "python", "train.py")
    assert code == 5
    assert "no run of a command wrote it" in err
    assert Path("train.slipway.yaml").read_text(encoding="utf-8") == "slipway: 1\n"


def test_run_replaces_earlier_plan_file_of_run(slipway):
    Path("train.slipway.yaml").write_text(f"{WRITTEN}\nslipway: 1\n", encoding="utf-8")
    code, _, err = slipway("run", "--type", "g6e.xlarge", "--yes", *REFUSED, "--", "python", "train.py")
    assert code == 3
    assert "replaced train.slipway.yaml" in err


@pytest.mark.parametrize(
    "words, message",
    [
        (("--type", "nosuch"), "nosuch"),
        (("--type", "g6e.xlarge", "--region", "us-middle-1"), "us-middle-1"),
        (("--type", "g6e.xlarge", "--set", "run.retries=-1"), "run.retries"),
    ],
)
@pytest.mark.parametrize("earlier", [None, f"{WRITTEN}\nslipway: 1\n"])
def test_infeasible_run_without_terminal_refused_before_writing(slipway, words, message, earlier):
    if earlier is not None:
        Path("train.slipway.yaml").write_text(earlier, encoding="utf-8")
    code, _, err = slipway("run", *words, "--", "python", "train.py")
    assert code in (2, 5)
    assert message in err
    assert "no terminal" not in err
    assert "wrote" not in err
    path = Path("train.slipway.yaml")
    assert (path.read_text(encoding="utf-8") if path.exists() else None) == earlier


def test_feasible_run_without_terminal_requires_yes_and_writes_no_file(slipway):
    code, _, err = slipway("run", "--type", "g6e.xlarge", "--", "python", "train.py")
    assert code == 2
    assert "--yes" in err
    assert not Path("train.slipway.yaml").exists()


@pytest.mark.parametrize(
    "words,option",
    [
        (["--type", "g6e.xlage"], "--type: the catalog has no instance type g6e.xlage"),
        (["--type", "g6e.xlarge", "--set", "target.region=us-esat-1"], "--region: no region us-esat-1"),
        (["--type", "g6e.xlarge", "--set", "storage.lustre_gib=7"], "--set storage.lustre_gib"),
        (["--type", "g6e.xlarge", "--name", "My_Job"], "--name"),
        (["--type", "g6e.xlarge", "--env", "1A=x"], "--env 1A"),
    ],
)
def test_run_refusal_names_command_option_without_file_line(slipway, words, option):
    result = slipway("run", *words, "--dry-run", "--", "python", "train.py")
    assert result.code in (2, 5), result.err
    assert option in result.err
    assert "(line" not in result.err
    assert "slipway.yaml" not in result.err
    assert not list(Path().glob("*.slipway.yaml"))


def test_run_refusal_json_names_command_option_without_line(slipway):
    result = slipway("run", "--type", "g6e.xlage", "--dry-run", "--json", "--", "python", "train.py")
    findings = json.loads(result.out)["findings"]
    assert ("--type", None) in [(finding["path"], finding.get("line")) for finding in findings]


@pytest.mark.parametrize("command", [["python", "nosuch.py"], ["torchrun", "src/absent.py", "--lr", "1"]])
def test_run_of_a_missing_script_is_refused_and_leaves_no_file(slipway, command):
    before = sorted(Path().iterdir())
    code, _, err = slipway("run", "--type", "g6e.xlarge", "--dry-run", "--", *command)
    assert code == 5
    assert "the command after --: " in err
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize("words", [[], ["--region", "us-west-2"], ["--file", "other name.yaml"]])
def test_account_that_is_not_ready_names_doctor_command_of_the_written_file(slipway, monkeypatch, words):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    ended = slipway("run", "--type", "g6e.xlarge", "--yes", *words, "--", "python", "train.py")
    file = "'other name.yaml'" if "--file" in words else "train.slipway.yaml"
    assert ended.code == 5
    assert f"fix: slipway doctor {file} --pick " in ended.err
