"""Keeping the newest K checkpoints: everything older is tagged, and the bucket's lifecycle rule expires what is tagged.

Nothing is deleted here: a lifecycle rule cannot express "never the newest", a tag can. The newest whole checkpoint is
never tagged, and nothing that it points to.
"""

from collections.abc import Iterable

from launcher.agent.checkpoint.commit import whole_checkpoint
from launcher.agent.manifest import Manifest, StoredFile, commit_keys, step_of_key
from launcher.agent.store.objects import Store


class Retention:
    """Tags what is superseded, each object once in the life of the process."""

    def __init__(self, store: Store, *, keep: int, newest: Manifest | None = None) -> None:
        """Keep the policy.

        Args:
            store: The store.
            keep: Whole checkpoints to keep, >= 1.
            newest: The newest whole checkpoint.
        """
        self._store = store
        self._keep = keep
        self._tagged: set[str] = set()
        self._staying = set(_keys(newest.files)) if newest is not None else set()

    def refused(self, manifest: Manifest) -> str | None:
        """Why a checkpoint must not be committed: it points to an object of another one that is not sure to stay.

        A node looks for what it need not send again some time before the commit, and others commit meanwhile.
        """
        for file in manifest.files:
            if step_of_key(file.key) != manifest.step and file.key not in self._staying:
                return f"{file.path} of node {file.part} lies in {file.key}, which may have been superseded"
        return None

    def committed(self, manifest: Manifest) -> None:
        """Take note of a new whole checkpoint: its objects stay."""
        self._staying |= set(_keys(manifest.files))

    def apply(self, newest: Manifest) -> list[int]:
        """Tag what the newest `keep` whole checkpoints do not need, below the step of `newest`.

        Objects of a step above `newest` may be on their way and are left alone.

        Args:
            newest: The checkpoint that was just committed.

        Returns:
            The steps of which something was tagged, ascending.

        Raises:
            StoreError: The store did not take a tag; what is left is tagged by the next call.
        """
        sizes = self._store.sizes()
        kept = self._kept(newest, sizes)
        needed = {file.key for manifest in kept for file in manifest.files}
        self._staying = needed
        steps = {manifest.step for manifest in kept}
        superseded = sorted(
            key
            for key in sizes
            if (step := step_of_key(key)) is not None
            and step < newest.step
            and step not in steps
            and key not in needed
            and key not in self._tagged
        )
        for key in superseded:
            self._store.set_superseded(key, superseded=True)
            self._tagged.add(key)
        return sorted({step for key in superseded if (step := step_of_key(key)) is not None})

    def protect(self, manifest: Manifest) -> None:
        """Tag a checkpoint as one that stays: it is the newest whole one again, since newer ones are not whole.

        Raises:
            StoreError: The store did not take it.
        """
        commits = commit_keys(manifest.step, self._store.sizes(f"step-{manifest.step}/"))
        for key in (*commits, *_keys(manifest.files)):
            self._store.set_superseded(key, superseded=False)
            self._tagged.discard(key)

    def _kept(self, newest: Manifest, sizes: dict[str, int]) -> list[Manifest]:
        kept = [newest]
        steps = {step for key in sizes if (step := step_of_key(key)) is not None and step < newest.step}
        for step in sorted(steps, reverse=True):
            if len(kept) == self._keep:
                break
            older, _ = whole_checkpoint(self._store, step, sizes)
            if older is not None:
                kept.append(older)
        return kept


def _keys(files: Iterable[StoredFile]) -> list[str]:
    return sorted({file.key for file in files})
