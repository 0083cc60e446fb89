"""The programs that a job starts, through the shell scripts of its folder, each with the folder that it runs in."""

import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path, PurePosixPath

from launcher.agent.command_line import arguments_of_shell, script_of_shell
from launcher.catalog.regular_file import UnusableFileError, mode_of, opened_regular
from launcher.model.record import record
from launcher.planning.job_command import (
    EMPTY,
    OWN_FOLDER,
    STARTER,
    Program,
    exported_by,
    programs_in,
    programs_of,
)

SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh", "source", "."})
RECIPES: Mapping[str, Sequence[str]] = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "gmake": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "taskfile.yml", "Taskfile.yaml", "taskfile.yaml"),
    "go-task": ("Taskfile.yml", "taskfile.yml", "Taskfile.yaml", "taskfile.yaml"),
}
"""The files of recipes that each program looks for, in its order (GNU make manual, just and Task documentation)."""
MAX_SCRIPTS = 40
"""Scripts that are looked at, of all that run each other."""
_MAX_DEPTH = 8
_HEAD = 1 << 16
"""Bytes of a script that are looked at."""
_SHELL_LINE = rb"#![ \t]*\S*?(?:/env(?:[ \t]+-\S+)*[ \t]+)?(?:\S*/)?(?:ba|da|k|z|a)?sh\b"
_SOURCED = r"(?m)(^|[;&|]|\bthen|\bdo)[ \t]*(?:source|\.)[ \t]+([\w./-]+)[ \t]*(?=$|[;&|])"
_INCLUDED = r"(?m)^(?:[-s]?include|import)[ \t]+(?![^\n]*\$)([^\n#]+)"
"""A line of a makefile or justfile that reads others (GNU make manual, Include; just manual, Imports)."""
_MAKE_NO_SCRIPT = frozenset(
    [
        *(":", "[", "[[", "cat", "cd", "conda", "date", "declare", "df", "dirname", "echo", "export", "false", "free"),
        *("getopts", "grep", "head", "hostname", "id", "ldconfig", "local", "ls", "lscpu", "mamba", "mkdir", "ml"),
        *("module", "neuron-ls", "nproc", "nvcc", "nvidia-smi", "pip", "pip3", "printenv", "printf", "pwd", "read"),
        *("readonly", "set", "shift", "sleep", "sort", "tail", "test", "trap", "true", "type", "typeset", "ulimit"),
        *("umask", "uname", "unset", "wc", "which", "whoami"),
    ]
)
"""Programs after which a script that is missing in the job's folder is still missing on the node."""
_ACTIVATION = frozenset(
    [
        *(".bash_profile", ".bashrc", ".profile", "activate", "bash", "bashrc", "conda.sh", "lmod.sh", "modules.sh"),
        "profile",
    ]
)
"""Scripts of others that a job sources, and that neither write into its folder nor leave it."""
_REDIRECTED = r"(?<![0-9&<=-])(?:[012&])?>{1,2}\|?[ \t]*(?![&(])[\"']?([^\s\"';|&()<>]+)"
_OTHER_FOLDER = r"working-directory|no-cd"
_CONTAINERS = frozenset({"apptainer", "docker", "enroot", "podman", "singularity"})
_CHANGE_FOLDER = r"(?:-C|-D|-w|--(?:chdir|cwd|directory|workdir|pwd|container-workdir))(?:=.*)?"
"""Programs and options before a program that let it run in another folder than the shell's."""
_ENVIRONMENT_FILE = re.compile(r"--env-file(?:=|[ \t]+)([^\s;|&]+)|\bdotenv(?:[ \t]+-f[ =]?([^\s;|&]+))?[ \t]+run\b")
"""Files of variables for the programs of a text (uv run, docker run; python-dotenv's `dotenv`, by default .env)."""
_PRINTED_FILE = r"\$\((?:<|(?:cat|e?grep|sed)\b)([^()]*)\)|`(?:cat|e?grep|sed)\b([^`]*)`"
"""A file of variables as words: `export $(grep -v '^#' .env | xargs)`."""
_VARIABLE = (
    r"(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=(?:\"([^\"\n]*)\"|'([^'\n]*)'|([^\n]*?))[ \t]*(?:[ \t]#.*)?\r?$"
)
_ELSEWHERE = PurePosixPath("/nonexistent")
_TAKES_A_WORD = frozenset({"-o", "-O", "--rcfile", "--init-file"})


@record
class Script:
    """A script of the job's folder: the word that names it, its path in that folder, its beginning, and its mode."""

    word: str
    name: str
    head: bytes
    mode: int
    is_shell: bool


@record
class Started:
    """A program with the folder that it runs in, relative to the job's, and the script that it is or runs.

    `missing` is the path of a script that its words name and the job's folder lacks, "" otherwise.
    """

    program: Program
    folder: PurePosixPath
    script: Script | None = None
    missing: str = ""


def started_programs(
    root: Path,
    command: Sequence[str],
    *,
    where: str = "run.command",
    known: Mapping[str, str] = EMPTY,
    setup: Sequence[str] = (),
) -> Iterator[Started]:
    """The programs of a command, and those of the shell scripts that it runs, as far as these are in the job's folder.

    Args:
        root: the job's folder.
        command: the words of the command.
        where: its path in the plan, for messages.
        known: the variables that the plan gives.
        setup: shell lines before it, which are not among the programs, but whose variables and folder are.
    """
    walk = _Walk(root, known)
    for index, line in enumerate(setup):
        for started in walk.walk_text(line, f"run.setup[{index}]", walk.folder, 0):
            walk.exported |= exported_by(started.program)
    yield from walk.walk_command(command, where)


def first_missing(
    root: Path, commands: Sequence[tuple[str, Sequence[str]]], known: Mapping[str, str]
) -> tuple[str, str] | None:
    """The first script that some commands, one after another, run and the job's folder lacks, after what names it.

    Args:
        root: the job's folder.
        commands: the words of each, after its path in the plan.
        known: the variables that the plan gives.
    """
    walk = _Walk(root, known)
    for where, command in commands:
        walk.folder, walk.exported = PurePosixPath(), {}
        for started in walk.walk_command(command, where):
            if started.missing:
                return started.program.where, started.missing
    return None


class _Walk:
    """A walk through scripts, each of which is read once."""

    def __init__(self, root: Path, known: Mapping[str, str]) -> None:
        self.root, self.known = root, known
        self.exported: dict[str, str] = {}
        # The variables of files that programs of the text read; the shell itself does not know them.
        self._of_files: dict[str, str] = {}
        self._read: set[str] = set()
        self._inserted = 0
        # Whether no program so far can have written a script, the files that the texts write, and what decides whether
        # the text runs that is being read.
        self._certain = True
        self._written: set[str] = set()
        self._condition = ""
        # Where the next command runs.
        self.folder = PurePosixPath()

    def walk_command(self, command: Sequence[str], where: str) -> Iterator[Started]:
        """The programs of a command."""
        text = script_of_shell(command)
        if text is not None:
            yield from self.walk_text(text, where, self.folder, 0, arguments_of_shell(command))
            return
        self.read_variables(" ".join(command), self.folder)
        for program in programs_of(command, where):
            yield from self.walk_program(program, self.folder, 0)

    def walk_text(
        self, text: str, where: str, folder: PurePosixPath, depth: int, arguments: Sequence[str] | None = None
    ) -> Iterator[Started]:
        """The programs of a shell text; `arguments` are its own words, None if they are unknown."""
        script_folder = folder if where.startswith("run.") else PurePosixPath(where).parent
        self.read_variables(text, folder)
        text = self._with_sourced(self._with_printed(text, folder), folder, depth)
        self._written |= {PurePosixPath(match[1]).name for match in re.finditer(_REDIRECTED, text)}
        places: dict[tuple[str, ...], PurePosixPath] = {(): folder}
        for program in programs_in(text, where, {**self.known, **self.exported}, arguments):
            for end in range(1, len(program.entered) + 1) if program.entered not in places else ():
                before, word = program.entered[: end - 1], program.entered[end - 1]
                if (*before, word) not in places:
                    places[*before, word] = self._enter_folder(places[before], script_folder, word)
            place = places[program.entered]
            yield from self.walk_program(_with_own_folder(program, script_folder, place), place, depth)
            if depth == 0 and program.name == "cd":
                self.folder = self._enter_folder(place, script_folder, " ".join(program.words[1:]))

    def walk_program(self, program: Program, folder: PurePosixPath, depth: int) -> Iterator[Started]:
        """A program, and what the shell script that it is or runs starts."""
        outer = self._condition
        self._condition = outer or program.condition
        variables = {**self._of_files, **self.exported, **program.variables}
        program = replace(program, variables=variables, condition=self._condition)
        word, by_shell = named_script(program)
        script = self._at(word, folder, by_shell=by_shell) if word else None
        missing = self._missing(program, word, folder) if word and script is None else ""
        yield Started(program=program, folder=folder, script=script, missing=missing)
        if script is not None and script.is_shell:
            yield from self._walk_script(program, script, folder, depth)
        elif program.name in RECIPES:
            yield from self._walk_recipe(program, folder, depth)
        elif not _makes_no_script(program, word) or (program.name == "cd" and program.condition not in {"", "if"}):
            self._certain = False
        self._condition = outer

    def _walk_script(self, program: Program, script: Script, folder: PurePosixPath, depth: int) -> Iterator[Started]:
        """What a shell script starts."""
        word = script.word
        arguments = program.words[program.words.index(word) + 1 :]
        key = " ".join((script.name, *arguments))
        if key in self._read or depth >= _MAX_DEPTH or len(self._read) >= MAX_SCRIPTS:
            return
        self._read.add(key)
        text = script.head.decode("utf-8-sig", errors="replace").replace("\r", "")
        outer = self.exported
        self.exported = {**outer, **program.variables}
        yield from self.walk_text(text, script.name, folder, depth + 1, arguments)
        self.exported = outer

    def _walk_recipe(self, program: Program, folder: PurePosixPath, depth: int) -> Iterator[Started]:
        """What the targets start that make, just or Task runs."""
        from launcher.workflow.quote.recipes import call_of, environment_files, recipe

        certain, self._certain = self._certain, False
        call = call_of(program.words)
        folder = self._enter_folder(folder, folder, call.folder or ".")
        names = RECIPES[program.name] if call.file is None else (call.file,)
        script = next((found for name in names if (found := self._at(name, folder)) is not None), None)
        if script is None or depth >= _MAX_DEPTH or len(self._read) >= MAX_SCRIPTS:
            return
        key = f"{script.name} {call.targets}"
        if key in self._read:
            return
        self._read.add(key)
        text = self._with_included(script.head.decode("utf-8-sig", errors="replace"), folder, frozenset({script.name}))
        for name in environment_files(program.name, text, call):
            self.exported |= self._variables_at(name, folder)
        known = {**self.known, **self.exported, **program.variables}
        lines = recipe(program.name, text, call, known)
        # make and Task may skip or write what a recipe names, and a setting of just changes its folder.
        self._certain = certain and program.name == "just" and lines != "" and re.search(_OTHER_FOLDER, text) is None
        yield from self.walk_text(lines, script.name, folder, depth + 1)

    def _with_included(self, text: str, folder: PurePosixPath, seen: frozenset[str] = frozenset()) -> str:
        """A file of recipes with those that it includes in their places, as far as the job's folder has them."""

        def content(match: "re.Match[str]") -> str:
            scripts = [self._at(name.strip("'\""), folder) for name in match[1].split() if len(seen) < _MAX_DEPTH]
            return "\n".join(
                self._with_included(script.head.decode("utf-8-sig", errors="replace"), folder, seen | {script.name})
                for script in scripts
                if script is not None and script.name not in seen and self._may_insert()
            )

        return re.sub(_INCLUDED, content, text)

    def _with_sourced(self, text: str, folder: PurePosixPath, depth: int) -> str:
        """A text with the scripts that it sources in their places."""

        def content(match: "re.Match[str]") -> str:
            script = self._at(match[2], folder, by_shell=True)
            if script is None or depth >= _MAX_DEPTH or not self._may_insert():
                return match[0]
            text = script.head.decode("utf-8-sig", errors="replace").replace("\r", "")
            return f"{match[0]}\n{self._with_sourced(text, folder, depth + 1)}\n"

        return re.sub(_SOURCED, content, text)

    def _may_insert(self) -> bool:
        """Whether one more file may be read in place of a line: files that read others twice double each time."""
        self._inserted += 1
        return self._inserted <= MAX_SCRIPTS

    def _enter_folder(self, folder: PurePosixPath, script_folder: PurePosixPath, word: str) -> PurePosixPath:
        """The folder after `cd`; one that is not in the job's folder has no scripts."""
        if word.startswith(OWN_FOLDER):
            folder, word = script_folder, f".{word.removeprefix(OWN_FOLDER)}"
        if "$" in word:
            return _ELSEWHERE
        path, root = (Path(os.path.realpath(place)) for place in (self.root / folder / word, self.root))
        return PurePosixPath(path.relative_to(root).as_posix()) if path.is_relative_to(root) else _ELSEWHERE

    def read_variables(self, text: str, folder: PurePosixPath) -> None:
        """Note the variables of the files that programs of a text read."""
        for match in _ENVIRONMENT_FILE.finditer(text):
            self._of_files |= self._variables_at((match[1] or match[2] or ".env").strip("'\""), folder)

    def _with_printed(self, text: str, folder: PurePosixPath) -> str:
        """A text with the files of variables that it prints as words in the places of the programs that print them."""

        def content(match: "re.Match[str]") -> str:
            words = ((match[1] or match[2]).partition("|")[0]).split()
            files = (self._variables_at(word.strip("'\""), folder) for word in words if "env" in word)
            variables = next(filter(None, files), None)
            if variables is None:
                return match[0]
            return " ".join(shlex.quote(f"{name}={value}") for name, value in variables.items())

        return re.sub(_PRINTED_FILE, content, text)

    def _variables_at(self, word: str, folder: PurePosixPath) -> dict[str, str]:
        """The variables of a file of the job's folder; empty if it is not there."""
        script = self._at(word, folder)
        text = "" if script is None else script.head.decode("utf-8-sig", errors="replace")
        return {
            match[1]: next(value for value in match.groups()[1:] if value is not None)
            for match in re.finditer(_VARIABLE, text)
        }

    def _missing(self, program: Program, word: str, folder: PurePosixPath) -> str:
        """The path of the script that a program is or runs, if the job's folder lacks it; "" if that is not certain."""
        elsewhere = any(re.fullmatch(_CHANGE_FOLDER, before) for before in program.before)
        if not self._certain or program.condition or elsewhere or _CONTAINERS & set(program.before):
            return ""
        runs = word == program.words[0] or program.name in SHELLS or STARTER.fullmatch(program.name)
        if not runs or {"-c", "-m", "--module"} & set(program.words) or word.startswith(("/", "~")):
            return ""
        path = os.path.normpath(folder / word)
        if any(sign in path for sign in "$*?{[") or path.startswith(("../", "/")):
            return ""
        written = {PurePosixPath(path).name} & self._written or any("$" in name for name in self._written)
        is_there = os.path.lexists(self.root / path) or not stat.S_ISDIR(mode_of(self.root / folder))
        return "" if written or is_there else path

    def _at(self, word: str, folder: PurePosixPath, *, by_shell: bool = False) -> Script | None:
        """The script that a word names, if it is in the job's folder; `by_shell`: a shell reads it."""
        if word.startswith(("/", "~")) or "$" in word:
            return None
        path = self.root / folder / word
        try:
            with opened_regular(path, within=self.root) as stream:
                head, mode = stream.read(_HEAD), path.stat().st_mode
            name = Path(os.path.realpath(path)).relative_to(os.path.realpath(self.root)).as_posix()
        except (OSError, UnusableFileError, ValueError):
            return None
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
        is_shell = by_shell or name.endswith(".sh") or re.match(_SHELL_LINE, start) is not None
        return Script(word=word, name=name, head=head, mode=mode, is_shell=is_shell and b"\0" not in head)


def _with_own_folder(program: Program, script_folder: PurePosixPath, place: PurePosixPath) -> Program:
    """A program whose words name the folder of the script that starts it, as seen from where the program runs."""
    if place.is_absolute() or not any(OWN_FOLDER in word for word in program.words):
        return program
    own = os.path.relpath(script_folder, place)
    return replace(program, words=tuple(word.replace(OWN_FOLDER, own) for word in program.words))


def _makes_no_script(program: Program, word: str) -> bool:
    """Whether a script that was missing before a program is missing after it; `word` is what it sources."""
    if program.name in {"source", "."}:
        return PurePosixPath(word).name in _ACTIVATION
    if program.name in {"exit", "return"}:
        return program.words[1:] != () and program.words[1] != "0"  # the job has failed
    return program.name in _MAKE_NO_SCRIPT or program.words[1:3] == ("-m", "pip")


def named_script(program: Program) -> tuple[str, bool]:
    """The word that names the script that a program is or runs, and whether a shell reads it; "" without one."""
    words = program.words
    if "/" in words[0]:
        return words[0], False
    if program.name in SHELLS:
        taken = (word for before, word in pairwise(words) if before not in _TAKES_A_WORD)
        return next((word for word in taken if not word.startswith(("-", "+"))), ""), True
    direct = next((word for word in words[1:] if word.startswith("./") and not word.endswith(".py")), None)
    if direct is not None and "no" in " ".join(words[:3]) and {"--no-python", "--no_python"} & set(words):
        return direct, False
    return next((word for word in words[1:] if word.endswith(".py")), ""), False
