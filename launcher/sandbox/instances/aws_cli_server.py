"""Runs each command of the emulated AWS CLI in a fork of one process, which has loaded the SDK.

Instances run `aws` every few seconds, and a start of Python with boto3 and EC2's description takes half a second of a
core. A fork has the folder, environment and standard streams of the `aws` that asked (aws_cli_client.py), and ends with
it.
"""

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path

from launcher.agent import safe_json
from launcher.aws.session import Session
from launcher.sandbox.instances import aws_cli

_STREAMS = 3
_LONGEST_QUEUE = 128


def start(address: Path, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Start the process, which answers at the path of a socket and ends with its standard input."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen(_LONGEST_QUEUE)
        return subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=(listener.fileno(),),
            env=environment,
            start_new_session=True,
        )


def main(listener: socket.socket) -> None:
    """Load what the commands need, then fork for each request."""
    keys = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
    for service in ("s3", *sorted({service for service, _ in aws_cli.OPERATIONS})):
        Session(environment=keys, region="us-east-1").client(service)
    gc.freeze()
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                listener.close()
                _answer(connection)


def _answer(connection: socket.socket) -> None:
    """Run the command of a connection, send its exit code, and end this fork."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        length, streams, _, _ = socket.recv_fds(connection, 4, _STREAMS)
        with connection.makefile("rb") as stream:
            request = safe_json.loads(stream.read(int.from_bytes(length, "big")))
        for stream_number, given in enumerate(streams):
            os.dup2(given, stream_number)
            os.close(given)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        # The caller sends nothing more: its end is the end of the connection.
        threading.Thread(target=lambda: (connection.recv(1), os._exit(1)), daemon=True).start()
        code = aws_cli.main(request["words"])
    except SystemExit as ended:  # argparse refuses the words
        code = int(ended.code or 0)
    except BaseException:  # noqa: BLE001 - no exception may reach the loop of the process that forks
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(b"%d" % code)
        os._exit(code)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
