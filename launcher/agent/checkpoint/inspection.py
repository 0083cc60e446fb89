"""Lists the checkpoints of a step that an earlier attempt wrote, as retention judges them."""

from collections.abc import Collection

from launcher.agent import manifest as manifests
from launcher.agent.checkpoint.complete import complete_checkpoints
from launcher.agent.checkpoint.retention import LATER_VERSION, WITHDRAWN, Inspect, RetainedCheckpoint, retained_form
from launcher.agent.checkpoint_keys import commit_keys
from launcher.agent.errors import LaterManifestError, ManifestError, StoreError
from launcher.agent.store.objects import Store


def inspect(store: Store, *, withdrawn: Collection[str] = ()) -> Inspect:
    """How retention inspects a step that an earlier attempt wrote; `withdrawn`: manifests that a user withdrew."""

    def inspect_step(step: int, _: str, sizes: dict[str, int]) -> list[RetainedCheckpoint]:
        aside = [key for key in commit_keys(step, sizes) if key in withdrawn]
        running = {key: size for key, size in sizes.items() if key not in aside}
        readable = [retained_form(manifest) for manifest in complete_checkpoints(store, step, running)[0]]
        keys = commit_keys(step, running)
        later = (_later_commit(store, key, step) for key in keys)
        return [*readable, *filter(None, later), *(_withdrawn(store, key, step) for key in aside)]

    return inspect_step


def _withdrawn(store: Store, key: str, step: int) -> RetainedCheckpoint:
    """A checkpoint that a user took out of the running; it is retained with all objects that it names."""
    needs = {key}
    try:
        needs |= {file.key for file in manifests.parse(store.get_text(key).text).files}
    except ManifestError:
        pass  # no manifest names an object: what lies below its own step stays anyway
    except StoreError as error:
        if not error.missing:
            raise
    return RetainedCheckpoint(step=step, needs=frozenset(needs), layouts=frozenset({WITHDRAWN}))


def _later_commit(store: Store, key: str, step: int) -> RetainedCheckpoint | None:
    """A commit that only a later version of Slipway can read; it is retained with all objects that it names."""
    try:
        manifests.parse(store.get_text(key).text)
    except LaterManifestError as error:
        return RetainedCheckpoint(step=step, needs=error.keys, layouts=frozenset({LATER_VERSION}))
    except ManifestError:
        return None
    except StoreError as error:
        if not error.missing:
            raise
    return None
