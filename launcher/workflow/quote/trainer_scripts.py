"""Scripts of a job that cannot run on a node as they are: line ends, a byte order mark, a missing mode bit."""

import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from launcher.agent.command_line import script_of_shell
from launcher.catalog.regular_file import UnusableFileError, opened_regular
from launcher.model.finding import Finding, error
from launcher.model.request import RunSpec
from launcher.planning.job_command import Program, programs_in, programs_of
from launcher.submit.stub_files import empty_submodules

SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh", "source", "."})
MENDERS = frozenset({"chmod", "dos2unix", "sed", "git", "cp", "ln"})
"""Programs that may make a script runnable on the node."""
_HEAD = 1 << 16
"""Bytes of a script that are looked at."""
MAX_SCRIPTS = 40
"""Scripts that are looked at, of all that run each other."""
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
    mended = any(program.name in MENDERS for program in programs)
    for path, command in lists:
        mended = mended or "chmod" in (script_of_shell(command) or "")
        programs += programs_of(command, path)
    findings: dict[tuple[str, str], Finding] = {}
    for program in _reachable_programs(root, programs):
        mended = mended or program.name in MENDERS
        for finding in _problems(root, program, mended=mended):
            findings.setdefault((finding.code, finding.message), finding)
    return tuple(findings.values())


def _reachable_programs(root: Path, programs: Iterable[Program]) -> Iterator[Program]:
    """The programs of a command, then those of the shell scripts that they run, as far as these are in the folder."""
    level, read = list(programs), set[str]()
    while level and len(read) < MAX_SCRIPTS:
        inner: list[Program] = []
        for program in level:
            if program.name == "cd":
                break  # what follows is in another folder
            yield program
            name = _script(program)
            if name.endswith(".sh") and name not in read:
                read.add(name)
                inner += programs_in(_head(root, name)[0].decode(errors="replace").replace("\r", ""), name)
        level = inner


def _script(program: Program) -> str:
    """The script that a program is or runs, relative to the job's folder; empty if there is none to look at."""
    direct = "/" in program.words[0]
    word = program.words[0] if direct else next((word for word in program.words[1:] if not word.startswith("-")), "")
    if not direct and program.name not in SHELLS and not word.endswith(".py"):
        return ""
    name = PurePosixPath(word).as_posix() if word else ""
    return "" if name.startswith(("/", "~")) or "$" in name or ".." in PurePosixPath(name).parts else name


def _head(root: Path, name: str) -> tuple[bytes, int]:
    """The beginning of a script and its mode; nothing if it is not there, which is another check."""
    try:
        with opened_regular(root / name, within=root) as stream:
            return stream.read(_HEAD), (root / name).stat().st_mode
    except (OSError, UnusableFileError, ValueError):
        return b"", stat.S_IXUSR


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
    name = _script(program)
    if not name:
        return
    direct = "/" in program.words[0]
    shell = direct or program.name in SHELLS
    head, mode = _head(root, name)
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
