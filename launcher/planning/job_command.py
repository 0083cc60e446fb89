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
_BY_NODES = "nodes"
_BRANCHES = frozenset({"then", "else", "elif", "case", "function", _BY_NODES})
_OPENING = {"if": "if", "case": "case", "for": "for", "select": "for", "until": "while", "while": "while", "{": "{"}
_CLOSING = frozenset({"fi", "esac", "done", "}"})
"""Blocks of a shell: those of which one part runs, and the words that begin and end each."""
_TESTS = frozenset({"[", "[[", "test", "which", "type", "grep", "nvidia-smi", "neuron-ls", "false"})
"""Programs before `&&` whose exit code is a question, not a failure."""
_NODES = r"(?i)NODES|NUM_MACHINES|WORLD_SIZE"
"""Variables with the number of nodes: a script that asks for it has a branch for every number."""
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
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_SUBSTITUTED = r"\$\(\([^()]*(?:\([^()]*\)[^()]*)*\)\)|\$\([^()]*\)|`[^`]*`"
_MAX_NESTED = 5
"""Substitutions inside each other that are read."""
UNKNOWN = "$?"
"""A word that only the shell knows."""
OWN_FOLDER = "$?folder"
"""The folder of the script itself: `$(dirname "$0")`."""
_OWN_SCRIPT = "$?script"
_IN_OWN_FOLDER = r"\$\?folder[\w./-]*"
_NAMES_SCRIPT = r"\$\{?(?:0\b|BASH_SOURCE\b)|\$\?script"
_HERE_DOCUMENT = r"(?s)<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n(?:.*?\n)??[ \t]*\2[ \t]*(?=\n|$)"
_ARRAY = r"\b([A-Za-z_]\w*\+?)=\(([^()']*)\)"
_REFERENCE = r"\$(?:\{(\w+|[@*])(?:\[[@*]\]|:?-([^{}]*))?\}|(\d|[A-Za-z_]\w*|[@*]))"
_FUNCTION = re.compile(
    r"(?:^|(?<=[\n;&|]))[ \t]*(?:function[ \t]+([\w:.-]+)[ \t]*(?:\([ \t]*\))?|([\w:.-]+)[ \t]*\([ \t]*\))\s*\{(?=\s)"
)
_BRACE = re.compile(r"(?:(?<=[\s;])|^)[{}](?=[\s;&|)]|$)")
_WORD = r"(?<![\w./:=-])[\w:.-]+(?![\w./:=(-])"
_MAX_CALLS = 200
_MAX_ARGUMENTS = 1000
"""Calls of functions that are read in one text, and words of each: functions may call each other without end."""
_MAX_SUBSHELLS = 100
_MAX_OPEN = 100
_MAX_VALUE = 4096
_MAX_VALUES = 16
"""Subshells of one text whose variables are kept apart, blocks and folders inside each other, characters of a known
value, and values of a variable."""
_SETS_VARIABLES = frozenset({"declare", "local", "readonly", "typeset"})
_ALL_EXPORTED = r"-[a-z]*a[a-z]*|allexport"
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
    """One program that a command starts."""

    words: tuple[str, ...]
    # Set for it alone, or exported before.
    variables: Mapping[str, str]
    # The file or key that names it.
    where: str = "run.command"
    # The words before it, such as those of a wrapper.
    before: tuple[str, ...] = ()
    # The texts of files that its words name, where the job's folder has them.
    files: tuple[tuple[str, str], ...] = ()
    # The values of each variable in its words that the text sets more than once, as in both branches of a condition.
    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    # The word of the shell that decides whether it runs or may fail, such as `then` or `||`; empty without one.
    condition: str = ""
    # The folders of the `cd` before it.
    entered: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name without the folder."""
        return self.words[0].rpartition("/")[2]

    @property
    def srun(self) -> tuple[str, ...]:
        """The words of the Slurm step around it."""
        return self.before[self.before.index("srun") :] if "srun" in self.before else ()

    @property
    def in_branch(self) -> bool:
        """Whether it is in one branch of a condition."""
        return self.condition in _BRANCHES

    @property
    def for_its_nodes(self) -> bool:
        """Whether it is in the branch for one number of nodes."""
        return self.condition == _BY_NODES

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
    if script_of_shell(program.words) is None:
        return (program,)
    return tuple(_inside(program, inner) for inner in programs_of(program.words, where))


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
    text = re.sub(_HERE_DOCUMENT, r"\3", text.replace("<<<", " "))
    text = text.replace("\\\n", " ")
    for _ in range(_MAX_NESTED):
        text = re.sub(_SUBSTITUTED, _substitute, text)
    text, functions = _without_functions(re.sub(_ARRAY, _as_assignment, text))
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


def _substitute(substitution: "re.Match[str]") -> str:
    """What a substitution becomes: a path in the script's own folder, or an unknown word."""
    folder = re.search(_IN_OWN_FOLDER, substitution[0])
    if folder is not None:
        return f"{folder[0]}/.." if "dirname" in substitution[0] else folder[0]
    if re.search(_NAMES_SCRIPT, substitution[0]):
        return OWN_FOLDER if "dirname" in substitution[0] else _OWN_SCRIPT
    return UNKNOWN


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
        names = bodies.keys() & set(re.findall(_WORD, pending.pop())) - called
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
    space = " " if array[1].endswith("+") else ""
    return f"{array[1]}='{space}{' '.join(' '.join(lines).split())}'"


def _fill_in(word: str, values: Mapping[str, str | None]) -> list[str]:
    """A word with known variables filled in; a word that is one variable becomes several, as without quotes."""

    def value(match: "re.Match[str]") -> str:
        name = match[1] or match[3]
        if name in values:
            known = values[name]
            return match[0] if known is None else known
        return match[0] if match[2] is None or name.startswith(_SET_ON_NODES) else match[2]

    filled = re.sub(_REFERENCE, value, word)
    return filled.split() if re.fullmatch(_REFERENCE, word) and filled != word else [filled]


class _Values(dict[str, str | None]):
    """The values of a text's variables; None for one to which the text gives several.

    Attributes:
        functions: the bodies of the text's functions.
        arguments: the words of the text's own call, or of the function's that is being read; None if unknown.
        exported: the variables that the programs after it get.
        all_exported: whether every variable is exported (`set -a`).
        entered: the folders of the `cd` so far.
        blocks: the blocks that are open, each by the word that decides whether it runs.
        calls: the number of calls of functions that were read.
    """

    def __init__(self, known: Mapping[str, str], functions: dict[str, str]) -> None:
        super().__init__(known)
        self._all = {name: [value] for name, value in known.items()}
        self.functions = functions
        self.arguments: tuple[str, ...] | None = None
        self.exported: dict[str, str] = {}
        self.all_exported = False
        self.entered: tuple[str, ...] = ()
        self.calls = 0
        self.blocks: list[str] = []
        # The variables, their values, the exported ones and the folder before each subshell that is open.
        self._outer: list[tuple[dict[str, str | None], dict[str, list[str]], dict[str, str], tuple[str, ...]]] = []
        self._subshells = 0
        self._guard = self._last = ""

    @property
    def condition(self) -> str:
        """The word that decides whether the next program runs; "" if it always does."""
        blocks = [block for block in self.blocks if block != "{"]
        return next((block for block in blocks if block in _BRANCHES), (blocks or [self._guard])[-1])

    def begin(self, words: Sequence[str]) -> None:
        """Note the blocks that the words of one command begin and end."""
        if not words:
            return
        for word in words:
            if word in _OPENING and len(self.blocks) < _MAX_OPEN:
                self.blocks.append("function" if self._last == "()" else _OPENING[word])
            elif word in _CLOSING:
                del self.blocks[-1:]
            elif word in {"then", "else", "elif"} and self.blocks:
                self.blocks[-1] = word if self.blocks[-1] != _BY_NODES else _BY_NODES
            elif word not in _KEYWORDS:
                break
            self._last = word
        if self.blocks[-1:] in (["if"], ["elif"], ["case"]) and re.search(_NODES, " ".join(words)):
            self.blocks[-1] = _BY_NODES
        if words[0] == "function" and words[-1] == "{":
            self.blocks.append("function")
        elif words[0] in {"for", "select"} and len(words) > 1:
            self.forget(words[1])
        self._last = next((word for word in words if word not in _KEYWORDS), "")

    def end(self, operator: str) -> None:
        """Note what follows a command."""
        if operator == "||" or (operator == "&&" and self._last in _TESTS):
            self._guard = operator
        elif operator.startswith((";", "&")) and operator != "&&":
            self._guard = ""
        for sign in operator:
            if sign == "(" and self._subshells < _MAX_SUBSHELLS:
                self._subshells += 1
                state = (dict(self), {name: [*values] for name, values in self._all.items()}, {**self.exported})
                self._outer.append((*state, self.entered))
            elif sign == ")" and self._outer:
                variables, self._all, self.exported, self.entered = self._outer.pop()
                self.clear()
                self |= variables
        if operator == "()":
            self._last = operator

    def forget(self, name: str) -> None:
        """Note that only the shell knows a variable."""
        self._all[name], self[name] = [UNKNOWN, f"${name}"], None

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
        """Note the value of a variable, or one more where a condition decides; `NAME+` adds to the value."""
        if name.endswith("+"):
            name, before = name[:-1], self._all.get(name[:-1], [""])
            values = [old + value for old in before]
        else:
            values = [value]
        seen = self._all.get(name, []) if self.condition else []
        values = list(dict.fromkeys([*seen, *values]))
        too_many = len(values) > _MAX_VALUES or any(len(each) > _MAX_VALUE for each in values)
        self._all[name] = [UNKNOWN] if too_many or self.condition == _BY_NODES else values
        self[name] = self._all[name][0] if len(self._all[name]) == 1 else None

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
        elif name == "set" and any(re.fullmatch(_ALL_EXPORTED, word) for word in words):
            self.all_exported = "+o" not in words
        elif name == "set" and "+a" in words:
            self.all_exported = False
        elif name == "read":
            for variable in filter(str.isidentifier, words):
                self.forget(variable)
        elif name == "cd" and len(words) == 1:
            before = () if words[0].startswith(("/", OWN_FOLDER)) else self.entered
            self.entered = (*before, words[0]) if len(before) < _MAX_OPEN else (UNKNOWN,)

    def choices_in(self, words: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The values of the variables in some words that have several, unless the shell alone knows one of them."""
        names = [match[1] or match[3] for word in words for match in re.finditer(_REFERENCE, word)]
        for name in dict.fromkeys(names):
            values = self._all.get(name, [])
            if len(values) > 1 and not any("$" in value for value in values):
                yield name, tuple(values)


def with_value(program: Program, name: str, value: str) -> Program:
    """A program with one value of a variable that has several.

    >>> with_value(Program(words=("torchrun", "$X", "--n=$N"), variables={}), "X", "--a 1").words
    ('torchrun', '--a', '1', '--n=$N')
    """
    words = tuple(part for word in program.words for part in _fill_in(word, {name: value}))
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
        parts = list(lexer)
    except ValueError:
        return
    # A line that ends with `&&` or `||` goes on in the next one.
    parts.append("|" if parts[-1:] in (["&&"], ["||"], ["|"]) else ";")
    redirected = False
    for part in parts:
        if part and _OPERATORS.issuperset(part):
            redirected = part[-1] in "<>" or (part[0] in "<>" and part[-1] == "&")
            if redirected:
                if words and words[-1].isdecimal():
                    words.pop()
                continue
            values.begin(words)
            words = [one for word in words for one in _fill_in(word, values)]
            program = _program(words, where, values.functions)
            if program is not None:
                condition = values.condition or ("if" if part == "||" else "")
                placed = replace(program, condition=condition, entered=values.entered)
                yield from _run_in_shell(placed, where, values)
            else:
                for name, equals, value in (word.partition("=") for word in words if _ASSIGNMENT.match(word)):
                    values.assign(name, value if equals else "")
                    if values.all_exported:
                        values.exported[name] = value
            values.end(part)
            words = []
        elif redirected:
            redirected = False
        else:
            words.append(part)


def _run_in_shell(program: Program, where: str, values: _Values) -> Iterator[Program]:
    """A program of a text, or what the shell or the function starts that it is; its effects are added to `values`."""
    name, words = program.words[0], program.words[1:]
    if name in values.functions and values.calls < _MAX_CALLS and len(words) <= _MAX_ARGUMENTS:
        values.calls += 1
        body, outer, depth = values.functions.pop(name), values.arguments, len(values.blocks)
        values.blocks.append(values.condition or "{")
        values.give(words)
        for line in body.split("\n"):
            for inner in _in_line(line, where, values):
                yield replace(inner, variables={**program.variables, **inner.variables})
        values.give(outer)
        values.functions[name] = body
        del values.blocks[depth:]
        return
    values.apply(program)
    if name == "eval" and values.calls < _MAX_CALLS:
        values.calls += 1
        for line in " ".join(words).split("\n"):
            yield from _in_line(line, where, values)
        return
    inner_text = script_of_shell(program.words)
    if inner_text is None:
        yield program
        return
    known = {name: value for name, value in values.items() if value is not None and name.isidentifier()}
    for inner in programs_in(inner_text, where, known, arguments_of_shell(program.words)):
        yield _inside(program, inner)


def _inside(shell: Program, inner: Program) -> Program:
    """A program that a shell starts, with what is around the shell."""
    return replace(
        inner,
        before=(*shell.before, *inner.before),
        condition=shell.condition or inner.condition,
        entered=(*shell.entered, *inner.entered),
    )


def _program(words: list[str], where: str, functions: Container[str] = ()) -> Program | None:
    variables: dict[str, str] = {}
    at = 0
    while at < len(words):
        word = words[at]
        if _ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            variables[name] = value
        elif word in functions or (word.rpartition("/")[2] in _WRAPPERS and _program_index(words, at) > at):
            at = at if word in functions else _program_index(words, at)
            break
        elif word in {"srun", "env"}:
            inner = _program_index(words, at)
            if word == "srun" and inner > at:
                at = inner
                break
            while at + 1 < len(words) and words[at + 1].startswith("-"):
                at += 1
        elif word not in _KEYWORDS and word not in _BEFORE_A_PROGRAM:
            break
        at += 1
    if at >= len(words):
        return None
    return Program(words=tuple(words[at:]), variables=variables, where=where, before=tuple(words[:at]))


def _program_index(words: Sequence[str], at: int) -> int:
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
    return any(word.endswith(".py") and word.rpartition("/")[2] != "setup.py" for word in words)
