"""The outputs of a run in its store: which exist, and their download to this computer."""

from pathlib import Path

from launcher.agent.errors import ManifestError
from launcher.agent.output_manifest import FOLDER, OutputManifest, manifest_key, parse_outputs
from launcher.aws.objects import Objects
from launcher.model.errors import ImpossibleError
from launcher.workflow.run.checkpoints_transfer import Advance, fetch


def stored_outputs(store: Objects, run: str | None) -> OutputManifest:
    """The stored outputs of the newest run of a plan, or of a run by its id.

    Raises:
        ImpossibleError: no outputs exist, or they cannot be read.
    """
    stored = store.list_objects(below=f"{FOLDER}/")
    archives = {
        object_.key.split("/")[1]: object_
        for object_ in stored
        if object_.key == manifest_key(object_.key.split("/")[1])
    }
    if not archives:
        raise ImpossibleError(
            f"no outputs in {store.uri}", hint="set run.outputs; outputs are stored when the command has ended"
        )
    newest = max(archives.values(), key=lambda object_: object_.modified) if run is None else archives.get(run)
    if newest is None:
        raise ImpossibleError(f"no outputs of the run {run}", hint=f"runs with outputs: {', '.join(sorted(archives))}")
    try:
        return parse_outputs(store.read(newest.key).decode("utf-8", errors="replace"))
    except ManifestError as problem:
        raise ImpossibleError(f"{store.uri}/{newest.key} cannot be used: {problem}") from problem


def fetch_outputs(store: Objects, outputs: OutputManifest, target: Path, advance: Advance) -> None:
    """Download the outputs, each file verified by its hash: all files or none.

    Raises:
        ImpossibleError: the folder exists or cannot be written, or a file is damaged.
    """
    if target.exists():
        raise ImpossibleError(f"{target} exists already", hint="name another folder with --to")
    wrong = fetch(store, outputs.files, target, advance)
    if wrong:
        raise ImpossibleError(f"the outputs of {outputs.run} are damaged: {wrong}")
