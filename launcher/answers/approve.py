"""`slipway approve`: an approval, and the open ones, as JSON and as lines."""

from collections.abc import Sequence
from typing import Literal

from launcher.answers.lines import fold
from launcher.answers.words import dollars
from launcher.records.approval import Action, Approval
from launcher.records.codec import Json, as_json
from launcher.records.document import json_object


@json_object
class ApprovalsDocument:
    """The open approvals: neither used nor expired, the one that expires first at the top."""

    schema: Literal["slipway.approvals/1"] = "slipway.approvals/1"
    approvals: tuple[Approval, ...]


def document(approvals: Sequence[Approval]) -> Json:
    """slipway.approvals/1."""
    return as_json(ApprovalsDocument(approvals=tuple(approvals)))


def page(approvals: Sequence[Approval], width: int) -> list[str]:
    """A paragraph for each approval."""
    if not approvals:
        return ["no open approval"]
    return [line for approval in approvals for line in ["", *fold(f"  {sentence(approval)}", width)]]


def sentence(approval: Approval) -> str:
    """What an approval allows, in one line."""
    where = "in the sandbox" if approval.sandbox else "on AWS"
    if approval.action is Action.DOWN:
        where += f" in {approval.region or 'the region of its newest run'}"
    what = f"{approval.action.value} {approval.name}" + (f", quote {approval.digest[:6]}" if approval.digest else "")
    limit = f", at most ${dollars(approval.max_usd)}" if approval.max_usd is not None else ""
    guard = f"; the guard stops it at ${dollars(approval.stop_usd)}" if approval.stop_usd is not None else ""
    return f"{approval.id}: {what}, {where}{limit}, once until {approval.expires_at:%Y-%m-%d %H:%M} UTC{guard}"
