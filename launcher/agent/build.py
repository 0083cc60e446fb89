"""Builds the agent's single file: its modules and the AWS SDK, in an archive that any Python >= 3.10 starts.

The same installed packages give the same bytes: sorted entries, one fixed time, fixed permissions, no bytecode, nothing
compressed (compressed bytes differ between versions of zlib).
"""

import hashlib
import importlib.metadata
import io
import json
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from launcher.agent import safe_json
from launcher.agent.bootstrap import PAYLOAD

DISTRIBUTIONS = ("boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3")
SERVICES = ("s3", "secretsmanager", "ssm", "sts")
"""botocore describes every AWS service; the agent uses only these (sts: credentials of a role), and a pod's
first process reads secrets and parameters with the same SDK (templates/kubernetes/start.py)."""

_ENDPOINTS = PurePosixPath("botocore/data/endpoints.json")
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip archive can hold
_LEFT_OUT = frozenset({"bootstrap.py", "build.py"})
_LICENCES = ("LICENSE", "LICENCE", "NOTICE", "COPYING")


def build(destination: Path) -> str:
    """Write the agent to `destination`, executable.

    Args:
        destination: The file; its folder exists.

    Returns:
        SHA-256 of the file, hexadecimal.

    Raises:
        importlib.metadata.PackageNotFoundError: a package of the SDK is not installed.
    """
    content = _content()
    partial = destination.with_name(destination.name + ".tmp")
    partial.write_bytes(content)
    partial.chmod(0o755)
    partial.replace(destination)
    return hashlib.sha256(content).hexdigest()


@cache
def _content() -> bytes:
    """The file's content: a process that launches several jobs reads the packages once."""
    return b"#!/usr/bin/env python3\n" + _archive(dict(_entries()))


def _archive(entries: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression=zipfile.ZIP_STORED) as archive:
        for name in sorted(entries):
            entry = zipfile.ZipInfo(name, date_time=_TIME)
            entry.create_system = 3  # Unix, wherever it is built
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, entries[name])
    return buffer.getvalue()


def _entries() -> Iterator[tuple[str, bytes]]:
    package = Path(__file__).parent
    yield "__main__.py", (package / "bootstrap.py").read_bytes()
    yield f"{PAYLOAD}launcher/__init__.py", b""
    for path in package.rglob("*.py"):
        if path.name not in _LEFT_OUT:
            yield f"{PAYLOAD}launcher/agent/{path.relative_to(package).as_posix()}", path.read_bytes()
    for path in package.rglob("*.csv"):
        yield f"{PAYLOAD}launcher/agent/{path.relative_to(package).as_posix()}", path.read_bytes()
    for name in DISTRIBUTIONS:
        yield from _distribution(name)


def _distribution(name: str) -> Iterator[tuple[str, bytes]]:
    for file in importlib.metadata.files(name) or ():
        path = PurePosixPath(file.as_posix())
        if path.parts[0].endswith(".dist-info"):
            if path.name.upper().startswith(_LICENCES):
                yield f"{PAYLOAD}licences/{name}/{path.name}", file.read_binary()
        elif _is_needed(path):
            content = file.read_binary()
            yield f"{PAYLOAD}{path}", _reduced_endpoints(content) if path == _ENDPOINTS else content


def _is_needed(path: PurePosixPath) -> bool:
    """Whether the agent needs a file of the SDK: no bytecode, no scripts, of botocore's data only its own services."""
    if ".." in path.parts or "__pycache__" in path.parts or path.suffix == ".pyc":
        return False
    if path.parts[:2] == ("botocore", "data"):
        return len(path.parts) == len(("botocore", "data", "file")) or (
            path.parts[2] in SERVICES and not path.name.startswith("examples-")
        )
    return path.parts[:2] not in {("boto3", "data"), ("boto3", "examples")}


def _reduced_endpoints(content: bytes) -> bytes:
    """The endpoints without those of other services, 98 % of the file: each start of the agent parses it."""
    data = safe_json.loads(content)
    for partition in data["partitions"]:
        known = partition["services"]
        partition["services"] = {name: known[name] for name in SERVICES if name in known}
    return json.dumps(data).encode()
