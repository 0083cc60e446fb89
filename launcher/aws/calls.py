"""Calls to AWS: paginated, complete, and with errors that name a fix."""

from collections.abc import Callable, Collection, Iterator, Mapping
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

_TOKENS = {
    "NextContinuationToken": "ContinuationToken",
    "NextKeyMarker": "KeyMarker",
    "NextMarker": "Marker",
    "NextUploadIdMarker": "UploadIdMarker",
    "NextVersionIdMarker": "VersionIdMarker",
} | {name: name for name in ("Marker", "NextPageToken", "NextToken", "nextToken")}
"""A page token's name in an answer, and in the question that follows (botocore's data, paginators-1.json)."""


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


def pages(
    call: Callable[..., Mapping[str, Any]], what: str, *within: str, **arguments: Any
) -> Iterator[Mapping[str, Any]]:
    """The pages of an answer, each asked for when it is wanted.

    Args:
        call: the client's method.
        what: what is being asked, for errors.
        within: the lists that every page has. botocore hands over a JSON body that it cannot read as an empty answer,
            so one without such a list counts as cut short.
        arguments: of the call.

    Raises:
        AwsError: a page could not be read, or its token leads back to an earlier one.
    """
    seen: list[Mapping[str, str]] = []
    following: Mapping[str, str] = {}
    while True:
        with translated(what):
            answer = call(**arguments, **following)
        if not answer.keys() >= set(within):
            raise AwsError(f"{what}: {CUT_SHORT}", hint="run it again")
        yield answer
        # S3 names the last upload as the next marker on the last page too.
        following = {
            request_key: answer[answer_key] for answer_key, request_key in _TOKENS.items() if answer.get(answer_key)
        }
        if not following or answer.get("IsTruncated") is False:
            return
        if following in seen:
            raise AwsError(f"{what}: page {len(seen) + 1} leads back to an earlier one", hint="run it again")
        seen.append(following)


def items(call: Callable[..., Mapping[str, Any]], what: str, within: str, **arguments: Any) -> list[Any]:
    """The items of all pages, whole or not at all; `within`: the list of a page that holds them.

    Raises:
        AwsError: as for `pages`.
    """
    return [item for page in pages(call, what, within, **arguments) for item in page[within]]


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
