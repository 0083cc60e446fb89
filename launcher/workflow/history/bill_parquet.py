"""Reads Parquet files of a billing export as lines of CSV, equal to the export's CSV format.

AWS Data Exports writes a map column (tags) into CSV as JSON, and moments as ISO in UTC (user guide, table dictionary).
pyarrow is imported for the first Parquet file, if it is installed.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import IO, Any

from launcher.model.errors import UnreadableInputError, reason_of

ROWS = 10_000
"""Rows per read: a month of a large account does not fit into memory."""
INSTALL = "pip install pyarrow"
"""Not a requirement and not an extra: a wheel of 40 MB, needed only for bills exported in this format."""


def readable() -> bool:
    """Whether pyarrow is installed."""
    return find_spec("pyarrow") is not None


def parquet_lines(file: IO[bytes], name: str) -> Iterator[str]:
    """The CSV lines of a Parquet file, the column names first.

    Raises:
        UnreadableInputError: the file is damaged, or pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as problem:
        hint = f"{INSTALL}, or make an export of Format TEXT_OR_CSV and Compression GZIP"
        raise UnreadableInputError(f"{name} is a Parquet file, which needs pyarrow", hint=hint) from problem
    try:
        table = parquet.ParquetFile(file)
        names = table.schema_arrow.names
        yield from _csv_lines([names])
        for batch in table.iter_batches(batch_size=ROWS):
            columns = [batch.column(index).to_pylist() for index in range(len(names))]
            yield from _csv_lines([_cell(cell) for cell in row] for row in zip(*columns, strict=True))
    except (OSError, pa.ArrowException) as problem:
        raise UnreadableInputError(f"cannot read {name}: {reason_of(problem)}") from problem


def _csv_lines(rows: Iterable[list[str]]) -> Iterator[str]:
    for row in rows:
        line = io.StringIO()
        csv.writer(line).writerow(row)
        yield line.getvalue()


def _cell(value: Any) -> str:
    """A value in the form of the same export's CSV.

    >>> _cell(None), _cell(datetime(2026, 11, 20, 10, tzinfo=UTC)), _cell([("team", "speech")])
    ('', '2026-11-20T10:00:00Z', '{"team": "speech"}')
    """
    if value is None:
        return ""
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, list | dict):
        pairs = value.items() if isinstance(value, dict) else value
        return json.dumps({str(key): item for key, item in pairs}, default=str) if value else ""
    return str(value)
