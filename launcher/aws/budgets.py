"""Budgets as AWS Budgets describes them."""

from decimal import Decimal

from launcher.aws.session import Session, translate_errors


def describe(session: Session, account: str, name: str) -> tuple[Decimal, frozenset[str]]:
    """The limit of a budget in dollars, and the tags that it counts, as `user:key$value`."""
    with translate_errors(f"describe budget {name}"):
        budget = session.client("budgets").describe_budget(AccountId=account, BudgetName=name)["Budget"]
    tags = frozenset(map(str, budget.get("CostFilters", {}).get("TagKeyValue", [])))
    return Decimal(str(budget["BudgetLimit"]["Amount"])), tags
