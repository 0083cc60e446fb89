"""A head node over ssh: the OpenSSH client with the user's keys, hosts and jump hosts.

ssh never prompts: it uses no password and refuses a host whose key is unknown. All later commands share one connection
(ControlMaster), so that polling a job needs no new handshake.
"""

import contextlib
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from launcher.submit.jobs import SchedulerError, UnreachableError
from launcher.submit.shell import PUT_S, RUN_S, Frame, ScriptResult, run_program, text, unpacked_path, unpacking

CONFIG_VARIABLE = "SLIPWAY_SSH_CONFIG"
"""Names an ssh configuration file to use in place of ~/.ssh/config."""
_OPTIONS = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "PasswordAuthentication": "no",
    "KbdInteractiveAuthentication": "no",
    "ConnectTimeout": "20",
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "4",
    "ControlMaster": "auto",
    "ControlPersist": "60",
}
"""Options on the command line, where the user's configuration cannot loosen them."""
_CLOSE_S = 10.0
_REFUSALS = {
    "Host key verification failed": "check the host's key and accept it once: ssh {host}",
    "Permission denied": "load a key that the host accepts into ssh-agent (ssh-add), or set it in ~/.ssh/config",
    "Could not resolve hostname": "target.ssh_host is a host name, an address, or a Host of ~/.ssh/config",
}
"""The errors of ssh that prove that it ran nothing, each with its remedy."""


class SshShell:
    """A head node that ssh reaches. The caller need not enter the shell as a context, but must call `close`."""

    chunk_bytes = 4_000_000
    poll_s = 2.0

    def __init__(self, host: str, environment: Mapping[str, str]) -> None:
        """Store the host and its options; connect later.

        Args:
            host: as in `ssh HOST`.
            environment: of the ssh client (PATH, HOME, SSH_AUTH_SOCK); `SLIPWAY_SSH_CONFIG` names a configuration.
        """
        program = shutil.which("ssh", path=environment.get("PATH"))
        if program is None:
            raise SchedulerError("ssh is not installed", hint="apt-get install openssh-client")
        self.name = f"ssh {host}"
        self._host = host
        self.environment = dict(environment)
        # A socket's path has 108 bytes at most; %C is 40 of them.
        self._sockets = Path(tempfile.mkdtemp(prefix="slipway-ssh-"))
        options = {**_OPTIONS, "ControlPath": f"{self._sockets}/%C"}
        configuration = environment.get(CONFIG_VARIABLE)
        self._words = [program, *(["-F", configuration] if configuration else []), "-T"]
        self._words += [word for key, value in options.items() for word in ("-o", f"{key}={value}")]

    def run(self, script: str, *, timeout_s: float = RUN_S) -> ScriptResult:
        """Run a bash script in a login shell, which finds Slurm's commands."""
        frame = Frame.fresh()
        return self._answer(frame, "exec bash -l -s", frame.wrap(script).encode(), timeout_s)

    def put(self, archive: Path, folder: str) -> str:
        """Unpack an archive into a new folder below the user's home; return the folder's absolute path."""
        frame = Frame.fresh()
        # The archive is on standard input, which the frame keeps from the script.
        script = frame.wrap(unpacking(folder, "cat <&3", archive))
        command = f"exec bash -c {shlex.quote(script)} 3<&0"
        return unpacked_path(self._answer(frame, command, archive.read_bytes(), PUT_S), folder, self.name)

    def terminal(self, script: str) -> list[str]:
        """The ssh client with a terminal."""
        return [*self._words, "-t", "--", self._host, f"exec bash -l -c {shlex.quote(script)}"]

    def direct(self, script: str) -> list[str] | None:
        """The ssh client without a terminal."""
        return [*self._words, "--", self._host, f"exec bash -l -c {shlex.quote(script)}"]

    def forwarding(self, node: str, port: int, local_port: int) -> list[str] | None:
        """The ssh client, which forwards the port to the node through the head node."""
        tunnel = ["-N", "-o", "ExitOnForwardFailure=yes", "-L", f"127.0.0.1:{local_port}:{node}:{port}"]
        return [*self._words, *tunnel, "--", self._host]

    def close(self) -> None:
        """End the shared connection."""
        if self._sockets.is_dir():
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    [*self._words, "-O", "exit", "--", self._host],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_CLOSE_S,
                    check=False,
                )
            shutil.rmtree(self._sockets, ignore_errors=True)

    def _answer(self, frame: Frame, command: str, sent: bytes, timeout_s: float) -> ScriptResult:
        done = run_program([*self._words, "--", self._host, command], self.environment, self.name, timeout_s, sent)
        out, err = text(done.stdout), text(done.stderr)
        try:
            return frame.answer(out, err, self.name)
        except UnreachableError as problem:
            for refusal, hint in _REFUSALS.items():
                if refusal in err and not out:
                    raise SchedulerError(problem.message, hint=hint.format(host=self._host)) from problem
            raise
