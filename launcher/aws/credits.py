"""Credits of an account, which AWS applies before cash."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from launcher.aws.calls import RefusedPriceError, dollars, items
from launcher.aws.session import Session
from launcher.model.request import Credit

HOME = "us-east-1"
"""The region of the endpoint for every region of the commercial partition (AWS General Reference)."""
YEAR = timedelta(days=364)
"""How far back credits may be requested: at most a year (botocore 1.44.5, GetCredits)."""


def account_credits(session: Session, account: str, now: datetime) -> tuple[tuple[Credit, ...], tuple[str, ...]]:
    """The credits of an account for any usage, and descriptions of credits that are not counted, with the reason.

    If the account pays for an organization, they are the credits of the organization.
    A credit only for certain products or purchases is not counted: how AWS would apply it to this bill is unknown. The
    session is for us-east-1.
    """
    listed = items(
        session.client("billing").get_credits,
        "ask for the account's credits",
        "credits",
        accountId=account,
        startDate=now - YEAR,
        payerAccountFlag=True,
    )
    usable, left_out = [], []
    for credit in listed:
        name = f"{credit['creditType']} {credit['creditId']}"
        why = _unusable(credit, now)
        if why:
            left_out.append(f"{name}: {why}")
            continue
        try:
            usd = _remaining(credit)
        except RefusedPriceError as problem:
            left_out.append(f"{name}: {problem}")
            continue
        if usd:
            usable.append(Credit(pool=name, usd=usd, expires=_utc(credit.get("endDate"))))
    return tuple(usable), tuple(left_out)


def _unusable(credit: Mapping[str, Any], now: datetime) -> str:
    begins, ends = _utc(credit["startDate"]), _utc(credit.get("endDate"))
    if credit.get("creditStatus") == "DISABLED":
        return "disabled"
    if ends is not None and ends <= now:
        return f"expired {ends:%Y-%m-%d}"
    if begins is not None and begins > now:
        return f"begins {begins:%Y-%m-%d}"
    if credit.get("applicableProductNames"):
        return f"for {', '.join(credit['applicableProductNames'])} alone"
    if credit.get("purchaseTypeApplications"):
        return f"for {', '.join(credit['purchaseTypeApplications'])} alone"
    return ""


def _remaining(credit: Mapping[str, Any]) -> Decimal:
    """The remainder of a credit; if AWS estimates the amount for open bills, the smaller of the two."""
    amounts = [credit[name] for name in ("remainingAmount", "estimatedAmount") if credit.get(name)]
    return min(dollars(amount["currencyAmount"], amount["currencyCode"], free=True) for amount in amounts)


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
