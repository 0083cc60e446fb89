"""The parts of a checkpoint that several nodes wrote, as one manifest."""

import posixpath
from collections.abc import Collection, Iterable
from dataclasses import replace

from launcher.agent.errors import ManifestError
from launcher.agent.manifest import HERE, Manifest
from launcher.agent.manifest_tree import MAX_HOPS, check_tree, end_of, folders_above


def merge(parts: Iterable[Manifest], *, written_at: str) -> Manifest:
    """The commit over all parts of one checkpoint.

    Raises:
        ManifestError: the parts do not belong together or are incomplete.
    """
    ordered = sorted(parts, key=lambda manifest: -1 if manifest.part is None else manifest.part)
    first = ordered[0]
    identities = {(part.run, part.attempt, part.step, part.parts) for part in ordered}
    if len(identities) != 1 or [part.part for part in ordered] != list(range(first.parts)):
        raise ManifestError(f"the parts of step {first.step} belong to different checkpoints: {sorted(identities)}")
    aligned = _resolve_links([_as_in(first, part) for part in ordered])
    filled = {path for part in aligned for entry in part.entries for path in folders_above(entry.path)}
    files = tuple(file for part in aligned for file in part.files)
    links = tuple(link for part in aligned for link in part.links)
    folders = {folder for part in aligned for folder in part.folders}
    merged = Manifest(
        run=first.run,
        attempt=first.attempt,
        step=first.step,
        folder=first.folder,
        part=None,
        parts=first.parts,
        files=files,
        written_at=written_at,
        seconds=max(part.seconds for part in ordered),
        layout=first.layout,
        unit=first.unit,
        main=first.main,
        mains=first.mains,
        others=tuple(dict.fromkeys(name for part in aligned for name in part.others)) if first.main else (),
        links=links,
        # One node's empty folder may hold another node's files.
        folders=tuple(sorted(folders - filled)),
        counted=first.counted,
    )
    check_tree((file.path for file in files), merged.links, merged.folders)
    return merged


def _resolve_links(parts: list[Manifest]) -> list[Manifest]:
    """The parts, with a link as what it leads to where another node has a file or folder at its place.

    Raises:
        ManifestError: a path is a file on one node and a folder on another.
    """
    for _ in range(MAX_HOPS):  # what a link to a folder leads to may take the place of another link
        taken = {path for part in parts for path in (*(file.path for file in part.files), *_folders_of(part))}
        if not any(link.path in taken for part in parts for link in part.links):
            break
        parts = [_without_links(part, {link.path for link in part.links} & taken) for part in parts]
    files = {file.path: file.part for part in parts for file in part.files}
    for part in parts:
        for path in sorted(_folders_of(part) & files.keys()):
            raise ManifestError(
                f"{path!r} is a file on node {files[path]} and a folder on node {part.part}; all nodes must write the "
                "same kind there"
            )
    return parts


def _folders_of(part: Manifest) -> set[str]:
    """The folders of a part, empty or not."""
    below = (*(entry.path for entry in part.entries), *part.folders)
    return {*part.folders, *(folder for path in below for folder in folders_above(path))}


def _without_links(part: Manifest, paths: Collection[str]) -> Manifest:
    """A part with copies, of the same objects, of what some of its links lead to in their places."""
    if not paths:
        return part
    files, folders = {file.path: file for file in part.files}, _folders_of(part)
    targets = {link.path: link.target for link in part.links}
    ends = {path: end_of(path, targets, files, folders) for path in targets}
    links = [link for link in part.links if link.path not in paths]
    more_files, more_links, more_folders = [], [], []
    for path in sorted(paths):
        end = ends[path]
        more_files += [replace(file, path=moved) for file in part.files if (moved := _below(file.path, end, path))]
        more_folders += [moved for folder in part.folders if (moved := _below(folder, end, path))]
        for link in links:
            if moved := _below(link.path, end, path):
                leads_to = _below(ends[link.path], end, path) or ends[link.path]
                target = posixpath.relpath(leads_to, posixpath.dirname(moved) or HERE)
                more_links.append(replace(link, path=moved, target=target))
    return replace(
        part,
        files=(*part.files, *more_files),
        links=(*links, *more_links),
        folders=(*part.folders, *more_folders),
    )


def _below(path: str, end: str, place: str) -> str:
    """A path at or below `end`, as it is below `place` instead; else empty."""
    return place + path[len(end) :] if f"{path}/".startswith(f"{end}/") else ""


def _as_in(first: Manifest, part: Manifest) -> Manifest:
    """A part with paths as in the first node's: a node may not know of the set, or know it alone."""
    if first.main and part.folder == first.main:
        return part.move_paths(lambda path: f"{part.folder}/{path}")
    if part.main and part.main == first.folder:
        below = f"{part.main}/"
        mine = replace(
            part,
            files=tuple(file for file in part.files if file.path.startswith(below)),
            links=tuple(link for link in part.links if link.path.startswith(below)),
            folders=tuple(folder for folder in part.folders if folder.startswith(below)),
        )
        return mine.move_paths(lambda path: path[len(below) :])
    return part
