"""A plan that comes through a pipe: it is read once, and no command names the pipe."""

import os
from pathlib import Path

from launcher.catalog.regular_file import folder_of


def test_plan_of_a_pipe_is_read_once_and_the_next_command_names_no_pipe(slipway, tmp_path, monkeypatch):
    """A quote reads the plan again for the values that it gives; the paths of the plan are relative to this folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)\n", encoding="utf-8")
    text = (
        "slipway: 1\nname: piped\nworkload: {train: {hours: 1}}\nrun: {command: [python3, train.py]}\n"
        "target: {instance_type: p5.48xlarge, nodes: 1, region: us-east-2}\npurchase: {option: on-demand}\n"
    )
    for words, following in ((("plan",), "slipway quote FILE --max"), (("quote",), "slipway launch FILE --max")):
        reads, writes = os.pipe()
        os.write(writes, text.encode())
        os.close(writes)
        code, _, err = slipway(*words, f"/dev/fd/{reads}", "--max-price-age", "3650")
        os.close(reads)
        assert code == 0, err
        assert following in err
        assert "/dev/fd" not in err
        assert "train.py" not in err


def test_job_folder_of_a_piped_plan_is_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("/dev/stdin", "/dev/fd/63", "/proc/self/fd/0"):
        assert folder_of(Path(path)) == tmp_path
    assert folder_of(Path("plans/plan.yaml")) == tmp_path / "plans"


def test_dash_is_no_plan_and_the_hint_names_standard_input(slipway):
    code, _, err = slipway("plan", "-")
    assert (code, "a plan from a pipe is /dev/stdin" in err) == (2, True)
