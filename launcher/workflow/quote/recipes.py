"""The shell texts of recipes that a command runs: targets of make, just and Task, with the targets that they need.

Only what the files' words tell is read: a variable that a condition sets, or a function of make, stays unknown.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from launcher.catalog import safe_yaml
from launcher.model.record import record
from launcher.planning.job_command import EMPTY, UNKNOWN

_TAKES_A_WORD = frozenset({"-o", "-W", "-I", "--output"})
_TAKES_A_NUMBER = frozenset({"-j", "-l"})
"""Options of make whose number may be missing: `make -j train`."""
_FOLDER = ("-C", "--directory", "--working-directory", "-d", "--dir")
_FILE = ("-f", "--file", "--makefile", "--justfile", "-t", "--taskfile")
_HEADER = re.compile(r"^([\w./%$(){}-][^:=#\t]*?)\s*::?(?!=)([^=#;]*)(?:;(.*))?(?:#.*)?$")
_SETS = re.compile(r"^\s*(?:export\s+|override\s+)*([A-Za-z_]\w*)\s*(::=|:=|\?=|\+=|=)\s*(.*)$")
_CONDITION = re.compile(r"^\s*(?:ifeq|ifneq|ifdef|ifndef)\b")
_MAKE_VARIABLE = re.compile(r"\$\(([A-Za-z_]\w*)\)|\$\{([A-Za-z_]\w*)\}|(\$\$)")
_JUST_PARAMETER = r"""[*+$]*([A-Za-z_][\w-]*)(?:=(?:"([^"]*)"|'([^']*)'|([^\s:"']+)))?"""
_JUST_HEADER = re.compile(rf"^@?([A-Za-z_][\w-]*)((?:\s+{_JUST_PARAMETER})*)\s*:(?!=)([^#]*)$")
_JUST_DOTENV = re.compile(r"""(?m)^set\s+dotenv-(load|filename|path)\b(?:\s*:=\s*(?:"([^"]*)"|'([^']*)'|(\w+)))?""")
_JUST_SETS = re.compile(r"""^(?:export\s+)?([A-Za-z_][\w-]*)\s*:=\s*(?:"([^"]*)"|'([^']*)')\s*$""")
_BRACES = re.compile(r"\{\{\s*\.?([\w-]+)\s*\}\}|\{\{.*?\}\}")
# A longer value of a variable is unknown: a value that repeats another one twice doubles with every line.
_MAX_VALUE = 4096
# Further targets of one rule are not read: each has its own copy of the rule's lines.
_MAX_TARGETS = 100
_Recipes = tuple[Mapping[str, tuple[list[str], list[str]]], str]


@record
class Call:
    """The words of make, just or Task: its targets, the variables and files that they give, and the folder.

    `environment` names a file of variables.
    """

    targets: tuple[str, ...]
    variables: Mapping[str, str]
    folder: str = ""
    file: str | None = None
    environment: str | None = None


def call_of(words: Sequence[str]) -> Call:
    """What the words of such a program ask for.

    >>> call = call_of(["make", "-C", "sub", "-j8", "train", "N=4"])
    >>> call.targets, call.folder, dict(call.variables)
    (('train',), 'sub', {'N': '4'})
    >>> call_of(["make", "-j", "train"]).targets, call_of(["make", "-j", "8", "train"]).targets
    (('train',), ('train',))
    >>> call = call_of(["just", "--set", "n", "4", "-E", "a.env", "train"])
    >>> call.targets, dict(call.variables), call.environment
    (('train',), {'n': '4'}, 'a.env')
    """
    targets: list[str] = []
    variables: dict[str, str] = {}
    folder, file, environment, before = "", None, None, ""
    rest = iter(words[1:])
    for word in rest:
        name, equals, value = word.partition("=")
        numbered, before = before in _TAKES_A_NUMBER and word.replace(".", "", 1).isdecimal(), word
        if name in _FOLDER or name in _FILE:
            value = value if equals else next(rest, "")
            folder, file = (value, file) if name in _FOLDER else (folder, value)
        elif name in ("-E", "--dotenv-path", "--dotenv-filename"):
            environment = value if equals else next(rest, "")
        elif word == "--set":
            variables |= {next(rest, ""): next(rest, "")}
        elif word in _TAKES_A_WORD:
            next(rest, None)
        elif word.startswith("-") or numbered:
            continue
        elif equals:
            variables[name] = value
        else:
            targets.append(word)
    return Call(targets=tuple(targets), variables=variables, folder=folder, file=file, environment=environment)


def recipe(program: str, text: str, call: Call, known: Mapping[str, str] = EMPTY) -> str:
    r"""The shell text of a call's targets, those that they need first; empty if the file has none of them.

    >>> makefile = "N ?= 4\ntrain: data\n\t@torchrun --nproc_per_node=$(N) a.py\ndata:\n\techo $$HOME\n"
    >>> recipe("make", makefile, call_of(["make", "train"]))
    'echo $HOME\ntorchrun --nproc_per_node=4 a.py'
    """
    read = _READERS[program]
    recipes, first = read(text, call, known)
    lines: list[str] = []
    done: set[str] = set()
    # Without recursion: a chain of targets may be longer than Python's stack.
    waiting = [(target, False) for target in reversed(call.targets or ((first,) if first else ()))]
    while waiting:
        target, needs_are_done = waiting.pop()
        if needs_are_done:
            lines.extend(recipes[target][1])
        elif target in recipes and target not in done:
            done.add(target)
            waiting.append((target, True))
            waiting.extend((need, False) for need in reversed(recipes[target][0]))
    return "\n".join(lines)


def environment_files(program: str, text: str, call: Call) -> list[str]:
    r"""The files of variables that just or Task reads for its recipes.

    >>> environment_files("just", 'set dotenv-load\nset dotenv-filename := "a.env"\n', call_of(["just"]))
    ['a.env']
    >>> environment_files("task", "dotenv: [.env, b.env]", call_of(["task"]))
    ['.env', 'b.env']
    """
    if program == "just":
        settings = {match[1]: match[2] or match[3] or match[4] or "true" for match in _JUST_DOTENV.finditer(text)}
        name = call.environment or settings.get("path") or settings.get("filename")
        return [name] if name else [".env"] if settings.get("load") == "true" else []
    if program in {"task", "go-task"}:
        try:
            document = safe_yaml.loads(text)
        except safe_yaml.YamlError:
            return []
        names = _items(document.get("dotenv")) if isinstance(document, dict) else ()
        return [name for name in names if isinstance(name, str)]
    return []


class _Makefile:
    """A makefile, read line by line."""

    def __init__(self, given: Mapping[str, str], known: Mapping[str, str]) -> None:
        self._given, self._known = given, known
        self._values: dict[str, str | None] = {"MAKE": "make"}
        self._names: list[str] = []
        self._depth = 0
        self.recipes: dict[str, tuple[list[str], list[str]]] = {}
        self.first = ""

    def read(self, line: str) -> None:
        """Read one line, whose continuations are joined."""
        if line.startswith("\t"):
            for name in self._names:
                self.recipes[name][1].append(self._fill(line.strip().lstrip("@+- ")))
        elif _CONDITION.match(line):
            self._depth += 1
        elif line.strip() == "endif":
            self._depth -= 1
        elif match := _SETS.match(line):
            self._set(match[1], match[2], self._fill(match[3].partition(" #")[0].strip()))
        elif match := _HEADER.match(line):
            self._begin(self._fill(match[1]).split(), self._fill(match[2]).split(), match[3])

    def _set(self, name: str, sign: str, value: str) -> None:
        if sign == "?=":
            if name in self._values:
                return
            value = self._known.get(name, value)
        elif sign == "+=":
            before = self._values.get(name, "")
            value = UNKNOWN if before is None else f"{before} {value}".strip()
        # What a branch of a condition sets is known only if it was the value before.
        self._values[name] = None if self._depth and self._values.get(name) != value else value

    def _begin(self, names: list[str], needs: list[str], line: str | None) -> None:
        self._names = names[:_MAX_TARGETS]
        for name in self._names:
            needed, body = self.recipes.setdefault(name, ([], []))
            needed.extend(need for need in needs if need != "|")
            body.extend([self._fill(line.strip())] if line else [])
        targets = (name for name in names if not name.startswith(".") and "%" not in name)
        self.first = self.first or next(targets, "")

    def _fill(self, line: str) -> str:
        def value(match: "re.Match[str]") -> str:
            if match[3]:
                return "$"
            name = match[1] or match[2]
            found = self._given.get(name, self._values.get(name))
            return UNKNOWN if found is None or len(found) > _MAX_VALUE else found

        return _MAKE_VARIABLE.sub(value, line)


def _read_makefile(text: str, call: Call, known: Mapping[str, str]) -> _Recipes:
    makefile = _Makefile(call.variables, known)
    for line in text.replace("\r", "").replace("\\\n", " ").split("\n"):
        makefile.read(line)
    return makefile.recipes, makefile.first


def _read_justfile(text: str, call: Call, known: Mapping[str, str]) -> _Recipes:  # noqa: ARG001 - as make's
    values: dict[str, str] = {}
    parameters: dict[str, str] = {}
    recipes: dict[str, tuple[list[str], list[str]]] = {}
    first, body = "", list[str]()
    for line in text.replace("\r", "").replace("\\\n", " ").split("\n"):
        if line[:1] in {" ", "\t"}:
            body.append(_in_braces(line.strip().lstrip("@-"), {**values, **call.variables, **parameters}))
        elif match := _JUST_SETS.match(line):
            values[match[1]] = match[2] if match[2] is not None else match[3]
        elif match := _JUST_HEADER.match(line):
            needs = re.findall(r"[A-Za-z_][\w-]*", match[7].replace("&&", " "))
            parameters, body = _parameters(match[1], match[2], call), []
            recipes[match[1]] = (needs, body)
            first = first or match[1]
        elif line.strip() and not line.startswith("#"):
            body = []
    return recipes, first


def _parameters(name: str, header: str, call: Call) -> dict[str, str]:
    """The parameters of a recipe of just: the words after its name, or their defaults; none that is unknown.

    >>> _parameters("train", ' nodes per_node="4"', call_of(["just", "train", "2"]))
    {'nodes': '2', 'per_node': '4'}
    """
    words = call.targets[call.targets.index(name) + 1 :] if name in call.targets else ()
    values = {}
    for at, match in enumerate(re.finditer(_JUST_PARAMETER, header)):
        default = next((value for value in match.groups()[1:] if value is not None), None)
        value = words[at] if at < len(words) else default
        if value is not None:
            values[match[1]] = value
    return values


def _read_taskfile(text: str, call: Call, known: Mapping[str, str]) -> _Recipes:  # noqa: ARG001 - as make's
    try:
        document = safe_yaml.loads(text)
    except safe_yaml.YamlError:
        return {}, ""
    tasks = document.get("tasks") if isinstance(document, dict) else None
    values = _texts(document.get("vars")) if isinstance(document, dict) else {}
    recipes: dict[str, tuple[list[str], list[str]]] = {}
    for name, task in (tasks if isinstance(tasks, dict) else {}).items():
        entry = task if isinstance(task, dict) else {"cmds": task}
        own = {**values, **_texts(entry.get("vars")), **call.variables}
        needs = [word for word in _items(entry.get("deps")) if isinstance(word, str)]
        lines = []
        for command in _items(entry.get("cmds", entry.get("cmd"))):
            line = command.get("cmd") if isinstance(command, dict) else command
            if isinstance(line, str):
                lines.append(_in_braces(line, own))
            elif isinstance(command, dict) and isinstance(command.get("task"), str):
                needs.append(command["task"])
        recipes[str(name)] = (needs, lines)
    return recipes, "default" if "default" in recipes else ""


def _texts(values: object) -> dict[str, str]:
    mapping = values if isinstance(values, dict) else {}
    return {str(name): str(value) for name, value in mapping.items() if isinstance(value, str | int)}


def _items(value: object) -> Iterator[object]:
    yield from value if isinstance(value, list) else () if value is None else (value,)


def _in_braces(line: str, values: Mapping[str, str]) -> str:
    """A line with the variables of just or Task filled in."""

    def value(match: "re.Match[str]") -> str:
        found = values.get(match[1], UNKNOWN) if match[1] else UNKNOWN
        return found if len(found) <= _MAX_VALUE else UNKNOWN

    return _BRACES.sub(value, line)


_READERS: Mapping[str, Callable[[str, Call, Mapping[str, str]], _Recipes]] = {
    "make": _read_makefile,
    "gmake": _read_makefile,
    "just": _read_justfile,
    "task": _read_taskfile,
    "go-task": _read_taskfile,
}
