"""Access to a cluster: tokens of EKS, each a signed GetCallerIdentity request that names the cluster.

The rules are those of aws-iam-authenticator v0.7 (pkg/token/token.go): the prefix, https, the host of STS, the action,
the header that binds the token to one cluster, fifteen minutes at most. A key of the sandbox makes the signature.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

from launcher.sandbox import signed
from launcher.sandbox.keys import KeyRing

PREFIX = "k8s-aws-v1."
HEADER = "x-k8s-aws-id"
_HOST = re.compile(r"sts(\.[a-z0-9-]+)?\.amazonaws\.com(\.cn)?")
_LONGEST_S = 900
_PARAMETERS = frozenset(
    {
        *("action", "version", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-expires"),
        *("x-amz-security-token", "x-amz-signature", "x-amz-signedheaders", "x-amz-user-agent"),
    }
)


class Tokens:
    """The tokens that one cluster accepts: those of EKS, and its own token for its controllers and tests."""

    def __init__(self, cluster: str, keys: KeyRing) -> None:
        self.cluster, self._keys = cluster, keys
        self.own = secrets.token_hex(16)

    def allows(self, token: str) -> bool:
        """Whether a token is accepted."""
        is_own = secrets.compare_digest(token.encode(), self.own.encode())
        return is_own or refusal(token, self.cluster, self._keys, datetime.now(UTC)) is None


def refusal(token: str, cluster: str, keys: KeyRing, moment: datetime) -> str | None:
    """Why a token of EKS is rejected; None if it is accepted."""
    body = token.removeprefix(PREFIX)
    if body == token:
        return "token is missing expected prefix"
    if "=" in body:
        return "token is padded"
    try:
        url = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return "token is not base64"
    query = {name.lower(): value for name, value in parse_qs(urlsplit(url).query).items()}
    return (
        _address_problem(url)
        or _parameter_problem(query)
        or _age_problem(query, moment)
        or _signature_problem(url, cluster, keys)
    )


def _signature_problem(url: str, cluster: str, keys: KeyRing) -> str | None:
    """Why the signature is rejected: STS is called with the name of the cluster that receives the token."""
    parts = urlsplit(url)
    headers = {"host": parts.netloc, HEADER: cluster}
    try:
        signed.check(signed.Request(method="GET", target=f"{parts.path}?{parts.query}", headers=headers), keys)
    except signed.AccessError as problem:
        return str(problem)
    return None


def _address_problem(url: str) -> str | None:
    parts = urlsplit(url)
    is_local = parts.hostname in ("localhost", "127.0.0.1")
    if not (is_local or _HOST.fullmatch(parts.hostname or "")) or parts.path != "/":
        return f"unexpected host or path: {parts.hostname}{parts.path}"
    return None if is_local or parts.scheme == "https" else f"unexpected scheme {parts.scheme}"


def _parameter_problem(query: Mapping[str, list[str]]) -> str | None:
    unknown = sorted(set(query) - _PARAMETERS)
    if unknown or any(len(value) > 1 for value in query.values()):
        return f"non-whitelisted query parameter {', '.join(unknown)}"
    if query.get("action") != ["GetCallerIdentity"]:
        return "unexpected action parameter"
    signed = query.get("x-amz-signedheaders", [""])[0].split(";")
    return None if HEADER in signed else f"the {HEADER} header is not signed"


def _age_problem(query: Mapping[str, list[str]], moment: datetime) -> str | None:
    try:
        signed = datetime.strptime(query["x-amz-date"][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        lives = int(query["x-amz-expires"][0])
    except (KeyError, ValueError):
        return "date or time to live is missing"
    if lives > _LONGEST_S:
        return f"time to live: above {_LONGEST_S} s"
    return "the token has expired" if moment > signed + timedelta(seconds=_LONGEST_S) else None
