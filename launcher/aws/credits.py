"""Credits of an account that pay before cash does."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from launcher.aws.calls import RefusedPriceError, dollars, items
from launcher.aws.session import Session
from launcher.model.request import Credit

HOME = "us-east-1"
"""Where the endpoint is, for every region of the commercial partition (AWS General Reference)."""
YEAR = timedelta(days=364)
"""How far back credits may be asked for: not more than a year (botocore 1.44.5, GetCredits)."""


class FoundCredits(NamedTuple):
    """Credits that pay for anything, and in words those that are not counted, with why."""

    usable: tuple[Credit, ...]
    left_out: tuple[str, ...]


def account_credits(session: Session, account: str, now: datetime) -> FoundCredits:
    """The credits of an account, those of its whole family where it pays for one.

    A credit for some products or purchases alone is not counted: how AWS would lay it over this bill is not known.

    Args:
        session: of us-east-1.
        account: twelve digits.
        now: the moment.
    """
    found = items(
        session.client("billing").get_credits,
        "ask for the account's credits",
        "credits",
        accountId=account,
        startDate=now - YEAR,
        payerAccountFlag=True,
    )
    usable, left_out = [], []
    for each in found:
        name = f"{each['creditType']} {each['creditId']}"
        why = _unusable(each, now)
        if why:
            left_out.append(f"{name}: {why}")
            continue
        try:
            usd = _left(each)
        except RefusedPriceError as problem:
            left_out.append(f"{name}: {problem}")
            continue
        if usd:
            usable.append(Credit(pool=name, usd=usd, expires=_utc(each.get("endDate"))))
    return FoundCredits(tuple(usable), tuple(left_out))


def _unusable(each: Mapping[str, Any], now: datetime) -> str:
    begins, ends = _utc(each["startDate"]), _utc(each.get("endDate"))
    if each.get("creditStatus") == "DISABLED":
        return "disabled"
    if ends is not None and ends <= now:
        return f"expired {ends:%Y-%m-%d}"
    if begins is not None and begins > now:
        return f"begins {begins:%Y-%m-%d}"
    if each.get("applicableProductNames"):
        return f"for {', '.join(each['applicableProductNames'])} alone"
    if each.get("purchaseTypeApplications"):
        return f"for {', '.join(each['purchaseTypeApplications'])} alone"
    return ""


def _left(each: Mapping[str, Any]) -> Decimal:
    """What is left of a credit; where AWS estimates what open bills take of it, the less of the two."""
    amounts = [each[name] for name in ("remainingAmount", "estimatedAmount") if each.get(name)]
    return min(dollars(amount["currencyAmount"], amount["currencyCode"], free=True) for amount in amounts)


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
