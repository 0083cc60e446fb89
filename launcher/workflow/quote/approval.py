"""What a person approves, and whether a command may do it under that approval."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from launcher.model.budget_stop import exempt, is_joined
from launcher.model.errors import ImpossibleError, OverBudgetError, UnreadableInputError
from launcher.records.approval import AGAIN, Action, Approval, find_approval, new_id
from launcher.workflow.quote.fresh import Picked, gated_quote, refuse_unless_allowed
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price

LONGEST = timedelta(hours=24)
_DURATION = re.compile(r"([0-9]{1,4})(m|h)")
_UNITS = {"m": "minutes", "h": "hours"}


def duration(text: str) -> timedelta:
    """The time of --for.

    Raises:
        UnreadableInputError: the text is no time, or is 0 or more than a day.

    >>> duration("90m")
    datetime.timedelta(seconds=5400)
    """
    matched = _DURATION.fullmatch(text)
    length = timedelta() if matched is None else timedelta(**{_UNITS[matched[2]]: int(matched[1])})
    if not timedelta() < length <= LONGEST:
        raise UnreadableInputError(f"--for takes 1m to 24h, got {text!r}", hint="--for 2h")
    return length


def quoted_for_approval(
    path: Path, now: datetime, options: PriceOptions, *, selection: str | None, sandbox: bool
) -> Picked:
    """The candidate to approve, at a price that the gate allows within `options.max_usd`.

    The prices may be old: a launch on AWS reads current ones, and compares them with the approval. Without a selection
    it is the candidate that a launch would choose.

    Raises:
        OverBudgetError: the high estimate is above the limit, or no guard would stop the job at it.
        SlipwayError: the gate refuses.
    """
    known = price(path, now, replace(options, any_age=sandbox, picked=selection))
    rank, first = pick(known, selection)
    refuse_unless_allowed(known, known.quote_at_any_age(rank), options)
    any_age = replace(options, any_age=True)
    picked = gated_quote(path, now, any_age, selection=first.digest, notify=lambda _: None)
    limit, plan = options.max_usd, picked.quoted.plan
    if sandbox or limit is None or not _stoppable(picked):
        return picked
    stop = plan.request.budget.stop_at_usd
    if stop is None or stop > limit:
        got = "is not set" if stop is None else f"is ${stop:,}"
        message = f"budget.stop_at_usd {got}: no guard in the account would hold the job to ${limit:,}"
        raise OverBudgetError(
            message,
            hint=f"set budget: {{stop_at_usd: {limit}}} in {path}, or add --set"
            f" budget.stop_at_usd={limit} here and to the quote",
        )
    return picked


def _stoppable(picked: Picked) -> bool:
    """Whether a guard can stop the nodes of a candidate, and that saves money."""
    plan = picked.quoted.plan
    return not is_joined(plan.request) and exempt(plan.request, plan.place.option) is None


def approval_of(
    picked: Picked, action: Action, options: PriceOptions, *, file: Path, sandbox: bool, now: datetime, lasts: timedelta
) -> Approval:
    """The approval of a launch or deployment of a quoted candidate."""
    plan = picked.quoted.plan
    return Approval(
        id=new_id(),
        action=action,
        name=plan.name,
        folder=str(Path.cwd()),
        file=str(file.resolve()),
        settings=options.settings,
        digest=picked.quoted.digest,
        sandbox=sandbox,
        region=options.region,
        max_usd=options.max_usd,
        stop_usd=plan.request.budget.stop_at_usd if _stoppable(picked) else None,
        approved_at=now,
        expires_at=now + lasts,
    )


def removal_approval(name: str, *, region: str | None, sandbox: bool, now: datetime, lasts: timedelta) -> Approval:
    """The approval of the removal of a cluster or endpoint."""
    return Approval(
        id=new_id(),
        action=Action.DOWN,
        name=name,
        folder=str(Path.cwd()),
        file=name,
        settings=(),
        digest=None,
        sandbox=sandbox,
        region=region,
        max_usd=None,
        stop_usd=None,
        approved_at=now,
        expires_at=now + lasts,
    )


def usable(
    given: str, action: Action, *, file: str, sandbox: bool, environment: Mapping[str, str], now: datetime
) -> Approval:
    """The approval with which a command may go on.

    Raises:
        ImpossibleError: it is used, expired, or for something else.
    """
    approval = find_approval(given, environment, now)
    subject = file if action is Action.DOWN else str(Path(file).resolve())
    asked = {
        "action": (approval.action.value, action.value),
        "plan": (approval.file, subject),
        "place": (_where(sandbox=approval.sandbox), _where(sandbox=sandbox)),
    }
    for what, (approved, requested) in asked.items():
        if approved != requested:
            message = f"approval {given} is for another {what}: {approved}, not {requested}"
            raise ImpossibleError(message, hint=AGAIN)
    return approval


def _where(*, sandbox: bool) -> str:
    return "the sandbox" if sandbox else "AWS"


def limit_options(options: PriceOptions, approval: Approval) -> PriceOptions:
    """The options of a command under an approval: the approved settings and region, and no more than its dollars."""
    lower = [limit for limit in (options.max_usd, approval.max_usd) if limit is not None]
    return replace(options, settings=approval.settings, region=approval.region, max_usd=min(lower, default=None))


def refuse_other_quote(approval: Approval, digest: str, high: Decimal | None) -> None:
    """Continue only with the approved quote, within the approved dollars.

    Raises:
        ImpossibleError: it is another quote.
        OverBudgetError: it costs more.
    """
    if digest != approval.digest:
        message = f"approval {approval.id} is for quote {str(approval.digest)[:6]}, this is {digest[:6]}"
        hint = f"{AGAIN}; for a cluster that keeps its head node, with --set storage.head_node=TYPE"
        raise ImpossibleError(message, hint=hint)
    if approval.max_usd is not None and (high is None or high > approval.max_usd):
        now = "has no price" if high is None else f"may cost ${high:,.2f}"
        raise OverBudgetError(f"the approval is for ${approval.max_usd:,}, and the job {now}", hint=AGAIN)


def refuse_second(approval: Approval) -> None:
    """Refuse a second job beside a running one.

    Raises:
        ImpossibleError: always.
    """
    message = f"a job of {approval.name} runs already; approval {approval.id} is for one job"
    raise ImpossibleError(message, hint=f"slipway status {approval.name}")
