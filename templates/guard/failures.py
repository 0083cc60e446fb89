# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The failures of a check, as text for users: the call, AWS's error, and the missing permission."""

import re
from typing import NamedTuple

from botocore.exceptions import ClientError

RIGHT = re.compile(r"not authorized to perform:? ([a-z0-9-]+:[A-Za-z0-9]+)")
"""The pattern with which AWS's services name the action in a refusal."""
LONGEST = 600
MAX_CHARACTERS = 200
"""Maximum characters of a call."""


class GuardError(Exception):
    """An incomplete check: Lambda counts it as an error of the function."""


class RefusedError(Exception):
    """A service accepted a call and refused a part of it."""


class Failure(NamedTuple):
    """One failure of a check: users are notified of each `call` once a day; `words` is the text for them."""

    call: str
    words: str


def failure_of(step: str, problem: Exception) -> Failure:
    """A failure as text.

    Args:
        step: the failed step, such as "stop its nodes".
        problem: the error.

    >>> failure_of("count its nodes", ValueError("no number"))
    Failure(call='count its nodes: ValueError', words='could not count its nodes: no number')
    """
    text = f"could not {step}: {problem}"[:LONGEST]
    if not isinstance(problem, ClientError):
        return Failure(f"{step}: {type(problem).__name__}"[:MAX_CHARACTERS], text)
    code = problem.response.get("Error", {}).get("Code", "")
    right = RIGHT.search(str(problem))
    missing = f"\nMissing right of the guard's role: {right[1]}" if right is not None else ""
    return Failure(f"{problem.operation_name}: {code}"[:MAX_CHARACTERS], text + missing)
