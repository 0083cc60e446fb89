"""The shell text of `run.setup`: its lines, then the command in their shell.

A line that fails ends the job, with a message. Other people's scripts run as they were written: conda, Lmod and oneAPI
read variables that may be unset, and go on after a test that fails, which `set -e` would end in silence. So there is no
`set -u`, and a line that sources a file or loads a module runs without `set -e`: its own result decides.
"""

import re
import shlex
from collections.abc import Sequence

_OF_OTHERS = re.compile(
    r"\s*(?:source|\.|module|ml|eval|scl|spack|(?:micro)?mamba\s+activate|conda\s+activate|pyenv\s+shell)\s"
)
_STRICT = """set -eEo pipefail
trap 'slipway_code=$?; echo "slipway: run.setup: $BASH_COMMAND ended with $slipway_code" >&2' ERR"""


def setup_text(lines: Sequence[str]) -> str:
    """The text that bash runs, with the command as its arguments."""
    text = "\n".join(lines)
    parts, begun = [_STRICT], ""
    for line in text.split("\n"):
        whole = "<<" not in text and not begun and _is_complete(line)
        parts.extend(_as_written(line) if whole and _runs_others(line) else (line,))
        begun += f"{line}\n"
        begun = "" if _is_complete(begun) else begun
    return "\n".join((*parts, "trap - ERR; set +E", 'exec "$@"'))


def _is_complete(text: str) -> bool:
    r"""Whether a line after this text begins a command: no quote is open, and nothing continues.

    >>> _is_complete("cd src # it's here"), _is_complete("cd src && \\"), _is_complete("python -c '")
    (True, False, False)
    """
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return not text.rstrip().endswith(("\\", "&&", "|"))


def _runs_others(line: str) -> bool:
    """Whether a line only sources files and loads modules.

    >>> _runs_others("source a.sh; module load cuda"), _runs_others("source a.sh; make")
    (True, False)
    """
    return all(_OF_OTHERS.match(part) for part in line.rstrip("; ").split(";"))


def _as_written(line: str) -> tuple[str, ...]:
    """A line without the strict options, which ends the job if its own result is a failure."""
    message = shlex.quote(f"slipway: run.setup: {line.strip()} ended with")
    return (
        "trap - ERR; set +eE +o pipefail",
        line,
        f'slipway_code=$?; [ "$slipway_code" = 0 ] || {{ echo {message} "$slipway_code" >&2; exit "$slipway_code"; }}',
        _STRICT,
    )
