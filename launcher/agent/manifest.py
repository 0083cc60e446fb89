"""The manifest of a checkpoint, which makes a set of objects complete. Standard library only; both sides read it.

Many small files are stored in packs, objects below `<part>-<token>-packs/` (`checkpoint.packs`). The manifest then has
schema 2 and gives the offset of each file in its pack.

Keys in a manifest are relative to the URI; a file that did not change since the previous checkpoint is listed with the
key of the previous object.

A PyTorch distributed checkpoint (`torch.distributed.checkpoint`) has its own metadata: `step-120/.metadata`, written
last, a pickle that names every shard. Slipway reads it without torch, and without executing anything in the pickle.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import PurePosixPath

from launcher.agent import safe_json
from launcher.agent.checkpoint_keys import step_of_folder, step_of_key
from launcher.agent.errors import LaterManifestError, ManifestError
from launcher.agent.manifest_tree import (
    StoredLink,
    check_tree,
    entries_for,
    mode_problem,
)
from launcher.agent.shape import read

SCHEMA = "slipway.checkpoint/1"
SCHEMA_WITH_LAYOUT = "slipway.checkpoint/3"
"""Schema of a manifest with another layout than `step-N` and `checkpoint-N`; it may have packs too."""
SCHEMA_WITH_SET = "slipway.checkpoint/4"
"""Schema of a manifest of a set: the checkpoint `main` and what its trainer needs beside it; it has a layout too."""
SCHEMA_WITH_PACKS = "slipway.checkpoint/2"
"""Schema of a manifest with packs; an agent that does not support packs uses the next older checkpoint."""
SCHEMA_WITH_TREE = "slipway.checkpoint/5"
"""Schema of a manifest with links, permission bits, empty folders, or a set that the earlier schemas cannot describe.

What needs none of these is written with the earlier schemas, for earlier agents.
"""
SCHEMA_WITH_COUNT = "slipway.checkpoint/6"
"""Schema of a manifest whose step is a count of saves (`counted`), because nothing tells the trainer's step."""
HERE = "."
"""The folder of a manifest whose files are in the trainer's checkpoint folder itself."""
SUPERSEDED_KEY, SUPERSEDED_SCHEMA = "superseded.json", "slipway.superseded/1"
DCP_METADATA_NAME = ".metadata"

_MAX_INTEGER, _MAX_PARTS = 2**63, 2**20
_LONGEST_NAME = 255
"""Bytes of a file's name on Linux (NAME_MAX of <linux/limits.h>)."""
_MAX_BYTES = 1 << 30
"""Maximum bytes of a manifest: some five million files."""
_MAX_TO_INDENT = 1000
"""Maximum number of files in an indented manifest; users do not read larger ones."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SCHEMAS = (SCHEMA, SCHEMA_WITH_PACKS, SCHEMA_WITH_LAYOUT, SCHEMA_WITH_SET, SCHEMA_WITH_TREE, SCHEMA_WITH_COUNT)
_TREE_KEYS = ("mains", "others", "links", "folders")
_SCHEMA = re.compile(r"slipway\.checkpoint/(\d{1,9})")
_NAMED_KEY = re.compile(r'"((?:step|checkpoint)-\d{1,18}/[^"\\]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One file of a checkpoint.

    Attributes:
        path: Below the checkpoint's folder, with forward slashes.
        sha256: SHA-256 of its content, hexadecimal.
        key: Key of its object, relative to the checkpoint URI.
        part: The node that uploaded it.
        offset: Its offset in the object, if that is a pack of several files; None: the object is the file.
        mode: Its permission bits, four octal digits; empty: 0644.
    """

    path: str
    bytes: int
    sha256: str
    key: str
    part: int
    offset: int | None = None
    mode: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A checkpoint, or one node's part of it.

    Attributes:
        step: Its place among the steps: that in the folder's name, or a higher one if the trainer counted anew.
        folder: The folder's name as the trainer chose it, below its checkpoint folder; "." for files of the latter.
        part: The node whose part this is; None for the commit, which holds all parts.
        parts: Number of nodes that write parts.
        files: Every file.
        written_at: ISO time in UTC.
        seconds: Seconds from the finished folder to this manifest.
        layout: Layout of the framework (`checkpoint.layouts`); empty in manifests of earlier versions.
        unit: Unit of `step`: step, epoch, save.
        main: The entry from which the trainer resumes, if other checkpoints are one set with it; else empty.
        mains: Of a set, all entries from which the trainer resumes, if there are several: `main` is the first.
        others: The other checkpoints of the set, by name.
        links: Every link.
        folders: Every folder without a file or link in it.
        version: In a part, how often the node has finished this step in this attempt; a commit has none.
        counted: `step` is a count of saves: neither names nor content have the trainer's step.
    """

    run: str
    attempt: int
    step: int
    folder: str
    part: int | None
    parts: int
    files: tuple[StoredFile, ...]
    written_at: str
    seconds: float
    layout: str = ""
    unit: str = "step"
    main: str = ""
    mains: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    links: tuple[StoredLink, ...] = ()
    folders: tuple[str, ...] = ()
    version: int = 1
    counted: bool = False

    @property
    def bytes(self) -> int:
        """Size of all files together."""
        return sum(file.bytes for file in self.files)

    def to_json(self) -> str:
        """The manifest's text."""
        packed = any(file.offset is not None for file in self.files)
        document = {
            "schema": SCHEMA_WITH_PACKS if packed else SCHEMA,
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "files": [_entry(file) for file in self.files],
            "links": [asdict(link) for link in self.links],
        }
        if self.version == 1:
            del document["version"]
        if not self.main:
            del document["main"]
        if {*self.others} == {*others_of(self.main, self.files)}:
            del document["others"]
        for key in [key for key in _TREE_KEYS if not document.get(key, True)]:
            del document[key]
        if self.layout:
            document["schema"] = SCHEMA_WITH_SET if self.main else SCHEMA_WITH_LAYOUT
        else:
            del document["layout"], document["unit"]
        if not document.keys().isdisjoint(_TREE_KEYS) or any(file.mode for file in self.files):
            document["schema"] = SCHEMA_WITH_TREE
        if self.counted:
            document["schema"] = SCHEMA_WITH_COUNT
        else:
            del document["counted"]
        if len(self.files) > _MAX_TO_INDENT:
            return json.dumps(document, separators=(",", ":"), sort_keys=True) + "\n"
        return json.dumps(document, indent=1, sort_keys=True) + "\n"

    def missing(self, sizes: Mapping[str, int]) -> str | None:
        """The reason why the objects of this manifest are incomplete by their sizes; None if they are complete.

        `sizes` contains every object below the URI, by relative key.
        """
        packs: dict[str, int] = {}
        for file in self.files:
            size = sizes.get(file.key)
            name = file.path if self.parts == 1 else f"{file.path} of node {file.part}"
            if size is None:
                return f"{name} is missing"
            if file.offset is not None:
                packs[file.key] = max(file.offset + file.bytes, packs.get(file.key, 0))
            elif size != file.bytes:
                return f"{name} has {size} bytes instead of {file.bytes}"
        for key, size in packs.items():
            if sizes[key] != size:
                return f"the pack {key} has {sizes[key]} bytes instead of {size}"
        return None

    @property
    def entries(self) -> tuple[StoredFile | StoredLink, ...]:
        """The files and links."""
        return (*self.files, *self.links)

    @property
    def leading(self) -> tuple[str, ...]:
        """Of a set, the entries from which the trainer resumes."""
        return self.mains or ((self.main,) if self.main else ())

    def files_for(self, part: int) -> tuple[StoredFile, ...]:
        """The files that a node restores, of all parts; if several have a path, its own part's, else the lowest."""
        return entries_for(self.files, part)

    def reduce_to(self, name: str, has_part: Callable[[int], bool]) -> "Manifest":
        """The checkpoint with what lies at or below `name` alone, in the checkpoint folder, and of some parts alone."""
        whole = self if self.folder == HERE else self.move_paths(lambda path: f"{self.folder}/{path}")

        def is_in(path: str, part: int) -> bool:
            return has_part(part) and f"{path}/".startswith(f"{name}/")

        return replace(
            whole,
            folder=HERE,
            files=tuple(file for file in whole.files if is_in(file.path, file.part)),
            links=tuple(link for link in whole.links if is_in(link.path, link.part)),
            folders=tuple(folder for folder in whole.folders if f"{folder}/".startswith(f"{name}/")),
        )

    def move_paths(self, moved: Callable[[str], str]) -> "Manifest":
        """The same objects with other paths."""
        return replace(
            self,
            files=tuple(replace(file, path=moved(file.path)) for file in self.files),
            links=tuple(replace(link, path=moved(link.path)) for link in self.links),
            folders=tuple(moved(folder) for folder in self.folders),
        )

    def links_for(self, part: int) -> tuple[StoredLink, ...]:
        """The links that a node restores, chosen like its files."""
        return entries_for(self.links, part)


def others_of(main: str, files: Iterable[StoredFile]) -> tuple[str, ...]:
    """The other checkpoints of a set whose manifest does not list them: the names beside `main`."""
    names = dict.fromkeys(file.path.partition("/")[0] for file in files) if main else {}
    return tuple(name for name in names if name != main.partition("/")[0])


def parse(text: str) -> Manifest:
    """The manifest in `text`.

    Raises:
        LaterManifestError: a later version of Slipway wrote it.
        ManifestError: the text is not a manifest, or names a path outside its checkpoint.
    """
    try:
        document = safe_json.loads(text, most_bytes=_MAX_BYTES)
        if "unusable" in document:
            raise ManifestError(f"its part cannot be used: {document['unusable']}")
        schema = document.pop("schema")
        later = _SCHEMA.fullmatch(str(schema))
        if later is not None and schema not in _SCHEMAS and int(later[1]) > len(_SCHEMAS):
            message = f"schema: got {schema!r} of a later version of Slipway; this agent reads {', '.join(_SCHEMAS)}"
            raise LaterManifestError(message, frozenset(_NAMED_KEY.findall(text)))
        manifest = read(Manifest, document, exact=True)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ManifestError(f"not a manifest: {error!r}") from error
    if schema not in _SCHEMAS:
        raise ManifestError(f"schema: got {schema!r}; this agent reads {', '.join(map(repr, _SCHEMAS))}")
    if "others" not in document:
        manifest = replace(manifest, others=others_of(manifest.main, manifest.files))
    if (schema == SCHEMA_WITH_COUNT) != manifest.counted:
        raise ManifestError(f"not a manifest: {SCHEMA_WITH_COUNT!r} counts saves, and no other does")
    if schema not in (SCHEMA_WITH_TREE, SCHEMA_WITH_COUNT):
        _check_schema(schema, manifest, document)
    elif manifest.main and not manifest.layout:
        raise ManifestError("not a manifest: a set has a layout")
    _check(manifest)
    return manifest


def _check_schema(schema: str, manifest: Manifest, document: Mapping[str, object]) -> None:
    """Check that a manifest of an earlier schema has what belongs to it, and nothing else."""
    if (schema in (SCHEMA_WITH_LAYOUT, SCHEMA_WITH_SET)) != bool(manifest.layout):
        raise ManifestError(
            f"not a manifest: {SCHEMA_WITH_LAYOUT!r} and {SCHEMA_WITH_SET!r} name a layout, and no other does"
        )
    if (schema == SCHEMA_WITH_SET) != bool(manifest.main):
        raise ManifestError(
            f"not a manifest: {SCHEMA_WITH_SET!r} names the main checkpoint of a set, and no other does"
        )
    if schema == SCHEMA and any(file.offset is not None for file in manifest.files):
        raise ManifestError(f"not a manifest: {SCHEMA!r} has no packs")
    if not document.keys().isdisjoint(_TREE_KEYS) or any(file.mode for file in manifest.files):
        raise ManifestError(f"not a manifest: {', '.join(_TREE_KEYS)} and mode need {SCHEMA_WITH_TREE!r}")


def _entry(file: StoredFile) -> dict[str, str | int]:
    return {key: value for key, value in asdict(file).items() if value is not None and (key, value) != ("mode", "")}


def unusable(reason: str) -> str:
    """The text that a node writes instead of its part if it has none; `parse` raises with the reason."""
    return json.dumps({"schema": SCHEMA, "unusable": reason}) + "\n"


def _check(manifest: Manifest) -> None:
    """Check the values: a manifest comes from a bucket and is not trusted."""
    _check_values(manifest)
    if manifest.layout:
        _check_folder(manifest)
    elif (named := step_of_folder(manifest.folder)) is None or named > manifest.step:
        # A trainer that counts anew has a lower number in the name than the place among the steps.
        raise ManifestError(
            f"folder: got {manifest.folder!r}; it must be step-{manifest.step} or checkpoint-{manifest.step}"
        )
    if manifest.part is None and not manifest.files:
        raise ManifestError("not a checkpoint: it lists no files")
    for path in (*(entry.path for entry in manifest.entries), *manifest.folders):
        if not is_below(path):
            raise ManifestError(f"path: got {path!r}; it must be below the checkpoint's folder")
        if any(len(name.encode()) > _LONGEST_NAME for name in PurePosixPath(path).parts):
            raise ManifestError(f"path: got {path[:80]!r}...; a name may have {_LONGEST_NAME} bytes")
    for file in manifest.files:
        if step_of_key(file.key) is None:
            raise ManifestError(f"key of {file.path}: got {file.key!r}; it must be below a step")
        if not _SHA256.fullmatch(file.sha256):
            raise ManifestError(f"sha256 of {file.path}: got {file.sha256!r}; it must be 64 hexadecimal digits")
    _check_places(manifest)


def _check_folder(manifest: Manifest) -> None:
    if manifest.folder != HERE and not is_below(manifest.folder):
        raise ManifestError(f"folder: got {manifest.folder!r}; it must be in the checkpoint folder")
    if manifest.main and not (manifest.folder == HERE and is_below(manifest.main)):
        raise ManifestError(f"main: got {manifest.main!r}; it must be in the checkpoint folder, as all files are")


def _check_values(manifest: Manifest) -> None:
    names = (*manifest.mains, *manifest.others)
    if names and not (all(map(is_below, names)) and manifest.leading[:1] == (manifest.main,)):
        raise ManifestError(f"mains: got {names!r}; main must be the first, and all must be in the checkpoint folder")
    integers = [manifest.attempt, manifest.step, manifest.parts, manifest.part or 0]
    texts = [manifest.run, manifest.folder, manifest.written_at, manifest.layout, manifest.unit, manifest.main]
    texts += [*manifest.mains, *manifest.others, *manifest.folders]
    for file in manifest.files:
        integers += [file.bytes, file.part, 0 if file.offset is None else file.offset]
        texts += [file.path, file.sha256, file.key, file.mode]
        if problem := mode_problem(file.mode):
            raise ManifestError(f"mode of {file.path}: {problem}")
    for link in manifest.links:
        integers.append(link.part)
        texts += [link.path, link.target]
    parts = [manifest.part or 0, *(entry.part for entry in manifest.entries)]
    if (
        not all(0 <= value < _MAX_INTEGER for value in (*integers, manifest.seconds))
        or not max(parts) < manifest.parts <= _MAX_PARTS
    ):
        raise ManifestError("not a manifest: a number is out of range")
    if not _is_utf8(texts):
        raise ManifestError("not a manifest: a text is not UTF-8")


def is_below(text: str) -> bool:
    """Whether a path is relative and stays below its folder."""
    path = PurePosixPath(text)
    return not (path.is_absolute() or ".." in path.parts or str(path) != text or text == "." or "\0" in text)


def _check_places(manifest: Manifest) -> None:
    """Refuse a path that occurs twice in one part, or is a folder of another path: no node could have written it."""
    mine = [(entry.part, entry.path) for entry in manifest.entries]
    if len(set(mine)) < len(mine):
        raise ManifestError("not a manifest: a part lists a path twice")
    check_tree((file.path for file in manifest.files), manifest.links, manifest.folders)


def _is_utf8(texts: Iterable[str]) -> bool:
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        return False
    return True


def superseded_steps(text: str) -> dict[int, set[str]]:
    """The steps of `superseded.json` with the keys that newer steps share; empty if the text is unusable."""
    try:
        document = safe_json.loads(text)
        steps = document["steps"] if document["schema"] == SUPERSEDED_SCHEMA else {}
        return {int(step): {str(key) for key in keys} for step, keys in steps.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
