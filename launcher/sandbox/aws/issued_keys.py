"""Access keys that the embedded IAM and STS have issued, and two calls for which moto returns fixed keys.

Emulated: active keys of users; keys of assumed roles; GetSessionToken and GetFederationToken.
"""

from datetime import UTC, timedelta
from typing import Any

from moto.core.responses import ActionResult
from moto.iam.models import iam_backends
from moto.sts.models import sts_backends
from moto.sts.responses import TokenResponse

from launcher.sandbox.keys import AccessKey, KeyRing

_ACTIVE = "Active"
_LONG_S = 43_200


def issued_key(key_id: str) -> AccessKey | None:
    """An issued key by its id; None if it is unknown or inactive."""
    for account in list(sts_backends.values()):
        for sts in list(account.values()):
            role = sts.get_assumed_role_from_access_key(key_id)
            if role is not None:
                ends = role.expiration.replace(tzinfo=UTC)
                return AccessKey(id=key_id, secret=role.secret_access_key, token=role.session_token, ends=ends)
    for users in list(iam_backends.values()):
        for iam in list(users.values()):
            stored = iam.access_keys.get(key_id)
            # A key of a role has no user, and is above.
            if stored is not None and stored.user_name is not None and stored.status == _ACTIVE:
                return AccessKey(id=key_id, secret=stored.secret_access_key)
    return None


def install(keys: KeyRing) -> None:
    """Make STS issue keys that the sandbox accepts."""

    def with_key(call: Any) -> Any:
        def answer(response: Any) -> ActionResult:
            result = call(response).result
            seconds = response._get_int_param("DurationSeconds", _LONG_S)  # noqa: SLF001  the way moto's own responses read
            key = keys.grant(timedelta(seconds=seconds))
            credentials = {"AccessKeyId": key.id, "SecretAccessKey": key.secret, "SessionToken": key.token}
            return ActionResult({**result, "Credentials": {**credentials, "Expiration": key.ends}})

        return answer

    for name in ("get_session_token", "get_federation_token"):
        setattr(TokenResponse, name, with_key(getattr(TokenResponse, name)))
