"""Slipway's refusals as exceptions that a traceback shows whole: message, findings and fixes."""

from collections.abc import Iterator
from contextlib import contextmanager

from infra.refusal import refusal_text
from launcher.model.errors import SlipwayError


@contextmanager
def readable() -> Iterator[None]:
    """Raise a refusal again with all its text as the exception's own."""
    try:
        yield
    except SlipwayError as refusal:
        text = refusal_text(refusal).removeprefix("error: ")
        raise type(refusal)(text, hint=refusal.hint, findings=refusal.findings) from None
