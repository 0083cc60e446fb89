"""Errors in the protocol of their request, so that every SDK can parse them."""

import json
from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape

from launcher.sandbox.aws.access_log import Environ, service_of

_QUERY = "<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"


def refuse(environ: Environ, start_response: Callable[..., Any], status: str, code: str, message: str) -> list[bytes]:
    """Answer with an error."""
    kind = environ.get("CONTENT_TYPE", "")
    if service_of(environ) == "s3":
        kind, text = "text/xml", f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    elif "x-www-form-urlencoded" in kind:
        kind, text = "text/xml", _QUERY.format(code=code, message=escape(message))
    else:
        kind, text = kind if "json" in kind else "application/json", json.dumps({"__type": code, "message": message})
    body = text.encode()
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("x-amzn-ErrorType", code)]
    start_response(status, headers)
    return [body]
