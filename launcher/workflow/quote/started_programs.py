"""The programs that a job starts, through the shell scripts of its folder, each with the folder that it runs in."""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path, PurePosixPath

from launcher.agent.command_line import arguments_of_shell, script_of_shell
from launcher.catalog.regular_file import UnusableFileError, opened_regular
from launcher.model.record import record
from launcher.planning.job_command import (
    EMPTY,
    STARTER,
    UNKNOWN,
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
_SHELL_LINE = re.compile(rb"#![ \t]*\S*?(?:/env(?:[ \t]+-\S+)*[ \t]+)?(?:\S*/)?(?:ba|da|k|z|a)?sh\b")
_SOURCED = re.compile(r"(?m)(^|[;&|]|\bthen|\bdo)[ \t]*(?:source|\.)[ \t]+([\w./-]+)[ \t]*(?=$|[;&|])")
_INCLUDED = re.compile(r"(?m)^(?:[-s]?include|import)[ \t]+(?![^\n]*\$)([^\n#]+)")
"""A line of a makefile or justfile that reads others (GNU make manual, Include; just manual, Imports)."""
_CONDITION = re.compile(r"\|\||\[|(?:^|[\s;])(?:case|if|test|trap|until|while)\s")
_MAKE_NO_SCRIPT = frozenset(
    [
        *("cd", "date", "declare", "echo", "export", "hostname", "local", "mkdir", "module", "nvidia-smi", "neuron-ls"),
        *("pip", "pip3", "printf", "readonly", "set", "shift", "sleep", "true", "typeset", "ulimit", "unset", "which"),
    ]
)
"""Programs after which a script that is missing in the job's folder is still missing on the node."""
_ENVIRONMENT_FILE = re.compile(r"--env-file(?:=|[ \t]+)([^\s;|&]+)|\bdotenv(?:[ \t]+-f[ =]?([^\s;|&]+))?[ \t]+run\b")
"""Files of variables for the programs of a text (uv run, docker run; python-dotenv's `dotenv`, by default .env)."""
_PRINTED_FILE = re.compile(r"\$\((?:<|(?:cat|e?grep|sed)\b)([^()]*)\)|`(?:cat|e?grep|sed)\b([^`]*)`")
"""A file of variables as words: `export $(grep -v '^#' .env | xargs)`."""
_VARIABLE = re.compile(
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
    folder = PurePosixPath()
    for index, line in enumerate(setup):
        for started in walk.of_text(line, f"run.setup[{index}]", folder, 0):
            walk.exported |= exported_by(started.program)
            folder = started.folder
    text = script_of_shell(command)
    if text is not None:
        yield from walk.of_text(text, where, folder, 0, arguments_of_shell(command))
        return
    walk.read_variables(" ".join(command), folder)
    for program in programs_of(command, where):
        yield from walk.of_program(program, folder, 0)


class _Walk:
    """A walk through scripts, each of which is read once."""

    def __init__(self, root: Path, known: Mapping[str, str]) -> None:
        self.root, self.known = root, known
        self.exported: dict[str, str] = {}
        # The variables of files that programs of the text read; the shell itself does not know them.
        self._of_files: dict[str, str] = {}
        self._read: set[str] = set()
        self._inserted = 0
        # Whether the programs so far ran without a condition and wrote no script.
        self._certain = True

    def of_text(
        self, text: str, where: str, folder: PurePosixPath, depth: int, arguments: Sequence[str] | None = None
    ) -> Iterator[Started]:
        """The programs of a shell text; `arguments` are its own words, None if they are unknown."""
        script_folder = folder if where.startswith("run.") else PurePosixPath(where).parent
        self.read_variables(text, folder)
        self._certain = self._certain and _CONDITION.search(text) is None
        text = self._with_sourced(self._with_printed(text, folder), folder, depth)
        for program in programs_in(text, where, {**self.known, **self.exported}, arguments):
            yield from self.of_program(program, folder, depth)
            if program.name == "cd" and len(program.words) == 2:  # noqa: PLR2004 - cd and its folder
                folder = self._entered(folder, script_folder, program.words[1])
                self._certain = self._certain and (self.root / folder).is_dir()

    def of_program(self, program: Program, folder: PurePosixPath, depth: int) -> Iterator[Started]:
        """A program, and what the shell script that it is or runs starts."""
        program = replace(program, variables={**self._of_files, **self.exported, **program.variables})
        word, by_shell = named_script(program)
        script = self._at(word, folder, by_shell=by_shell) if word else None
        missing = self._missing(program, word, folder) if word and script is None and self._certain else ""
        yield Started(program=program, folder=folder, script=script, missing=missing)
        if program.name not in _MAKE_NO_SCRIPT and (script is None or not script.is_shell):
            self._certain = False
        if program.name in RECIPES:
            yield from self._of_recipe(program, folder, depth)
        if script is None or not script.is_shell:
            return
        arguments = program.words[program.words.index(word) + 1 :]
        key = " ".join((script.name, *arguments))
        if key in self._read or depth >= _MAX_DEPTH or len(self._read) >= MAX_SCRIPTS:
            return
        self._read.add(key)
        text = script.head.decode("utf-8-sig", errors="replace").replace("\r", "")
        outer = self.exported
        self.exported = {**outer, **program.variables}
        yield from self.of_text(text, script.name, folder, depth + 1, arguments)
        self.exported = outer

    def _of_recipe(self, program: Program, folder: PurePosixPath, depth: int) -> Iterator[Started]:
        """What the targets start that make, just or Task runs."""
        from launcher.workflow.quote.recipes import call_of, environment_files, recipe

        call = call_of(program.words)
        folder = self._entered(folder, folder, call.folder or ".")
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
        yield from self.of_text(recipe(program.name, text, call, known), script.name, folder, depth + 1)

    def _with_included(self, text: str, folder: PurePosixPath, seen: frozenset[str] = frozenset()) -> str:
        """A file of recipes with those that it includes in their places, as far as the job's folder has them."""

        def content(match: "re.Match[str]") -> str:
            scripts = [self._at(name.strip("'\""), folder) for name in match[1].split() if len(seen) < _MAX_DEPTH]
            return "\n".join(
                self._with_included(script.head.decode("utf-8-sig", errors="replace"), folder, seen | {script.name})
                for script in scripts
                if script is not None and script.name not in seen and self._may_insert()
            )

        return _INCLUDED.sub(content, text)

    def _with_sourced(self, text: str, folder: PurePosixPath, depth: int) -> str:
        """A text with the scripts that it sources in their places."""

        def content(match: "re.Match[str]") -> str:
            script = self._at(match[2], folder, by_shell=True)
            if script is None or depth >= _MAX_DEPTH or not self._may_insert():
                return match[0]
            text = script.head.decode("utf-8-sig", errors="replace").replace("\r", "")
            return f"{match[0]}\n{self._with_sourced(text, folder, depth + 1)}\n"

        return _SOURCED.sub(content, text)

    def _may_insert(self) -> bool:
        """Whether one more file may be read in place of a line: files that read others twice double each time."""
        self._inserted += 1
        return self._inserted <= MAX_SCRIPTS

    def _entered(self, folder: PurePosixPath, script_folder: PurePosixPath, word: str) -> PurePosixPath:
        """The folder after `cd`; one that is not in the job's folder has no scripts."""
        if UNKNOWN in word:  # cd "$(dirname "$0")"
            return script_folder
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

        return _PRINTED_FILE.sub(content, text)

    def _variables_at(self, word: str, folder: PurePosixPath) -> dict[str, str]:
        """The variables of a file of the job's folder; empty if it is not there."""
        script = self._at(word, folder)
        text = "" if script is None else script.head.decode("utf-8-sig", errors="replace")
        return {
            match[1]: next(value for value in match.groups()[1:] if value is not None)
            for match in _VARIABLE.finditer(text)
        }

    def _missing(self, program: Program, word: str, folder: PurePosixPath) -> str:
        """The path of the script that a program is or runs, if the job's folder lacks it; "" if that is not certain."""
        runs = word == program.words[0] or program.name in SHELLS or STARTER.fullmatch(program.name)
        if not runs or {"-c", "-m", "--module"} & set(program.words) or word.startswith(("/", "~")):
            return ""
        path = os.path.normpath(folder / word)
        if any(sign in path for sign in "$*?{[") or path.startswith(("../", "/")):
            return ""
        return "" if os.path.lexists(self.root / path) else path

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
        is_shell = by_shell or name.endswith(".sh") or _SHELL_LINE.match(start) is not None
        return Script(word=word, name=name, head=head, mode=mode, is_shell=is_shell and b"\0" not in head)


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
