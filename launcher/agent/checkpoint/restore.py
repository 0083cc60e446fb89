"""Restores the newest complete checkpoint to the node."""

import errno
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from launcher.agent.checkpoint.complete import complete_checkpoints
from launcher.agent.checkpoint.entries import Layouts
from launcher.agent.checkpoint.files import (
    LocalFile,
    changed_since,
    local_files,
    present_entries,
    sha256_of,
    survey,
    with_content,
)
from launcher.agent.checkpoint.finished import FinishedFolder, with_others
from launcher.agent.checkpoint.layout_record import LINKS, PATHS, read_pointers
from launcher.agent.checkpoint.layouts import PATTERN, SLIPWAY, Layout, table
from launcher.agent.checkpoint.leftover_files import remove
from launcher.agent.checkpoint.packs import unpack
from launcher.agent.checkpoint.recognition import pattern_of
from launcher.agent.checkpoint.trainer_state import companions
from launcher.agent.checkpoint.unsent import UnsentCheckpoint
from launcher.agent.checkpoint.withdrawal import OUT_OF_THE_RUNNING, Withdrawal
from launcher.agent.checkpoint.write_back import write_back, write_links, write_paths
from launcher.agent.checkpoint_keys import commit_keys, step_of_folder
from launcher.agent.errors import AgentError, StoreError, UnusableCheckpointError, no_usable_checkpoint
from launcher.agent.manifest import HERE, Manifest, StoredFile, is_below
from launcher.agent.manifest_tree import complete_tree
from launcher.agent.node.reserve import FULL
from launcher.agent.store.downloads import Downloads
from launcher.agent.store.incoming import Incoming
from launcher.agent.store.objects import Store

PARTIAL_NAME = ".slipway-restore"
PACKS_NAME = ".slipway-packs-"
_LATER_SUFFIX = ".later"
_CANNOT_LINK = frozenset({errno.EMLINK, errno.ENOTSUP, errno.EPERM, errno.ENOSYS})
_HASHERS = min(4, max(2, (os.cpu_count() or 1) // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A checkpoint that was restored to the node.

    Attributes:
        finished: Its location and content.
        resume: The path from which the trainer resumes: the checkpoint, or the folder that contains it.
        step: The step in its name.
        manifest: The newest complete checkpoint in the store; of this step, unless the node held a newer one. None: the
            store has none.
        bytes: Its size.
        reused_bytes: Bytes of it that were already on the node.
        seconds: Duration of the restore.
        skipped_newer: The store holds newer, incomplete checkpoints.
        lacking: Others of its set that are neither on the node nor in the store.
    """

    finished: FinishedFolder
    resume: Path
    step: int
    manifest: Manifest | None
    bytes: int
    reused_bytes: int
    seconds: float
    skipped_newer: bool
    lacking: tuple[str, ...] = ()

    @property
    def is_local_only(self) -> bool:
        """Whether the store does not have the checkpoint yet."""
        return self.manifest is None or self.manifest.step != self.step


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """The settings of a restore.

    Attributes:
        checkpoints: The checkpoint folder; the checkpoint appears in it under its own name, by a rename.
        previous: Folder with checkpoints of an earlier attempt on this node; the restore reuses identical files.
        unsent: Finished checkpoints that have no other copy: they are never removed to make room.
        make_room: Called with the bytes that must be free, and the names in `previous` that are useful.
        spend_reserve: Gives the agent's reserve to a checkpoint that is put back on a full disk; whether it had one.
        part: This node's number; if several nodes stored a path, this node gets its own file.
        parts: Number of nodes that write parts.
        on_skip: Called with every newer incomplete step, and the reason.
        on_again: Called for every object that did not arrive as it was stored and is read again, with the reason.
        layouts: The layouts that count as checkpoints.
        named: The plan names the layout: stored checkpoints of other layouts are skipped.
        fresh: Start from step 0 if checkpoints exist and none is usable; otherwise this is an error.
        withdrawal: What a user took out of the running.
    """

    store: Store
    checkpoints: Path
    previous: Path
    unsent: tuple[UnsentCheckpoint, ...] = ()
    part: int
    parts: int = 1
    on_skip: Callable[[int, str], None]
    on_again: Callable[[str], None] = lambda _: None
    make_room: Callable[[int, Collection[str]], None] = lambda *_: None
    spend_reserve: Callable[[], bool] = lambda: False
    layouts: Layouts = field(default_factory=Layouts)
    named: bool = False
    fresh: bool = False
    withdrawal: Withdrawal = field(default_factory=Withdrawal)

    def newest(self, *, at_most: int | None = None, finished_here: FinishedFolder | None = None) -> Restored | None:
        """Restore the newest complete checkpoint, verified by manifest, existence, size and SHA-256 of all objects.

        `at_most` None: any step. `finished_here` is used if the store has no complete checkpoint that is as new.

        Returns None if no checkpoint is complete.

        Raises:
            StoreError: the store cannot be read; nothing is left in the folder.
            AgentError: checkpoints exist, and none is usable.
        """
        for left in self.checkpoints.glob(f"{PARTIAL_NAME}*"):  # of a restore that was killed
            shutil.rmtree(left, ignore_errors=True)
        finished_here = self._in_the_running(finished_here)
        finished_here = finished_here and self.complete_set(finished_here)
        folders = [(step, name) for name in self.store.folders() if (step := step_of_folder(name)) is not None]
        steps = {step for step, _ in folders if at_most is None or step <= at_most}
        sizes: dict[str, int] = {}
        skipped, lost = False, ""
        for step in sorted(steps, reverse=True):
            begun = time.monotonic()
            # Its own objects alone: on every start every node would read what the store holds of all steps.
            for name in [name for folder_step, name in folders if folder_step == step]:
                sizes |= self.store.sizes(f"{name}/")
            withdrawn = self.withdrawal.manifests & sizes.keys()
            sizes = self.withdrawal.without(sizes)
            wholes, reason = complete_checkpoints(self.store, step, sizes)
            reason = OUT_OF_THE_RUNNING if withdrawn and not commit_keys(step, sizes) else reason
            # The node may hold a step that it finished and could not send before its end.
            if wholes and finished_here is not None and finished_here.step > step:
                local = self._take_over(finished_here, wholes[0], begun, skipped=skipped)
                if local is not None:
                    return local
                finished_here = None
            other, wholes = self._matching_layouts(wholes, step, stops=at_most is None)
            for manifest in wholes:
                restored = self._fetch(manifest, begun, skipped=skipped)
                if isinstance(restored, Restored):
                    return restored
                reason = restored
            skipped = True
            reason = other or reason
            # A step without a commit was never complete; a committed one that is unusable is work that was lost.
            lost = lost or (f"step {step}: {reason}" if commit_keys(step, sizes) and not other else "")
            self.on_skip(step, reason)
        local = None
        if finished_here is not None:
            local = self._take_over(finished_here, None, time.monotonic(), skipped=skipped)
        # Starting at step 0 would overwrite the work that is left: a person has to decide that.
        if local is None and lost and at_most is None and not self.fresh:
            raise no_usable_checkpoint(self.store.uri, lost)
        return local

    def _in_the_running(self, finished_here: FinishedFolder | None) -> FinishedFolder | None:
        """The copy on the node, unless a user has since chosen an older checkpoint of the store."""
        if finished_here is None or not self.withdrawal.covers(finished_here):
            return finished_here
        self.on_skip(finished_here.step, f"the copy on this node is unusable: {OUT_OF_THE_RUNNING}")
        return None

    def complete_set(self, finished: FinishedFolder, others: Iterable[str] = ()) -> FinishedFolder:
        """The copy on the node with those of its set that the trainer has removed since, as far as the store has them.

        An agent that was killed holds no files any more. `others`: what the first node's state names as one set with
        it; the copy's own state may name more. Each node brings its own part.
        """
        row = self._row(finished.layout, finished.unit, finished.leading)
        named = (*others, *companions(row.state, self.previous, finished.name))
        missing = [name for name in dict.fromkeys(named) if is_below(name) and name not in finished.names]
        hashes: dict[str, str] = {}
        brought = []
        for name in missing:
            try:
                stored = self._brought_back(name, at_most=finished.step)
            except OSError as error:
                self.on_skip(finished.step, f"{name}, which is one set with it, cannot be put back: {error}")
                continue
            hashes |= stored
            brought += [name] if stored else []
        together = with_others(finished, [*finished.others, *brought]) if brought else finished
        return finished if together is finished else replace(together, hashes=dict(_hashes_in_set(finished)) | hashes)

    def _brought_back(self, name: str, *, at_most: int) -> dict[str, str]:
        """Put a checkpoint of the store into `previous`; return the SHA-256 of its files, empty if none exists.

        What the trainer has written under its name since keeps another one.

        Raises:
            OSError: the disk does not take it.
        """
        manifest = self._stored_as(name, at_most=at_most)
        if manifest is None:
            return {}
        files = manifest.files
        partial = self.previous / PARTIAL_NAME
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            reused = self._reuse(files, self.previous, partial)
            coming = [file for file in files if file not in reused]
            self.make_room(sum(file.bytes for file in coming), {name})
            if self._download(coming, partial, manifest):
                return {}
            _complete(partial, manifest, self.part)
            place = self.previous / name
            known = {file.path for file in reused} | {link.path for link in manifest.links}
            if os.path.lexists(place) and any(file.path not in known for file in survey(self.previous, (name,)).files):
                remove(place.with_name(f"{place.name}{_LATER_SUFFIX}"))
                place.rename(place.with_name(f"{place.name}{_LATER_SUFFIX}"))
            remove(place)
            place.parent.mkdir(parents=True, exist_ok=True)
            (partial / name).rename(place)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return {file.path: file.sha256 for file in files}

    def _missing(self, finished: FinishedFolder, place: Path) -> list[str]:
        """The others that a checkpoint's own state names and that are not in a folder."""
        row = self._row(finished.layout, finished.unit, finished.leading)
        names = companions(row.state, place, finished.name)
        return [name for name in names if is_below(name) and not os.path.lexists(place / name)]

    def _stored_as(self, name: str, *, at_most: int) -> Manifest | None:
        """The newest complete checkpoint that holds a checkpoint's name, reduced to what this node stores of that."""
        folders = [(step, folder) for folder in self.store.folders() if (step := step_of_folder(folder)) is not None]
        for step in sorted({step for step, _ in folders if step <= at_most}, reverse=True):
            sizes: dict[str, int] = {}
            for folder in [folder for folder_step, folder in folders if folder_step == step]:
                sizes |= self.store.sizes(f"{folder}/")
            for manifest in complete_checkpoints(self.store, step, sizes)[0]:
                reduced = manifest.reduce_to(name, self._stores)
                if reduced.files:
                    return reduced
        return None

    def _stores(self, part: int) -> bool:
        """Whether this node sends the files of a part again: its own, on the first node also of nodes that are gone."""
        return part == self.part or (self.part == 0 and part >= self.parts)

    def _matching_layouts(self, wholes: list[Manifest], step: int, *, stops: bool) -> tuple[str, list[Manifest]]:
        """Why checkpoints of a step do not match this job's layout (empty if all do), and those that match."""
        accepted = [manifest for manifest in wholes if self.layouts.accepts(manifest)]
        refused = [manifest for manifest in wholes if manifest not in accepted]
        others = {manifest.layout or SLIPWAY for manifest in refused}
        fix = "name it as checkpoint.layout"
        if others == {PATTERN}:
            names = refused[0].leading or sorted(entry.path for entry in refused[0].entries)
            name = refused[0].folder if refused[0].folder != HERE else names[0]
            fix = f"write checkpoint: {{pattern: '{pattern_of(name)}'}}"
        reason = f"it is of layout {', '.join(sorted(others))}: {fix}, or start at step 0 with --fresh"
        if others and not accepted and stops and not self.named and not self.fresh:
            raise no_usable_checkpoint(self.store.uri, f"step {step}: {reason}")
        return reason if others else "", accepted

    def _move(self, finished: FinishedFolder, row: Layout) -> None:
        """Move a checkpoint of this node into the folder, with its tracker; on a full disk, in the reserve's place.

        Raises:
            OSError: it cannot be moved.
        """
        for name in present_entries(self.previous, finished.names, finished.mains):
            (self.checkpoints / name).parent.mkdir(parents=True, exist_ok=True)
            (self.previous / name).rename(self.checkpoints / name)
        try:
            self._write_back(row, finished)
        except OSError as error:
            if error.errno not in FULL or not self.spend_reserve():
                raise
            self._write_back(row, finished)

    def _write_back(self, row: Layout, finished: FinishedFolder) -> None:
        """Write the framework's tracker and links, else the trainer's own links; and the files that hold a path."""
        write_back(row, self.checkpoints, finished.leading, finished.others)
        if not row.tracker and not row.links:
            write_links(self.checkpoints, finished.name, read_pointers(self.store, LINKS))
        tracker = row.tracker_of(finished.name)
        write_paths(self.checkpoints, finished.name, read_pointers(self.store, PATHS), tracker[0] if tracker else "")

    def _take_over(
        self, finished: FinishedFolder, manifest: Manifest | None, begun: float, *, skipped: bool
    ) -> Restored | None:
        folder, step = finished.path, finished.step
        try:
            files = local_files(folder, present_entries(folder, finished.entries, finished.mains))
        except UnusableCheckpointError as error:
            self.on_skip(step, f"the copy on this node is unusable: {error}")
            return None
        if files != finished.files:
            why = changed_since(finished.files, files) or "files are missing"
            self.on_skip(step, f"the copy on this node is unusable: it changed after it was finished: {why}")
            return None
        if other := _changed_file(finished):
            self.on_skip(step, f"the copy on this node is unusable: {other} changed after it was finished")
            return None
        size = sum(file.bytes for file in files)
        row = self._row(finished.layout, finished.unit, finished.names)
        try:
            self._move(finished, row)
        except OSError as error:
            raise AgentError(f"step {step} cannot be resumed from {folder}: {error}") from error
        local = replace(finished, path=self.checkpoints if finished.entries else self.checkpoints / finished.folder)
        content = survey(local.path, local.entries)
        return Restored(
            finished=replace(local, files=content.files, folders=content.folders),
            resume=_resume(row, local, self.checkpoints),
            step=step,
            manifest=manifest,
            bytes=size,
            reused_bytes=size,
            seconds=round(time.monotonic() - begun, 3),
            skipped_newer=skipped,
            lacking=tuple(self._missing(local, self.checkpoints)),
        )

    def _row(self, layout: str, unit: str, names: Iterable[str]) -> Layout:
        rows = [row for row in self.layouts.rows if (row.layout, row.unit) == (layout, unit)] or table()
        return next((row for row in rows if any(row.step_of(name) is not None for name in names)), rows[0])

    def _fetch(self, manifest: Manifest, begun: float, *, skipped: bool) -> Restored | str:
        """Download missing files and verify all; or return the reason why the checkpoint is incomplete."""
        partial = self.checkpoints / PARTIAL_NAME
        files = manifest.files_for(self.part)
        try:
            try:
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
                # Remove what an earlier call restored, which the nodes could not agree on; the store has it
                for name in self.layouts.belongings(self.checkpoints):
                    remove(self.checkpoints / name)
                reused = self._reuse(files, self.previous / manifest.folder, partial)
                coming = [file for file in files if file not in reused]
                needed = sum(file.bytes for file in coming)
                # The next checkpoint is as large as this one.
                self.make_room(needed + sum(file.bytes for file in files), _useful(manifest))
                self._refuse_without_room(manifest.step, needed)
                reason = self._download(coming, partial, manifest)
                if not reason:
                    _complete(partial, manifest, self.part)
                place = None if reason else self._put_in_place(manifest, partial)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        except OSError as error:
            raise AgentError(f"step {manifest.step} cannot be restored into {self.checkpoints}: {error}") from error
        if place is None:
            return reason
        return Restored(
            finished=place[0],
            resume=place[1],
            step=manifest.step,
            manifest=manifest,
            bytes=sum(file.bytes for file in files),
            reused_bytes=sum(file.bytes for file in reused),
            seconds=round(time.monotonic() - begun, 3),
            skipped_newer=skipped,
            lacking=tuple(self._missing(place[0], self.checkpoints)),
        )

    def _put_in_place(self, manifest: Manifest, partial: Path) -> tuple[FinishedFolder, Path]:
        """Rename the fetched files into place, and write the files by which the framework finds the checkpoint."""
        layout, unit = manifest.layout or SLIPWAY, manifest.unit
        if manifest.folder == HERE:
            names = tuple(sorted({entry.path for entry in manifest.entries}))
        else:
            names = (manifest.folder,)
        for name in names:
            target = self.checkpoints / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            (partial / name if manifest.folder == HERE else partial).rename(target)
        for folder in manifest.folders if manifest.folder == HERE else ():
            (self.checkpoints / folder).mkdir(parents=True, exist_ok=True)
        entries = () if manifest.folder != HERE else self._entries(manifest, names)
        finished = FinishedFolder(
            step=manifest.step,
            path=self.checkpoints if entries else self.checkpoints / manifest.folder,
            files=(),
            folder=manifest.folder,
            entries=entries,
            layout=layout,
            unit=unit,
            mains=manifest.leading,
            counted=manifest.counted,
        )
        row = self._row(layout, unit, finished.leading)
        self._write_back(row, finished)
        # By these the watch knows when the trainer writes it again, and what was saved after it.
        content = survey(finished.path, finished.entries)
        finished = replace(finished, files=content.files, folders=content.folders)
        return finished, _resume(row, finished, self.checkpoints)

    def _entries(self, manifest: Manifest, names: tuple[str, ...]) -> tuple[str, ...]:
        """The entries of the checkpoint folder that a restored checkpoint without a folder of its own consists of."""
        if manifest.main:
            return (*manifest.leading, *manifest.others)
        placed = self.layouts.of(manifest).entries_in(self.checkpoints)
        entry = next((entry for entry in placed if entry.step == manifest.step), None)
        return entry.entries if entry is not None else names

    def _refuse_without_room(self, step: int, needed: int) -> None:
        """Raise an error that names the unsent checkpoints on the node if they leave too little room."""
        free = shutil.disk_usage(self.checkpoints).free
        if self.unsent and needed > free:
            names = "; ".join(str(checkpoint) for checkpoint in self.unsent)
            raise AgentError(
                f"step {step} needs {needed:,} bytes in {self.checkpoints}, and {free:,} are free. Finished but not in "
                f"the store, so not removed: {names}. Copy these checkpoints elsewhere or delete them"
            )

    def _reuse(self, files: tuple[StoredFile, ...], earlier: Path, partial: Path) -> set[StoredFile]:
        """Reuse unchanged files of an earlier attempt; the earlier folder stays unchanged until the restore is done."""

        def same(file: StoredFile) -> bool:
            path = earlier / file.path
            try:
                return path.stat().st_size == file.bytes and sha256_of(path) == file.sha256
            except OSError:
                return False

        if not earlier.is_dir():
            return set()
        with ThreadPoolExecutor(_HASHERS) as pool:
            reused = {file for file, is_same in zip(files, pool.map(same, files), strict=True) if is_same}
        for file in reused:
            (partial / file.path).parent.mkdir(parents=True, exist_ok=True)
            _link_or_copy(earlier, file.path, partial / file.path)
        return reused

    def _download(self, files: list[StoredFile], partial: Path, manifest: Manifest) -> str:
        """Download and verify by hash; return the reason why the checkpoint is incomplete, or an empty string.

        A file with a wrong hash is read once more, then from other objects that the manifest lists with this content.
        """
        copies = _by_content(manifest.files)
        tries = {}
        for file in files:
            others = [other for key, other in copies[file.sha256, file.bytes].items() if key != file.key]
            tries[file] = [file, file, *(replace(other, path=file.path) for other in others)]
        while tries:
            bad = self._bad({file: sources[0] for file, sources in tries.items()}, partial)
            for file, reason in bad.items():
                if len(tries[file]) == 1:
                    return reason
            for reason in dict.fromkeys(bad.values()):
                self.on_again(reason)
            tries = {file: tries[file][1:] for file in bad}
        return ""

    def _bad(self, sources: dict[StoredFile, StoredFile], partial: Path) -> dict[StoredFile, str]:
        """Fetch files from their sources; return the files that did not arrive as they were stored, and why."""
        alone = {file: source for file, source in sources.items() if source.offset is None}
        packs: dict[str, dict[StoredFile, StoredFile]] = {}
        for file, source in sources.items():
            if source.offset is not None:
                packs.setdefault(source.key, {})[file] = source
        coming: list[Incoming] = []
        deleted = ""
        # Within the folder that the next restore removes first: a killed one leaves nothing else behind.
        with TemporaryDirectory(prefix=PACKS_NAME, dir=partial) as folder:
            paths = {key: Path(folder, str(number)) for number, key in enumerate(packs)}
            try:
                with self.store.downloads() as downloads:
                    coming += [self._start(downloads, source, partial / source.path) for source in alone.values()]
                    for key, files_of_pack in packs.items():
                        size = max((source.offset or 0) + source.bytes for source in files_of_pack.values())
                        coming.append(downloads.download(key, paths[key], size))
                    downloads.wait()
            except StoreError as error:
                if not error.missing:
                    raise
                deleted = f"an object was deleted: {error}"
            digests = [_digest(incoming) for incoming in coming]
            bad = {
                file: deleted if digest is None else f"{file.path} has SHA-256 {digest} instead of {file.sha256}"
                for file, digest in zip(alone, digests, strict=False)
                if digest != file.sha256
            }
            digest_of = dict(zip(packs, digests[len(alone) :], strict=True))
            with ThreadPoolExecutor(_HASHERS) as pool:
                wrong = pool.map(
                    lambda key: deleted if digest_of[key] is None else unpack(paths[key], packs[key].values(), partial),
                    packs,
                )
                for key, reason in zip(packs, wrong, strict=True):
                    bad |= dict.fromkeys(packs[key], reason) if reason else {}
        return bad

    def _start(self, downloads: Downloads, file: StoredFile, path: Path) -> Incoming:
        path.parent.mkdir(parents=True, exist_ok=True)
        return downloads.download(file.key, path, file.bytes)


def _resume(row: Layout, finished: FinishedFolder, checkpoints: Path) -> Path:
    several = row.is_counted and len(finished.names) > 1
    return checkpoints if row.resume == "parent" or several else checkpoints / finished.name


def _hashes_in_set(finished: FinishedFolder) -> Iterable[tuple[str, str]]:
    """The hashes of a checkpoint by the paths that they have in its set."""
    above = "" if finished.entries else f"{finished.name}/"
    return ((above + path, digest) for path, digest in finished.hashes.items())


def _useful(manifest: Manifest) -> set[str]:
    """The top-level names of an earlier attempt that may hold the same files."""
    paths = [file.path for file in manifest.files] if manifest.folder == HERE else [manifest.folder]
    return {path.partition("/")[0] for path in paths}


def _complete(partial: Path, manifest: Manifest, part: int) -> None:
    """Give the fetched files of a checkpoint their permission bits, and create its links and empty folders."""
    files = ((file.path, file.mode) for file in manifest.files_for(part))
    complete_tree(partial, files, manifest.links_for(part), manifest.folders)


def _changed_file(finished: FinishedFolder) -> str:

    def differs(file: LocalFile) -> bool:
        try:
            return sha256_of(finished.path / file.path) != finished.hashes.get(file.path)
        except OSError:
            return True

    files = with_content(finished.files)
    with ThreadPoolExecutor(_HASHERS) as pool:
        compared = zip(files, pool.map(differs, files), strict=True)
        return next((file.path for file, bad in compared if bad), "")


def _digest(incoming: Incoming) -> str | None:
    """The SHA-256 of a downloaded file; None if the download failed."""
    try:
        return incoming.result()
    except Exception:  # noqa: BLE001  who waited for all of them has raised or said it
        return None


def _by_content(files: Iterable[StoredFile]) -> dict[tuple[str, int], dict[str, StoredFile]]:
    copies: dict[tuple[str, int], dict[str, StoredFile]] = {}
    for file in files:
        copies.setdefault((file.sha256, file.bytes), {}).setdefault(file.key, file)
    return copies


def _link_or_copy(folder: Path, path: str, target: Path) -> None:
    """Hard-link a file of the folder if the file system can; otherwise, or if the path leads through a link, copy."""
    source = folder / path
    if source.stat().st_nlink == 1 and source.resolve() == folder.resolve() / path:
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
        else:
            return
    shutil.copyfile(source, target)
