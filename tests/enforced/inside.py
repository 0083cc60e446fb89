"""Runs ministack in a separate network namespace: it always binds every address, and its MQTT port.

`unshare -rn python inside.py FD PORT PROGRAM...`: FD is a listening loopback socket outside the namespace. Its
connections are forwarded to PORT inside, where PROGRAM listens.
"""

import fcntl
import os
import socket
import struct
import subprocess
import sys
import threading
import time

SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
"""Constants of linux/sockios.h and linux/if.h."""


def bring_loopback_up() -> None:
    """Bring loopback up, which is down in a new namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING))


def pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        return  # one side has hung up; the other is told by the shutdown
    finally:
        for side, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
            try:
                side.shutdown(how)
            except OSError:
                continue


def carry(outer: socket.socket, port: int) -> None:
    with outer, socket.create_connection(("127.0.0.1", port)) as inner:
        back = threading.Thread(target=pump, args=(inner, outer), daemon=True)
        back.start()
        pump(outer, inner)
        back.join()


def main() -> None:
    descriptor, port, *program = sys.argv[1:]
    bring_loopback_up()
    server = subprocess.Popen(program, env={**os.environ, "GATEWAY_PORT": port})
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", int(port))).close()
            break
        except OSError:
            time.sleep(0.05)
    listening = socket.socket(fileno=int(descriptor))
    while server.poll() is None:
        outer, _ = listening.accept()
        threading.Thread(target=carry, args=(outer, int(port)), daemon=True).start()


if __name__ == "__main__":
    main()
