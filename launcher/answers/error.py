"""A failed command as JSON: slipway.error/1."""

from typing import Literal

from launcher.model.errors import SlipwayError
from launcher.model.finding import Finding
from launcher.records.codec import Json, as_json
from launcher.records.document import json_object


@json_object
class ErrorDocument:
    """The error; `line` and `column` of a finding are its path's position in the plan file, null if unknown."""

    schema: Literal["slipway.error/1"] = "slipway.error/1"
    exit_code: int
    message: str
    hint: str
    findings: tuple[Finding, ...]


def error_document(problem: SlipwayError) -> Json:
    """slipway.error/1."""
    return as_json(
        ErrorDocument(
            exit_code=problem.exit_code, message=problem.message, hint=problem.hint, findings=problem.findings
        )
    )
