"""What commands refuse before they do anything."""

import io
import sys

import pytest

from launcher.cli import app


def left(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["slipway", *words])
    with pytest.raises(SystemExit) as caught:
        app.main()
    return caught.value.code, capsys.readouterr().err


def test_init_refuses_a_name_that_plan_would_refuse(monkeypatch, capsys, tmp_path):
    code, said = left(monkeypatch, capsys, "init", str(tmp_path / "plan.yaml"), "--name", "My Job")
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert "1 to 40 of a-z, 0-9 and -" in said


def test_prices_of_a_day_to_come_are_refused(monkeypatch, capsys):
    code, said = left(monkeypatch, capsys, "plan", "examples/p5-spot.yaml", "--prices-as-of", "2999-01-01")
    assert code == 2
    assert "after today" in said


def test_a_command_in_one_word_is_an_error(monkeypatch, capsys, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "slipway: 1\nname: a\nworkload: {train: {model: llama-3.1-8b, tokens_b: 1}}\n"
        "run: {command: ['python train.py']}\n",
        encoding="utf-8",
    )
    code, said = left(monkeypatch, capsys, "plan", str(plan))
    assert code == 5
    assert "write [python, train.py]" in said


@pytest.mark.parametrize("answer,code", [("n\n", 7), ("\n", 7)])
def test_no_at_the_question_is_no_error_and_has_a_code_of_its_own(monkeypatch, capsys, tmp_path, answer, code):
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "slipway: 1\nname: a\nworkload: {train: {hours: 1}}\n"
        "target: {instance_type: p5.48xlarge, nodes: 1, region: us-east-1}\n"
        "purchase: {option: on-demand}\nrun: {workdir: .}\n",
        encoding="utf-8",
    )
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    stdin = io.StringIO(answer)
    stdin.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", stdin)
    got, said = left(monkeypatch, capsys, "launch", str(plan), "--sandbox")
    assert got == code
    assert said.strip().endswith("nothing was done")
    assert "error" not in said
    assert not (tmp_path / ".slipway").exists()
