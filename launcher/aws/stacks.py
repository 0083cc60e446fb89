"""CloudFormation stacks: their state, outputs, resources and importers, and their deletion."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import takewhile
from typing import Any

from launcher.aws.calls import failed_with, items, pages
from launcher.aws.session import Session, translate_errors
from launcher.model.errors import AwsError, DeploymentFailedError

POLL_S = 5.0
IDLE_POLLS = 12
"""Polls of a stack that exists and is not being removed, before Slipway reports this: a minute."""
REMOVED, NOT_REMOVED = "DELETE_COMPLETE", "DELETE_FAILED"
BEING_REMOVED = "DELETE_IN_PROGRESS"
NOT_MADE = ("REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
"""States of a stack that was never created whole: the CDK deletes it and creates it again."""
_CHANGED = ("UPDATE_COMPLETE", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackState:
    """One stack as CloudFormation describes it."""

    # Still identifies a deleted stack.
    id: str
    name: str
    status: str
    protected: bool
    outputs: dict[str, str]
    tags: dict[str, str]
    # The start of its last change; None if not requested.
    deployed_at: datetime | None = None
    # Its creation; None if not requested.
    made_at: datetime | None = None
    # The start of its removal.
    deleted_at: datetime | None = None
    # Its parameters.
    inputs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackResource:
    """One resource of a stack."""

    stack: str
    logical_id: str
    physical_id: str
    type: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StackEvent:
    """One event of a stack's resource; `reason` is empty if CloudFormation gives none."""

    logical_id: str
    type: str
    status: str
    reason: str


def wait(seconds: float) -> None:
    """Wait for some seconds."""
    time.sleep(seconds)


def describe(session: Session, name: str) -> StackState:
    """The state of a stack by its name or id."""
    with translate_errors(f"describe stack {name}"):
        return _state(session.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0])


def find(session: Session, name: str) -> StackState | None:
    """The state of a stack; None if no stack has that name, or if it is deleted."""
    try:
        state = describe(session, name)
    except AwsError as problem:
        if failed_with(problem, code="ValidationError", phrase="does not exist"):
            return None
        raise
    return None if state.status == REMOVED else state


def changed_at(session: Session, stack: StackState) -> datetime | None:
    """When a stack was created or last changed; a change that is rolled back or in progress does not count.

    The guard counts from the same time (`deployed_at` in templates/guard/guard.py).
    """
    if stack.deployed_at == stack.made_at or stack.status in _CHANGED:
        return stack.deployed_at
    went_well = False
    for stack_event in _events(session, stack):
        if _is_of(stack, stack_event):
            went_well = went_well or stack_event["ResourceStatus"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE")
            if went_well and stack_event["ResourceStatus"] in ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"):
                began: datetime = stack_event["Timestamp"]
                return began
    return stack.made_at


def tagged_stacks(session: Session, key: str) -> tuple[StackState, ...]:
    """The region's stacks that have a tag, without nested stacks."""
    root_stacks = [stack for stack in _all(session) if "ParentId" not in stack]
    return tuple(state for state in map(_state, root_stacks) if key in state.tags and state.status != REMOVED)


def names(session: Session) -> tuple[str, ...]:
    """The names of all stacks of the region."""
    return tuple(str(stack["StackName"]) for stack in _all(session))


def _all(session: Session) -> list[dict[str, Any]]:
    return items(session.client("cloudformation").describe_stacks, "list the stacks", "Stacks")


def resources(session: Session, name: str) -> tuple[StackResource, ...]:
    """All resources of a stack."""
    call, subject = session.client("cloudformation").list_stack_resources, f"list the resources of stack {name}"
    return tuple(
        StackResource(
            stack=name,
            logical_id=summary["LogicalResourceId"],
            physical_id=summary.get("PhysicalResourceId", ""),
            type=summary["ResourceType"],
            status=summary["ResourceStatus"],
        )
        for summary in items(call, subject, "StackResourceSummaries", StackName=name)
    )


def template(session: Session, name: str) -> dict[str, Any]:
    """The template of a stack's last deployment, as submitted.

    Raises:
        AwsError: the stack does not exist, its template is no JSON object, or the call failed.
    """
    with translate_errors(f"read the template of stack {name}"):
        answer = session.client("cloudformation").get_template(StackName=name, TemplateStage="Original")
    body = answer["TemplateBody"]
    if not isinstance(body, dict):
        raise AwsError(f"the template of stack {name} is not JSON, so slipway did not write it")
    return dict(body)


def exports(session: Session) -> dict[str, str]:
    """The id of the exporting stack for each export of the region."""
    listed = items(session.client("cloudformation").list_exports, "list the exports", "Exports")
    return {str(export["Name"]): str(export["ExportingStackId"]) for export in listed}


def importers(session: Session, export: str) -> frozenset[str]:
    """The names of the stacks that import an export."""
    call, subject = session.client("cloudformation").list_imports, f"list who imports {export}"
    try:
        return frozenset(map(str, items(call, subject, "Imports", ExportName=export)))
    except AwsError as problem:
        if failed_with(problem, code="ValidationError", phrase="not imported by any stack"):
            return frozenset()
        raise


def unprotect(session: Session, stack: StackState) -> None:
    """Disable the termination protection of a stack."""
    with translate_errors(f"turn off the termination protection of {stack.name}"):
        session.client("cloudformation").update_termination_protection(
            EnableTerminationProtection=False, StackName=stack.name
        )


def remove(
    session: Session,
    stack: StackState,
    on_event: Callable[[StackEvent], None],
    pause: Callable[[float], None],
) -> None:
    """Remove a stack, or follow a removal in progress, until it ends.

    `on_event` receives each event once, oldest first.

    Raises:
        DeploymentFailedError: CloudFormation could not remove the stack, with its reasons.
    """
    last_seen = _last_event_id(session, stack)
    if stack.status != BEING_REMOVED:
        with translate_errors(f"remove stack {stack.name}"):
            session.client("cloudformation").delete_stack(StackName=stack.id)
    failed: list[dict[str, Any]] = []
    idle = 0
    while True:
        fresh = list(takewhile(partial(_is_not, last_seen), _events(session, stack)))
        for event in reversed(fresh):
            on_event(_event(event))
        failed += [failed_event for failed_event in reversed(fresh) if failed_event["ResourceStatus"] == NOT_REMOVED]
        ends = {new_event["ResourceStatus"] for new_event in fresh if _is_of(stack, new_event)}
        if REMOVED in ends:
            return
        if NOT_REMOVED in ends:
            raise _failure(session, stack, failed)
        if not fresh:
            # Another user may have removed the stack after the check: then no further event arrives.
            idle = 0 if (now := _status(session, stack)) == BEING_REMOVED else idle + 1
            if now == REMOVED:
                return
            if (now == NOT_REMOVED and stack.status != NOT_REMOVED) or idle >= IDLE_POLLS:
                raise _failure(session, stack, failed) if failed else _stuck(session, stack, now)
        last_seen = str(fresh[0]["EventId"]) if fresh else last_seen
        pause(POLL_S)


def _status(session: Session, stack: StackState) -> str:
    state = find(session, stack.id)
    return REMOVED if state is None else state.status


def _stuck(session: Session, stack: StackState, status: str) -> DeploymentFailedError:
    return DeploymentFailedError(
        f"stack {stack.name} is {status}, and its removal does not continue",
        hint="run it again; all events: aws cloudformation "
        f"describe-stack-events --region {session.region} --stack-name {stack.name}",
    )


def _is_not(last_seen: str | None, event: dict[str, Any]) -> bool:
    return bool(event["EventId"] != last_seen)


def _last_event_id(session: Session, stack: StackState) -> str | None:
    events = _events(session, stack)
    if stack.status == BEING_REMOVED:
        for event in events:
            if _is_of(stack, event) and event["ResourceStatus"] == BEING_REMOVED:
                break
    newest = next(events, None)
    return str(newest["EventId"]) if newest is not None else None


def _is_of(stack: StackState, event: dict[str, Any]) -> bool:
    return bool(event.get("PhysicalResourceId") == stack.id)


def _events(session: Session, stack: StackState) -> Iterator[dict[str, Any]]:
    call, subject = session.client("cloudformation").describe_stack_events, f"read the events of stack {stack.name}"
    for page in pages(call, subject, "StackEvents", StackName=stack.id):
        yield from page["StackEvents"]


def event_lines(session: Session, stack: StackState, most: int) -> tuple[str, ...]:
    """The newest events of a stack, newest first: time, resource, type, state, reason."""
    lines = []
    for raw in itertools.islice(_events(session, stack), most):
        event = _event(raw)
        reason = f": {event.reason}" if event.reason else ""
        lines.append(f"{raw['Timestamp']:%Y-%m-%dT%H:%M:%SZ} {event.logical_id} {event.type} {event.status}{reason}")
    return tuple(lines)


def _failure(session: Session, stack: StackState, failed: list[dict[str, Any]]) -> DeploymentFailedError:
    """Why a stack still exists: every resource that was not deleted, or CloudFormation's reason for the stack."""
    resources = [event for event in failed if not _is_of(stack, event)] or failed
    text = "\n".join(
        f"  {event.logical_id} ({event.type}): {event.reason or 'no reason given'}" for event in map(_event, resources)
    )
    return DeploymentFailedError(
        f"stack {stack.name} could not be removed:\n{text}",
        hint="remove what is in the way and run it again; all events: aws cloudformation "
        f"describe-stack-events --region {session.region} --stack-name {stack.name}",
    )


def _event(raw: dict[str, Any]) -> StackEvent:
    return StackEvent(
        logical_id=str(raw["LogicalResourceId"]),
        type=str(raw["ResourceType"]),
        status=str(raw["ResourceStatus"]),
        reason=str(raw.get("ResourceStatusReason", "")),
    )


def _state(description: dict[str, Any]) -> StackState:
    return StackState(
        id=description["StackId"],
        name=description["StackName"],
        status=description["StackStatus"],
        protected=bool(description.get("EnableTerminationProtection", False)),
        outputs={output["OutputKey"]: output["OutputValue"] for output in description.get("Outputs", [])},
        tags={tag["Key"]: tag["Value"] for tag in description.get("Tags", [])},
        deployed_at=description.get("LastUpdatedTime", description.get("CreationTime")),
        made_at=description.get("CreationTime"),
        deleted_at=description.get("DeletionTime"),
        inputs={
            parameter["ParameterKey"]: parameter.get("ParameterValue", "")
            for parameter in description.get("Parameters", [])
        },
    )
