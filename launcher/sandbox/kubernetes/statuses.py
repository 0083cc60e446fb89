"""Responses of the API server that are not objects: a `Status` with Kubernetes' wording."""

from typing import Any

_CODES = {
    "BadRequest": 400,
    "Unauthorized": 401,
    "Forbidden": 403,
    "NotFound": 404,
    "MethodNotAllowed": 405,
    "AlreadyExists": 409,
    "Conflict": 409,
    "Expired": 410,
    "UnsupportedMediaType": 415,
    "Invalid": 422,
    "TooManyRequests": 429,
    "NotImplemented": 501,
    "ServiceUnavailable": 503,
}
"""HTTP codes by reason (Kubernetes API reference, `Status`; apimachinery, pkg/apis/meta/v1/types.go).

501 is a fault of the sandbox itself: clients would retry Kubernetes' own code, 500, again and again.
"""


class RefusedError(Exception):
    """A refused request; `reason` is one of Kubernetes' own reasons."""

    def __init__(self, reason: str, message: str, *, causes: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.code = _CODES[reason]
        self.causes = causes

    def status(self) -> dict[str, Any]:
        """The `Status` object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }
        if self.causes:
            causes = [{"reason": "FieldValueInvalid", "field": field, "message": text} for field, text in self.causes]
            status["details"] = {"causes": causes}
        return status


def invalid(kind: str, name: str, causes: list[tuple[str, str]]) -> RefusedError:
    """The error about an invalid object, with all causes."""
    listed = [f"{field}: {text}" if field else text for field, text in causes]
    text = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"
    return RefusedError("Invalid", f'{kind} "{name}" is invalid: {text}', causes=tuple(causes))


def not_found(plural: str, group: str, name: str) -> RefusedError:
    """The error about a missing object."""
    resource = f"{plural}.{group}" if group else plural
    return RefusedError("NotFound", f'{resource} "{name}" not found')
