"""A public file onto the disk: streamed, with progress, gone on with after a cut, left alone where it has not changed.

It is asked for through the proxy that `https_proxy`, `http_proxy` and `no_proxy` name, as AWS's SDK does.

Beside each file lies a note of its address, ETag and day. A part that was cut off is asked for from where it ends,
on condition that the file is still the same (`If-Range`); the whole is held against the length that was promised.
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
from urllib3.exceptions import HTTPError, NewConnectionError, ProxyError

from launcher.model.errors import AwsError

CONNECT_S, READ_S = 10.0, 60.0
CHUNK = 1 << 18
AT_ONCE = 8
"""Connections to one host that are kept."""
TRIES = 5
"""Connections for one file; each goes on where the last was cut."""

Progress = Callable[[int, int | None], None]
"""Takes the bytes that are there and the bytes of the whole, None where the server does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """One public file as it lies on the disk.

    `tag` is the ETag, empty where the server gives none; `changed` the day of its last change, None likewise.
    """

    path: Path
    tag: str
    changed: date | None


class Downloads:
    """Public files kept in one folder."""

    def __init__(self, folder: Path) -> None:
        """Nothing is asked yet; `folder` need not exist."""
        self.folder = folder
        self._pools: dict[str, urllib3.PoolManager] = {}

    def close(self) -> None:
        """Close all connections."""
        for each in self._pools.values():
            each.clear()

    def fetch(self, url: str, *, known: str = "", progress: Progress = lambda *_: None) -> Download | None:
        """The file of an address; None where its ETag is still `known`.

        Raises:
            AwsError: it cannot be had, or was cut off on every try; what came is kept for the next time.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{sha256(url.encode()).hexdigest()[:24]}.part"
        note = part.with_suffix(".json")
        for left in reversed(range(TRIES)):
            try:
                if not self._read(url, part, note, known, progress):
                    return None
            except (HTTPError, OSError) as problem:
                if left and isinstance(problem, HTTPError):
                    continue
                raise _failure(url, problem) from problem
            kept = _note(note)
            return Download(path=part, tag=kept.get("tag", ""), changed=_day(kept.get("changed")))
        raise AwsError(f"{url}: no answer")

    def forget(self, file: Download) -> None:
        """Remove a file whose content was taken."""
        file.path.unlink(missing_ok=True)
        file.path.with_suffix(".json").unlink(missing_ok=True)

    def _read(self, url: str, part: Path, note: Path, known: str, progress: Progress) -> bool:
        """One connection: whether the file is there in whole, False where it has not changed.

        Raises:
            AwsError: the server refused.
            HTTPError: the connection was cut, or less came than was promised.
        """
        kept = _note(note)
        there = part.stat().st_size if part.exists() and kept.get("tag") else 0
        whole = bool(there) and there == kept.get("length")
        headers = {"If-None-Match": kept["tag"] if whole else known} if whole or known else {}
        if there and not whole:
            headers = {"Range": f"bytes={there}-", "If-Range": kept["tag"]}
        with self._asked(url, headers) as answer:
            if answer.status == HTTPStatus.NOT_MODIFIED:
                return whole
            if answer.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
                part.unlink(missing_ok=True)
                raise AwsError(f"{url}: the server answers {answer.status}", hint=_HINTS.get(answer.status, ""))
            begin = there if answer.status == HTTPStatus.PARTIAL_CONTENT else 0
            length = _length(answer, begin)
            state = {"url": url, "tag": answer.headers.get("ETag", ""), "length": length}
            note.write_text(json.dumps({**state, "changed": answer.headers.get("Last-Modified")}), encoding="utf-8")
            came = begin
            with part.open("ab" if begin else "wb") as file:
                for chunk in answer.stream(CHUNK):
                    file.write(chunk)
                    came += len(chunk)
                    progress(came, length)
            if length is not None and came != length:
                raise urllib3.exceptions.ProtocolError(f"{came:,} of {length:,} bytes came")
            return True

    @contextmanager
    def _asked(self, url: str, headers: dict[str, str]) -> Iterator[Any]:
        # What came before a cut is kept, and the length is held against the promise here.
        pool = self._pools.setdefault(proxy := _proxy(url), _pool(proxy))
        answer = pool.request("GET", url, headers=headers, preload_content=False, enforce_content_length=False)
        try:
            yield answer
        finally:
            answer.close()


_HINTS = {
    403: "the address may have moved: docs/prices.md names the settings",
    404: "AWS publishes no such file: the service is not in that region, or the address has moved",
}


def _length(answer: Any, begin: int) -> int | None:
    """Bytes of the whole file."""
    stated = answer.headers.get("Content-Length")
    return begin + int(stated) if stated and stated.isdecimal() else None


def _note(path: Path) -> dict[str, Any]:
    """What is known of a file; nothing where its note is missing or unreadable."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _day(stamp: str | None) -> date | None:
    """The day of an HTTP date, UTC.

    >>> _day("Fri, 20 Mar 2026 10:00:00 GMT")
    datetime.date(2026, 3, 20)
    """
    try:
        moment: datetime = parsedate_to_datetime(stamp or "")
    except (TypeError, ValueError):
        return None
    return moment.astimezone(UTC).date()


def _proxy(url: str) -> str:
    """The proxy that the environment names for an address; empty for none."""
    parts = urlsplit(url)
    return "" if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme, "")


def _pool(proxy: str) -> urllib3.PoolManager:
    """Connections to AWS, or to a proxy, with the name and password that its address holds."""
    timeout = urllib3.Timeout(connect=CONNECT_S, read=READ_S)
    if not proxy:
        return urllib3.PoolManager(maxsize=AT_ONCE, timeout=timeout, retries=False)
    auth = urllib3.util.parse_url(proxy).auth
    headers = urllib3.make_headers(proxy_basic_auth=auth) if auth else None
    return urllib3.ProxyManager(proxy, proxy_headers=headers, maxsize=AT_ONCE, timeout=timeout, retries=False)


def _failure(url: str, problem: Exception) -> AwsError:
    """What to say of a file that did not come; a host that is out of reach is named without the file."""
    again = "run it again: what came is kept"
    if isinstance(problem, (NewConnectionError, ProxyError)):
        proxy = _proxy(url)
        way = f" through the proxy {urllib3.util.parse_url(proxy).netloc}" if proxy else ""
        hint = f"{again}; https_proxy and no_proxy of the environment are heeded"
        return AwsError(f"{urlsplit(url).netloc} cannot be reached{way}: {_said(problem)}", hint=hint)
    return AwsError(f"{url}: {_said(problem)}", hint=again)


def _said(problem: Exception) -> str:
    """An error in one line: the system's own words where it has them.

    >>> _said(OSError("HTTPSConnection(host='x', port=443): Failed to resolve 'x' ([Errno -2] Name not known)"))
    'Name not known'
    """
    line = str(problem).partition("\n")[0]
    errno = re.search(r"\[Errno -?\d+\] ([^()\"]+)", line)
    return errno[1] if errno else line or type(problem).__name__
