"""What `run.outputs` names: files, folders, and patterns as in a shell (`*`, `?`, `[a-z]`, `{a,b}`, `**`)."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from launcher.agent.checkpoint.files import local_files
from launcher.agent.errors import UnusableCheckpointError
from launcher.agent.output_manifest import stored_name

_MAGIC = re.compile(r"[*?\[]")
_WORDS = re.compile(r"(?<!\$)\{([^{}]*,[^{}]*)\}")
"""Words in braces, of which a shell takes each: `{a,b}`; `${NAME}` is a variable."""
_MAX_WORDS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPath:
    """One output of a job.

    Attributes:
        written: The path or pattern as the plan has it.
        place: The same with variables filled in, absolute.
        optional: Whether the run may end without a file of it.
    """

    written: str
    place: Path
    optional: bool = False


def find_outputs(outputs: Iterable[OutputPath]) -> tuple[dict[str, Path], tuple[str, ...]]:
    """The files that outputs name, by their names in the store, and why required outputs are missing.

    A folder stands for all files below it.
    """
    files: dict[str, Path] = {}
    missing = []
    for output in outputs:
        try:
            found = dict(_files(output))
        except (OSError, RuntimeError, UnusableCheckpointError) as error:
            found, reason = {}, f"{output.written}: {error}"
        else:
            reason = f"{output.written}: {'matches no file' if is_pattern(output.written) else 'contains no file'}"
        if not found and not output.optional:
            missing.append(reason)
        taken = sorted(name for name, path in found.items() if files.get(name, path) != path)
        if taken:
            missing.append(f"{output.written}: another output is stored as {taken[0]}")
        files = {**found, **files}
    return files, tuple(missing)


def places_of(output: OutputPath) -> list[Path]:
    """The paths that an output names: itself, or what its pattern matches."""
    return [path for _, path in _matches(output)]


def is_pattern(path: str) -> bool:
    """Whether a path has a character of a pattern.

    >>> is_pattern("results/*.json"), is_pattern("results/model")
    (True, False)
    """
    return _MAGIC.search(path) is not None or _WORDS.search(path) is not None


def _alternatives(path: str) -> list[str]:
    """A path with each of its words in braces, as a shell writes it out.

    >>> _alternatives("a/{b,c}.{x,y}"), _alternatives("${A}/b")
    (['a/b.x', 'a/b.y', 'a/c.x', 'a/c.y'], ['${A}/b'])
    """
    match = _WORDS.search(path)
    if match is None:
        return [path]
    words = match[1].split(",")
    paths = [one for word in words for one in _alternatives(f"{path[: match.start()]}{word}{path[match.end() :]}")]
    return paths[:_MAX_WORDS]


def _files(output: OutputPath) -> Iterator[tuple[str, Path]]:
    for name, path in _matches(output):
        real = path.resolve(strict=True)
        if real.is_file():
            yield name, real
        else:
            files = local_files(real, follow=True)
            yield from ((f"{name}/{file.path}" if name else file.path, real / file.path) for file in files)


def _matches(output: OutputPath) -> Iterator[tuple[str, Path]]:
    """The paths that an output names, each with its name in the store."""
    if not is_pattern(output.written) or output.place.exists():
        yield stored_name(output.written), output.place
        return
    places = _alternatives(str(output.place))
    if len(places) > 1:
        for name, one in zip(_alternatives(output.written), places, strict=True):
            if is_pattern(name) or Path(one).exists():
                yield from _matches(OutputPath(written=name, place=Path(one)))
        return
    parts = output.place.parts
    static = next(index for index, part in enumerate(parts) if is_pattern(part))
    written = PurePosixPath(output.written).parts
    head = written[: next(index for index, part in enumerate(written) if is_pattern(part))]
    if output.written.startswith(("/", "${")):
        head = tuple(part for part in head[-1:] if part != "/" and not part.startswith("${"))
    base = Path(*parts[:static])
    for path in dict.fromkeys(_below(base, parts[static:])):
        yield "/".join((*head, *path.relative_to(base).parts)), path


def _below(folder: Path, parts: tuple[str, ...]) -> Iterator[Path]:
    """What a pattern's parts match below a folder, in order; as in a shell, `*` matches no name that begins with a dot.

    `**` enters no links: a link to a folder above would never end.
    """
    if not parts:
        yield folder
        return
    first, rest = parts[0], parts[1:]
    if not is_pattern(first):
        if (folder / first).exists():
            yield from _below(folder / first, rest)
        return
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    entries = [entry for entry in entries if first.startswith(".") or not entry.name.startswith(".")]
    if first == "**":
        yield from _below(folder, rest) if rest else entries
        for entry in entries if rest else ():
            if entry.is_dir() and not entry.is_symlink():
                yield from _below(entry, parts)
        return
    for entry in entries:
        if fnmatchcase(entry.name, first) and (not rest or entry.is_dir()):
            yield from _below(entry, rest)
