"""Values that only make sense once a shell has expanded them, in keys that no shell reads.

The rule: bash expands `run.command`, steps and `run.setup` where they are strings; Slipway fills in `${SLIPWAY_...}` in
lists and in `run.outputs`. All else reaches the job as it is written. A variable of `run.env` that is one word, such as
`/opt/bin:$PATH`, is refused: nothing else can be meant. Longer text, such as a template or a prompt, is only named.
"""

import re
from collections.abc import Iterator

from launcher.agent.command_line import VARIABLES, script_of_shell
from launcher.model.finding import Finding, error, warning
from launcher.model.request import PlanRequest

CODE = "not-expanded"
_HOME = r"(?:^|(?<=[:=,]))~(?:[a-z_][a-z0-9_-]*)?(?=[/:]|$)"
_WINDOWS = r"%[A-Z][A-Z0-9_]*%"
_EXPANDED = re.compile(rf"\$\{{?[A-Za-z_][A-Za-z0-9_]*\}}?|\$\(|`[^`]+`|{_HOME}|{_WINDOWS}")
"""What a shell would replace: variables, commands, and the home folder where a path may begin."""
_SURELY = re.compile(rf"\$\{{?[A-Z][A-Z0-9_]*\}}?|\$\(|`[^`]+`|{_HOME}|{_WINDOWS}")
"""The same, without lower-case names: a generated password may hold `$x`."""
_IN_PATH = re.compile(rf"{_EXPANDED.pattern}|%[AaJjNnstuxh](?![A-Za-z0-9])")
"""In paths also what sbatch replaces in the names of its own files (sbatch(1), "filename pattern")."""
_UPPER = re.compile(r"\$\{?[A-Z][A-Z0-9_]*\}?")


def unexpanded_findings(request: PlanRequest) -> Iterator[Finding]:
    """A finding for each value that reaches the job unexpanded, with the line that means what was written."""
    yield from _environment(request)
    for index, output in enumerate(request.run.results):
        fix = "a path below the job's folder, an absolute one, or one below ${SLIPWAY_CHECKPOINT_DIR}"
        yield from _path(f"run.outputs[{index}]", output.path, fix)
    places: list[tuple[str, str | None]] = [("run.workdir", request.run.workdir), ("run.image", request.run.image)]
    places.append(("checkpoint.uri", request.checkpoint.uri))
    places += [(f"run.volumes[{index}].path", volume.path) for index, volume in enumerate(request.run.volumes)]
    for index, source in enumerate(request.run.data):
        places += [(f"run.data[{index}].uri", source.uri), (f"run.data[{index}].path", source.path)]
    for path, value in places:
        yield from _path(path, value or "", "write the path out")
    commands = [("run.command", request.run.command)]
    commands += [(f"run.before[{index}].command", step.command) for index, step in enumerate(request.run.before)]
    commands += [(f"run.after[{index}].command", step.command) for index, step in enumerate(request.run.after)]
    for path, words in commands:
        yield from _list(path, words)


def _path(path: str, value: str, fix: str) -> Iterator[Finding]:
    """An error for a path with what only a shell or Slurm would replace."""
    rest = value
    for name in VARIABLES:
        rest = rest.replace(f"${{{name}}}", "") if path.startswith("run.outputs") else rest
    match = _IN_PATH.search(rest)
    if match is not None:
        yield error(CODE, path, f"{value} is taken as it is written: nothing expands {match[0]}", fix)


def _environment(request: PlanRequest) -> Iterator[Finding]:
    for name, value in request.run.env.items():
        match = _EXPANDED.search(value)
        if match is None or name in request.run.plain_env:
            continue
        message = f"{_short(value)} is taken as it is written: no shell expands {match[0]}"
        fix = _export(name, value)
        hint = f"{fix}; if it is meant as it is, run.plain_env: [{name}]"
        sure = len(value.split()) == 1 and _SURELY.search(value)
        yield (error if sure else warning)(CODE, f"run.env.{name}", message, hint)


def _export(name: str, value: str) -> str:
    """The line of `run.setup` that means what a value says; in quotes, a shell expands no `~`."""
    value = re.sub(_HOME, lambda home: "$HOME" if home[0] == "~" else home[0], value)
    if set("'\n") & set(value):
        return f"export {name} in run.setup"
    quote = "" if re.search(_HOME, value) else '"'
    return f"run.setup: ['export {name}={quote}{value}{quote}']"


def _list(path: str, words: tuple[str, ...]) -> Iterator[Finding]:
    """A warning for a list of words in which a variable stays as it is."""
    if script_of_shell(words) is not None:
        return
    for index, word in enumerate(words):
        rest = word
        for name in VARIABLES:
            rest = rest.replace(f"${{{name}}}", "")
        match = re.search(rf"^{_HOME}|(?<==){_HOME}", rest) or re.search(r"\$\(|`[^`]+`", rest) or _UPPER.search(rest)
        if match is not None and not rest.startswith("${SLIPWAY_"):
            message = f"{_short(word)} is passed as it is written: in a list, no shell expands {match[0].rstrip('/')}"
            yield warning(CODE, f"{path}[{index}]", message, "write the command as one string: bash expands it")


def _short(value: str) -> str:
    return value if len(value) <= 60 else value[:57] + "..."  # noqa: PLR2004 - fits a line with the rest of it
