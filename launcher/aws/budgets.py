"""Budgets as AWS Budgets describes them."""

from dataclasses import dataclass
from decimal import Decimal

from launcher.aws.session import Session, translated


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """One budget: its limit in dollars, its period, and the tags that it counts, as `user:key$value`."""

    name: str
    limit_usd: Decimal
    period: str
    tags: frozenset[str]


def describe(session: Session, account: str, name: str) -> BudgetState:
    """The state of a budget."""
    with translated(f"describe budget {name}"):
        budget = session.client("budgets").describe_budget(AccountId=account, BudgetName=name)["Budget"]
    return BudgetState(
        name=name,
        limit_usd=Decimal(str(budget["BudgetLimit"]["Amount"])),
        period=str(budget["TimeUnit"]),
        tags=frozenset(map(str, budget.get("CostFilters", {}).get("TagKeyValue", []))),
    )
