"""Watching the instance metadata service (IMDSv2) for a spot interruption notice and a rebalance recommendation."""

import http.client
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from launcher.agent.node.notice import Notice, rebalance_notice, spot_notice

DEFAULT_ENDPOINT = "http://169.254.169.254"
ENDPOINT_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
"""The SDKs' own variable; a stand-in is named with it."""

_TOKEN_PATH = "/latest/api/token"  # noqa: S105  a path
_ACTION_PATH = "/latest/meta-data/spot/instance-action"
_REBALANCE_PATH = "/latest/meta-data/events/recommendations/rebalance"
_TOKEN_TTL_S = "21600"  # noqa: S105  six hours, the longest that IMDSv2 gives
_TIMEOUT_S = 2.0
_BODY_BYTES = 4096
_OK, _UNAUTHORIZED, _NOT_FOUND = 200, 401, 404


def endpoint(environment: Mapping[str, str]) -> str:
    """Base URL of the metadata service."""
    return environment.get(ENDPOINT_VARIABLE) or DEFAULT_ENDPOINT


class _TroubleError(Exception):
    """The service did not say whether there is a notice; `kind` is told once, with the `detail` of its first time."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind)
        self.kind = kind
        self.detail = detail


class SpotWatch(threading.Thread):
    """Asks every few seconds until there is a notice. Nothing that the service answers, nor its absence, stops it."""

    def __init__(
        self,
        base_url: str,
        *,
        poll_s: float,
        on_notice: Callable[[Notice], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        """Prepare the thread.

        Args:
            base_url: Of the metadata service.
            poll_s: Seconds between two looks.
            on_notice: Called once with the notice, and before that once with a rebalance recommendation if one comes.
            on_trouble: Called once for every new kind of trouble.
        """
        super().__init__(name="spot-watch", daemon=True)
        self._url = base_url
        self._poll_s = poll_s
        self._on_notice = on_notice
        self._on_trouble = on_trouble
        self._token = ""
        self._recommended = False
        self._reported: set[str] = set()
        self._over = threading.Event()

    def stop(self) -> None:
        """End the thread after the request under way."""
        self._over.set()

    def run(self) -> None:
        """Look until there is a notice."""
        while not self._over.is_set():
            try:
                notice = self._look(_ACTION_PATH, lambda body, now: spot_notice(body, now=now))
                if notice is None and not self._recommended:
                    notice = self._look(_REBALANCE_PATH, lambda body, _: rebalance_notice(body))
            except _TroubleError as error:
                self._tell(error)
            else:
                if notice is not None:
                    self._on_notice(notice)
                    if notice.ends:
                        return
                    self._recommended = True
            self._over.wait(self._poll_s)

    def _look(self, path: str, parse: Callable[[str, datetime], Notice]) -> Notice | None:
        """What is at a path, if anything does; it is parsed with the time that the service has."""
        try:
            if not self._token:
                self._token = self._new_token()
            status, body, now = self._request("GET", path, {"X-aws-ec2-metadata-token": self._token})
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._token = ""  # one that no header can hold would be refused for as long as it is kept
            raise _TroubleError(f"the metadata service does not answer: {type(error).__name__}", str(error)) from error
        if status == _NOT_FOUND:
            return None
        if status == _UNAUTHORIZED:
            self._token = ""
            raise _TroubleError("the metadata service refused its token; a new one is asked for")
        if status != _OK:
            raise _TroubleError(f"the metadata service answered {status}")
        try:
            return parse(body, now)
        except ValueError as error:
            raise _TroubleError("the metadata service answered what is no notice", str(error)) from error

    def _new_token(self) -> str:
        status, token, _ = self._request("PUT", _TOKEN_PATH, {"X-aws-ec2-metadata-token-ttl-seconds": _TOKEN_TTL_S})
        if status != _OK:
            raise _TroubleError(f"no token: the metadata service answered {status}")
        return token

    def _request(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str, datetime]:
        parts = urlsplit(self._url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=_TIMEOUT_S)
        try:
            connection.request(method, parts.path.rstrip("/") + path, headers=headers)
            response = connection.getresponse()
            now = _date(response.getheader("Date"))
            return response.status, response.read(_BODY_BYTES).decode("latin-1").strip(), now
        finally:
            connection.close()

    def _tell(self, trouble: _TroubleError) -> None:
        if trouble.kind not in self._reported:
            self._reported.add(trouble.kind)
            self._on_trouble(f"{trouble.kind}: {trouble.detail}" if trouble.detail else trouble.kind)


def _date(text: str | None) -> datetime:
    """The time by the service's own clock, which its notices go by; by the node's where it does not say."""
    try:
        date = parsedate_to_datetime(text or "")
        return date.astimezone(timezone.utc) if date.tzinfo is not None else date.replace(tzinfo=timezone.utc)
    except (OverflowError, TypeError, ValueError):
        return datetime.now(timezone.utc)
