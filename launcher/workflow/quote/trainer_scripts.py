"""Scripts of a job that cannot run on a node as they are: line ends, a byte order mark, a missing mode bit."""

import shlex
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from launcher.agent.command_line import script_of_shell
from launcher.catalog.regular_file import UnusableFileError, opened_regular
from launcher.model.finding import Finding, error
from launcher.model.request import RunSpec
from launcher.planning.job_command import Program, programs_in, programs_of
from launcher.submit.stub_files import empty_submodules

SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh", "source", "."})
_HEAD = 1 << 16
"""Bytes of a script that are looked at."""
_MARK = b"\xef\xbb\xbf"
_WIDE = (b"\xff\xfe", b"\xfe\xff")
PATH = "run.command"


def script_problems(root: Path, run: RunSpec) -> tuple[Finding, ...]:
    """An error for each script in the job's folder that a node could not run, with the command that mends it.

    Args:
        root: the job's folder.
        run: its command, set-up and steps.
    """
    lists = [(PATH, run.command)]
    lists += [(f"run.before[{index}].command", step.command) for index, step in enumerate(run.before)]
    lists += [(f"run.after[{index}].command", step.command) for index, step in enumerate(run.after)]
    programs = [program for index, line in enumerate(run.setup) for program in programs_in(line, f"run.setup[{index}]")]
    mended = any(program.name in {"chmod", "dos2unix", "sed", "git", "cp", "ln"} for program in programs)
    for path, command in lists:
        mended = mended or "chmod" in (script_of_shell(command) or "")
        programs += programs_of(command, path)
    findings: dict[tuple[str, str], Finding] = {}
    for program in programs:
        if program.name == "cd":
            break  # what follows is in another folder
        for finding in _problems(root, program, mended=mended):
            findings.setdefault((finding.code, finding.message), finding)
    return tuple(findings.values())


def missing_submodules(root: Path) -> tuple[Finding, ...]:
    """An error for the submodules of the job's folder that are there without their files."""
    names = empty_submodules(root)
    if not names:
        return ()
    message = f"{', '.join(names)}: submodules without their files"
    fix = f"git submodule update --init --recursive; or leave them out: add the line /{names[0]} to .slipwayignore"
    return (error("empty-submodule", "run.workdir", message, fix),)


def _problems(root: Path, program: Program, *, mended: bool) -> Iterator[Finding]:
    """What is wrong with the script that a program is or runs."""
    direct = "/" in program.words[0]
    word = program.words[0] if direct else next((word for word in program.words[1:] if not word.startswith("-")), "")
    shell = direct or program.name in SHELLS
    if not shell and not word.endswith(".py"):
        return
    name = PurePosixPath(word).as_posix()
    if not name or name.startswith(("/", "~")) or "$" in name or ".." in PurePosixPath(name).parts:
        return
    try:
        with opened_regular(root / name, within=root) as stream:
            head, mode = stream.read(_HEAD), (root / name).stat().st_mode
    except (OSError, UnusableFileError, ValueError):
        return  # whether it is there at all is another check
    file = shlex.quote(name)
    if head.startswith(_WIDE):
        fix = f"iconv -f UTF-16 -t UTF-8 {file} -o {file}.new && mv {file}.new {file}"
        yield error("script-encoding", program.where, f"{name} is UTF-16, which no interpreter reads", fix)
        return
    if shell and head.startswith(_MARK):
        message = f"{name} begins with a byte order mark, and its first line is not recognised"
        yield error("script-encoding", program.where, message, f"sed -i '1s/^\\xEF\\xBB\\xBF//' {file}")
    first = head.removeprefix(_MARK).lstrip(b"\r\n").partition(b"\n")[0]
    if shell and first.endswith(b"\r") and (not direct or first.startswith(b"#!")):
        message = f"{name} has Windows line ends: a node does not find its interpreter, or its commands"
        yield error("script-line-ends", program.where, message, f"sed -i 's/\\r$//' {file}")
    if direct and not mode & stat.S_IXUSR and not mended:
        message = f"{name} is not executable: a node would end with exit code 126"
        fix = f"chmod +x {file} (in git also: git update-index --chmod=+x {file})"
        yield error("script-mode", program.where, message, fix)
