"""Uploads one finished folder: hash the files, send new content, return the manifest of this node's part."""

import secrets
import time
from collections.abc import Iterable

from launcher.agent.checkpoint.digests import Digests
from launcher.agent.checkpoint.files import (
    LocalFile,
    changed_since,
    local_files,
    present_entries,
    sha256_of,
    with_content,
)
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.held import left_of
from launcher.agent.checkpoint.layouts import SLIPWAY
from launcher.agent.checkpoint.packs import Contents, Pack, groups, known_packs, read_pack
from launcher.agent.checkpoint_keys import object_key
from launcher.agent.errors import ChangedCheckpointError, UnusableCheckpointError
from launcher.agent.events import utc_now
from launcher.agent.manifest import Manifest, StoredFile
from launcher.agent.manifest_tree import StoredLink, mode_text
from launcher.agent.node.placement import Placement
from launcher.agent.store.objects import Store
from launcher.agent.store.transfers import Uploads


def check_unchanged(finished: FinishedFolder, *, parts: int) -> None:
    """Compare a folder with its content when it was finished. A missing folder is accepted: it was read completely.

    If its files are held, those that replaced them are accepted too: they are the next version's. Copies were compared
    when they were made. With several `parts` a version that was replaced is refused: the others may have sent the next.

    Raises:
        ChangedCheckpointError: the folder changed.
    """
    if finished.held is not None and finished.held.are_copies:
        return
    try:
        now = finished.survey()
    except UnusableCheckpointError:
        return
    own = now.files if finished.held is None or parts > 1 else left_of(finished.files, now.files)
    if change := changed_since(finished.files, own) or (own and now.obstacle):
        raise ChangedCheckpointError(f"{finished.name} changed after it was finished: {change}")


class Sender:
    """Uploads folders for one node.

    Slipway does not send files again if an earlier try of the same folder uploaded them, or if the newest complete
    checkpoint already holds their content.
    """

    def __init__(
        self,
        store: Store,
        writer: Placement,
        *,
        stored: Iterable[StoredFile] = (),
        digests: Digests | None = None,
    ) -> None:
        self._store = store
        self._writer = writer
        self._digests = digests or Digests(lambda *_: None)
        self._sent: dict[tuple[int, str], StoredFile] = {}
        self.remember(stored)

    def remember(self, files: Iterable[StoredFile]) -> None:
        """Record the newest complete checkpoint's files: only their objects are sure to stay and may be referenced."""
        files = tuple(files)
        self._known = {(file.sha256, file.bytes): file.key for file in files if file.offset is None}
        self._known_packs = known_packs(files)
        self._sent = {}
        self._sent_packs: dict[tuple[int, Contents], str] = {}

    def send(self, finished: FinishedFolder) -> tuple[Manifest, int]:
        """Upload new content of a folder; return this node's part of the manifest and the bytes sent.

        Raises:
            ChangedCheckpointError: the folder changed after it was finished.
            UnusableCheckpointError: the folder cannot be stored.
            StoreError: the store did not accept it.
        """
        begun = time.monotonic()
        step = finished.step
        sent_files = self._files_to_send(finished)
        before = with_content(sent_files)
        token = f"{self._writer.part}-{secrets.token_hex(4)}"
        base, in_packs = f"step-{step}/{self._writer.session}/{token}", groups(before)
        alone = set(before).difference(*in_packs)
        stored: list[StoredFile] = []
        with self._store.uploads() as uploads:
            try:
                for local in before if in_packs == [] else sorted(alone, key=lambda file: file.path):
                    stored.append(self._store_file(finished, local, base))
                    if stored[-1].key.startswith(f"{base}/"):
                        sent = stored[-1]
                        uploads.upload(finished.source(local), sent.key, size=local.bytes, sha256=sent.sha256)
                for number, files in enumerate(in_packs):
                    pack = read_pack(finished.path, files, finished.source)
                    stored += self._pack(uploads, pack, f"{base}-packs/{number:05}", step)
                uploads.wait()
            finally:  # what arrived is not sent again by the next try
                self._note_arrived(step, stored, uploads.arrived)
        check_unchanged(finished, parts=self._writer.parts)
        self._sent = {at: entry for at, entry in self._sent.items() if at[0] != step}
        self._sent_packs = {at: key for at, key in self._sent_packs.items() if at[0] != step}
        manifest = Manifest(
            run=self._writer.run,
            attempt=self._writer.attempt,
            step=step,
            folder=finished.folder or finished.path.name,
            part=self._writer.part,
            parts=self._writer.parts,
            files=tuple(sorted(stored, key=lambda file: file.path)),
            written_at=utc_now(),
            seconds=round(time.monotonic() - begun, 3),
            # Without one its manifest is read by agents of earlier versions too.
            layout="" if finished.layout == SLIPWAY else finished.layout,
            unit=finished.unit,
            main=finished.main,
            mains=finished.mains if len(finished.mains) > 1 else (),
            others=finished.others,
            links=tuple(
                StoredLink(path=file.path, target=file.link, part=self._writer.part) for file in sent_files if file.link
            ),
            folders=finished.folders,
            counted=finished.counted,
        )
        return manifest, sum(file.bytes for file in stored if file.key.startswith((f"{base}/", f"{base}-packs/")))

    def _pack(self, uploads: Uploads, pack: Pack, key: str, step: int) -> list[StoredFile]:
        """Send a pack, unless an object already holds the same content."""
        known_key = self._sent_packs.get((step, pack.contents)) or self._known_packs.get(pack.contents)
        if known_key is None:
            uploads.upload_content(pack.content, key)
        return list(pack.stored_files(known_key or key, self._writer.part))

    def _note_arrived(self, step: int, stored: list[StoredFile], arrived: set[str]) -> None:
        sent = [file for file in stored if file.key in arrived]
        self._sent.update({(step, file.path): file for file in sent if file.offset is None})
        self._sent_packs.update({(step, contents): key for contents, key in known_packs(sent).items()})

    def _store_file(self, finished: FinishedFolder, local: LocalFile, base: str) -> StoredFile:
        """The manifest entry of a file: an object that already holds its content, or a new key below `base`."""
        folder = finished.path
        try:
            digest = self._digest(finished, local)
        except OSError as error:
            raise UnusableCheckpointError(f"{folder.name}: {error}") from error
        if not self._store.can_name(f"{base}/{local.path}"):
            raise UnusableCheckpointError(
                f"{folder.name} holds {local.path[:80]!r}...: the path is too long for an S3 key; shorten it"
            )
        earlier = self._sent.get((finished.step, local.path))
        key = self._known.get((digest, local.bytes))
        if earlier is not None and earlier.sha256 == digest:
            key = earlier.key
        return StoredFile(
            path=local.path,
            bytes=local.bytes,
            sha256=digest,
            key=key or object_key(base, local.path),
            part=self._writer.part,
            mode=mode_text(local.mode),
        )

    def _digest(self, finished: FinishedFolder, local: LocalFile) -> str:
        if finished.held is not None and finished.held.are_copies:
            return sha256_of(finished.source(local))
        try:
            return self._digests.of(finished, local)
        except (OSError, ChangedCheckpointError):
            if finished.held is None:
                raise
            source = finished.source(local)  # it was read where the trainer wrote it, or has another name now
            digest = sha256_of(source)
            now = LocalFile.of(local.path, source.stat())
            if (now.inode, now.bytes, now.modified_ns) != (local.inode, local.bytes, local.modified_ns):
                raise ChangedCheckpointError(f"{finished.name} changed after it was finished: {local.path}") from None
            return digest

    def _files_to_send(self, finished: FinishedFolder) -> tuple[LocalFile, ...]:
        if finished.held is not None:
            check_unchanged(finished, parts=self._writer.parts)
            return finished.files
        before = local_files(finished.path, present_entries(finished.path, finished.entries, finished.mains))
        if before != finished.files:
            change = changed_since(finished.files, before) or "files went away"
            raise ChangedCheckpointError(f"{finished.name} changed after it was finished: {change}")
        return before
