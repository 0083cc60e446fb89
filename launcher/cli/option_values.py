"""The words of the command line as values: days, dollars, regions, forms of output."""

from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum

import typer

from launcher.cli import completion
from launcher.model.names import nearest_name


class Form(StrEnum):
    """How a cost for a pull request is printed."""

    TABLE = "table"
    GITHUB_COMMENT = "github-comment"


def cost_form(text: str) -> Form:
    """A form of output from the command line."""
    try:
        return Form(text)
    except ValueError as problem:
        raise typer.BadParameter(f"{text!r} is not allowed; choose from {', '.join(Form)}") from problem


def calendar_day(text: str) -> date:
    """A day from the command line, past or to come."""
    try:
        return date.fromisoformat(text)
    except ValueError as problem:
        raise typer.BadParameter(f"expected a date such as 2026-07-20, got {text!r}") from problem


def day(text: str) -> date:
    """A day from the command line that has been."""
    parsed = calendar_day(text)
    today = datetime.now(UTC).date()
    if parsed > today:
        raise typer.BadParameter(f"expected a past date: {parsed} is after today, {today}")
    return parsed


def dollars(text: str) -> Decimal:
    """Dollars from the command line."""
    try:
        amount = Decimal(text)
    except InvalidOperation as problem:
        raise typer.BadParameter(f"expected dollars such as 120 or 18.50, got {text!r}") from problem
    if not amount.is_finite() or amount < 0:
        raise typer.BadParameter(f"expected 0 dollars or more, got {text!r}")
    return amount


def region_name(text: str) -> str:
    """A region from the command line: one of the catalog, or another that AWS has."""
    known = completion.regions("")
    if text in known:
        return text
    from launcher.aws.regions import region_names

    if text in region_names():
        return text
    raise typer.BadParameter(f"no region {text!r}; {nearest_name(text, known) or 'expected a code such as us-east-1'}")
