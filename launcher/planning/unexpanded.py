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
_EXPANDED = re.compile(r"\$\{?[A-Za-z_][A-Za-z0-9_]*\}?|\$\(|`[^`]+`|(?:^|(?<=[:=,]))~(?=[/:]|$)")
"""What a shell would replace: variables, commands, and the home folder where a path may begin."""
_SURELY = re.compile(r"\$\{?[A-Z][A-Z0-9_]*\}?|\$\(|`[^`]+`|(?:^|(?<=[:=,]))~(?=[/:]|$)")
"""The same, without lower-case names: a generated password may hold `$x`."""
_UPPER = re.compile(r"\$\{?[A-Z][A-Z0-9_]*\}?")


def unexpanded_findings(request: PlanRequest) -> Iterator[Finding]:
    """A finding for each value that reaches the job unexpanded, with the line that means what was written."""
    yield from _environment(request)
    for index, output in enumerate(request.run.results):
        rest = output.path
        for name in VARIABLES:
            rest = rest.replace(f"${{{name}}}", "")
        match = _EXPANDED.search(rest)
        if match is not None:
            message = f"{output.path} is taken as it is written: no shell expands {match[0]}"
            fix = "a path below the job's folder, an absolute one, or one below ${SLIPWAY_CHECKPOINT_DIR}"
            yield error(CODE, f"run.outputs[{index}]", message, fix)
    for index, source in enumerate(request.run.data):
        for key, value in (("uri", source.uri), ("path", source.path)):
            match = _EXPANDED.search(value)
            if match is not None:
                message = f"{value} is taken as it is written: no shell expands {match[0]}"
                yield error(CODE, f"run.data[{index}].{key}", message, "write the path out")
    commands = [("run.command", request.run.command)]
    commands += [(f"run.before[{index}].command", step.command) for index, step in enumerate(request.run.before)]
    commands += [(f"run.after[{index}].command", step.command) for index, step in enumerate(request.run.after)]
    for path, words in commands:
        yield from _list(path, words)


def _environment(request: PlanRequest) -> Iterator[Finding]:
    for name, value in request.run.env.items():
        match = _EXPANDED.search(value)
        if match is None or name in request.run.plain_env:
            continue
        message = f"{_short(value)} is taken as it is written: no shell expands {match[0]}"
        fix = (
            f"run.setup: ['export {name}=\"{value}\"']"
            if not set("'\n") & set(value)
            else f"export {name} in run.setup"
        )
        hint = f"{fix}; if it is meant as it is, run.plain_env: [{name}]"
        sure = len(value.split()) == 1 and _SURELY.search(value)
        yield (error if sure else warning)(CODE, f"run.env.{name}", message, hint)


def _list(path: str, words: tuple[str, ...]) -> Iterator[Finding]:
    """A warning for a list of words in which a variable stays as it is."""
    if script_of_shell(words) is not None:
        return
    for index, word in enumerate(words):
        rest = word
        for name in VARIABLES:
            rest = rest.replace(f"${{{name}}}", "")
        match = re.match(r"~/", rest) or _UPPER.search(rest)
        if match is not None and not rest.startswith("${SLIPWAY_"):
            message = f"{_short(word)} is passed as it is written: in a list, no shell expands {match[0].rstrip('/')}"
            yield warning(CODE, f"{path}[{index}]", message, "write the command as one string: bash expands it")


def _short(value: str) -> str:
    return value if len(value) <= 60 else value[:57] + "..."  # noqa: PLR2004 - fits a line with the rest of it
