"""A persistent sandbox: one command starts it, other commands of the same user use it, another command ends it.

One file, readable by its owner alone, holds its address. Only `start` and `stop` write and remove the file, under a
lock. If a killed sandbox leaves the file behind, the server does not answer.

A user can have several sandboxes, each with a name. A folder uses the one named in `.slipway/sandbox`, else the
default.
"""

import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from launcher.agent import safe_json
from launcher.agent.shape import read
from launcher.model.emulator import MARK
from launcher.model.errors import AwsError, ImpossibleError, UnreadableInputError, reason_of
from launcher.records.cache_folder import cache_folder, own_folder
from launcher.sandbox import processes
from launcher.sandbox.control import ControlClient, ControlError
from launcher.sandbox.embedded import EmbeddedServer, link_of
from launcher.sandbox.keeper import remove
from launcher.sandbox.keys import AccessKey
from launcher.sandbox.needs import refuse_unless_possible
from launcher.sandbox.server import write_whole
from launcher.sandbox.slurm import daemons

DEFAULT = "default"
_NAME = re.compile(r"[a-z0-9-]{1,40}")
_USED = Path(".slipway") / "sandbox"
_END_S = 60.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSandbox:
    """The record of a persistent sandbox. `since` is an ISO moment, UTC; `folder` is private and removed at the end."""

    name: str
    port: int
    pid: int
    control: str
    secret: str
    key_id: str
    key_secret: str
    folder: str
    mark: str
    scheduler: str
    since: str

    @property
    def client(self) -> ControlClient:
        """The client of the server's control socket."""
        return ControlClient(self.control, self.secret)

    @property
    def key(self) -> AccessKey:
        """The access key of the sandbox's AWS."""
        return AccessKey(id=self.key_id, secret=self.key_secret)

    @property
    def running(self) -> bool:
        """Whether the server runs and accepts the secret."""
        if not processes.is_running(self.pid):
            return False
        try:
            self.client.call("clusters")
        except ControlError:
            return False
        return True


def selected_in(folder: Path) -> str:
    """The name of the sandbox that a folder uses.

    Raises:
        UnreadableInputError: the folder's file cannot be read or contains no valid name.
    """
    path = folder / _USED
    try:
        name = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return DEFAULT
    except (OSError, ValueError) as problem:
        raise UnreadableInputError(f"cannot read {path}: {reason_of(problem)}", hint="remove it") from problem
    return checked_name(name, f"{path}: ")


def checked_name(name: str, where: str = "") -> str:
    """Return a name if it is valid for a sandbox, else raise UnreadableInputError."""
    if _NAME.fullmatch(name) is None:
        message = f"{where}a sandbox's name has 1 to 40 of a to z, 0 to 9 and -, got {name[:60]!r}"
        raise UnreadableInputError(message, hint="slipway sandbox start --name team")
    return name


def select(folder: Path, name: str) -> None:
    """Make a folder use a sandbox from now on."""
    path = folder / _USED
    if name == DEFAULT:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(f"{name}\n", encoding="utf-8")


def folder_of(environment: Mapping[str, str], name: str | None = None) -> Path:
    """The path of the record of a user's sandbox; it need not exist. `name` None: that of the current folder."""
    name = selected_in(Path()) if name is None else name
    return own_folder(environment) / ("sandbox.json" if name == DEFAULT else f"sandbox-{name}.json")


def find(environment: Mapping[str, str], name: str | None = None) -> RunningSandbox | None:
    """The sandbox of a name, or of the current folder; None if it does not run."""
    sandbox = _read_record(folder_of(environment, name))
    return sandbox if sandbox is not None and sandbox.running else None


def all_running(environment: Mapping[str, str]) -> tuple[RunningSandbox, ...]:
    """All running sandboxes of a user, by name."""
    running = [sandbox for sandbox in _read_records(environment) if sandbox.running]
    return tuple(sorted(running, key=lambda sandbox: sandbox.name))


def runs_elsewhere(environment: Mapping[str, str], mark: str) -> bool:
    """Whether a sandbox runs that no record here names: it was started with another HOME or XDG_CACHE_HOME."""
    recorded = any(sandbox.mark == mark for sandbox in _read_records(environment))
    return not recorded and bool(processes.marked_processes(MARK, mark))


def _read_records(environment: Mapping[str, str]) -> Iterator[RunningSandbox]:
    records = (_read_record(path) for path in own_folder(environment).glob("sandbox*.json"))
    return (record for record in records if record is not None)


def _read_record(path: Path) -> RunningSandbox | None:
    try:
        document = safe_json.load(path)
        return read(RunningSandbox, document, exact=True)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def start(
    environment: Mapping[str, str], *, scheduler: str = "auto", port: int = 0, name: str | None = None
) -> RunningSandbox:
    """Start a persistent sandbox.

    `name` None: the sandbox that the folder uses. `scheduler`: "slurm", "local" or "auto". `port` 0: any free port.

    Raises:
        ImpossibleError: the sandbox already runs, the port is taken, or Slurm was requested and is not installed.
        AwsError: the server does not start.
    """
    refuse_unless_possible()
    name = selected_in(Path()) if name is None else checked_name(name)
    with_slurm, path, mark = daemons.uses_private_slurm(scheduler), folder_of(environment, name), secrets.token_hex(8)
    with _alone(path):
        existing = find(environment, name)
        if existing is None:
            _end_leftovers(environment, path)
        else:
            raise ImpossibleError(
                f"the sandbox {name} is already running, since {existing.since}: http://localhost:{existing.port}",
                hint="show it: slipway sandbox status; end it: slipway sandbox stop; start another one: --name",
            )
        server = EmbeddedServer(mark=mark, port=port, with_slurm=with_slurm)
        try:
            server.wait()
            sandbox = RunningSandbox(
                **server.ready(),
                name=name,
                folder=str(server.folder),
                mark=mark,
                scheduler="slurm" if with_slurm else "local",
                since=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            write_whole(path, asdict(sandbox))
            server.detach()
        except BaseException:
            path.unlink(missing_ok=True)
            server.stop()
            raise
        return sandbox


def stop(environment: Mapping[str, str], name: str | None = None) -> RunningSandbox | None:
    """End a persistent sandbox and the remains of a killed one; return its record, None if none exists.

    `name` None: that of the current folder.

    Raises:
        AwsError: a process of the sandbox does not end.
    """
    path = folder_of(environment, name)
    with _alone(path):
        return _end_leftovers(environment, path)


def _end_leftovers(environment: Mapping[str, str], path: Path) -> RunningSandbox | None:
    """End the sandbox of a record: its server, the server's processes, its folder, the record; None if none exists."""
    sandbox = _read_record(path)
    if sandbox is None:
        return None
    with suppress(ControlError):
        sandbox.client.call("end")
    deadline = time.monotonic() + _END_S
    # The record may be old: the process is its server only if it has the mark.
    while sandbox.pid in processes.marked_processes(MARK, sandbox.mark) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    # The keeper does the same, where it was not killed itself.
    remaining = processes.end(lambda: processes.with_descendants(processes.marked_processes(MARK, sandbox.mark)))
    if remaining:
        raise AwsError(f"the sandbox did not end; remaining processes: {', '.join(map(str, sorted(remaining)))}")
    remove([Path(sandbox.folder), link_of(sandbox.mark)])
    path.unlink(missing_ok=True)
    # Remove what commands have read as the prices of a sandbox: its port may be another one's tomorrow
    variables = {name: environment[name] for name in ("HOME", "XDG_CACHE_HOME") if name in environment}
    for host in ("localhost", "127.0.0.1"):
        folder_kept = cache_folder(variables | {"AWS_ENDPOINT_URL": f"http://{host}:{sandbox.port}"})
        shutil.rmtree(folder_kept.parent, ignore_errors=True)
    return sandbox


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let only one command at a time start or end a user's sandbox."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
