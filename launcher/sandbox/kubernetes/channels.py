"""exec and port-forward of a pod over WebSockets, as the kubelet serves them.

Channels and their framing are those of kubernetes v1.34, staging/src/k8s.io/kubelet/pkg/cri/streaming:
remotecommand/websocket.go (v4.channel.k8s.io) and portforward/websocket.go. No other protocol is supported.
"""

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import pty
import select
import socket
import struct
import subprocess
import termios
from collections.abc import Callable, Sequence
from email.message import Message
from typing import Any

from websocket import ABNF
from websocket._abnf import frame_buffer

from launcher.agent import safe_json
from launcher.sandbox.kubernetes.statuses import RefusedError

PROTOCOL = "v4.channel.k8s.io"
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""The GUID of the handshake (RFC 6455, section 1.3)."""
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = range(5)
_PIECE = 65536
Spawn = Callable[..., "subprocess.Popen[bytes]"]
"""Starts a program in a container; the arguments are its command line, and Popen's arguments for its streams."""


class Channels:
    """The server's side of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._frames = frame_buffer(self._receive, skip_utf8_validation=True)

    def fileno(self) -> int:
        """The file descriptor to wait on."""
        return self._connection.fileno()

    def send(self, channel: int, data: bytes) -> None:
        """Send one frame."""
        self._connection.sendall(ABNF(1, 0, 0, 0, ABNF.OPCODE_BINARY, 0, bytes([channel]) + data).format())

    def next_frame(self) -> tuple[int, bytes] | None:
        """The next frame's channel and data; None if the client has disconnected."""
        frame = self._frames.recv_frame()
        if frame.opcode == ABNF.OPCODE_CLOSE or not frame.data:
            return None
        data = frame.data.encode() if isinstance(frame.data, str) else bytes(frame.data)
        return data[0], data[1:]

    def close(self) -> None:
        """Send a close frame."""
        with contextlib.suppress(OSError):
            self._connection.sendall(ABNF(1, 0, 0, 0, ABNF.OPCODE_CLOSE, 0, struct.pack("!H", 1000)).format())

    def _receive(self, most: int) -> bytes:
        data = self._connection.recv(most)
        if not data:
            raise ConnectionResetError
        return data


def handshake_headers(headers: Message) -> list[tuple[str, str]]:
    """The response headers of a handshake.

    Raises:
        RefusedError: the request is not a WebSocket request, or names no supported protocol.
    """
    if (headers.get("Upgrade") or "").lower() != "websocket" or "Sec-WebSocket-Key" not in headers:
        raise RefusedError("BadRequest", "Upgrade request required")
    offered = [name.strip() for name in (headers.get("Sec-WebSocket-Protocol") or "").split(",")]
    if PROTOCOL not in offered:
        raise RefusedError("BadRequest", f"unable to negotiate a protocol: client supports {offered}")
    digest = hashlib.sha1(headers["Sec-WebSocket-Key"].encode() + _MAGIC, usedforsecurity=False).digest()
    accept = base64.b64encode(digest).decode()
    return [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", accept),
        ("Sec-WebSocket-Protocol", PROTOCOL),
    ]


def execute(channels: Channels, spawn: Spawn, command: Sequence[str], *, tty: bool, stdin: bool) -> None:
    """Run a command for the client, and send its exit status."""
    master, slave = pty.openpty() if tty else (None, None)
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), slave if tty else subprocess.PIPE)
    if not stdin and not tty:
        streams["stdin"] = subprocess.DEVNULL
    try:
        process = spawn(command, **streams)
    except OSError as problem:
        text = f'exec: "{command[0]}": {problem.strerror}: unknown'
        channels.send(_ERROR, json.dumps({"metadata": {}, "status": "Failure", "message": text}).encode())
        return
    finally:
        if slave is not None:
            os.close(slave)
    with process:
        if master is not None:
            outputs: dict[int, int] = {master: _STDOUT}
            written: int | None = master
        else:
            assert process.stdout is not None  # noqa: S101 - both are pipes
            assert process.stderr is not None  # noqa: S101
            outputs = {process.stdout.fileno(): _STDOUT, process.stderr.fileno(): _STDERR}
            written = process.stdin.fileno() if process.stdin is not None else None
        try:
            _exchange(channels, outputs, written, master)
        except OSError:
            process.kill()
        ended = process.wait()
    if master is not None:
        os.close(master)
    with contextlib.suppress(OSError):
        channels.send(_ERROR, json.dumps(_status(ended if ended >= 0 else 128 - ended)).encode())


def _exchange(channels: Channels, outputs: dict[int, int], written: int | None, terminal: int | None) -> None:
    """Transfer data in both directions until the command's outputs end."""
    while outputs:
        ready, _, _ = select.select([*outputs, channels.fileno()], [], [])
        for stream in [stream for stream in ready if stream in outputs]:
            data = _read(stream)
            if data:
                channels.send(outputs[stream], data)
            else:
                del outputs[stream]
        if channels.fileno() not in ready:
            continue
        frame = channels.next_frame()
        if frame is None:
            raise ConnectionResetError
        channel, data = frame
        if channel == _STDIN and written is not None:
            os.write(written, data)
        elif channel == _RESIZE and terminal is not None:
            size = safe_json.loads(data)
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))


def _read(file: int) -> bytes:
    try:
        return os.read(file, _PIECE)
    except OSError:  # a terminal whose last process has gone
        return b""


def _status(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    message = f"command terminated with non-zero exit code: exit status {code}"
    failed = {"metadata": {}, "status": "Failure", "message": message, "reason": "NonZeroExitCode"}
    return {**failed, "details": {"causes": causes}}


def forward(channels: Channels, port: int) -> None:
    """Forward a connection to a port of a pod: data on channel 0, errors on channel 1."""
    for channel in (0, 1):
        channels.send(channel, struct.pack("<H", port))
    try:
        far = socket.create_connection(("127.0.0.1", port), timeout=10.0)
    except OSError as problem:
        text = f"error forwarding port {port}: failed to connect to localhost:{port} inside namespace: {problem}"
        channels.send(1, text.encode())
        return
    with far, contextlib.suppress(OSError):
        far.settimeout(None)
        while True:
            ready, _, _ = select.select([far.fileno(), channels.fileno()], [], [])
            if far.fileno() in ready:
                data = far.recv(_PIECE)
                if not data:
                    return
                channels.send(0, data)
            if channels.fileno() in ready:
                frame = channels.next_frame()
                if frame is None:
                    return
                far.sendall(frame[1])
