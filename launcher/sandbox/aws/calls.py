"""CloudFormation's API calls that moto lacks, or answers without checking the stack.

Judged by: answers recorded from AWS (tests/sandbox/aws/test_recorded_answers.py: localstack@8b9a79f,
tests/aws/services) for change sets, stacks and their events; the rest by moto 5.2.5.

Emulated: UpdateTerminationProtection; ListImports; ExecuteChangeSet, DescribeChangeSet and DeleteChangeSet by change
set and stack.
"""

from typing import Any

from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.responses import CloudFormationResponse
from moto.core.responses import ActionResult, EmptyResult


def _parameter(response: Any, name: str) -> Any:
    return response._get_param(name)  # noqa: SLF001  the way moto's own responses read


def update_termination_protection(response: Any) -> ActionResult:
    """Turn the termination protection of a stack on or off."""
    enabled = str(_parameter(response, "EnableTerminationProtection")).lower() == "true"
    stack = response.cloudformation_backend.protect(_parameter(response, "StackName"), enabled=enabled)
    return ActionResult({"StackId": stack.stack_id})


def list_imports(response: Any) -> ActionResult:
    """The names of the stacks that import an export.

    Raises:
        ValidationError: no stack imports the export, as on AWS.
    """
    export = _parameter(response, "ExportName")
    users = response.cloudformation_backend.importers(export)
    if not users:
        raise ValidationError(message=f"Export '{export}' is not imported by any stack.")
    return ActionResult({"Imports": users})


def describe_change_set(response: Any) -> ActionResult:
    """Show a change set."""
    return ActionResult(
        response.cloudformation_backend.change_set(
            _parameter(response, "ChangeSetName"), _parameter(response, "StackName")
        )
    )


def delete_change_set(response: Any) -> EmptyResult:
    """Delete a change set; do nothing if it does not exist, as on AWS."""
    response.cloudformation_backend.forget_change_set(
        _parameter(response, "ChangeSetName"), _parameter(response, "StackName")
    )
    return EmptyResult()


def install() -> None:
    """Add the calls to moto's CloudFormation."""
    for call in (update_termination_protection, list_imports, describe_change_set, delete_change_set):
        setattr(CloudFormationResponse, call.__name__, call)
