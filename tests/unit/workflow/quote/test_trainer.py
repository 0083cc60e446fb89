"""A job's folder and its command's script are checked before pricing."""

import subprocess
from dataclasses import replace

import pytest

from launcher import plan_file
from launcher.agent.command_line import run_by_bash
from launcher.model.enums import Level
from launcher.model.errors import ImpossibleError
from launcher.workflow.quote.trainer import missing_trainer, refuse_missing_trainer
from launcher.workflow.quote.trainer_command import job_command
from launcher.workflow.quote.trainer_scripts import script_problems

PLAN = "slipway: 1\nname: a\nworkload: {train: {model: llama-3.1-8b, tokens_b: 1}}\n"


def check_trainer(tmp_path, command=("python", "train.py"), **run):
    request = plan_file.loads(PLAN)
    request = replace(request, run=replace(request.run, command=command, **run))
    refuse_missing_trainer(tmp_path / "plan.yaml", request, {})


def refusal(*args, **run):
    """Whether the look refuses."""
    try:
        check_trainer(*args, **run)
    except ImpossibleError:
        return True
    return False


def test_initial_plan_without_script_refused_before_pricing(monkeypatch, slipway, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert slipway("init").code == 0
    ended = slipway("launch", "plan.yaml", "--sandbox", "--yes")
    assert ended.code == 5
    err = ended.err
    assert "run.command: train.py is not in" in err
    assert "Total to finish" not in err
    assert not (tmp_path / ".slipway").exists()


def test_missing_work_folder_refused(tmp_path):
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
def test_missing_script_refused(tmp_path, command):
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
def test_uncheckable_command_is_accepted(tmp_path, command):
    (tmp_path / "other.py").touch()
    assert not refusal(tmp_path, command)


def test_setup_creating_script_is_accepted(tmp_path):
    (tmp_path / "fetch.sh").touch()
    assert refusal(tmp_path)
    assert not refusal(tmp_path, setup=("bash fetch.sh",))


def test_git_ignored_script_is_distinguished_from_missing(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("train.py\n", encoding="utf-8")
    (tmp_path / "train.py").touch()
    with pytest.raises(ImpossibleError, match="is not shipped"):
        check_trainer(tmp_path)


@pytest.mark.parametrize(
    "run, code", [({"workdir": "nosuch"}, "no-workdir"), ({}, "no-script"), ({"command": ("python", "-m", "x")}, None)]
)
def test_quote_warns_of_missing_script_or_folder(tmp_path, run, code):
    request = plan_file.loads(PLAN)
    request = replace(request, run=replace(request.run, **{"command": ("python", "train.py"), **run}))
    assert [finding.code for finding in missing_trainer(tmp_path / "plan.yaml", request)] == ([code] if code else [])


def script_findings(tmp_path, command, content=b"#!/bin/bash\necho a\n", mode=0o755, name="run.sh", **run):
    """The findings of a quote about a script, by code; a launch refuses exactly where there are some."""
    (tmp_path / name).write_bytes(content)
    (tmp_path / name).chmod(mode)
    request = plan_file.loads(PLAN)
    request = replace(request, run=replace(request.run, command=command, **run))
    findings = missing_trainer(tmp_path / "plan.yaml", request)
    assert refusal(tmp_path, command, **run) == bool(findings)
    return {finding.code: finding.hint for finding in findings}


BASH = ("bash", "-eo", "pipefail", "-c")
CRLF = b"#!/bin/bash\r\necho a\r\n"


@pytest.mark.parametrize(
    "command, content, code",
    [
        (("./run.sh",), CRLF, "script-line-ends"),
        (("bash", "run.sh"), CRLF, "script-line-ends"),
        ((*BASH, "export A=1\nexec ./run.sh --x 2>&1 | tee log"), CRLF, "script-line-ends"),
        ((*BASH, "source run.sh && python -m a"), b"export A=1\r\n", "script-line-ends"),
        (("./run.sh",), b"\xef\xbb\xbf#!/bin/bash\n", "script-encoding"),
        (("sh", "-e", "run.sh"), b"\xef\xbb\xbfecho a\n", "script-encoding"),
        (("bash", "run.sh"), "echo a\n".encode("utf-16"), "script-encoding"),
        (("sh", "run.sh"), "echo a\n".encode("utf-16-le"), "script-encoding"),
        (("./run.sh",), b"#!/bin/bash\necho a\r\n", "script-line-ends"),
        (("torchrun", "--no-python", "./run.sh"), CRLF, "script-line-ends"),
        ((*BASH, "cd . && A=1 ./run.sh"), CRLF, "script-line-ends"),
    ],
)
def test_unrunnable_script_is_named_with_fix(tmp_path, command, content, code):
    (found,) = script_findings(tmp_path, command, content).items()
    assert found[0] == code
    assert "run.sh" in found[1]


@pytest.mark.parametrize(
    "outer, command, path",
    [
        ("bash tools/inner", ("bash", "run"), "run"),
        ("cd tools\n./inner\n", ("bash", "run"), "run"),
        ("source tools/inner", ("./run",), "run"),
        ("tools/inner", (*BASH, "./run | tee log"), "run"),
    ],
)
def test_script_without_suffix_behind_another_is_read(tmp_path, outer, command, path):
    (tmp_path / "tools").mkdir()
    for name, text in {"run": f"#!/usr/bin/env bash\n{outer}\n", "tools/inner": "#!/bin/sh\r\nls\r\n"}.items():
        (tmp_path / name).write_bytes(text.encode())
        (tmp_path / name).chmod(0o755)
    run = replace(plan_file.loads(PLAN).run, command=command)
    (finding,) = script_problems(tmp_path, run)
    assert (finding.code, finding.path) == ("script-line-ends", path)
    assert "tools/inner has Windows line ends" in finding.message


def test_fix_of_windows_line_ends_repairs_script(tmp_path):
    fix = script_findings(tmp_path, ("./run.sh",), CRLF)["script-line-ends"]
    subprocess.run(["bash", "-c", fix], cwd=tmp_path, check=True)
    assert (tmp_path / "run.sh").read_bytes() == CRLF.replace(b"\r", b"")


def test_fix_of_byte_order_mark_repairs_script(tmp_path):
    fix = script_findings(tmp_path, ("./run.sh",), b"\xef\xbb\xbf#!/bin/sh\n")["script-encoding"]
    subprocess.run(["bash", "-c", fix], cwd=tmp_path, check=True)
    assert (tmp_path / "run.sh").read_bytes() == b"#!/bin/sh\n"


@pytest.mark.parametrize(
    "content",
    [CRLF, b"\xef\xbb\xbf#!/bin/sh\n", "#!/bin/sh\n".encode("utf-16"), b"echo\n"],
    ids=["line ends", "mark", "UTF-16", "interpreter"],
)
def test_fix_of_script_mends_it_in_the_form_that_macos_has_too(tmp_path, content):
    (fix,) = script_findings(tmp_path, ("./run.sh",), content).values()
    assert not any(form in fix for form in ("sed -i", " -o "))
    subprocess.run(["bash", "-c", fix], cwd=tmp_path, check=True)
    assert script_findings(tmp_path, ("./run.sh",), (tmp_path / "run.sh").read_bytes()) == {}


@pytest.mark.parametrize(
    "command, name, content, first",
    [
        (("./run.sh",), "run.sh", b"echo a\n", b"#!/bin/bash\n"),
        (("./train.py",), "train.py", b"import torch\n", b"#!/usr/bin/env python3\n"),
        (("torchrun", "--no-python", "./run.sh"), "run.sh", b"", b"#!/bin/bash\n"),
        ((*BASH, "./train.py --lr 1"), "train.py", b"\n#!/usr/bin/python3\n", b"#!/usr/bin/env python3\n"),
    ],
)
def test_fix_of_script_without_interpreter_line_begins_it_with_one(tmp_path, command, name, content, first):
    fix = script_findings(tmp_path, command, content, name=name)["script-interpreter"]
    subprocess.run(["bash", "-c", fix], cwd=tmp_path, check=True)
    assert (tmp_path / name).read_bytes() == first + content
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert script_findings(tmp_path, command, (tmp_path / name).read_bytes(), name=name) == {}


@pytest.mark.parametrize(
    "command, line, mended",
    [
        (("./run",), "#!/home/me/miniconda/bin/python -u", "#!/usr/bin/env -S python3 -u"),
        (("./run",), "#!/opt/homebrew/bin/python3.12", "#!/usr/bin/env python3"),
        ((*BASH, "./run | tee log"), "#! /Users/me/venv/bin/python", "#!/usr/bin/env python3"),
        (("./run",), "#!/nix/store/x-bash-5.2/bin/bash", "#!/usr/bin/env bash"),
        (("./run",), "#!{root}/.venv/bin/python", "#!/usr/bin/env python3"),
        (("./run",), "#!/home/me/bin/python -X 'a|b&'", "#!/usr/bin/env -S python3 -X 'a|b&'"),
    ],
)
def test_interpreter_of_one_computer_is_a_warning_with_fix(tmp_path, command, line, mended):
    (tmp_path / "run").write_text(f"{line.format(root=tmp_path)}\nprint(1)\n")
    (tmp_path / "run").chmod(0o755)
    request = plan_file.loads(PLAN)
    request = replace(request, run=replace(request.run, command=command))
    (finding,) = missing_trainer(tmp_path / "plan.yaml", request)
    assert (finding.code, finding.level) == ("script-interpreter", Level.WARNING)
    assert "would be refused" not in finding.message
    assert not refusal(tmp_path, command)
    assert "sed -i" not in finding.hint
    subprocess.run(["bash", "-c", finding.hint], cwd=tmp_path, check=True)
    assert (tmp_path / "run").read_text() == f"{mended}\nprint(1)\n"


@pytest.mark.parametrize(
    "command, content",
    [
        (("bash", "run.sh"), b"echo a\n"),
        ((*BASH, "./run.sh"), b"echo a\n"),
        (("./run.sh",), b"\x7fELF\0\0"),
        (("./run.sh",), b"#!/usr/bin/env python3\n"),
        (("./run.sh",), b"#!/opt/conda/bin/python\n"),
    ],
)
def test_script_that_starts_on_a_node_gives_no_finding_of_its_interpreter(tmp_path, command, content):
    assert script_findings(tmp_path, command, content) == {}


@pytest.mark.parametrize(
    "command",
    [("./run.sh",), (*BASH, "./run.sh"), (*BASH, "A=1 exec ./run.sh"), (*BASH, "time true; ./run.sh")],
)
def test_script_without_mode_bit_is_named(tmp_path, command):
    assert script_findings(tmp_path, command, mode=0o644)["script-mode"].startswith("chmod +x run.sh")


@pytest.mark.parametrize(
    "command, content, mode, run",
    [
        (("./run.sh",), b"#!/bin/bash\n", 0o644, {"setup": ("chmod +x run.sh",)}),
        ((*BASH, "chmod +x run.sh && ./run.sh"), b"#!/bin/bash\n", 0o644, {}),
        (("bash", "run.sh"), b"echo a\n", 0o644, {}),
        (("python", "run.py"), b"print(1)\r\n", 0o644, {}),
        (("python", "run.py"), b"\xef\xbb\xbfprint(1)\n", 0o644, {}),
        ((*BASH, "cd src && ./run.sh"), CRLF, 0o644, {}),
        ((*BASH, "cat <<EOF | sh\n./run.sh\nEOF"), CRLF, 0o644, {}),
        (("/opt/run.sh",), CRLF, 0o644, {}),
        (("bash", "run.sh"), b"echo 'a\r'\nprintf a\n", 0o755, {}),
    ],
)
def test_runnable_script_gives_no_finding(tmp_path, command, content, mode, run):
    name = "run.py" if command[-1] == "run.py" else "run.sh"
    assert script_findings(tmp_path, command, content, mode, name, **run) == {}


@pytest.mark.parametrize(
    "outer, inner, mode, code",
    [
        (b"set -e\n./inner.sh\n", b"#!/bin/sh\n", 0o644, "script-mode"),
        (b"#!/bin/sh\nbash inner.sh\n", b"#!/bin/sh\r\n", 0o755, "script-line-ends"),
        (b"if true; then . ./inner.sh; fi\n", b"\xef\xbb\xbfA=1\n", 0o755, "script-encoding"),
        (b"chmod +x inner.sh\n./inner.sh\n", b"#!/bin/sh\n", 0o644, None),
        (b"cd src\n./inner.sh\n", b"#!/bin/sh\n", 0o644, None),
        (b"bash run.sh\n", b"#!/bin/sh\n", 0o644, None),
    ],
)
def test_script_called_by_script_is_checked(tmp_path, outer, inner, mode, code):
    (tmp_path / "inner.sh").write_bytes(inner)
    (tmp_path / "inner.sh").chmod(mode)
    findings = script_findings(tmp_path, ("bash", "run.sh"), outer)
    assert list(findings) == ([] if code is None else [code])
    assert code is None or "inner.sh" in findings[code]


@pytest.mark.parametrize(
    "command, files, named",
    [
        ("bash -c 'bash ./no.sh'", {}, ("run.command", "no.sh")),
        ("set -e; ./no.sh --lr 1", {}, ("run.command", "no.sh")),
        ("export A=1 && torchrun no.py", {}, ("run.command", "no.py")),
        ("bash -lc 'source env.sh && bash go.sh'", {"env.sh": "export A=1\n"}, ("run.command", "go.sh")),
        ("bash run.sh", {"run.sh": "cd src\nbash ../tools/go.sh\n", "src/a.py": ""}, ("run.sh", "tools/go.sh")),
        ("go() { bash $1; }; go no.sh", {}, ("run.command", "no.sh")),
        ("if [ -z $A ]; then A=1; fi\nbash no.sh", {}, ("run.command", "no.sh")),
        ("bash run.sh", {"run.sh": "[[ -z $A ]] && A=1\ntorchrun no.py\n"}, ("run.sh", "no.py")),
        ("source ~/conda.sh && conda activate a && bash no.sh", {}, ("run.command", "no.sh")),
        ("python -m pip install -r r.txt; nvidia-smi >a.txt; bash no.sh", {}, ("run.command", "no.sh")),
        ("cd src || exit 1; bash no.sh", {"src/a.py": ""}, ("run.command", "src/no.sh")),
        ("(cd src && bash a.sh); bash no.sh", {"src/a.sh": "ls\n"}, ("run.command", "no.sh")),
        ("just a", {"justfile": "a:\n  bash no.sh\n"}, ("justfile", "no.sh")),
        ("just --set n no a", {"justfile": "n := 'b'\na:\n  bash {{n}}.sh\n"}, ("justfile", "no.sh")),
        ("bash b/run.sh", {"b/run.sh": 'cd "$(dirname "$0")/.."\nbash b/no.sh\n'}, ("b/run.sh", "b/no.sh")),
        # What the node may still have: written before, elsewhere, or only under a condition.
        ("git clone https://example.org/a . && bash go.sh", {}, None),
        ("python make_script.py && bash go.sh", {"make_script.py": ""}, None),
        ("[ -f go.sh ] && bash go.sh", {}, None),
        ("bash go.sh || true", {}, None),
        ("cd /opt/src && python train.py", {}, None),
        ("cat go.py; python -c 'pass'", {}, None),
        ("python -m go conf.py", {}, None),
        ("bash $HOME/go.sh", {}, None),
        ("bash run.sh -c a.yaml", {"run.sh": "echo $@\n"}, None),
        ("echo torchrun a.py >go.sh && bash go.sh", {}, None),
        ("F=$(mktemp); printf a >$F; bash go.sh", {}, None),
        ("(cd src && bash a.sh); bash go.sh", {"src/a.sh": "ls\n", "go.sh": "ls\n"}, None),
        ("if [ $A ]; then cd src; fi; bash go.sh", {"src/a.sh": "", "go.sh": "ls\n"}, None),
        ("[ -x go.sh ] &&\n  bash go.sh", {}, None),
        ("test -f a ||\n  bash go.sh", {}, None),
        ("if [ -f b ]; then exit 0; fi; bash go.sh", {}, None),
        ("which go && bash go.sh", {}, None),
        ("for a in b; do bash go.sh; done", {}, None),
        ("clean() { bash go.sh; }; trap clean EXIT", {}, None),
        ("cd $(mktemp -d) && bash go.sh", {}, None),
        ("docker run -w /app image bash go.sh", {}, None),
        ("apptainer exec a.sif sh -c 'python go.py'", {}, None),
        ("env -C /opt/src bash go.sh", {}, None),
        ("make a", {"Makefile": "a: go.sh\n\tbash go.sh\n%.sh:\n\tcp $< $@\n"}, None),
        ("just a", {"justfile": "set working-directory := 'b'\na:\n  bash go.sh\n"}, None),
        ("bash run.sh", {"run.sh": "if [ $A ]; then bash b.sh; fi\n", "b.sh": "bash go.sh\n"}, None),
    ],
)
def test_missing_script_is_named_wherever_the_command_runs_it(tmp_path, command, files, named):
    for name, text in {"plan.yaml": PLAN, **files}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    request = plan_file.loads(PLAN)
    request = replace(request, run=replace(request.run, command=run_by_bash(command)))
    findings = {finding.code: finding for finding in missing_trainer(tmp_path / "plan.yaml", request)}
    assert ("no-script" in findings) == (named is not None)
    if named is not None:
        where, path = named
        assert findings["no-script"].path == where
        assert findings["no-script"].message.startswith(f"{path} is not in this folder: ")
        with pytest.raises(ImpossibleError, match=rf"{where}: {path} is not in"):
            refuse_missing_trainer(tmp_path / "plan.yaml", request, {})


def test_missing_script_of_a_step_before_the_command_is_named(tmp_path):
    (tmp_path / "train.py").touch()
    request = plan_file.loads(PLAN + "run: {before: [{command: [bash, no.sh]}]}\n")
    (finding,) = missing_trainer(tmp_path / "plan.yaml", request)
    assert (finding.code, finding.path) == ("no-script", "run.before[0].command")


@pytest.mark.parametrize("step, named", [("git clone https://example.org/a .", False), ("echo a", True)])
def test_script_that_a_step_before_the_command_may_write_is_not_missing(tmp_path, step, named):
    request = plan_file.loads(PLAN + f"run: {{before: [{{command: {step}}}], command: bash go.sh}}\n")
    assert [finding.code for finding in missing_trainer(tmp_path / "plan.yaml", request)] == ["no-script"] * named


@pytest.mark.parametrize("command", ["bash go.sh", "python go.py"])
def test_missing_script_of_a_step_after_the_command_is_named(tmp_path, command):
    (tmp_path / "train.py").touch()
    request = plan_file.loads(PLAN + f"run: {{after: [{{command: {command}}}]}}\n")
    (finding,) = missing_trainer(tmp_path / "plan.yaml", request)
    assert (finding.code, finding.path) == ("no-script", "run.after[0].command")


def test_missing_folder_of_submodule_is_named_by_quote(tmp_path):
    (tmp_path / ".gitmodules").write_text('[submodule "v"]\n\tpath = third/v\n\turl = https://example.org/v\n')
    (tmp_path / "train.py").touch()
    (finding,) = missing_trainer(tmp_path / "plan.yaml", plan_file.loads(PLAN))
    assert (finding.code, "third/v/" in finding.message) == ("empty-submodule", True)


def test_empty_submodule_is_named_by_quote(tmp_path):
    (tmp_path / ".gitmodules").write_text('[submodule "v"]\n\tpath = third/v\n\turl = https://example.org/v\n')
    (tmp_path / "third" / "v").mkdir(parents=True)
    (tmp_path / "train.py").touch()
    request = plan_file.loads(PLAN)
    (finding,) = missing_trainer(tmp_path / "plan.yaml", request)
    assert (finding.code, "third/v/" in finding.message) == ("empty-submodule", True)
    (tmp_path / "third" / "v" / "a.py").touch()
    assert missing_trainer(tmp_path / "plan.yaml", request) == ()


@pytest.mark.parametrize("command", ["python {}.py", "./{}.sh", "bash a/{}.sh", "torchrun train.py {}", "cd {}; ls"])
def test_word_longer_than_a_file_name_raises_no_error(tmp_path, command):
    (tmp_path / "train.py").write_text("import torch\n")
    request = plan_file.loads(PLAN + f"run: {{command: {command.format('a' * 300)}}}\n")
    codes = [finding.code for finding in missing_trainer(tmp_path / "plan.yaml", request)]
    assert codes == (["no-script"] if command.partition("{}")[2][:1] == "." else [])
    assert job_command(tmp_path / "plan.yaml", request).programs


def test_folder_too_long_for_a_name_is_a_missing_folder(tmp_path):
    request = plan_file.loads(PLAN + f"run: {{workdir: {'a' * 300}}}\n")
    assert [finding.code for finding in missing_trainer(tmp_path / "plan.yaml", request)] == ["no-workdir"]
