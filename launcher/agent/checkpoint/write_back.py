"""The tracker and the links by which a framework or trainer finds its newest checkpoint, written after a restore."""

import os
import re
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from launcher.agent.checkpoint.layouts import Layout, table
from launcher.agent.checkpoint.trainer_state import saved_step

_LONGEST_PATH = 4096


def write_back(layout: Layout, folder: Path, names: Iterable[str], others: Iterable[str] = ()) -> None:
    """Write the tracker and the links by which a framework finds its newest checkpoint, after a restore.

    `others`: the others of its set; the trainer named a best model of the same step later, and its state knows more.
    """
    names = tuple(names)
    newest = max((step for name in names if (step := layout.step_of(name)) is not None), default=0)
    rows = [row for row in table() if row.key == layout.key and row.is_best]
    best = ((row, name) for row in rows for name in others if (row.step_of(name) or -1) >= newest)
    for row, name in (*((layout, name) for name in names), *best):
        _write_back(row, folder, name)


def links_to(folder: Path, name: str) -> tuple[str, ...]:
    """The links beside a checkpoint that lead to it, or to a later one of its kind: it is sent after the next is saved.

    Their names are below the checkpoint folder; none if they cannot be read.
    """
    above = (folder / name).parent
    try:
        links = [path for path in above.iterdir() if path.is_symlink() and path.exists()]
        targets = {link: link.resolve() for link in links}
        beside = above.resolve()
    except (OSError, RuntimeError):
        return ()
    leading = [link for link in links if targets[link].parent == beside and _is_later(targets[link].name, name)]
    return tuple(sorted(str(link.relative_to(folder)) for link in leading))


def _is_later(target: str, name: str) -> bool:
    """Whether a name is that of a checkpoint or of a later one: equal except for higher numbers.

    >>> [_is_later(target, "runs/m_20.pt") for target in ("m_20.pt", "m_30.pt", "m_10.pt", "log_30.pt")]
    [True, True, False, False]
    """
    own = name.rpartition("/")[2]
    numbers, own_numbers = ([int(digits) for digits in re.findall(r"\d+", text)] for text in (target, own))
    return re.sub(r"\d+", "#", target) == re.sub(r"\d+", "#", own) and numbers >= own_numbers


def write_links(folder: Path, name: str, links: Iterable[str]) -> None:
    """Let the trainer's own links lead to a restored checkpoint; what is there and is no link stays."""
    for link in (folder / link for link in links):
        if link.parent.is_dir() and (link.is_symlink() or not link.exists()):
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath(folder / name, link.parent))


def paths_to(folder: Path, name: str) -> tuple[str, ...]:
    """The files beside a checkpoint that hold nothing but its absolute path, or that of a later one of its kind.

    Such is MMEngine's `last_checkpoint`. Their names are below the checkpoint folder; none if they cannot be read.
    """
    above = (folder / name).parent
    try:
        targets = {file: target for file in above.iterdir() if (target := path_in(file)) is not None}
        beside = above.resolve()
        leading = [
            file
            for file, target in targets.items()
            if target.parent.resolve() == beside and _is_later(target.name, name)
        ]
    except (OSError, RuntimeError):
        return ()
    return tuple(sorted(str(file.relative_to(folder)) for file in leading))


def write_paths(folder: Path, name: str, files: Iterable[str], tracker: str = "") -> None:
    """Let such files hold the path of a restored checkpoint; what is there and holds no path stays, but the tracker."""
    for file in files:
        place = folder / file
        is_free = file == tracker or path_in(place) is not None or not os.path.lexists(place)
        if place.parent.is_dir() and is_free:
            _replace(place, str(folder / name))


def path_in(file: Path) -> Path | None:
    """The absolute path that is the whole text of a file; None if the file holds something else."""
    try:
        status = file.lstat()
        if not stat.S_ISREG(status.st_mode) or not 1 < status.st_size <= _LONGEST_PATH:
            return None
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return Path(text) if text.startswith("/") and "\n" not in text and "\0" not in text else None


def _replace(file: Path, text: str) -> None:
    partial = file.with_name(f"{file.name}.slipway")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)


def _write_back(layout: Layout, folder: Path, name: str) -> None:
    tracker = layout.tracker_of(name)
    if tracker is not None:
        _replace(folder / tracker[0], tracker[1])
    for link, target in layout.links_of(name).items():
        is_folder = (folder / link).is_dir() and not (folder / link).is_symlink()  # the framework's, of this step
        if (folder / target).exists() and not is_folder:
            (folder / link).unlink(missing_ok=True)
            if not (_is_of_another_format(layout, folder / target) and _copy(folder / target, folder / link)):
                (folder / link).symlink_to(target)


def _is_of_another_format(layout: Layout, path: Path) -> bool:
    """Whether another program than the framework wrote a file: it may write through a link, into the file itself."""
    return bool(layout.state) and path.is_file() and saved_step(layout.state, path) is None


def _copy(source: Path, target: Path) -> bool:
    """Copy a file; false, with nothing left, if the disk has no room."""
    try:
        shutil.copyfile(source, target)
    except OSError:
        target.unlink(missing_ok=True)
        return False
    return True
