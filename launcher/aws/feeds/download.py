"""Downloads a public file: streamed, with progress, resumed after an interruption, skipped if unchanged.

Requests go through the proxy that `https_proxy`, `http_proxy` and `no_proxy` name, as in AWS's SDK.

Next to each file is a note with its address, ETag and day. For an incomplete file, Slipway requests the remainder on
condition that the file is unchanged (`If-Range`); it compares the complete file with the announced length.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ProxyError

from launcher.agent import safe_json
from launcher.model.errors import AwsError

CONNECT_S, READ_S = 10.0, 60.0
CHUNK = 1 << 18
AT_ONCE = 8
"""Connections per host that are retained."""
MAX_BYTES = 2 << 30
"""Limit of one file; AWS's largest, of EC2 in us-east-1, has about 400 MB."""
TRIES = 5
"""Connections for one file; each resumes at the end of the last."""
_UNREACHABLE = (ConnectTimeoutError, NewConnectionError, ProxyError)
"""Errors of a failed connection: Slipway gives up the host."""

Progress = Callable[[int, int | None], None]
"""Receives the bytes downloaded and the bytes of the complete file, None if the server does not report it."""
_AGAIN = "a server in between may have changed it: run it again, or by another way to the network"
_DIGITS = 20
_HINTS = {
    403: "the address may have moved: docs/prices.md names the settings",
    404: "AWS publishes no such file: the service is not in that region, or the address has moved",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """One public file on the disk.

    `tag` is the ETag, empty if the server gives none; `changed` the day of its last change, or None.
    """

    path: Path
    tag: str
    changed: date | None


class PublicDownloads:
    """Public files stored in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pools: dict[str, urllib3.PoolManager] = {}
        self._given_up: dict[tuple[str, str], AwsError] = {}

    def close(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            pool.clear()

    def fetch(self, url: str, *, known: str = "", progress: Progress = lambda *_: None) -> Download | None:
        """The file of an address; None if its ETag is still `known`.

        After its first connection failure, Slipway gives up a host: all later requests for its files fail immediately.

        Raises:
            AwsError: the file is not available, or was cut off on every try; the received part is reused next time.
        """
        route = urlsplit(url).netloc, _proxy(url)
        if (lost := self._given_up.get(route)) is not None:
            raise AwsError(lost.message, hint=lost.hint)
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{sha256(url.encode()).hexdigest()[:24]}.part"
        note = part.with_suffix(".json")
        for remaining in reversed(range(TRIES)):
            try:
                if not self._read(url, part, note, known, progress):
                    return None
            except _UNREACHABLE as problem:
                self._given_up[route] = _failure(url, problem)
                raise self._given_up[route] from problem
            except (HTTPError, OSError) as problem:
                if remaining and isinstance(problem, HTTPError):
                    continue
                raise _failure(url, problem) from problem
            noted = _note(note)
            return Download(path=part, tag=noted.get("tag", ""), changed=_day(noted.get("changed")))
        raise AwsError(f"{url}: no answer")

    def forget(self, file: Download) -> None:
        """Remove a file whose content was processed."""
        file.path.unlink(missing_ok=True)
        file.path.with_suffix(".json").unlink(missing_ok=True)

    def _read(self, url: str, part: Path, note: Path, known: str, progress: Progress) -> bool:
        noted = _note(note)
        downloaded = part.stat().st_size if part.exists() and noted.get("tag") else 0
        whole = bool(downloaded) and downloaded == noted.get("length")
        # A coded answer of some bytes may stand for any number of them.
        headers = {"Accept-Encoding": "identity"}
        if downloaded and not whole:
            headers |= {"Range": f"bytes={downloaded}-", "If-Range": noted["tag"]}
        elif whole or known:
            headers |= {"If-None-Match": noted["tag"] if whole else known}
        with self._request(url, headers) as answer:
            if answer.status == HTTPStatus.NOT_MODIFIED:
                if "If-None-Match" not in headers:
                    raise AwsError(f"{url}: the server answers 304, and nothing was there to be unchanged", hint=_AGAIN)
                return whole
            if answer.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
                part.unlink(missing_ok=True)
                raise AwsError(f"{url}: the server answers {answer.status}", hint=_HINTS.get(answer.status, ""))
            coding = answer.headers.get("Content-Encoding", "identity")
            if coding != "identity":
                raise AwsError(f"{url}: the file comes as {coding[:40]}, expected no encoding", hint=_AGAIN)
            begin = downloaded if answer.status == HTTPStatus.PARTIAL_CONTENT else 0
            stated = answer.headers.get("Content-Length")
            length = begin + int(stated) if stated and stated.isdecimal() and len(stated) < _DIGITS else None
            state = {"url": url, "tag": answer.headers.get("ETag", ""), "length": length}
            note.write_text(json.dumps({**state, "changed": answer.headers.get("Last-Modified")}), encoding="utf-8")
            _write(answer, url, part, begin=begin, length=length, progress=progress)
            return True

    @contextmanager
    def _request(self, url: str, headers: dict[str, str]) -> Iterator[Any]:
        # Data before a disconnect are kept, and the length is compared with the announced one.
        pool = self._pools.setdefault(proxy := _proxy(url), _pool(proxy))
        answer = pool.request("GET", url, headers=headers, preload_content=False, enforce_content_length=False)
        try:
            yield answer
        finally:
            answer.close()


def _write(answer: Any, url: str, part: Path, *, begin: int, length: int | None, progress: Progress) -> None:
    came = begin
    with part.open("ab" if begin else "wb") as file:
        for chunk in answer.stream(CHUNK, decode_content=False):
            came += len(chunk)
            if max(came, length or 0) > MAX_BYTES:
                part.unlink()
                raise AwsError(f"{url}: more than {MAX_BYTES:,} bytes, which no price file has", hint=_AGAIN)
            file.write(chunk)
            progress(came, length)
    if length is not None and came != length:
        raise urllib3.exceptions.ProtocolError(f"{came:,} of {length:,} bytes came")


def _note(path: Path) -> dict[str, Any]:
    """The note of a file; empty if the note is missing or unreadable."""
    try:
        note = safe_json.load(path)
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _day(stamp: str | None) -> date | None:
    """The day of an HTTP date, UTC.

    >>> _day("Fri, 20 Mar 2026 10:00:00 GMT")
    datetime.date(2026, 3, 20)
    """
    try:
        moment: datetime = parsedate_to_datetime(stamp or "")
        return moment.astimezone(UTC).date()
    except (OverflowError, TypeError, ValueError):
        return None


def _proxy(url: str) -> str:
    parts = urlsplit(url)
    return "" if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme, "")


def _pool(proxy: str) -> urllib3.PoolManager:
    timeout = urllib3.Timeout(connect=CONNECT_S, read=READ_S)
    if not proxy:
        return urllib3.PoolManager(maxsize=AT_ONCE, timeout=timeout, retries=False)
    auth = urllib3.util.parse_url(proxy).auth
    headers = urllib3.make_headers(proxy_basic_auth=auth) if auth else None
    return urllib3.ProxyManager(proxy, proxy_headers=headers, maxsize=AT_ONCE, timeout=timeout, retries=False)


def _failure(url: str, problem: Exception) -> AwsError:
    """The error for a file that was not downloaded; for an unreachable host, the error names only the host."""
    again = "run it again: the download continues where it stopped"
    if isinstance(problem, _UNREACHABLE):
        proxy = _proxy(url)
        route = f" through the proxy {urllib3.util.parse_url(proxy).netloc}" if proxy else ""
        hint = f"check https_proxy and no_proxy; {again}"
        return AwsError(f"{urlsplit(url).netloc} cannot be reached{route}: {_reason(problem)}", hint=hint)
    return AwsError(f"{url}: {_reason(problem)}", hint=again)


def _reason(problem: Exception) -> str:
    """An error in one line: the operating system's text if the error has one.

    >>> _reason(OSError("HTTPSConnection(host='x', port=443): Failed to resolve 'x' ([Errno -2] Name not known)"))
    'Name not known'
    """
    line = str(problem).partition("\n")[0]
    errno = re.search(r"\[Errno -?\d+\] ([^()\"]+)", line)
    return errno[1] if errno else line or type(problem).__name__
