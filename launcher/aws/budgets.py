"""Budgets as AWS Budgets describes them."""

from dataclasses import dataclass
from decimal import Decimal

from launcher.aws.session import Session, translated


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """One budget: its limit in dollars, its period, and the tags it counts, as `user:key$value`."""

    name: str
    limit_usd: Decimal
    period: str
    tags: frozenset[str]


def describe(session: Session, account: str, name: str) -> BudgetState:
    """The state of a budget."""
    with translated(f"describe budget {name}"):
        found = session.client("budgets").describe_budget(AccountId=account, BudgetName=name)["Budget"]
    return BudgetState(
        name=name,
        limit_usd=Decimal(str(found["BudgetLimit"]["Amount"])),
        period=str(found["TimeUnit"]),
        tags=frozenset(map(str, found.get("CostFilters", {}).get("TagKeyValue", []))),
    )
