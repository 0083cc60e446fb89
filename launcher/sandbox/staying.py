"""A sandbox that stays: started by one command, used by others from any terminal of the same person, ended by a third.

Where it is stands in one file, for its owner alone. The file goes with the sandbox, however that ends; one that a
crash of the whole machine has left is seen by its process, which is not there any more.
"""

import fcntl
import json
import os
import secrets
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from launcher.model.errors import AwsError, ImpossibleError
from launcher.records.cache_folder import cache_folder, own_folder
from launcher.records.shape import hold
from launcher.sandbox import processes
from launcher.sandbox.control import ControlClient, ControlError
from launcher.sandbox.embedded import EmbeddedServer
from launcher.sandbox.needs import refuse_unless_possible
from launcher.sandbox.server import write_whole
from launcher.sandbox.slurm import daemons

_END_S = 60.0
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class StayingSandbox:
    """Where a sandbox that stays is. `since` is an ISO moment, UTC; `folder` is private to it and goes with it."""

    port: int
    pid: int
    control: str
    secret: str
    folder: str
    mark: str
    scheduler: str
    since: str

    @property
    def client(self) -> ControlClient:
        """How it is told things."""
        return ControlClient(self.control, self.secret)

    @property
    def running(self) -> bool:
        """Whether its server is there and answers to the secret."""
        if not processes.is_running(self.pid):
            return False
        try:
            self.client.call("clusters")
        except ControlError:
            return False
        return True


def place(environment: Mapping[str, str]) -> Path:
    """The file that says where a person's sandbox is; it need not exist."""
    return own_folder(environment) / "sandbox.json"


def find(environment: Mapping[str, str]) -> StayingSandbox | None:
    """The sandbox that stays, None where none runs."""
    try:
        document = json.loads(place(environment).read_text(encoding="utf-8"))
        hold(document, {each.name: each.type for each in fields(StayingSandbox)})
        found = StayingSandbox(**document)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return found if found.running else None


def start(environment: Mapping[str, str], *, scheduler: str = "auto", port: int = 0) -> StayingSandbox:
    """Start a sandbox that stays.

    Args:
        environment: says where the person's files are.
        scheduler: "slurm", "local", or "auto": Slurm where it is installed.
        port: of its AWS, 0 for any that is free.

    Raises:
        ImpossibleError: one runs already, the port is taken, or there is no Slurm here and it was asked for.
        AwsError: it does not come up.
    """
    refuse_unless_possible()
    with_slurm, path, mark = daemons.chosen(scheduler), place(environment), secrets.token_hex(8)
    with _alone(path):
        there = find(environment)
        if there is not None:
            raise ImpossibleError(
                f"a sandbox runs already, since {there.since}: http://localhost:{there.port}",
                hint="slipway sandbox status shows it, slipway sandbox stop ends it",
            )
        server = EmbeddedServer(mark=mark, port=port, with_slurm=with_slurm, stays_at=path)
        try:
            server.wait()
            made = StayingSandbox(
                **server.ready(),
                folder=str(server.folder),
                mark=mark,
                scheduler="slurm" if with_slurm else "local",
                since=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            write_whole(path, asdict(made))
        except BaseException:
            server.stop()
            raise
        server.leave()
        return made


def stop(environment: Mapping[str, str]) -> StayingSandbox | None:
    """End the sandbox that stays, with all that runs in it; what it was, None where none runs.

    Raises:
        AwsError: something of it does not end.
    """
    with _alone(place(environment)):
        found = find(environment)
        if found is None:
            return None
        try:
            found.client.call("end")
        except ControlError:
            # Its server is beyond being asked; the keeper ends the rest.
            processes.send(found.pid, signal.SIGKILL)
        deadline = time.monotonic() + _END_S
        while Path(found.folder).exists() or processes.marked(processes.MARK, found.mark):
            if time.monotonic() > deadline:
                left = ", ".join(map(str, sorted(processes.marked(processes.MARK, found.mark)))) or "none"
                raise AwsError(f"the sandbox does not end within {_END_S:g} s; its processes: {left}")
            time.sleep(_LOOK_S)
        _forget_prices(environment, found.port)
        return found


def _forget_prices(environment: Mapping[str, str], port: int) -> None:
    """Remove what commands have read as the prices of a sandbox: its port may be another one's tomorrow."""
    own = {name: environment[name] for name in ("HOME", "XDG_CACHE_HOME") if name in environment}
    for host in ("localhost", "127.0.0.1"):
        kept = cache_folder(own | {"AWS_ENDPOINT_URL": f"http://{host}:{port}"})
        shutil.rmtree(kept.parent, ignore_errors=True)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one command at a time start or end a person's sandbox."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
