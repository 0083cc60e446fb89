"""The programs that a job's command starts, as far as its words tell."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from launcher.agent.command_line import script_of_shell
from launcher.model.record import record

_OPERATORS = frozenset("();<>|&\n")
_KEYWORDS = frozenset(
    ["if", "then", "else", "elif", "fi", "while", "until", "for", "do", "done", "case", "esac", "!", "{", "}"]
)
_BEFORE_A_PROGRAM = frozenset({"exec", "nohup", "time", "command", "sudo", "uv", "run", "poetry", "nice", "setsid"})
"""Words that precede a program and start nothing else on the chips."""
_WRAPPERS = frozenset(
    [
        *("conda", "nice", "poetry", "sudo", "time", "uv"),
        *("chrt", "gdb", "ionice", "ncu", "neuron_parallel_compile", "neuron-profile", "nsys", "numactl", "prlimit"),
        *("py-spy", "rocprof", "stdbuf", "strace", "taskset", "timeout", "unbuffer"),
    ]
)
"""Programs that run another one behind options of their own."""
_STARTER = re.compile(
    r"(python|pypy)[0-9.]*|torchrun|tune|accelerate|deepspeed|mpirun|mpiexec|composer|bash|sh|[\w.-]+\.(py|sh)"
)
"""What a wrapper runs, as far as it is recognised among the wrapper's own options."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SUBSTITUTED = re.compile(r"\$\(\([^()]*(?:\([^()]*\)[^()]*)*\)\)|\$\([^()]*\)|`[^`]*`")
UNKNOWN = "$?"
"""A word that only the shell knows."""


@record
class Program:
    """One program that a command starts: its words, and the variables set for it alone; `where` names the file."""

    words: tuple[str, ...]
    variables: Mapping[str, str]
    where: str = "run.command"

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
        return programs_in(text, where)
    program = _program(list(command), where)
    if program is None:
        return ()
    return programs_of(program.words, where) if script_of_shell(program.words) is not None else (program,)


def programs_in(text: str, where: str) -> tuple[Program, ...]:
    r"""The programs that a shell text starts; none if it has here-documents or is no valid text.

    >>> programs_in("export A=1\ntimeout 9h torchrun a.py", "run.command")[1]
    Program(words=('torchrun', 'a.py'), variables={'A': '1'}, where='run.command')
    """
    if "<<" in text:
        return ()
    text = _SUBSTITUTED.sub(UNKNOWN, text.replace("\\\n", " "))
    exported: dict[str, str] = {}
    programs = []
    for line in text.split("\n"):
        for program in _in_line(line, where):
            programs.append(replace(program, variables={**exported, **program.variables}))
            exported |= exported_by(program)
            if program.name == "unset":
                exported = {name: value for name, value in exported.items() if name not in program.words}
    return tuple(programs)


def exported_by(program: Program) -> dict[str, str]:
    """The variables that a program sets for those after it: `export A=1`."""
    if program.name != "export":
        return {}
    return {name: value for name, equals, value in (word.partition("=") for word in program.words[1:]) if equals}


def _in_line(line: str, where: str) -> Iterator[Program]:
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
            program = _program(words, where)
            if program is not None:
                inner = script_of_shell(program.words)
                yield from programs_in(inner, where) if inner is not None else (program,)
            words = []
        elif redirected:
            redirected = False
        else:
            words.append(token)


def _program(words: list[str], where: str) -> Program | None:
    variables: dict[str, str] = {}
    at = 0
    while at < len(words):
        word = words[at]
        if _ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            variables[name] = value
        elif word.rpartition("/")[2] in _WRAPPERS and (inner := _wrapped(words, at)) > at:
            at = inner
            break
        elif word in {"srun", "env"}:
            while at + 1 < len(words) and words[at + 1].startswith("-"):
                at += 1
        elif word not in _KEYWORDS and word not in _BEFORE_A_PROGRAM:
            break
        at += 1
    return Program(words=tuple(words[at:]), variables=variables, where=where) if at < len(words) else None


def _wrapped(words: Sequence[str], at: int) -> int:
    """The index of the program that a wrapper runs, behind the wrapper's options; of the wrapper itself if unknown."""
    inner = (index for index in range(at + 1, len(words)) if _STARTER.fullmatch(words[index].rpartition("/")[2]))
    return next(inner, at)
