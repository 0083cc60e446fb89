"""The programs that a job's command starts, as far as its words tell."""

import re
import shlex
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType

from launcher.agent.command_line import arguments_of_shell, script_of_shell
from launcher.model.record import record

_OPERATORS = frozenset("();<>|&\n")
_KEYWORDS = frozenset(
    ["if", "then", "else", "elif", "fi", "while", "until", "for", "do", "done", "case", "esac", "!", "{", "}"]
)
_BEFORE_A_PROGRAM = frozenset({"exec", "nohup", "time", "command", "sudo", "uv", "run", "poetry", "nice", "setsid"})
"""Words that precede a program and start nothing else on the chips."""
_WRAPPERS = frozenset(
    [
        *(
            "apptainer",
            "conda",
            "docker",
            "dotenv",
            "enroot",
            "nice",
            "podman",
            "poetry",
            "singularity",
            "sudo",
            "time",
            "uv",
        ),
        *("chrt", "gdb", "ionice", "ncu", "neuron_parallel_compile", "neuron-profile", "nsys", "numactl", "prlimit"),
        *("py-spy", "rocprof", "stdbuf", "strace", "taskset", "timeout", "unbuffer"),
    ]
)
"""Programs that run another one behind options of their own."""
STARTER = re.compile(
    r"(python|pypy)[0-9.]*|torchrun|tune|accelerate|deepspeed|mpirun|mpiexec(\.hydra)?|composer|horovodrun|colossalai"
    r"|fabric|lightning|llamafactory-cli|axolotl|bash|sh|[\w.-]+\.(py|sh)"
)
"""What a wrapper runs, as far as it is recognised among the wrapper's own options."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SUBSTITUTED = re.compile(r"\$\(\([^()]*(?:\([^()]*\)[^()]*)*\)\)|\$\([^()]*\)|`[^`]*`")
UNKNOWN = "$?"
"""A word that only the shell knows."""
_HERE_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n(?:.*?\n)??[ \t]*\2[ \t]*(?=\n|$)", re.DOTALL)
_ARRAY = re.compile(r"\b([A-Za-z_]\w*)=\(([^()']*)\)")
_REFERENCE = re.compile(r"\$(?:\{(\w+|[@*])(?:\[[@*]\]|:?-([^{}]*))?\}|(\d|[A-Za-z_]\w*|[@*]))")
_FUNCTION = re.compile(
    r"(?:^|(?<=[\n;&|]))[ \t]*(?:function[ \t]+([\w:.-]+)[ \t]*(?:\([ \t]*\))?|([\w:.-]+)[ \t]*\([ \t]*\))\s*\{(?=\s)"
)
_BRACE = re.compile(r"(?:(?<=[\s;])|^)[{}](?=[\s;&|)]|$)")
_WORD = re.compile(r"(?<![\w./:=-])[\w:.-]+(?![\w./:=(-])")
_MAX_CALLS = 200
_MAX_ARGUMENTS = 1000
"""Calls of functions that are read in one text, and words of each: functions may call each other without end."""
_SETS_VARIABLES = frozenset({"declare", "local", "readonly", "typeset"})
_ALL_EXPORTED = re.compile(r"-[a-z]*a[a-z]*|allexport")
_SET_ON_NODES = ("SLIPWAY_", "SLURM_", "PET_", "MASTER_", "HOST", "HOME", "PWD", "USER")
"""Beginnings of the variables that a node has: the default of `${SLURM_NNODES:-1}` does not hold."""
PYTHON = ("python", "python3", "pypy3")
"""The beginnings of the names of Python's programs."""
MODULES: Mapping[str, str] = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "composer.cli.launcher": "composer",
    "llamafactory.cli": "llamafactory-cli",
}
"""Launchers that Python runs as modules."""
CODE, TOO_MANY = WASTE = ("chips-idle", "more-than-paid")
"""The codes of findings on chips without work, and on processes without chips."""


EMPTY: Mapping[str, str] = MappingProxyType({})


@record
class Program:
    """One program that a command starts.

    `variables` are set for it alone or were exported before; `where` names the file or key; `srun` has the words of a
    Slurm step around it; `files` the texts of files that its words name, where the job's folder has them; `choices` the
    values of each variable in its words that the text sets more than once, as in both branches of a condition.
    """

    words: tuple[str, ...]
    variables: Mapping[str, str]
    where: str = "run.command"
    srun: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def name(self) -> str:
        """Its name without the folder."""
        return self.words[0].rpartition("/")[2]

    @property
    def text(self) -> str:
        """Its words, shortened for a message."""
        line = " ".join(self.words)
        return line if len(line) <= 60 else line[:57] + "..."  # noqa: PLR2004 - fits a line with the rest of it


def programs_of(command: Sequence[str], where: str = "run.command") -> tuple[Program, ...]:
    """The programs that a list of words, or the text that it hands to a shell, starts in this order.

    >>> [program.words for program in programs_of(["torchrun", "train.py"])]
    [('torchrun', 'train.py')]
    >>> text = "cd src && CUDA_VISIBLE_DEVICES=0 exec python a.py | tee log; (accelerate launch b.py)"
    >>> [(" ".join(program.words), *program.variables) for program in programs_of(["bash", "-c", text])]
    [('cd src',), ('python a.py', 'CUDA_VISIBLE_DEVICES'), ('tee log',), ('accelerate launch b.py',)]
    """
    text = script_of_shell(command)
    if text is not None:
        return programs_in(text, where, arguments=arguments_of_shell(command))
    program = _program(list(command), where)
    if program is None:
        return ()
    return programs_of(program.words, where) if script_of_shell(program.words) is not None else (program,)


def programs_in(
    text: str, where: str, known: Mapping[str, str] = EMPTY, arguments: Sequence[str] | None = None
) -> tuple[Program, ...]:
    r"""The programs that a shell text starts, with its own variables and those that are known filled in.

    A variable that has two values in the text stays a reference. `arguments` are the text's own words (`$1`), None if
    they are unknown.

    >>> programs_in("export A=1\ntimeout 9h torchrun a.py", "run.command")[1].variables
    {'A': '1'}
    >>> [program.words for program in programs_in("N=4\nARGS=(\n --n $N\n)\ntorchrun ${ARGS[@]} ${B:-a.py}", "")]
    [('torchrun', '--n', '4', 'a.py')]
    >>> [program.words for program in programs_in('run() { local n=$1; shift; torchrun --n $n "$@"; }; run 4 a.py', "")]
    [('local', 'n=4'), ('shift',), ('torchrun', '--n', '4', 'a.py')]
    """
    text = _HERE_DOCUMENT.sub(r"\3", text.replace("<<<", " "))
    text = _SUBSTITUTED.sub(UNKNOWN, text.replace("\\\n", " "))
    text, functions = _without_functions(_ARRAY.sub(_as_assignment, text))
    values = _Values(known, functions)
    if arguments is not None:
        values.give(arguments)
    programs = []
    for line in text.split("\n"):
        for program in _in_line(line, where, values):
            variables, choices = {**values.exported, **program.variables}, values.choices_in(program.words)
            programs.append(replace(program, variables=variables, choices=(*program.choices, *choices)))
            values.exported |= exported_by(program)
            if program.name == "unset":
                for name in program.words[1:]:
                    values.exported.pop(name, None)
    return tuple(programs)


def _without_functions(text: str) -> tuple[str, dict[str, str]]:
    r"""A text without the functions that it calls by their names, and the bodies of these.

    >>> _without_functions("run() { a $1; }; run 1\nfunction go {\n  b\n}\n")
    ('; run 1\nfunction go {\n  b\n}\n', {'run': ' a $1; '})
    """
    found = list(_functions(text))
    bodies = {name: body for name, body, _ in found}
    called: set[str] = set()
    pending = [_between(text, [span for _, _, span in found])]
    while pending:
        names = bodies.keys() & set(_WORD.findall(pending.pop())) - called
        called |= names
        pending += [bodies[name] for name in names]
    rest = _between(text, [span for name, _, span in found if name in called])
    return rest, {name: bodies[name] for name in called}


def _functions(text: str) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """The functions of a text: name, body, and where; none after one whose end is not found."""
    at = 0
    while (match := _FUNCTION.search(text, at)) is not None:
        depth, end = 1, None
        for brace in _BRACE.finditer(text, match.end()):
            depth += 1 if brace[0] == "{" else -1
            if not depth:
                end = brace
                break
        if end is None:
            return
        yield match[1] or match[2], text[match.end() : end.start()], (match.start(), end.end())
        at = end.end()


def _between(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """A text without some parts."""
    ends = [0, *(end for _, end in spans)]
    begins = [*(begin for begin, _ in spans), len(text)]
    return "".join(text[end:begin] for end, begin in zip(ends, begins, strict=True))


def _as_assignment(array: "re.Match[str]") -> str:
    """An array as one text: its words, without comments and double quotes."""
    lines = (re.sub(r"(^|\s)#.*", " ", line) for line in array[2].replace('"', "").split("\n"))
    return f"{array[1]}='{' '.join(' '.join(lines).split())}'"


def _filled(word: str, values: Mapping[str, str | None]) -> list[str]:
    """A word with known variables filled in; a word that is one variable becomes several, as without quotes."""

    def value(match: "re.Match[str]") -> str:
        name = match[1] or match[3]
        if name in values:
            known = values[name]
            return match[0] if known is None else known
        return match[0] if match[2] is None or name.startswith(_SET_ON_NODES) else match[2]

    filled = _REFERENCE.sub(value, word)
    return filled.split() if _REFERENCE.fullmatch(word) and filled != word else [filled]


class _Values(dict[str, str | None]):
    """The values of a text's variables; None for one to which the text gives several.

    Attributes:
        functions: the bodies of the text's functions.
        arguments: the words of the text's own call, or of the function's that is being read; None if unknown.
        exported: the variables that the programs after it get.
        all_exported: whether every variable is exported (`set -a`).
        calls: the number of calls of functions that were read.
    """

    def __init__(self, known: Mapping[str, str], functions: dict[str, str]) -> None:
        super().__init__(known)
        self._all = {name: [value] for name, value in known.items()}
        self.functions = functions
        self.arguments: tuple[str, ...] | None = None
        self.exported: dict[str, str] = {}
        self.all_exported = False
        self.calls = 0

    def give(self, arguments: Sequence[str] | None) -> None:
        """Set the positional parameters."""
        for number in range(1, len(self.arguments or ()) + 1):
            self.pop(str(number), None)
        for name in "@*":
            self.pop(name, None)
        self.arguments = None if arguments is None else tuple(arguments)
        if arguments is not None:
            self |= {str(number): word for number, word in enumerate(arguments, start=1)}
            self |= dict.fromkeys("@*", " ".join(arguments))

    def assign(self, name: str, value: str) -> None:
        """Note one more value."""
        seen = self._all.setdefault(name, [])
        if value not in seen:
            seen.append(value)
        self[name] = value if len(seen) == 1 else None

    def apply(self, program: Program) -> None:
        """Note what a builtin of the shell changes."""
        name, words = program.words[0], program.words[1:]
        for variable, value in exported_by(program).items():
            self.assign(variable, value)
        if name in _SETS_VARIABLES:
            self |= {variable: value for variable, equals, value in (word.partition("=") for word in words) if equals}
        elif name == "shift" and self.arguments is not None:
            self.give(self.arguments[int(words[0]) if words and words[0].isdecimal() else 1 :])
        elif name == "set" and "--" in words:
            self.give(words[words.index("--") + 1 :])
        elif name == "set" and any(map(_ALL_EXPORTED.fullmatch, words)):
            self.all_exported = "+o" not in words
        elif name == "set" and "+a" in words:
            self.all_exported = False

    def choices_in(self, words: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The values of the variables in some words that have several, unless the shell alone knows one of them."""
        names = [match[1] or match[3] for word in words for match in _REFERENCE.finditer(word)]
        for name in dict.fromkeys(names):
            values = self._all.get(name, [])
            if len(values) > 1 and not any("$" in value for value in values):
                yield name, tuple(values)


def chosen(program: Program, name: str, value: str) -> Program:
    """A program with one value of a variable that has several.

    >>> chosen(Program(words=("torchrun", "$X", "--n=$N"), variables={}), "X", "--a 1").words
    ('torchrun', '--a', '1', '--n=$N')
    """
    words = tuple(part for word in program.words for part in _filled(word, {name: value}))
    return replace(program, words=words)


def exported_by(program: Program) -> dict[str, str]:
    """The variables that a program sets for those after it: `export A=1`."""
    if program.name != "export":
        return {}
    return {name: value for name, equals, value in (word.partition("=") for word in program.words[1:]) if equals}


def _in_line(line: str, where: str, values: _Values) -> Iterator[Program]:
    """The programs of one line; its assignments are added to `values`."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    try:
        tokens = [*lexer, ";"]
    except ValueError:
        return
    redirected = False
    for token in tokens:
        if token and _OPERATORS.issuperset(token):
            redirected = token[-1] in "<>" or (token[0] in "<>" and token[-1] == "&")
            if redirected:
                if words and words[-1].isdecimal():
                    words.pop()
                continue
            words = [part for word in words for part in _filled(word, values)]
            program = _program(words, where, values.functions)
            if program is not None:
                yield from _run_in_shell(program, where, values)
            else:
                for name, equals, value in (word.partition("=") for word in words if _ASSIGNMENT.match(word)):
                    values.assign(name, value if equals else "")
                    if values.all_exported:
                        values.exported[name] = value
            words = []
        elif redirected:
            redirected = False
        else:
            words.append(token)


def _run_in_shell(program: Program, where: str, values: _Values) -> Iterator[Program]:
    """A program of a text, or what the shell or the function starts that it is; its effects are added to `values`."""
    name, words = program.words[0], program.words[1:]
    if name in values.functions and values.calls < _MAX_CALLS and len(words) <= _MAX_ARGUMENTS:
        values.calls += 1
        body, outer = values.functions.pop(name), values.arguments
        values.give(words)
        for line in body.split("\n"):
            for inner in _in_line(line, where, values):
                yield replace(inner, variables={**program.variables, **inner.variables})
        values.give(outer)
        values.functions[name] = body
        return
    values.apply(program)
    inner_text = script_of_shell(program.words)
    if inner_text is None:
        yield program
        return
    known = {name: value for name, value in values.items() if value is not None and name.isidentifier()}
    yield from programs_in(inner_text, where, known, arguments_of_shell(program.words))


def _program(words: list[str], where: str, functions: Container[str] = ()) -> Program | None:
    variables: dict[str, str] = {}
    srun: tuple[str, ...] = ()
    at = 0
    while at < len(words):
        word = words[at]
        if _ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            variables[name] = value
        elif word in functions or (word.rpartition("/")[2] in _WRAPPERS and _wrapped(words, at) > at):
            at = at if word in functions else _wrapped(words, at)
            break
        elif word in {"srun", "env"}:
            begin, inner = at, _wrapped(words, at)
            if word == "srun" and inner > at:
                srun, at = tuple(words[begin:inner]), inner
                break
            while at + 1 < len(words) and words[at + 1].startswith("-"):
                at += 1
            if word == "srun":
                srun = tuple(words[begin : at + 1])
        elif word not in _KEYWORDS and word not in _BEFORE_A_PROGRAM:
            break
        at += 1
    if at >= len(words):
        return None
    return Program(words=tuple(words[at:]), variables=variables, where=where, srun=srun)


def _wrapped(words: Sequence[str], at: int) -> int:
    """The index of the program that a wrapper runs, behind the wrapper's options; of the wrapper itself if unknown."""
    inner = (index for index in range(at + 1, len(words)) if STARTER.fullmatch(words[index].rpartition("/")[2]))
    return next(inner, at)


@record
class JobCommand:
    """The programs of a job's command, and what a trainer that Python runs without a launcher uses by itself.

    `all_chips`: it starts processes of its own, or one process uses all chips of a node. `all_nodes`: it joins the
    other nodes by itself. `spawned`: the number of processes that it starts, where its text has it.
    `packages`: the packages that its files import, beside Python's own; empty if they may use others.
    """

    programs: tuple[Program, ...] = ()
    all_chips: bool = False
    all_nodes: bool = False
    spawned: int | None = None
    packages: frozenset[str] = frozenset()


def runs_a_script(program: Program) -> bool:
    """Whether Python runs a script or a module of the user's."""
    if not program.name.startswith(PYTHON):
        return False
    words = program.words[1:]
    if "-c" in words or "-" in words:
        return False
    module = next((after for before, after in pairwise(words) if before == "-m"), None)
    if module is not None:
        return module not in MODULES and module.partition(".")[0] not in {"http", "pip", "venv", "json", "compileall"}
    return any(word.endswith(".py") for word in words)
