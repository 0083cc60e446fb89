"""Files of a billing export, on disk or in S3: of each billing period the newest version, opened one by one.

An export that does not overwrite keeps every version of a period in a folder of its own (AWS Data Exports user guide,
"Understanding export delivery"; the older report likewise): reading two of them would count everything twice.
"""

import gzip
import re
import shlex
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from launcher.aws.calls import forbidden
from launcher.aws.objects import Objects
from launcher.aws.session import Session, error_code
from launcher.catalog.regular_file import UnusableFileError, opened_regular
from launcher.model.aws_results import StoredObject
from launcher.model.errors import AwsError, ImpossibleError, UnreadableInputError, reason_of
from launcher.workflow.history.bill_parquet import parquet_lines

SUFFIXES = (".csv", ".csv.gz", ".csv.zip", ".zip", ".parquet")
PERIOD = re.compile(r"BILLING_PERIOD=(\d{4}-\d{2})|(\d{8})-\d{8}")
"""The folder of a billing period, in a data export or in the older report."""


class ExportFile(NamedTuple):
    """One file: its name below the place, its modification time, and the function that fetches its bytes."""

    name: str
    modified: datetime
    fetch: Callable[[IO[bytes]], None]


def export_files(place: str, environment: Mapping[str, str], region: str) -> tuple[ExportFile, ...]:
    """The files of an export at a file path, a folder, or a place in S3.

    Raises:
        UnreadableInputError: the place has no files, or no readable ones.
    """
    files = _stored_files(place, environment, region) if place.startswith("s3://") else _on_disk(Path(place))
    good = [file for file in files if file.name.lower().endswith(SUFFIXES)]
    if not good:
        raise UnreadableInputError(f"{place} contains no export: expected {', '.join(SUFFIXES)}")
    return _newest_versions(good)


def _newest_versions(files: Iterable[ExportFile]) -> tuple[ExportFile, ...]:
    versions: dict[str, dict[str, list[ExportFile]]] = {}
    for file in files:
        folder = file.name.rpartition("/")[0]
        periods = list(PERIOD.finditer(folder))
        # Up to the period, so that two exports below one place stay two.
        period = folder[: periods[-1].end()] if periods else file.name
        versions.setdefault(period, {}).setdefault(folder, []).append(file)
    chosen = []
    for folders in versions.values():
        newest = max(folders, key=lambda folder: (max(stored.modified for stored in folders[folder]), folder))
        chosen += sorted(folders[newest])
    return tuple(chosen)


def exports_of(files: Sequence[ExportFile]) -> tuple[str, ...]:
    """The exports that files belong to: the path before the folder of a period."""
    return tuple(sorted({_export(file.name) for file in files}))


def _export(name: str) -> str:
    period = PERIOD.search(name)
    return name[: period.start()] if period else ""


def refuse_several(place: str, files: Sequence[ExportFile]) -> None:
    """Refuse a place that contains more than one export: each has the entire bill.

    Raises:
        ImpossibleError: the place has several exports; the error lists their names.
    """
    names = exports_of(files)
    if len(names) > 1:
        listed = ", ".join(name or "files next to them" for name in names)
        message = f"{place} contains {len(names)} exports, each with the whole bill: {listed}"
        raise ImpossibleError(message, hint="choose one of them")


@contextmanager
def open_lines(file: ExportFile) -> Iterator[Iterable[str]]:
    """The decompressed lines of a file.

    Raises:
        UnreadableInputError: the file is damaged, or is Parquet and pyarrow is not installed.
    """
    with TemporaryFile() as content:
        file.fetch(content)
        content.seek(0)
        name = file.name.lower()
        try:
            if name.endswith(".gz"):
                with gzip.open(content, "rt", encoding="utf-8", newline="") as text:
                    yield text
            elif name.endswith(".zip"):
                with zipfile.ZipFile(content) as packed, packed.open(packed.namelist()[0]) as inner:
                    yield TextIOWrapper(inner, encoding="utf-8", newline="")
            elif name.endswith(".parquet"):
                yield parquet_lines(content, file.name)
            else:
                yield TextIOWrapper(content, encoding="utf-8", newline="")
        except (EOFError, IndexError, OSError, zipfile.BadZipFile) as problem:
            raise UnreadableInputError(f"cannot read {file.name}: {reason_of(problem)}") from problem


def _on_disk(place: Path) -> list[ExportFile]:
    if not place.exists():
        raise UnreadableInputError(f"{place} does not exist", hint="a file, a folder, or s3://BUCKET/PREFIX")
    paths = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
    root = place if place.is_dir() else place.parent
    return [_file(path, path.relative_to(root).as_posix()) for path in paths]


def _file(path: Path, name: str) -> ExportFile:
    def fetch(into: IO[bytes]) -> None:
        try:
            with opened_regular(path) as stream:
                while block := stream.read(1 << 20):
                    into.write(block)
        except (OSError, UnusableFileError) as problem:
            reason = (problem.strerror if isinstance(problem, OSError) else None) or problem
            raise UnreadableInputError(f"cannot read {path}: {reason}") from problem

    return ExportFile(name, datetime.fromtimestamp(path.stat().st_mtime, UTC), fetch)


def _stored_files(place: str, environment: Mapping[str, str], region: str) -> list[ExportFile]:
    bucket, _, key = place.removeprefix("s3://").partition("/")
    if not bucket:
        raise UnreadableInputError(f"{place} names no bucket", hint="s3://BUCKET/PREFIX")
    session = Session(environment=environment, region=region)
    with _hinting_policy(place):
        if key.lower().endswith(SUFFIXES):
            folder, _, name = key.rpartition("/")
            store = Objects.at(session, f"s3://{bucket}/{folder}")
            stored = store.find(name)
            listed: tuple[StoredObject, ...] = () if stored is None else (stored,)
        else:
            store = Objects.at(session, place)
            listed = store.list_objects()

    def one(name: str, modified: datetime) -> ExportFile:
        def fetch(into: IO[bytes]) -> None:
            with _hinting_policy(place):
                store.blocks(name, lambda block: _write(into, block))

        return ExportFile(name, modified, fetch)

    return [one(object_.key, object_.modified) for object_ in listed]


@contextmanager
def _hinting_policy(place: str) -> Iterator[None]:
    """Where S3 refuses an export, name the command whose policies allow it.

    S3 answers 403 without a text to HeadObject: its code is then the number.
    """
    try:
        yield
    except AwsError as problem:
        if not forbidden(problem) and error_code(problem) != "403":
            raise
        command = f"slipway policies --account ID --region REGION -o policies --export {shlex.quote(place)}"
        hint = f"{command} writes the policies that allow it, for an administrator"
        raise AwsError(str(problem), hint=hint) from problem.__cause__


def _write(into: IO[bytes], block: bytes) -> None:
    into.write(block)
