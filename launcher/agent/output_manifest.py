"""The manifest of a run's stored outputs, which the agent writes and `slipway outputs` reads."""

import json
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from launcher.agent import safe_json
from launcher.agent.errors import ManifestError
from launcher.agent.manifest import StoredFile
from launcher.agent.shape import read

SCHEMA = "slipway.outputs/1"
FOLDER, MANIFEST = "outputs", "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputManifest:
    """The stored outputs of a run; keys are relative to the plan's prefix in the store."""

    run: str
    attempt: int
    written_at: str
    files: tuple[StoredFile, ...]

    def to_json(self) -> str:
        """The manifest's text."""
        files = [
            {"path": file.path, "bytes": file.bytes, "sha256": file.sha256, "key": file.key} for file in self.files
        ]
        document = {
            "schema": SCHEMA,
            "run": self.run,
            "attempt": self.attempt,
            "written_at": self.written_at,
            "files": files,
        }
        return json.dumps(document, indent=1, sort_keys=True) + "\n"


def manifest_key(run: str) -> str:
    """The key of a run's manifest."""
    return f"{FOLDER}/{run}/{MANIFEST}"


def parse_outputs(text: str) -> OutputManifest:
    """The manifest in `text`.

    Raises:
        ManifestError: the text is not such a manifest, or names a path outside the outputs.
    """
    try:
        document = read(dict[str, Any], safe_json.loads(text))
        files = read(tuple[dict[str, Any], ...], document.get("files"), "files")
        # Outputs are those of the whole run, not of a node; none is in a pack, and none has permission bits.
        entries = [{**file, "part": 0, "offset": None, "mode": ""} for file in files]
        manifest = read(OutputManifest, {**document, "files": entries})
    except ValueError as error:
        raise ManifestError(f"not a manifest of outputs: {error}") from error
    if document.get("schema") != SCHEMA:
        raise ManifestError(f"not a manifest of outputs: {text[:100]!r}")
    for file in manifest.files:
        if not stored_name(file.path) or not file.key.startswith(f"{FOLDER}/"):
            raise ManifestError(f"a path outside the outputs: {file.path!r} at {file.key!r}")
    return manifest


def stored_name(path: str) -> str:
    """The name of an output in the store: a relative path itself, the last part of an absolute one; empty if invalid.

    >>> stored_name("out/model"), stored_name("/fsx/eval/"), stored_name("${SLIPWAY_CHECKPOINT_DIR}/export")
    ('out/model', 'eval', 'export')
    >>> stored_name("../secret"), stored_name(".")
    ('', '')
    """
    parts = PurePosixPath(path).parts
    if ".." in parts or not parts:
        return ""
    alone = path.startswith(("/", "${"))
    name = parts[-1] if alone else "/".join(parts)
    return "" if name == "/" or name.startswith("${") else name
