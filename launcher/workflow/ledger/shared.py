"""A ledger that several people share: one object a run, in a bucket that `SLIPWAY_LEDGER` names.

An entry is one PUT of an object that nobody else writes: it is there whole or not at all, writers never meet, and one
that is killed leaves nothing. A run whose entry changes (its bill came) gets another object; the later one counts. Keys
begin with the moment of writing, so a reader asks only for what came since its last look. `LATE` allows for entries
whose writer's clock was behind or whose launcher was asleep between naming and writing.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

from launcher.aws.clients import FALLBACK_REGION
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.errors import SlipwayError, UnreadableInputError
from launcher.model.ledger import Ledger, LedgerEntry
from launcher.model.report import RunStatus
from launcher.records.cache_folder import cache_folder
from launcher.records.ledger_document import entry_document, parse_entry
from launcher.records.ledger_index import LedgerIndex, entry_of_line
from launcher.records.run_folder import RunFolder
from launcher.workflow.ledger.book import newest_first
from launcher.workflow.ledger.entries import entry_of

VARIABLE = "SLIPWAY_LEDGER"
ENTRIES = "entries/"
LATE = timedelta(days=2)
AT_ONCE = 16
LARGEST = 1 << 20
"""Bytes of an entry; what is larger is none."""
_MOMENT = "%Y%m%dT%H%M%S%fZ"
_KEY = re.compile(r"[0-9]{8}T[0-9]{12}Z-[a-z0-9-]{1,80}[.]json")
_OVER = {each.value for each in RunStatus if each is not RunStatus.RUNNING}


def shared_place(environment: Mapping[str, str]) -> str | None:
    """The bucket and prefix of the shared ledger; None where none is named.

    Raises:
        UnreadableInputError: the variable holds something else.
    """
    uri = environment.get(VARIABLE)
    if not uri:
        return None
    if not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?", uri):
        raise UnreadableInputError(f"{VARIABLE} is {uri!r}, expected s3://BUCKET or s3://BUCKET/PREFIX")
    return uri


def share(
    name: str, folder: RunFolder, environment: Mapping[str, str], now: datetime, say: Callable[[str], None]
) -> None:
    """Write the entry of a run that is over into the shared ledger, where there is one.

    A ledger that cannot be written ends no run: that is said, and `slipway ledger` sends the entry later.
    """
    try:
        uri = shared_place(environment)
        if uri is None:
            return
        entry = entry_of(name, folder)
        if _belongs(entry):
            send(_objects(uri, environment), entry, now)
    except SlipwayError as problem:
        say(f"not written to the shared ledger ({problem.message}): slipway ledger sends it later")


def send(store: Objects, entry: LedgerEntry, now: datetime) -> str:
    """Write one entry; its key.

    Raises:
        AwsError: it is not there.
    """
    document = json.dumps(entry_document(entry), ensure_ascii=False, sort_keys=True).encode()
    # A hash of the content: two writers of one moment write two objects, or the same one twice.
    mark = hashlib.sha256(document).hexdigest()[:12]
    key = f"{ENTRIES}{now.strftime(_MOMENT)}-{entry.name}-{mark}.json"
    store.put(key, document)
    return key


def shared_ledger(
    uri: str, environment: Mapping[str, str], own: Ledger, now: datetime, say: Callable[[str], None]
) -> Ledger:
    """Every run of a shared ledger, the newest first; runs of this folder that it lacks are sent first.

    Raises:
        AwsError: it cannot be read.
    """
    store = _objects(uri, environment)
    known = _known(store, environment, say)
    there = _newest(known)
    missing = [each for each in own.entries if _belongs(each) and there.get(each.identity) != each]
    for each in missing:
        key = send(store, each, now)
        known[key.removeprefix(ENTRIES)] = ("", each)
    if missing:
        say(f"{len(missing)} runs of this folder were not in it yet: sent")
    return Ledger(source=uri, entries=newest_first(list(_newest(known).values())))


def _newest(known: Mapping[str, tuple[str, LedgerEntry]]) -> dict[tuple[str, str, str], LedgerEntry]:
    """The entry of every run that was written last."""
    return {entry.identity: entry for key in sorted(known) for entry in (known[key][1],)}


def _belongs(entry: LedgerEntry) -> bool:
    """Whether a run has an entry in a shared ledger: it is over, and it ran in AWS."""
    return entry.status in _OVER and not entry.simulated


def _objects(uri: str, environment: Mapping[str, str]) -> Objects:
    """The place of the ledger; S3 says itself in which region a bucket is, and botocore follows."""
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or FALLBACK_REGION
    return Objects.at(Session(environment=environment, region=region), uri)


def _known(
    store: Objects, environment: Mapping[str, str], say: Callable[[str], None]
) -> dict[str, tuple[str, LedgerEntry]]:
    """The entries by their keys: from the index of an earlier look, and from S3 what came since."""
    index = LedgerIndex(path=_index_path(store, environment))
    known: dict[str, tuple[str, LedgerEntry]] = {}
    for key, (stamp, line) in index.load().items():
        entry = entry_of_line(line)
        if entry is not None:
            known[key] = (stamp, entry)
    newest = max(known, default="")
    after = ENTRIES + _before(newest) if newest else ENTRIES
    listed = [each for each in store.found(after=after, below=ENTRIES) if each.bytes <= LARGEST]
    keys = [key for each in listed if _KEY.fullmatch(key := each.key.removeprefix(ENTRIES)) and key not in known]
    if len(keys) > AT_ONCE:
        say(f"reading {len(keys):,} entries of {store.uri}")
    fresh = dict(_read(store, keys, say))
    if fresh:
        index.add(fresh, len(known) + len(fresh))
    return known | fresh


def _index_path(store: Objects, environment: Mapping[str, str]) -> Path:
    """Where what was read of a ledger is kept: beside the prices, since it is the same for all folders."""
    mark = hashlib.sha256(store.uri.encode()).hexdigest()[:16]
    return cache_folder(environment).parent / "ledgers" / f"{mark}.index"


def _before(key: str) -> str:
    """From where a later look lists."""
    moment = datetime.strptime(key.partition("-")[0], _MOMENT)  # noqa: DTZ007 - it is written again as it was
    return (moment - LATE).strftime(_MOMENT)


def _read(
    store: Objects, keys: Iterable[str], say: Callable[[str], None]
) -> Iterable[tuple[str, tuple[str, LedgerEntry]]]:
    """Entries from S3; one that is none is named and left out."""

    def read(key: str) -> tuple[str, LedgerEntry | str]:
        data = store.read(ENTRIES + key)
        try:
            return key, parse_entry(json.loads(data))
        except (ValueError, RecursionError) as problem:
            return key, str(problem)

    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        for key, entry in pool.map(read, keys):
            if isinstance(entry, str):
                say(f"left out: {store.uri}/{ENTRIES}{key}: {entry}")
            else:
                yield key, ("", entry)
