"""Questions to AWS: page by page, with whole answers only, and with errors that say what to do."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from typing import Any

from botocore.exceptions import (
    ClientError,
    CredentialRetrievalError,
    LoginError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from launcher.aws.session import translated
from launcher.model.errors import AwsError

_UNUSABLE = (
    CredentialRetrievalError,
    LoginError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
_EXPIRED = frozenset(("ExpiredToken", "ExpiredTokenException", "RequestExpired"))
"""Codes of credentials that have run out: any further call would fail alike."""

_FORBIDDEN = frozenset(
    ("AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation", "AccessDeniedFault")
)
"""Codes of a call that the credentials may not make; services do not agree on one."""

NO_CREDENTIALS_HINT = "set AWS_PROFILE or AWS_ACCESS_KEY_ID, or run: aws configure sso"
LOGIN_HINT = "log in again (aws sso login, or new keys) and run the same command: what was read is kept"
TOKEN = "NextToken"  # noqa: S105 - the name of a field
"""What most services call the page token."""
CUT_SHORT = "the answer is cut short or unreadable"


class CredentialsError(AwsError):
    """There are no usable credentials: no further call is worth making (exit 1)."""


class NoAccountError(CredentialsError):
    """The environment names no credentials at all: what AWS publishes can still be read."""


class RefusedPriceError(ValueError):
    """A price that is not taken; the text says why."""


@contextmanager
def asked(what: str) -> Iterator[None]:
    """Turn what can go wrong in a call into one of our errors.

    Raises:
        CredentialsError: there are no credentials, or they have run out.
        AwsError: the call failed, or its answer is not whole.
    """
    try:
        with translated(what):
            yield
    except AwsError as problem:
        cause = problem.__cause__
        if isinstance(cause, _UNUSABLE):
            raise CredentialsError(problem.message, hint=NO_CREDENTIALS_HINT) from cause
        if error_code(problem) in _EXPIRED:
            raise CredentialsError(problem.message, hint=LOGIN_HINT) from cause
        raise
    except ResponseParserError as problem:
        raise AwsError(f"{what}: {CUT_SHORT}", hint="run it again") from problem


def unless_absent(
    call: Callable[..., Mapping[str, Any]], what: str, absent: Collection[str], **arguments: Any
) -> Mapping[str, Any] | None:
    """The answer of one call; None where the service says that there is no such thing.

    Args:
        call: the client's method.
        what: what is being done, for errors.
        absent: the service's codes for that.
        arguments: of the call.

    Raises:
        AwsError: the call failed for another reason.
    """
    try:
        with asked(what):
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
    found: list[Any] = []
    seen: set[str] = set()
    following: Mapping[str, str] = {}
    while True:
        with asked(what):
            answer = call(**arguments, **following)
        if within not in answer:
            raise AwsError(f"{what}: {CUT_SHORT}", hint="run it again")
        found += answer[within]
        after = answer.get(token)
        if not after:
            return found
        if after in seen:
            raise AwsError(f"{what}: page {len(seen) + 1} leads back to an earlier one", hint="run it again")
        seen.add(after)
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


def error_code(problem: AwsError) -> str:
    """The service's word for an error; empty where no service answered."""
    cause = problem.__cause__
    return str(cause.response.get("Error", {}).get("Code", "")) if isinstance(cause, ClientError) else ""


def forbidden(problem: AwsError) -> bool:
    """Whether AWS answered that the credentials may not make a call."""
    return error_code(problem) in _FORBIDDEN
