"""Embedded servers of tests, forked from a process that has imported moto.

A server's start needs 2 s of processor time, of which 1.8 s import moto, and its first calls need another second. A
fork runs `launcher.sandbox.server` like the program: with its arguments, environment, standard streams, and its own
session. Tests of the end of servers and their owners use the program (tests/sandbox/test_sandbox.py,
test_running_sandbox.py).
"""

import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from tests.warm_process import WarmProcess

MAX_FDS = 8
IMPORTED = (
    *("aws.auto_scaling", "aws.issued_keys", "aws.pcs", "aws.registration", "aws.training_jobs", "aws.web"),
    "cluster.registry",
)
"""The modules that a server imports at its start."""
READ_AHEAD = (
    "application-autoscaling",
    "budgets",
    "cloudformation",
    "cloudwatch",
    "ec2",
    "eks",
    "events",
    "iam",
    "kms",
    "lambda",
    "logs",
    "s3",
    "sagemaker",
    "sns",
    "sqs",
    "ssm",
    "sts",
)
"""The services that most tests call."""


class WarmServer:
    """Starts the forking process at the first start of a server; `address` and `place`: see WarmProcess."""

    def __init__(self, address=None, place=None):
        from launcher.sandbox import embedded

        words = (sys.executable, "-P", "-m", "tests.warm_server")
        self._process = WarmProcess(*words, address=address, place=place)
        self._start_program = embedded._start
        self.close = self._process.close

    @property
    def address(self):
        """The socket of the forking process."""
        return self._process.address

    @contextmanager
    def used(self):
        """Fork the servers that this process starts."""
        with patch("launcher.sandbox.embedded._start", self._start):
            yield

    def _start(self, module, arguments, stdin, log, env, *, inherited=()):
        if module != "server":
            return self._start_program(module, arguments, stdin, log, env, inherited=inherited)
        reader, writer = os.pipe()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._process.address)
            document = json.dumps({"words": arguments, "env": dict(env), "cwd": str(Path.cwd())}).encode()
            socket.send_fds(connection, [len(document).to_bytes(4, "big")], [reader, log.fileno(), *inherited])
            connection.sendall(document)
            os.close(reader)
            return Forked(connection.dup(), os.fdopen(writer, "wb"))


class Forked:
    """A forked server, with the parts of `subprocess.Popen` that `EmbeddedServer` uses."""

    def __init__(self, connection, stdin):
        self._messages = connection.makefile("rb")
        self._connection = connection
        self.stdin, self.returncode = stdin, None
        self.pid = int(self._messages.readline())

    def __del__(self):
        """Close the connection to a server that continues without this process."""
        self._messages.close()
        self._connection.close()

    def poll(self):
        """The exit code; None while the server runs."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout=None):
        """Wait for the exit code and return it."""
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("server", timeout)
            self.returncode = int(self._messages.readline())
            self._messages.close()
            self._connection.close()
        return self.returncode

    def kill(self):
        """Kill the server immediately."""
        os.kill(self.pid, signal.SIGKILL)


def serve(address):
    """Fork a server for each request, until standard input ends."""
    os.environ.update(MOTO_EC2_LOAD_DEFAULT_AMIS="false", MOTO_IAM_LOAD_MANAGED_POLICIES="true")
    gc.set_threshold(100_000, 50, 50)
    from moto.core.base_backend import AccountSpecificBackend
    from moto.core.utils import get_service_model
    from moto.iam.models import iam_backends
    from moto.moto_api._internal import mock_random
    from moto.utilities.utils import PARTITION_NAMES

    from launcher.aws.session import share_descriptions
    from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
    from launcher.sandbox import server
    from launcher.sandbox.kubernetes import validation

    for module in IMPORTED:
        importlib.import_module(f"launcher.sandbox.{module}")
    share_descriptions()
    # What each server would read anew: AWS's policies, Kubernetes' schemas, descriptions of services and their regions.
    for partition in PARTITION_NAMES:
        assert iam_backends[ACCOUNT][partition].managed_policies is not None
    for name in ("node-v1.json", "pod-v1.json"):
        validation._validator(name, validation.VERSION)
    for service in READ_AHEAD:
        get_service_model(service)
        for partition in AccountSpecificBackend.get_session().get_available_partitions():
            AccountSpecificBackend.get_session().get_available_regions(service, partition_name=partition)
    gc.freeze()  # a collection in a fork would copy every page
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)  # noqa: T201
        while True:
            ready, _, _ = select.select([listener.fileno(), sys.stdin.fileno()], [], [])
            if sys.stdin.fileno() in ready:
                return
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    attend(connection, server.main, mock_random)


def attend(connection, main, mock_random):
    """Fork the server, report its process id and wait for its exit code. Neither process returns."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        length, fds, _, _ = socket.recv_fds(connection, 4, MAX_FDS)
        request = json.loads(connection.makefile("rb").read(int.from_bytes(length, "big")))
        pid = os.fork()
        if pid:
            for fd in (0, *fds):
                os.close(fd)
            connection.sendall(b"%d\n" % pid)
            _, status = os.waitpid(pid, 0)
            connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
            code = 0
        else:
            connection.close()
            become(request, *fds[:2])
            mock_random.seed()
            code = main(request["words"])
    except BaseException:  # noqa: BLE001 - no exception may reach the loop of the process that forks
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def become(request, stdin, log):
    """Give this process the session, streams, folder and environment of the program."""
    os.setsid()
    for given, taken in ((stdin, 0), (log, 1), (log, 2)):
        os.dup2(given, taken)
    os.close(stdin)
    os.close(log)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None
    random.seed()


if __name__ == "__main__":
    serve(sys.argv[1])
