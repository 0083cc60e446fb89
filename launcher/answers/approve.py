"""`slipway approve`: an approval, and the open ones, as JSON and as lines."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal

from launcher.answers.lines import wrapped
from launcher.answers.words import dollars
from launcher.records.approval import Action, Approval
from launcher.records.codec import Json, as_json
from launcher.records.document import filled, json_object


@json_object
class ApprovalObject:
    """A person's approval of one action.

    `folder` is where the action runs. `digest` is the quote's, null for a removal, `max_usd` what its high estimate may
    be, `stop_usd` the sum at which the guard in the account ends the nodes, null where none does.
    """

    id: str
    action: str
    name: str
    folder: str
    file: str
    settings: tuple[str, ...]
    digest: str | None
    sandbox: bool
    region: str | None
    max_usd: Decimal | None
    stop_usd: Decimal | None
    approved_at: datetime
    expires_at: datetime


@json_object
class ApprovalsDocument:
    """The open approvals: neither used nor expired, the one that expires first at the top."""

    schema: Literal["slipway.approvals/1"] = "slipway.approvals/1"
    approvals: tuple[ApprovalObject, ...]


def document(approvals: Sequence[Approval]) -> Json:
    """slipway.approvals/1."""
    rows = tuple(filled(ApprovalObject, approval, action=approval.action.value) for approval in approvals)
    return as_json(ApprovalsDocument(approvals=rows))


def page(approvals: Sequence[Approval], width: int) -> list[str]:
    """A paragraph for each approval."""
    if not approvals:
        return ["no open approval"]
    return [line for approval in approvals for line in ["", *wrapped(f"  {sentence(approval)}", width)]]


def sentence(approval: Approval) -> str:
    """What an approval allows, in one line."""
    where = "in the sandbox" if approval.sandbox else "on AWS"
    if approval.action is Action.DOWN:
        where += f" in {approval.region or 'the region of its newest run'}"
    what = f"{approval.action.value} {approval.name}" + (f", quote {approval.digest[:6]}" if approval.digest else "")
    limit = f", at most ${dollars(approval.max_usd)}" if approval.max_usd is not None else ""
    guard = f"; the guard stops it at ${dollars(approval.stop_usd)}" if approval.stop_usd is not None else ""
    return f"{approval.id}: {what}, {where}{limit}, once until {approval.expires_at:%Y-%m-%d %H:%M} UTC{guard}"
