"""Files of a billing export, on disk or in S3: of each billing period the newest version, opened one by one.

An export that does not overwrite keeps every version of a period in a folder of its own (AWS Data Exports user guide,
"Understanding export delivery"; the older report likewise): reading two of them would count everything twice.
"""

import gzip
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from launcher.aws.objects import Objects, StoredObject
from launcher.aws.session import Session
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.workflow.history.bill_parquet import parquet_lines

SUFFIXES = (".csv", ".csv.gz", ".csv.zip", ".zip", ".parquet")
PERIOD = re.compile(r"BILLING_PERIOD=(\d{4}-\d{2})|(\d{8})-\d{8}")
"""The folder of a billing period: of a data export, and of the older report."""


class ExportFile(NamedTuple):
    """One file: its name below the place, when it was written, and how its bytes are had."""

    name: str
    modified: datetime
    fetch: Callable[[IO[bytes]], None]


def export_files(place: str, environment: Mapping[str, str], region: str) -> tuple[ExportFile, ...]:
    """The files of an export: of a file, a folder, or a place in S3.

    Raises:
        UnreadableInputError: there are none, or none that can be read.
        AwsError: the bucket cannot be listed.
    """
    found = _stored(place, environment, region) if place.startswith("s3://") else _on_disk(Path(place))
    good = [each for each in found if each.name.lower().endswith(SUFFIXES)]
    if not good:
        raise UnreadableInputError(f"{place} holds no export: expected {', '.join(SUFFIXES)}")
    return _newest_versions(good)


def _newest_versions(files: Iterable[ExportFile]) -> tuple[ExportFile, ...]:
    """Of every period the files of the folder that was written last."""
    versions: dict[str, dict[str, list[ExportFile]]] = {}
    for each in files:
        folder = each.name.rpartition("/")[0]
        found = list(PERIOD.finditer(folder))
        # Up to the period, so that two exports below one place stay two.
        period = folder[: found[-1].end()] if found else each.name
        versions.setdefault(period, {}).setdefault(folder, []).append(each)
    chosen = []
    for folders in versions.values():
        newest = max(folders, key=lambda folder: (max(each.modified for each in folders[folder]), folder))
        chosen += sorted(folders[newest])
    return tuple(chosen)


def exports_of(files: Sequence[ExportFile]) -> tuple[str, ...]:
    """The exports that files belong to: what stands before the folder of a period."""
    return tuple(sorted({_export(each.name) for each in files}))


def _export(name: str) -> str:
    found = PERIOD.search(name)
    return name[: found.start()] if found else ""


def refuse_several(place: str, files: Sequence[ExportFile]) -> None:
    """Refuse a place with more than one export below it: each has the whole bill.

    Raises:
        ImpossibleError: there are several, with their names.
    """
    names = exports_of(files)
    if len(names) > 1:
        listed = ", ".join(each or "files beside them" for each in names)
        message = f"{place} holds {len(names)} exports, each with the whole bill: {listed}"
        raise ImpossibleError(message, hint="name one of them")


@contextmanager
def opened(file: ExportFile) -> Iterator[Iterable[str]]:
    """The lines of a file, unpacked.

    Raises:
        UnreadableInputError: it is damaged, or a Parquet file where pyarrow is not installed.
    """
    with TemporaryFile() as kept:
        file.fetch(kept)
        kept.seek(0)
        name = file.name.lower()
        try:
            if name.endswith(".gz"):
                with gzip.open(kept, "rt", encoding="utf-8", newline="") as text:
                    yield text
            elif name.endswith(".zip"):
                with zipfile.ZipFile(kept) as packed, packed.open(packed.namelist()[0]) as inner:
                    yield TextIOWrapper(inner, encoding="utf-8", newline="")
            elif name.endswith(".parquet"):
                yield parquet_lines(kept, file.name)
            else:
                yield TextIOWrapper(kept, encoding="utf-8", newline="")
        except (EOFError, IndexError, OSError, zipfile.BadZipFile) as problem:
            raise UnreadableInputError(f"cannot read {file.name}: {problem}") from problem


def _on_disk(place: Path) -> list[ExportFile]:
    """The files of a folder, or the one that is named."""
    if not place.exists():
        raise UnreadableInputError(f"there is no {place}", hint="a file, a folder, or s3://BUCKET/PREFIX")
    paths = sorted(each for each in place.rglob("*") if each.is_file()) if place.is_dir() else [place]
    root = place if place.is_dir() else place.parent
    return [_file(each, each.relative_to(root).as_posix()) for each in paths]


def _file(path: Path, name: str) -> ExportFile:
    def fetch(into: IO[bytes]) -> None:
        try:
            with path.open("rb") as stream:
                while block := stream.read(1 << 20):
                    into.write(block)
        except OSError as problem:
            raise UnreadableInputError(f"cannot read {path}: {problem.strerror}") from problem

    return ExportFile(name, datetime.fromtimestamp(path.stat().st_mtime, UTC), fetch)


def _stored(place: str, environment: Mapping[str, str], region: str) -> list[ExportFile]:
    """The objects below a place in S3, or the one that is named."""
    bucket, _, key = place.removeprefix("s3://").partition("/")
    if not bucket:
        raise UnreadableInputError(f"{place} names no bucket", hint="s3://BUCKET/PREFIX")
    session = Session(environment=environment, region=region)
    if key.lower().endswith(SUFFIXES):
        folder, _, name = key.rpartition("/")
        store = Objects.at(session, f"s3://{bucket}/{folder}")
        found = store.find(name)
        listed: tuple[StoredObject, ...] = () if found is None else (found,)
    else:
        store = Objects.at(session, place)
        listed = store.found()

    def one(name: str, modified: datetime) -> ExportFile:
        return ExportFile(name, modified, lambda into: store.blocks(name, lambda block: _keep(into, block)))

    return [one(each.key, each.modified) for each in listed]


def _keep(into: IO[bytes], block: bytes) -> None:
    into.write(block)
