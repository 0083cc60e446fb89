"""Questions to AWS: page by page, with whole answers only, and with errors that say what to do."""

from collections.abc import Callable, Collection, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from botocore.exceptions import (
    ClientError,
)

from launcher.aws.session import CUT_SHORT, error_code, translated
from launcher.model.errors import AwsError

_FORBIDDEN = frozenset(
    ("AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation", "AccessDeniedFault")
)
"""Codes of a call that the credentials may not make; services do not agree on one."""

TOKEN = "NextToken"  # noqa: S105 - the name of a field
"""What most services call the page token."""


class RefusedPriceError(ValueError):
    """A price that is not taken; the text shows why."""


def unless_absent(
    call: Callable[..., Mapping[str, Any]], what: str, absent: Collection[str], **arguments: Any
) -> Mapping[str, Any] | None:
    """The answer of one call; None where the service says that there is no such thing.

    Raises:
        AwsError: the call failed for any reason but that the resource does not exist.
    """
    try:
        with translated(what):
            return call(**arguments)
    except AwsError as problem:
        if error_code(problem) in absent:
            return None
        raise


def items(
    call: Callable[..., Mapping[str, Any]], what: str, within: str, *, token: str = TOKEN, **arguments: Any
) -> list[Any]:
    """All items of an answer, page by page; whole or not at all.

    Args:
        call: the client's method.
        what: what is being asked, for errors.
        within: the list of an answer that holds the items. botocore hands over a JSON body that it cannot read as an
            empty answer, so one without that list counts as cut short.
        token: the name of the page token, in the question and in the answer.
        arguments: of the call.

    Raises:
        AwsError: a page could not be read, or its token leads back to an earlier one.
    """
    collected: list[Any] = []
    markers: set[str] = set()
    following: Mapping[str, str] = {}
    while True:
        with translated(what):
            answer = call(**arguments, **following)
        if within not in answer:
            raise AwsError(f"{what}: {CUT_SHORT}", hint="run it again")
        collected += answer[within]
        after = answer.get(token)
        if not after:
            return collected
        if after in markers:
            raise AwsError(f"{what}: page {len(markers) + 1} leads back to an earlier one", hint="run it again")
        markers.add(after)
        following = {token: after}


def dollars(amount: str | None, currency: str | None = "USD", *, free: bool = False) -> Decimal:
    """A price in USD.

    Args:
        amount: a number as text.
        currency: its code.
        free: whether zero is a price.

    Raises:
        RefusedPriceError: it is in another currency, no number, or not above zero.

    >>> dollars("55.0400000000")
    Decimal('55.0400000000')
    """
    if currency != "USD":
        raise RefusedPriceError(f"the currency is {currency or 'not stated'}, expected USD")
    try:
        value = Decimal(amount or "")
    except InvalidOperation as problem:
        raise RefusedPriceError(f"the price is {amount!r}, expected a number") from problem
    if not value.is_finite() or value < 0 or (value == 0 and not free):
        raise RefusedPriceError(f"the price is ${amount}, expected more than 0")
    return value


def failed_with(problem: AwsError, *, code: str, words: str) -> bool:
    """Whether AWS answered with an error of a code and some words in its text, in any case."""
    cause = problem.__cause__
    if not isinstance(cause, ClientError):
        return False
    return error_code(problem) == code and words in str(cause.response["Error"].get("Message", "")).lower()


def forbidden(problem: AwsError) -> bool:
    """Whether AWS answered that the credentials may not make a call."""
    return error_code(problem) in _FORBIDDEN
