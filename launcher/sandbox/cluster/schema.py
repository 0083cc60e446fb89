"""The shape of a ParallelCluster configuration, from the vendor's own schema.

parallelcluster.schema.json is generated from the marshmallow schemas of aws-parallelcluster 3.16.1
(tests/infra/pcluster_json_schema.py). Types are strict: the custom resource of this project passes typed values, and a
quoted "4800" is an error in its generation.
"""

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from launcher.agent import safe_json

_FILE = Path(__file__).with_name("parallelcluster.schema.json")
_KINDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "a mapping",
    "string": "a string",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem of a configuration, with its path."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class RequestRefusedError(Exception):
    """A cluster's request or configuration that AWS would refuse, with every reason."""

    def __init__(self, subject: str, problems: list[Problem]) -> None:
        super().__init__(f"Invalid cluster {subject}: " + "; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


@lru_cache(maxsize=1)
def _schema_validator() -> Draft202012Validator:
    return Draft202012Validator(safe_json.load(_FILE))


def problems(configuration: Mapping[str, Any]) -> Iterator[Problem]:
    """All deviations of a configuration from the vendor's schema, sorted by path.

    >>> [str(each) for each in problems({"HeadNodes": {}, "Scheduling": "slurm"})][:2]
    ['HeadNodes: unknown key, did you mean HeadNode', 'HeadNode: missing']
    """
    plain = safe_json.loads(json.dumps(configuration))
    errors = sorted(
        _schema_validator().iter_errors(plain), key=lambda error: [str(step) for step in error.absolute_path]
    )
    yield from dict.fromkeys(problem for error in errors for problem in _problems_of(error))


def _problems_of(error: ValidationError) -> Iterator[Problem]:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path).lstrip(".")
    prefix, value, rule = f"{path}." if path else "", error.instance, error.validator_value
    if error.validator == "additionalProperties":
        properties = error.schema["properties"]
        for key in [key for key in value if key not in properties]:
            near = difflib.get_close_matches(str(key), properties, n=1)
            yield Problem(path=f"{prefix}{key}", message="unknown key" + (f", did you mean {near[0]}" if near else ""))
    elif error.validator == "required":
        yield from (Problem(path=f"{prefix}{key}", message="missing") for key in rule if key not in value)
    elif error.validator == "oneOf":
        yield Problem(path=path, message=f"needs one of {', '.join(option['required'][0] for option in rule)}")
    elif error.validator == "type":
        yield Problem(path=path, message=f"got {value!r}, allowed: {_KINDS[rule]}")
    elif error.validator == "enum":
        yield Problem(path=path, message=f"got {value!r}, allowed: {', '.join(map(str, rule))}")
    else:
        yield Problem(path=path, message=f"got {value!r}, and {error.validator} is {rule}")
