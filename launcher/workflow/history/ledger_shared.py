"""A shared ledger: one object for each run, in the bucket that `SLIPWAY_LEDGER` names.

An entry is one PUT of an object that no other writer uses: the object is complete or absent, writers never conflict,
and a killed writer leaves nothing. If the entry of a run changes (its bill arrived), it gets another object; the later
one counts. Keys begin with the time of writing, so a reader lists only keys after the newest object that it has read.
This time is S3's (`LastModified`), so a writer's fast clock has no effect. `LATE` allows for keys of writers whose
clock is slow or whose computer slept between naming and writing.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from launcher.agent import safe_json
from launcher.aws.clients import FALLBACK_REGION
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.errors import SlipwayError, UnreadableInputError
from launcher.model.ledger import Ledger, LedgerEntry
from launcher.model.report import RunStatus
from launcher.model.stages import Notify
from launcher.model.units import number_of
from launcher.records.cache_folder import cache_folder
from launcher.records.ledger_document import entry_document, parse_entry
from launcher.records.ledger_index import LedgerIndex, entry_of_line
from launcher.records.run_folder import RunFolder
from launcher.workflow.history.ledger import newest_first
from launcher.workflow.history.ledger_entries import entry_of

VARIABLE = "SLIPWAY_LEDGER"
ENTRIES = "entries/"
LATE = timedelta(days=2)
AT_ONCE = 16
LARGEST = 1 << 20
"""The largest entry, bytes; larger objects are no entries."""
_MOMENT = "%Y%m%dT%H%M%S%fZ"
_KEY = re.compile(r"[0-9]{8}T[0-9]{12}Z-[a-z0-9-]{1,80}[.]json")
_OVER = {status.value for status in RunStatus if status is not RunStatus.RUNNING}


class _Sent(NamedTuple):
    """An entry in the store: S3's time of writing, its key, and its content."""

    modified: datetime
    key: str
    entry: LedgerEntry

    @property
    def order(self) -> tuple[datetime, str]:
        """The order of entries: of two entries of a run the later one counts.

        The earlier of the two clocks counts: a writer's clock may be ahead, and S3's is that of a copy if a ledger was
        copied.
        """
        return min(_moment(self.key) or self.modified, self.modified), self.key


def shared_place(environment: Mapping[str, str]) -> str | None:
    """The bucket and prefix of the shared ledger; None if the variable is not set.

    Raises:
        UnreadableInputError: the variable is no S3 URI.
    """
    uri = environment.get(VARIABLE)
    if not uri:
        return None
    if not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?", uri):
        raise UnreadableInputError(f"{VARIABLE} is {uri!r}, expected s3://BUCKET or s3://BUCKET/PREFIX")
    return uri


def share(name: str, folder: RunFolder, environment: Mapping[str, str], now: datetime, notify: Notify) -> None:
    """Write the entry of an ended run into the shared ledger, if one is configured.

    A ledger that cannot be written does not fail the run: a message says so, and `slipway ledger` sends the entry
    later.
    """
    try:
        uri = shared_place(environment)
        if uri is None:
            return
        entry = entry_of(name, folder)
        if _belongs(entry):
            send(_objects(uri, environment), entry, now)
    except SlipwayError as problem:
        notify(f"not written to the shared ledger ({problem.message}): slipway ledger sends it later")


def send(store: Objects, entry: LedgerEntry, now: datetime) -> str:
    """Write one entry, and return its key."""
    document = json.dumps(entry_document(entry), ensure_ascii=False, sort_keys=True).encode()
    # A hash of the content: two writers of one moment write two objects, or the same one twice.
    mark = hashlib.sha256(document).hexdigest()[:12]
    key = f"{ENTRIES}{now.strftime(_MOMENT)}-{entry.name}-{mark}.json"
    store.put(key, document)
    return key


def shared_ledger(uri: str, environment: Mapping[str, str], local: Ledger, now: datetime, notify: Notify) -> Ledger:
    """Every run of a shared ledger, the newest first; Slipway first sends the runs of this folder that it lacks."""
    store = _objects(uri, environment)
    known = _read_entries(store, environment, notify)
    shared = {sent.entry.identity: sent.entry for sent in sorted(known, key=lambda sent: sent.order)}
    missing = {
        entry.identity: entry for entry in local.entries if _belongs(entry) and shared.get(entry.identity) != entry
    }
    # Never a key before existing ones: a slow clock would hide the entry. S3 counts whole seconds; the
    # number of entries keeps two looks within one of them apart.
    after = timedelta(seconds=1, microseconds=len(known))
    moment = max([now, *(sent.modified + after for sent in known)])
    for entry in missing.values():
        send(store, entry, moment)
    if missing:
        notify(f"sent {number_of(len(missing), 'missing run')} of this folder")
    return Ledger(source=uri, entries=newest_first([*(shared | missing).values()]))


def _belongs(entry: LedgerEntry) -> bool:
    return entry.status in _OVER and not entry.simulated


def _objects(uri: str, environment: Mapping[str, str]) -> Objects:
    """The store of the ledger; S3 reports the bucket's region, and botocore follows."""
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or FALLBACK_REGION
    return Objects.at(Session(environment=environment, region=region), uri)


def _read_entries(store: Objects, environment: Mapping[str, str], notify: Notify) -> list[_Sent]:
    """The entries: from the index of earlier reads, and newer ones from S3."""
    # The index of a ledger is next to the prices, because it is the same for all folders.
    mark = hashlib.sha256(store.uri.encode()).hexdigest()[:16]
    index = LedgerIndex(path=cache_folder(environment).parent / "ledgers" / f"{mark}.index")
    lines, damaged = index.load_checked()
    known: dict[str, _Sent] = {}
    for key, (stamp, line) in lines.items():
        entry, modified = entry_of_line(line), _stamp_time(stamp)
        if entry is not None and modified is not None and _moment(key) is not None:
            known[key] = _Sent(modified, key, entry)
    # A line that cannot be read may be any run's: all keys are compared once more, and what is missing is read.
    damaged = damaged or len(known) < len(lines)
    newest = None if damaged else max((sent.modified for sent in known.values()), default=None)
    after = ENTRIES + (newest - LATE).strftime(_MOMENT) if newest else ENTRIES
    fresh = {sent.key: sent for sent in _read(store, _unread(store, after, known, notify), notify)}
    if fresh or damaged:
        entries = {key: (sent.modified.isoformat(), sent.entry) for key, sent in (known | fresh).items()}
        index.add(entries if damaged else {key: entries[key] for key in fresh}, len(entries), anew=damaged)
    return [*(known | fresh).values()]


def _unread(store: Objects, after: str, known: Mapping[str, _Sent], notify: Notify) -> Mapping[str, datetime]:
    """The keys to read, each with S3's time of writing; objects that only look like entries are reported."""
    modified: dict[str, datetime] = {}
    for object_ in store.list_objects(after=after, below=ENTRIES):
        key = object_.key.removeprefix(ENTRIES)
        if not _KEY.fullmatch(key) or key in known:
            continue
        if _moment(key) is None or object_.bytes > LARGEST:
            reason = (
                f"{object_.bytes:,} bytes, at most {LARGEST:,}"
                if _moment(key)
                else "its name does not begin with a date"
            )
            notify(f"left out: {store.uri}/{object_.key}: {reason}")
            continue
        modified[key] = object_.modified
    if len(modified) > AT_ONCE:
        notify(f"reading {len(modified):,} entries of {store.uri}")
    return modified


def _moment(key: str) -> datetime | None:
    """When the writer of an entry says that it was written; None if its key has no date."""
    try:
        return datetime.strptime(key.partition("-")[0], _MOMENT).replace(tzinfo=UTC)
    except ValueError:
        return None


def _stamp_time(text: str) -> datetime | None:
    """When S3 says that an entry of the index was written; None if the stamp is damaged."""
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        return None
    return stamp if stamp.tzinfo else None


def _read(store: Objects, keys: Mapping[str, datetime], notify: Notify) -> Iterable[_Sent]:

    def read(key: str) -> LedgerEntry | str:
        data = store.read(ENTRIES + key)
        try:
            return parse_entry(safe_json.loads(data))
        except ValueError as problem:
            return str(problem)

    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        for key, entry in zip(keys, pool.map(read, keys), strict=True):
            if isinstance(entry, str):
                notify(f"left out: {store.uri}/{ENTRIES}{key}: {entry}")
            else:
                yield _Sent(keys[key], key, entry)
