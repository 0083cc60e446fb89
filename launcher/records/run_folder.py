"""The run folder: the plan, quote, rendered files, deployment and run records, each file written atomically."""

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.catalog.regular_file import read_regular
from launcher.model.bundle import Bundle
from launcher.model.errors import (
    DeclinedError,
    ImpossibleError,
    InterruptedAtQuestionError,
    UnreadableInputError,
    reason_of,
)
from launcher.model.record import record
from launcher.records import recent_runs

RUNS = Path(".slipway") / "runs"
JOB_FOLDER = "job"
"""Folder in the run folder: copies of the files that the job writes on the cluster."""
SANDBOX_LOG = "logs/sandbox.log"
"""File in the run folder of a sandbox launch: the log of the sandbox server, if it wrote one."""
EVENTS, METRICS = "events.jsonl", "metrics.jsonl"
LATEST = "latest"
COMMAND, DRY_RUN = "command.json", "dry run"
"""The record of the command of a run folder, and its result for a dry run."""
STAMP = "%Y%m%dT%H%M%SZ"
FETCHED: ContextVar[Path | None] = ContextVar("fetched", default=None)
"""The folder of the runs that this command fetched from a store (--store, --region): they come before all others."""


@record
class RunFolder:
    """The folder of one run under `.slipway/runs/<name>/<time>/`; `before` is the previous target of `latest`."""

    path: Path
    before: str | None = None

    @property
    def root(self) -> Path:
        """The current folder at the creation of the run."""
        return self.path.parents[len(RUNS.parts) + 1]

    @property
    def rendered_folder(self) -> Path:
        """The folder of the bundle's files."""
        return self.path / "rendered"

    @property
    def assembly(self) -> Path:
        """The cloud assembly that was shown and is deployed."""
        return self.path / "cdk.out"

    @property
    def logs(self) -> Path:
        """The folder of logs, one per attempt."""
        return self.path / "logs"

    @property
    def attempt_logs(self) -> list[tuple[int, Path]]:
        """The existing logs, each with the number of its attempt, the first attempt first."""
        paths = [path for path in self.logs.glob("attempt-*.log") if re.fullmatch("attempt-[0-9]{1,9}", path.stem)]
        return sorted((int(path.stem.rpartition("-")[2]), path) for path in paths)

    @property
    def events(self) -> Path:
        """The event log, one JSON object a line."""
        return self.path / "events.jsonl"

    def write_json(self, name: str, document: Mapping[str, Any]) -> Path:
        """Write one JSON file atomically."""
        path = self.path / name
        write_whole(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        return path

    def read_json(self, name: str) -> dict[str, Any]:
        """One JSON file of the run.

        Raises:
            UnreadableInputError: the file is missing or no JSON object.
        """
        path = self.path / name
        try:
            document = safe_json.loads(read_regular(path, safe_json.MAX_BYTES))
        except FileNotFoundError as problem:
            raise UnreadableInputError(f"the run folder {self.path} holds no {name}") from problem
        except (OSError, ValueError) as problem:
            raise UnreadableInputError(f"cannot read {path}: {reason_of(problem)}") from problem
        if not isinstance(document, dict):
            raise UnreadableInputError(f"cannot read {path}: it must hold a JSON object, got {type(document).__name__}")
        return document

    def write_bundle(self, bundle: Bundle) -> None:
        """Write the rendered files."""
        write_bundle(bundle, self.rendered_folder)

    def append_event(self, kind: str, **facts: Any) -> None:
        """Add one line to the events."""
        line = json.dumps({"at": datetime.now(UTC).isoformat(), "event": kind, **facts}, ensure_ascii=False)
        with open(self.events, "a", encoding="utf-8", opener=_private) as stream:
            stream.write(line + "\n")


def write_bundle(bundle: Bundle, folder: Path, *, shared: bool = False) -> None:
    """Write the files of a bundle under a folder, each atomically; `shared` as for `write_whole`."""
    for file in bundle.files:
        path = folder / file.path
        for parent in reversed([above for above in path.parents if above == folder or folder in above.parents]):
            # A mode given to `parents=True` would hold for the last of them alone.
            parent.mkdir(mode=0o777 if shared else 0o700, parents=parent == folder, exist_ok=True)
        write_whole(path, file.text, shared=shared)
        if file.executable:
            path.chmod(0o755 if shared else 0o700)


def write_whole(path: Path, text: str, *, shared: bool = False) -> None:
    """Write a text file so that a reader sees either the old or the new content, never a mixture.

    `shared`: readable as the umask allows; else only by its owner.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    opener = None if shared else _private
    try:
        with open(partial, "x", encoding="utf-8", opener=opener) as stream:
            stream.write(text)
        partial.replace(path)
    except BaseException:
        # A full disk leaves nothing half written.
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def undone_if_declined(folder: RunFolder) -> Iterator[None]:
    """Delete a run folder if the user declines or interrupts a question within the block: no run exists then."""
    try:
        yield
    except (DeclinedError, InterruptedAtQuestionError):
        shutil.rmtree(folder.path)
        link = folder.path.parent / LATEST
        link.unlink(missing_ok=True)
        if folder.before is not None:
            link.symlink_to(folder.before)
        else:
            for parent in list(folder.path.parents)[: len(RUNS.parts) + 1]:
                if any(parent.iterdir()):
                    break
                parent.rmdir()
        raise


def _private(path: str, flags: int) -> int:
    """Open a file that, if new, only its owner may read."""
    return os.open(path, flags, 0o600)


def create(name: str, now: datetime, root: Path, *, dry_run: bool = False) -> RunFolder:
    """A new run folder under `root`, for its owner only; `latest` next to it points to the folder.

    The folder contains the job's command and variables, which other users of this computer should not see. A dry run
    becomes `latest` only if no real run exists, so that a running job is still found by its plan's name.
    """
    parent = root / RUNS / name
    try:
        parent.mkdir(parents=True, exist_ok=True)
        path = _fresh(parent, now)
        (path / "logs").mkdir(mode=0o700)
        named = parent / LATEST
        before = str(named.readlink()) if named.is_dir() else None
        if not dry_run or before is None or _is_dry_run(parent / before):
            link = parent / f".latest.{secrets.token_hex(4)}"
            link.symlink_to(path.name)
            link.replace(named)
    except OSError as problem:
        reason = reason_of(problem)
        raise ImpossibleError(f"cannot make a run folder under {parent}: {reason}") from problem
    if not dry_run:
        recent_runs.remember(name, path, os.environ)
    return RunFolder(path=path, before=before)


def _is_dry_run(folder: Path) -> bool:
    """Whether the command of a run folder was a dry run; not so if its record is missing or damaged."""
    try:
        record = safe_json.loads((folder / COMMAND).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(record, Mapping) and record.get("ended") == DRY_RUN


def _fresh(parent: Path, now: datetime) -> Path:
    moment = now
    for _ in range(60):
        path = parent / moment.strftime(STAMP)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            moment = datetime.fromtimestamp(moment.timestamp() + 1, UTC)
        else:
            return path
    raise OSError(f"{parent} has a folder for every second of the next minute")


def latest(name: str, root: Path) -> RunFolder:
    """The newest run of a plan: under `root`, else in the folder where the user launched it last."""
    path = home_of(name, root) / RUNS / name / LATEST
    if not path.is_dir():
        known = ", ".join(names(root)) or "none"
        message = f"no run of {name} under {root / RUNS}, and none of your recent runs has this name"
        raise UnreadableInputError(
            message, hint=f"runs here: {known}; --region or --store finds those of other computers"
        )
    return RunFolder(path=Path(os.path.realpath(path)))


def home_of(name: str, root: Path) -> Path:
    """The folder with the runs of a plan: fetched ones, `root` if it has one, else where the user launched it last."""
    if (fetched := FETCHED.get()) is not None:
        return fetched
    if (root / RUNS / name / LATEST).is_dir():
        return root
    return recent_runs.root_of(name, os.environ) or root


def with_report(name: str, root: Path) -> RunFolder:
    """The newest run of a plan with a report of a job or an endpoint, else the newest of all.

    A deployment of the cluster alone has no report, and may follow a job.
    """
    return next(iter(reported_runs(name, root)), latest(name, root))


def reported_runs(name: str, root: Path) -> list[RunFolder]:
    """The runs of a plan with a report of a job or an endpoint, newest first."""
    return [
        run
        for run in (latest(name, root), *_runs(home_of(name, root) / RUNS / name))
        if (run.path / "report.json").is_file()
    ]


def earlier_runs(name: str, folder: RunFolder) -> list[RunFolder]:
    """The runs of a plan before this run, newest first."""
    return [run for run in _runs(folder.root / RUNS / name) if run.path.name < folder.path.name]


def names(root: Path) -> list[str]:
    """The plans that have runs under `root`."""
    folder = root / RUNS
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def all_runs(root: Path) -> list[tuple[str, RunFolder]]:
    """Every run under `root` with its plan's name, newest first within a plan."""
    return [(name, run) for name in names(root) for run in _runs(root / RUNS / name)]


def _runs(folder: Path) -> list[RunFolder]:
    folders = (path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    return [RunFolder(path=path) for path in sorted(folders, reverse=True)]
