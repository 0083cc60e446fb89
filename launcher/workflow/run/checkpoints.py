"""The checkpoints of a job in its store: which exist, which are complete, which are superseded.

The rules are the agent's (launcher/agent/manifest.py): its manifest identifies a folder that the agent uploaded, and
`.metadata` a folder that PyTorch wrote. Anything else is the rest of an incomplete upload.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from launcher import plan_file
from launcher.agent.checkpoint_keys import COMMIT_NAME, commit_keys, step_of_folder
from launcher.agent.dcp_metadata import dcp_shards
from launcher.agent.errors import LaterManifestError, ManifestError
from launcher.agent.manifest import DCP_METADATA_NAME, SUPERSEDED_KEY, StoredFile, parse, superseded_steps
from launcher.agent.withdrawn import WITHDRAWN_KEY, withdrawn_manifests
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.errors import ImpossibleError
from launcher.records.checkpoints import Checkpoint
from launcher.records.run_folder import RunFolder
from launcher.records.stored_quote import stored_quote
from launcher.records.submission import read_submission

AGENT, DCP = "agent", "dcp"
SLIPWAY = "slipway"
"""The layout of a manifest without one: `step-N` or `checkpoint-N`, as in every earlier version."""
_SHARED = "it was removed, except files that a newer checkpoint shares"


def place_of(folder: RunFolder) -> tuple[str, str]:
    """The place of a run's checkpoints, and its region.

    Raises:
        ImpossibleError: the run stores no checkpoints.
    """
    region = stored_quote(folder).region
    submission = read_submission(folder)
    if submission is not None:
        return submission.checkpoint_uri, region
    job = folder.rendered_folder / "job.json"
    uri = folder.read_json("rendered/job.json")["checkpoint"]["uri"] if job.is_file() else None
    if uri is not None and plan_file.load(folder.path / "plan.json").checkpoint.uri is None:
        # The deployment gives the cluster's store its name.
        stacks = folder.read_json("outputs.json").values() if (folder.path / "outputs.json").is_file() else ()
        store = next((outputs["StoreUri"] for outputs in stacks if "StoreUri" in outputs), None)
        uri = None if store is None else f"{store}/{uri.rpartition('/')[2]}"
    if uri is None:
        raise ImpossibleError(
            f"run {folder.path.name} stored no checkpoints", hint="give the store itself: s3://bucket/prefix"
        )
    return str(uri), region


def store_at(uri: str, region: str, environment: Mapping[str, str]) -> Objects:
    """The objects of a checkpoint store."""
    return Objects.at(Session(environment=environment, region=region), uri)


def survey(store: Objects) -> tuple[Checkpoint, ...]:
    """Every step of a store, the newest first."""
    objects = store.list_objects()
    sizes = {object_.key: object_.bytes for object_ in objects}
    written: dict[str, datetime] = {object_.key: object_.modified for object_ in objects}
    by_step: dict[int, list[str]] = {}
    for key in sizes:
        step = step_of_folder_key(key)
        if step is not None:
            by_step.setdefault(step, []).append(key)
    withdrawn = withdrawn_in(store) if WITHDRAWN_KEY in sizes else frozenset()
    judged = [
        _checkpoint(store, step, by_step[step], sizes, written, withdrawn=withdrawn)
        for step in sorted(by_step, reverse=True)
    ]
    needed = frozenset().union(*(checkpoint.needs for checkpoint in judged if checkpoint.complete))
    superseded = (
        superseded_steps(store.read(SUPERSEDED_KEY).decode(errors="replace")) if SUPERSEDED_KEY in sizes else {}
    )
    # One that was removed leaves behind what a newer one has in common with it.
    return tuple(
        replace(checkpoint, reason=_SHARED)
        if checkpoint.form is None and needed.intersection(by_step[checkpoint.step])
        else replace(checkpoint, superseded=checkpoint.step in superseded)
        for checkpoint in judged
    )


def withdrawn_in(store: Objects) -> frozenset[str]:
    """The manifests that `launch --from-step` took out of the running.

    Raises:
        ImpossibleError: the record is unusable.
    """
    try:
        return withdrawn_manifests(store.read(WITHDRAWN_KEY).decode(errors="replace"))
    except ManifestError as problem:
        hint = f"the agent refuses to start with it; delete {store.uri}/{WITHDRAWN_KEY} to let the newest one count"
        raise ImpossibleError(str(problem), hint=hint) from problem


def step_of_folder_key(key: str) -> int | None:
    """The step of a key's folder; also for `step-007/...`, as PyTorch's trainers write it.

    >>> step_of_folder_key("step-007/.metadata"), step_of_folder_key(".work/a"), step_of_folder_key("step-7")
    (7, None, None)
    """
    folder, slash, _ = key.partition("/")
    return step_of_folder(folder) if slash else None


def _checkpoint(
    store: Objects,
    step: int,
    keys: list[str],
    sizes: Mapping[str, int],
    written: Mapping[str, datetime],
    *,
    withdrawn: frozenset[str],
) -> Checkpoint:
    bare = Checkpoint(
        step=step,
        folder=keys[0].partition("/")[0],
        form=None,
        files=(),
        bytes=sum(sizes[key] for key in keys),
        reason="its upload did not finish",
    )
    commits = commit_keys(step, keys)
    if commits:
        running = [key for key in commits if key not in withdrawn]
        bare = replace(bare, form=AGENT, marks=tuple(running or commits), withdrawn=not running)
        return _agent_checkpoint(store, bare, sizes, written)
    metadata = next(
        (key for key in sorted(keys) if key.count("/") == 1 and key.endswith(f"/{DCP_METADATA_NAME}")), None
    )
    return bare if metadata is None else _torch_checkpoint(store, bare, metadata, sizes, written)


def _agent_checkpoint(
    store: Objects, bare: Checkpoint, sizes: Mapping[str, int], written: Mapping[str, datetime]
) -> Checkpoint:
    """A step with the agent's manifest; of several the complete one written last by S3's clock, else the first."""
    checkpoints = [(written[key], _by_manifest(store, bare, key, sizes, written)) for key in bare.marks]
    wholes = [
        (moment, checkpoint.written_at or "", checkpoint) for moment, checkpoint in checkpoints if checkpoint.complete
    ]
    later = [checkpoint for _, checkpoint in checkpoints if checkpoint.shared]
    if not wholes:
        return (later or [checkpoint for _, checkpoint in checkpoints])[0]
    newest = max(wholes, key=lambda whole: whole[:2])[2]
    others = [*later, *(checkpoint for _, _, checkpoint in wholes if _kind(checkpoint) != _kind(newest))]
    needed = frozenset().union(*(other.needs for other in others))
    return replace(newest, marks=(*newest.marks, *sorted(needed)), shared=True) if others else newest


def _kind(checkpoint: Checkpoint) -> tuple[str | None, ...]:
    """The properties that two checkpoints must share for a comparison of their steps."""
    return checkpoint.form, checkpoint.layout, checkpoint.unit


def _by_manifest(
    store: Objects, bare: Checkpoint, key: str, sizes: Mapping[str, int], written: Mapping[str, datetime]
) -> Checkpoint:
    try:
        manifest = parse(store.read(key).decode("utf-8", errors="replace"))
    except LaterManifestError as problem:
        marks = (*bare.marks, *sorted(problem.keys))
        return replace(bare, reason=f"its {COMMIT_NAME}: {problem}", marks=marks, shared=True)
    except ManifestError as problem:
        return replace(bare, reason=f"its {COMMIT_NAME} cannot be used: {problem}")
    reason = (
        manifest.missing(sizes) if manifest.step == bare.step else f"its {COMMIT_NAME} is that of step {manifest.step}"
    )
    return replace(
        bare,
        folder=manifest.folder,
        files=manifest.files,
        reason=reason,
        rewritten=tuple(file.path for file in manifest.files if written.get(file.key, written[key]) > written[key]),
        run=manifest.run,
        attempt=manifest.attempt,
        written_at=manifest.written_at,
        layout=manifest.layout or SLIPWAY,
        unit=manifest.unit,
        counted=manifest.counted,
        main=manifest.main,
        others=manifest.others,
        mains=manifest.mains,
        links=manifest.links,
        folders=manifest.folders,
    )


def _torch_checkpoint(
    store: Objects, bare: Checkpoint, metadata: str, sizes: Mapping[str, int], written: Mapping[str, datetime]
) -> Checkpoint:
    folder = metadata.partition("/")[0]
    known = replace(bare, folder=folder, form=DCP, marks=(metadata,), written_at=written[metadata].isoformat())
    try:
        shards = dcp_shards(store.read(metadata))
    except ManifestError as problem:
        return replace(known, reason=f"its {DCP_METADATA_NAME} cannot be used: {problem}")
    files, reason = [], None
    for path, least in sorted({**shards, DCP_METADATA_NAME: 0}.items()):
        key = f"{folder}/{path}"
        size = sizes.get(key)
        if ".." in path.split("/") or path.startswith("/"):
            return replace(known, reason=f"its {DCP_METADATA_NAME} names a path outside the checkpoint: {path}")
        if size is None:
            reason = reason or f"{path} is missing"
        elif size < least:
            reason = reason or f"{path} has {size} bytes instead of {least} or more"
        files.append(StoredFile(path=path, bytes=size or 0, sha256="", key=key, part=0))
    return replace(known, files=tuple(files), reason=reason)


def choose_checkpoint(checkpoints: tuple[Checkpoint, ...], step: int | None) -> Checkpoint:
    """The checkpoint of a step; the newest complete one in the running if `step` is None.

    Raises:
        ImpossibleError: the checkpoint is missing or not complete.
    """
    complete = ", ".join(str(checkpoint.step) for checkpoint in checkpoints if checkpoint.complete) or "none"
    if step is None:
        for checkpoint in checkpoints:
            if checkpoint.in_the_running:
                return checkpoint
        raise ImpossibleError("the store has no complete checkpoint")
    for checkpoint in checkpoints:
        if checkpoint.step == step and checkpoint.complete:
            return checkpoint
        if checkpoint.step == step:
            raise ImpossibleError(
                f"step {step} is not complete: {checkpoint.reason}", hint=f"complete steps: {complete}"
            )
    raise ImpossibleError(f"no checkpoint of step {step}", hint=f"complete steps: {complete}")


def superseded_keys(checkpoints: tuple[Checkpoint, ...], keys: Iterable[str], keep: int) -> tuple[str, ...]:
    """The keys that no restore of the newest `keep` complete checkpoints needs.

    The rule is that of the agent's retention (launcher/agent/checkpoint/retention.py): never the newest complete
    checkpoint, an object that a retained checkpoint references, or a later step, whose upload may be running. Layouts
    are counted separately: of each layout, `keep` (>= 1) checkpoints are retained. What a user took out of the running
    is not needed, except the objects that a retained checkpoint references.
    """
    by_kind: dict[tuple[str | None, ...], list[Checkpoint]] = {}
    for checkpoint in checkpoints:
        if checkpoint.in_the_running:
            by_kind.setdefault(_kind(checkpoint), []).append(checkpoint)
    if not by_kind:
        return ()
    retained = [checkpoint for group in by_kind.values() for checkpoint in group[: max(1, keep)]]
    retained += [checkpoint for checkpoint in checkpoints if checkpoint.shared]
    steps, whole = (
        {checkpoint.step for checkpoint in retained},
        {checkpoint.step for checkpoint in checkpoints if checkpoint.complete},
    )
    lowest = min(group[0].step for group in by_kind.values())
    needed = frozenset().union(*(checkpoint.needs for checkpoint in retained))
    return tuple(
        sorted(
            key
            for key in keys
            if (step := step_of_folder_key(key)) is not None
            and (step in whole or step < lowest)
            and step not in steps
            and key not in needed
        )
    )
