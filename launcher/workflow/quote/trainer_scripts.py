"""Scripts of a job that cannot run on a node as they are: line ends, a byte order mark, a mode bit, an interpreter."""

import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from launcher.agent.command_line import script_of_shell
from launcher.model.finding import Finding, error, warning
from launcher.model.run_spec import RunSpec
from launcher.planning.job_command import Program
from launcher.submit.stub_files import empty_submodules
from launcher.workflow.quote.started_programs import SHELLS, Script, first_missing, started_programs

MENDERS = frozenset({"chmod", "dos2unix", "sed", "git", "cp", "ln"})
"""Programs that may make a script runnable on the node."""
_MARK = b"\xef\xbb\xbf"
_WIDE = (b"\xff\xfe", b"\xfe\xff")
PATH = "run.command"
_OF_ONE_COMPUTER = (
    *("/Users/", "/home/", "/root/", "/opt/homebrew/", "/opt/local/", "/usr/local/Cellar/", "/usr/local/opt/"),
    "/nix/store/",
)
"""Beginnings of paths of a user, of Homebrew, MacPorts and Nix: a node has no such interpreter."""


def script_problems(root: Path, run: RunSpec) -> tuple[Finding, ...]:
    """An error for each script in the job's folder that a node could not run, with the command that mends it.

    Args:
        root: the job's folder.
        run: its command, set-up and steps.
    """
    lists: list[tuple[str, tuple[str, ...]]] = [
        (f"run.setup[{index}]", ("bash", "-c", line)) for index, line in enumerate(run.setup)
    ]
    lists += _commands(run)
    mended = any("chmod" in (script_of_shell(command) or "") for _, command in lists)
    findings: dict[tuple[str, str], Finding] = {}
    for path, command in lists:
        for started in started_programs(root, command, where=path, known=run.env):
            mended = mended or started.program.name in MENDERS
            if started.script is None:
                continue
            program, script = started.program, started.script
            by_shell = program.words[0] == script.word and (
                program.where != path or script_of_shell(command) is not None
            )
            problems = [
                *_problems(program, script, mended=mended),
                *([] if mended else _interpreter_problems(root, program, script, by_shell=by_shell)),
            ]
            for finding in problems:
                findings.setdefault((finding.code, finding.message), finding)
    return tuple(findings.values())


def _commands(run: RunSpec) -> list[tuple[str, tuple[str, ...]]]:
    """The command and the steps of a job, each with its path in the plan."""
    before = [(f"run.before[{index}].command", step.command) for index, step in enumerate(run.before)]
    after = [(f"run.after[{index}].command", step.command) for index, step in enumerate(run.after)]
    return [(PATH, run.command), *before, *after]


def missing_script(root: Path, run: RunSpec) -> tuple[str, str]:
    """The first script that the job's commands or their scripts run and its folder lacks, after what names it.

    Only a script that is certainly missing on the node too; two empty texts without one.
    """
    command, *steps = _commands(run)
    before, after = steps[: len(run.before)], steps[len(run.before) :]
    for commands in ([*before, command], *([step] for step in after)):
        missing = first_missing(root, commands, run.env)
        if missing is not None:
            return missing
    return "", ""


def missing_submodules(root: Path) -> tuple[Finding, ...]:
    """An error for the submodules of the job's folder that are there without their files."""
    names = empty_submodules(root)
    if not names:
        return ()
    message = f"{', '.join(names)}: submodules without their files"
    fix = f"git submodule update --init --recursive; or leave them out: add the line /{names[0]} to .slipwayignore"
    return (error("empty-submodule", "run.workdir", message, fix),)


def _problems(program: Program, script: Script, *, mended: bool) -> Iterator[Finding]:
    """What is wrong with the script that a program is or runs."""
    name, head, file = script.name, script.head, shlex.quote(script.name)
    direct = _is_direct(program, script)
    if head.startswith(_WIDE) or _is_wide(head):
        order = "UTF-16" if head.startswith(_WIDE) else "UTF-16LE" if head[1:2] == b"\0" else "UTF-16BE"
        fix = _through(f"iconv -f {order} -t UTF-8", file)
        yield error("script-encoding", program.where, f"{name} is UTF-16, which no interpreter reads", fix)
        return
    if (direct or script.is_shell) and head.startswith(_MARK):
        message = f"{name} begins with a byte order mark, and its first line is not recognised"
        yield error("script-encoding", program.where, message, _through("tail -c +4", file))
    first = head.removeprefix(_MARK).lstrip(b"\r\n").partition(b"\n")[0]
    if b"\r\n" in head if script.is_shell else direct and first.startswith(b"#!") and first.endswith(b"\r"):
        message = f"{name} has Windows line ends: a node does not find its interpreter, or its commands"
        yield error("script-line-ends", program.where, message, _through("tr -d '\\r'", file))
    if direct and not script.mode & stat.S_IXUSR and not mended:
        message = f"{name} is not executable: a node would end with exit code 126"
        fix = f"chmod +x {file} (in git also: git update-index --chmod=+x {file})"
        yield error("script-mode", program.where, message, fix)


def _is_direct(program: Program, script: Script) -> bool:
    """Whether a program is the script itself, or starts it as a program, so that its first line decides."""
    direct = ("/" in script.word and not script.word.endswith(".py")) or program.words[0] == script.word
    return direct and program.name not in SHELLS


def _interpreter_problems(root: Path, program: Program, script: Script, *, by_shell: bool) -> Iterator[Finding]:
    """A first line that names no interpreter, or one that only this computer has; `by_shell`: a shell starts it."""
    name, file = script.name, shlex.quote(script.name)
    head = script.head.removeprefix(_MARK)
    if not _is_direct(program, script) or b"\0" in head or head.startswith(_WIDE):
        return
    python = name.endswith(".py")
    line = "#!/usr/bin/env python3" if python else "#!/bin/bash"
    if not head.startswith(b"#!"):
        if by_shell and not python:
            return  # the shell reads it itself
        effect = (
            "a shell would read it as its own commands" if by_shell else "a node cannot start it (Exec format error)"
        )
        yield error("script-interpreter", program.where, f"{name} begins with no #! line: {effect}", _begin(file, line))
        return
    words = head[2:].partition(b"\n")[0].decode("utf-8", errors="replace").split()
    interpreter = words[0] if words else ""
    if interpreter.startswith((*_OF_ONE_COMPUTER, f"{root.resolve()}/")):
        base = interpreter.rpartition("/")[2]
        options = words[1:]
        words = [*(["-S"] if options else []), "python3" if base.startswith("python") else base, *options]
        line = f"#!/usr/bin/env {' '.join(words)}"
        message = f"{name} names the interpreter {interpreter}: only a node that shares the folder, or an image, has it"
        begin = f"{{ printf '%s\\n' {shlex.quote(line)}; tail -n +2; }}"
        yield warning("script-interpreter", program.where, message, _through(begin, file))


def _begin(file: str, line: str) -> str:
    """The command that puts a line before the others, of an empty file also."""
    return _through(f"{{ printf '%s\\n' {shlex.quote(line)}; cat; }}", file)


def _through(program: str, file: str) -> str:
    """The command that changes a file by a program and keeps its mode, on macOS too (`sed -i`, `iconv -o` differ)."""
    return f"{program} <{file} >{file}.new && cat {file}.new >{file} && rm {file}.new"


def _is_wide(head: bytes) -> bool:
    """Whether a script is UTF-16 without a byte order mark: every second byte of its beginning is null.

    >>> _is_wide("print(1)".encode("utf-16-le")), _is_wide(b"print(1)")
    (True, False)
    """
    start = head[:16]
    return len(start) >= 4 and (not any(start[::2]) or not any(start[1::2]))  # noqa: PLR2004 - two characters
