"""Complete a checkpoint: one PUT of the manifest once the parts of all nodes exist."""

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from launcher.agent import manifest as manifests
from launcher.agent.checkpoint.merge import merge
from launcher.agent.checkpoint_keys import commit_places, part_key
from launcher.agent.errors import ManifestError, MixedVersionsError, StoreError
from launcher.agent.events import utc_now
from launcher.agent.manifest import Manifest
from launcher.agent.node.placement import Placement
from launcher.agent.store.objects import Store, StoredText

_READERS = 8
"""Number of parts of a checkpoint that are read in parallel."""


def announce(store: Store, part: Manifest, *, session: str) -> None:
    """Announce that one node's part of a checkpoint is in the store."""
    if part.part is None:
        raise ValueError("a commit is not a part")
    key = part_key(step=part.step, session=session, part=part.part)
    store.write_text(key, part.to_json())


def renounce(store: Store, writer: Placement, step: int, reason: str) -> None:
    """Report that this node has no part of a checkpoint, so that no other node waits for it."""
    key = part_key(step=step, session=writer.session, part=writer.part)
    store.write_text(key, manifests.unusable(reason))


def missing_parts(store: Store, first: Manifest, *, session: str) -> list[int]:
    """The nodes that have reported nothing about their part; `first` is the first node's part of the checkpoint."""
    if first.parts == 1:
        return []
    folder = part_key(step=first.step, session=session, part=0).rpartition("/")[0]
    stored = store.sizes(f"{folder}/part-")
    numbers = range(1, first.parts)
    return [number for number in numbers if part_key(step=first.step, session=session, part=number) not in stored]


def assemble(
    store: Store, first: Manifest, *, session: str, empty: Collection[int] = (), last: bool = True
) -> Manifest:
    """The complete checkpoint to which the first node's part `first` belongs, if no part is missing.

    `empty` lists the nodes that write nothing. `last`: the command of every node has completed, so that what it sent is
    its last version.

    Raises:
        MixedVersionsError: the nodes sent different versions of the step, and some may still send another one.
        ManifestError: the announcement of another node is not its part.
    """

    def part(number: int) -> Manifest:
        if number in empty:
            return replace(first, part=number, files=(), links=(), folders=())
        key = part_key(step=first.step, session=session, part=number)
        return manifests.parse(store.read_text(key))

    with ThreadPoolExecutor(_READERS) as pool:
        parts = [first, *pool.map(part, range(1, first.parts))]
    if not last and len({each.version for each in parts if each.files}) > 1:
        raise MixedVersionsError(f"the parts of step {first.step} are of different versions")
    return merge(parts, written_at=utc_now())


def commit(store: Store, manifest: Manifest, *, session: str) -> str:
    """Complete a checkpoint by writing its manifest.

    A manifest is written once. If the step already has a manifest, from an earlier attempt or from this one, the new
    manifest is written next to it.

    Returns a description of the content that the manifest replaces; empty if none existed.
    """
    replaced = ""
    for key in _commit_places(store, manifest.step, session):
        if store.swap_text(key, manifest.to_json(), before=None) is not None:
            return replaced
        occupant = store.find_text(key)
        if _is_of(occupant, manifest):
            return ""
        replaced = replaced or _difference(occupant, manifest)
    raise StoreError(f"writing the manifest of step {manifest.step}: other manifests occupy all its keys")


def _commit_places(store: Store, step: int, session: str) -> Iterator[str]:
    """The keys for a commit; those of a step that was written many times are asked for once they are needed."""
    places = commit_places(step, session)
    yield from places[:-1]
    yield from commit_places(step, session, store.sizes(f"step-{step}/{session}."))[len(places) - 1 :]


def _is_of(stored: StoredText | None, manifest: Manifest) -> bool:
    """Whether a stored manifest lists exactly these objects: the write succeeded, but the response was lost."""
    if stored is None:
        return False
    try:
        return manifests.parse(stored.text).files == manifest.files
    except ManifestError:
        return False


def _difference(stored: StoredText | None, manifest: Manifest) -> str:
    """Describe the manifest that occupies the key; empty if its content is the same."""
    try:
        other = manifests.parse(stored.text if stored is not None else "")
    except ManifestError as error:
        return f"an unusable manifest: {error}"
    if _content(other) == _content(manifest):
        return ""
    return f"different content from attempt {other.attempt} of run {other.run}, written at {other.written_at}"


def _content(manifest: Manifest) -> set[tuple[int, str, str]]:
    return {(file.part, file.path, file.sha256) for file in manifest.files}
