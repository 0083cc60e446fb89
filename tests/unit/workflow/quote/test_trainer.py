"""A job's folder and its command's script are checked before pricing."""

import subprocess
from dataclasses import replace

import pytest

from launcher import plan_file
from launcher.model.errors import ImpossibleError
from launcher.workflow.quote.trainer import missing_trainer, refuse_missing_trainer

PLAN = "slipway: 1\nname: a\nworkload: {train: {model: llama-3.1-8b, tokens_b: 1}}\n"


def check_trainer(tmp_path, command=("python", "train.py"), **run):
    request = plan_file.loads(PLAN)
    request = replace(request, run=replace(request.run, command=command, **run))
    refuse_missing_trainer(tmp_path / "plan.yaml", request, {})


def refused(*args, **run):
    """Whether the look refuses."""
    try:
        check_trainer(*args, **run)
    except ImpossibleError:
        return True
    return False


def test_what_init_writes_is_refused_before_it_is_priced(monkeypatch, slipway, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert slipway("init").code == 0
    ended = slipway("launch", "plan.yaml", "--sandbox", "--yes")
    assert ended.code == 5
    err = ended.err
    assert "run.command: train.py is not in" in err
    assert "Total to finish" not in err
    assert not (tmp_path / ".slipway").exists()


def test_no_folder_is_said(tmp_path):
    with pytest.raises(ImpossibleError, match=r"run\.workdir: no folder"):
        check_trainer(tmp_path, workdir="none")


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py"),
        ("/usr/bin/python3.12", "-u", "train.py"),
        ("torchrun", "--nproc-per-node=8", "train.py", "--config", "a.yaml"),
        ("bash", "train.sh"),
        ("./train.sh",),
    ],
)
def test_a_script_that_is_not_there_is_refused(tmp_path, command):
    (tmp_path / "other.py").touch()
    with pytest.raises(ImpossibleError, match=r"run\.command: train\.\w+ is not in"):
        check_trainer(tmp_path, command)


@pytest.mark.parametrize(
    "command",
    [
        ("python", "-m", "trainer.train"),
        ("bash", "-c", "cd src && python train.py"),
        ("/opt/trainer/train.py",),
        ("python", "$HOME/train.py"),
        ("true",),
    ],
)
def test_what_cannot_be_told_from_here_is_left_alone(tmp_path, command):
    (tmp_path / "other.py").touch()
    assert not refused(tmp_path, command)


def test_setup_may_make_the_script(tmp_path):
    (tmp_path / "fetch.sh").touch()
    assert refused(tmp_path)
    assert not refused(tmp_path, setup=("bash fetch.sh",))


def test_a_script_that_git_ignores_is_distinguished_from_one_that_is_not_there(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("train.py\n", encoding="utf-8")
    (tmp_path / "train.py").touch()
    with pytest.raises(ImpossibleError, match="is not shipped"):
        check_trainer(tmp_path)


@pytest.mark.parametrize(
    "run, code", [({"workdir": "nosuch"}, "no-workdir"), ({}, "no-script"), ({"command": ("python", "-m", "x")}, None)]
)
def test_a_quote_warns_of_what_a_launch_will_refuse(tmp_path, run, code):
    request = plan_file.loads(PLAN)
    request = replace(request, run=replace(request.run, **{"command": ("python", "train.py"), **run}))
    assert [finding.code for finding in missing_trainer(tmp_path / "plan.yaml", request)] == ([code] if code else [])
