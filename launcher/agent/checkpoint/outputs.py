"""The results of a run: files that the plan names, uploaded after the command has ended.

`outputs/RUN/manifest.json` below the plan's prefix is written last and lists every file with its object. A later
attempt of the run replaces this manifest: unchanged files keep their objects, the others are tagged as superseded.
"""

import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher.agent import exits
from launcher.agent.checkpoint.files import sha256_of
from launcher.agent.checkpoint.output_paths import OutputPath, find_outputs, places_of
from launcher.agent.checkpoint.write_back import path_in
from launcher.agent.checkpoint_keys import object_key
from launcher.agent.errors import ManifestError, StoreError, UnusableCheckpointError
from launcher.agent.events import EventLog, utc_now
from launcher.agent.manifest import StoredFile
from launcher.agent.output_manifest import FOLDER, OutputManifest, manifest_key, parse_outputs
from launcher.agent.store.objects import Store

_OPTIONAL = "{path: ..., optional: true}"
_AGAIN_S = 2.0
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Why a completed command's results are not all in the store, and the exit code of the attempt for it."""

    code: int
    reason: str


class Outputs:
    """Uploads the outputs of one attempt to the store."""

    def __init__(self, store: Store, log: EventLog, *, run: str, attempt: int) -> None:
        self._store = store
        self._log = log
        self._run = run
        self._attempt = attempt

    def bring(self, outputs: Iterable[OutputPath], deadline: float) -> Lack | None:
        """Upload the outputs that exist.

        `deadline` is in monotonic seconds.

        Returns why not all outputs are in the store; None if they are.
        """
        files, missing = find_outputs(outputs)
        for reason in missing:
            self._log.append("output-missing", reason=reason)
        reason = self._upload(files, deadline) if files else ""
        if reason:
            return Lack(code=exits.STORE_FAILED, reason=f"its outputs are not in the store: {reason}")
        if missing:
            lacking = "; ".join(missing)
            reason = f"run.outputs names what does not exist: {lacking} ({_OPTIONAL} lets a run end without it)"
            return Lack(code=exits.BAD_JOB, reason=reason)
        return None

    def _upload(self, files: Mapping[str, Path], deadline: float) -> str:
        begun = time.monotonic()
        timer = threading.Timer(max(0.0, deadline - begun), self._store.cancel)
        timer.daemon = True
        timer.start()
        try:
            return self._bring(files, begun, deadline)
        except (UnusableCheckpointError, OSError) as error:
            return self._log_failure(str(error))
        finally:
            timer.cancel()

    def _bring(self, files: Mapping[str, Path], begun: float, deadline: float) -> str:
        while True:
            try:
                manifest, sent_bytes = self._send(files)
            except StoreError as error:
                if time.monotonic() + _AGAIN_S >= deadline:
                    return self._log_failure(f"in {time.monotonic() - begun:.0f} s: {error}")
                time.sleep(_AGAIN_S)
            else:
                size = sum(file.bytes for file in manifest.files)
                seconds = round(time.monotonic() - begun, 1)
                self._log.append(
                    "outputs-stored", files=len(manifest.files), bytes=size, sent_bytes=sent_bytes, seconds=seconds
                )
                return ""

    def _log_failure(self, reason: str) -> str:
        self._log.append("outputs-not-stored", reason=reason)
        return reason

    def _send(self, outputs: Mapping[str, Path]) -> tuple[OutputManifest, int]:
        before = self._before()
        stored_keys = {(file.sha256, file.bytes): file.key for file in before}
        base = f"{FOLDER}/{self._run}/{self._attempt}-{secrets.token_hex(4)}"
        files: list[StoredFile] = []
        sent_bytes = 0
        with self._store.uploads() as uploads:
            for name, path in sorted(outputs.items()):
                digest, size = sha256_of(path), path.stat().st_size
                key = stored_keys.get((digest, size))
                if key is None:
                    key = object_key(base, name)
                    uploads.upload(path, key, size=size, sha256=digest)
                    sent_bytes += size
                files.append(StoredFile(path=name, bytes=size, sha256=digest, key=key, part=0))
            uploads.wait()
        manifest = OutputManifest(run=self._run, attempt=self._attempt, written_at=utc_now(), files=tuple(files))
        self._store.write_text(manifest_key(self._run), manifest.to_json())
        for key in sorted({file.key for file in before} - {file.key for file in files}):
            self._store.set_superseded(key, superseded=True)
        return manifest, sent_bytes

    def _before(self) -> tuple[StoredFile, ...]:
        text = self._store.find_text(manifest_key(self._run))
        try:
            return () if text is None else parse_outputs(text.text).files
        except ManifestError:
            return ()


def left_behind(folder: Path, stored: set[str], outputs: Iterable[OutputPath]) -> tuple[str, int]:
    """The files in the root of a checkpoint folder that are not in the store: the first names, and the bytes of all."""
    output_paths = {path.resolve() for output in outputs for path in places_of(output)}
    names, total = [], 0
    for path in sorted(folder.iterdir()):
        real = path.resolve()
        target = real if path.is_symlink() else path_in(path)  # of what a restore writes again
        if path.name in stored or (target and target.parent.resolve() == folder.resolve() and target.name in stored):
            continue
        inside = [file for file in real.rglob("*") if file.is_file()] if real.is_dir() else [real]
        left = [file for file in inside if file.exists() and not output_paths.intersection((file, *file.parents))]
        size = sum(file.stat().st_size for file in left)
        if size:
            names.append(f"{path.name} ({size:,} bytes)")
            total += size
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more, total
