"""Finds the complete checkpoints of a step: those whose manifest can be read and whose objects have its sizes."""

from launcher.agent import manifest as manifests
from launcher.agent.checkpoint_keys import commit_keys
from launcher.agent.errors import ManifestError, StoreError
from launcher.agent.manifest import Manifest
from launcher.agent.store.objects import Store


def complete_checkpoint(store: Store, step: int, sizes: dict[str, int]) -> tuple[Manifest | None, str]:
    """The checkpoint of a step in the store, validated by its manifest and the sizes of its objects.

    Sizes of objects of other steps that the manifest references are added to `sizes`.

    Returns the manifest (the newest if several exist), or None and the reason.
    """
    wholes, reason = complete_checkpoints(store, step, sizes)
    return (wholes[0], "") if wholes else (None, reason)


def complete_checkpoints(store: Store, step: int, sizes: dict[str, int]) -> tuple[list[Manifest], str]:
    """All checkpoints of a step that are complete by object size, the last written first, by the store's clock.

    The clocks of the nodes that wrote the manifests may be wrong: they only order manifests of the same second.

    Returns the manifests and, if none is complete, the reasons.
    """
    wholes, reasons = [], []
    for key in commit_keys(step, sizes):
        manifest, reason, written_s = _inspect_manifest(store, key, step, sizes)
        if manifest is not None:
            wholes.append((written_s, manifest.written_at, manifest))
        reasons.append(reason)
    wholes.sort(key=lambda row: row[:2], reverse=True)
    whys = "; ".join(reasons) or "it has no manifest: its upload did not finish"
    return [manifest for _, _, manifest in wholes], whys


def _inspect_manifest(store: Store, key: str, step: int, sizes: dict[str, int]) -> tuple[Manifest | None, str, float]:
    try:
        text = store.get_text(key)
        manifest = manifests.parse(text.text)
    except ManifestError as error:
        return None, f"its manifest is unusable: {error}", 0.0
    except StoreError as error:
        if error.missing:
            return None, "its manifest was deleted", 0.0
        raise
    elsewhere = {file.key.partition("/")[0] for file in manifest.files} - {key.partition("/")[0] for key in sizes}
    for folder in sorted(elsewhere):
        sizes |= store.sizes(f"{folder}/")
    reason = manifest.missing(sizes)
    if reason is None and manifest.step != step:
        reason = f"its manifest belongs to step {manifest.step}"
    return (None, reason, 0.0) if reason else (manifest, "", text.written_s)
