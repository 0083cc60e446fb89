"""Calls to AWS: paginated, complete, and with errors that name a fix."""

from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from botocore.exceptions import (
    ClientError,
)

from launcher.aws.session import CUT_SHORT, error_code, translate_errors
from launcher.model.errors import AwsError

_FORBIDDEN = frozenset(
    ("AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation", "AccessDeniedFault")
)
"""Codes of a call for which the credentials lack permission; services use different codes."""

_TOKENS = {
    "NextContinuationToken": "ContinuationToken",
    "NextKeyMarker": "KeyMarker",
    "NextMarker": "Marker",
    "NextUploadIdMarker": "UploadIdMarker",
    "NextVersionIdMarker": "VersionIdMarker",
} | {name: name for name in ("Marker", "NextPageToken", "NextToken", "nextToken")}
"""The name of a page token in a response, and in the next request (botocore's data, paginators-1.json)."""


class RefusedPriceError(ValueError):
    """A price that Slipway does not accept; the text gives the reason."""


def unless_absent(
    call: Callable[..., Mapping[str, Any]], subject: str, absent: Collection[str], **arguments: Any
) -> Mapping[str, Any] | None:
    """The response of one call; None if the service reports that the resource does not exist.

    Raises:
        AwsError: the call failed for any other reason.
    """
    try:
        with translate_errors(subject):
            return call(**arguments)
    except AwsError as problem:
        if error_code(problem) in absent:
            return None
        raise


def pages(
    call: Callable[..., Mapping[str, Any]], subject: str, *within: str, **arguments: Any
) -> Iterator[Mapping[str, Any]]:
    """The pages of a response, each requested only when the caller needs it.

    Args:
        call: the client's method.
        subject: the subject of the request, for errors.
        within: the lists that every page has. botocore returns a JSON body that it cannot parse as an empty response,
            so a response without such a list counts as incomplete.
        arguments: the arguments of the call.

    Raises:
        AwsError: a page could not be read, or its token repeats an earlier one.
    """
    tokens: list[Mapping[str, str]] = []
    following: Mapping[str, str] = {}
    while True:
        with translate_errors(subject):
            answer = call(**arguments, **following)
        if not answer.keys() >= set(within):
            raise AwsError(f"{subject}: {CUT_SHORT}", hint="run it again")
        yield answer
        # S3 names the last upload as the next marker on the last page too.
        following = {
            request_key: answer[answer_key] for answer_key, request_key in _TOKENS.items() if answer.get(answer_key)
        }
        if not following or answer.get("IsTruncated") is False:
            return
        if following in tokens:
            raise AwsError(f"{subject}: page {len(tokens) + 1} leads back to an earlier one", hint="run it again")
        tokens.append(following)


def items(call: Callable[..., Mapping[str, Any]], subject: str, within: str, **arguments: Any) -> list[Any]:
    """The items of all pages, complete or not at all; `within`: the list of a page that holds the items.

    Raises:
        AwsError: as for `pages`.
    """
    return [item for page in pages(call, subject, within, **arguments) for item in page[within]]


def dollars(amount: str | None, currency: str | None = "USD", *, free: bool = False) -> Decimal:
    """A price in USD.

    Args:
        amount: a number as text.
        currency: the currency code.
        free: whether zero is a valid price.

    Raises:
        RefusedPriceError: the amount is in another currency, no number, or not above zero.

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


def failed_with(problem: AwsError, *, code: str, phrase: str) -> bool:
    """Whether AWS responded with an error of this code and with these words in its text, in any case."""
    cause = problem.__cause__
    if not isinstance(cause, ClientError):
        return False
    return error_code(problem) == code and phrase in str(cause.response["Error"].get("Message", "")).lower()


def forbidden(problem: AwsError) -> bool:
    """Whether AWS reported that the credentials lack permission for a call."""
    return error_code(problem) in _FORBIDDEN
