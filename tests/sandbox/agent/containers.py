"""Containers for the agent: namespaces with a root of their own, and Docker's where its daemon answers.

Each has its own processes, mounts, host name, IPC and network, and as files this computer's programs, this checkout and
what is mounted. Requests reach the test's S3 through a front that listens in the container's network.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.plans import ROOT

PYTHON = str(Path(sys.executable).resolve())
PROGRAMS = ["/usr", str(Path(PYTHON).parents[1]), str(ROOT), str((ROOT / ".venv").resolve())]
"""What a container has of this computer."""
SKELETON = """
cd "$1" && shift && mkdir -p dev etc old proc root run sbin sys tmp usr var/tmp && chmod 1777 tmp var/tmp
for name in bin lib lib64; do ln -s "usr/$name" "$name"; done
for name in group ld.so.cache nsswitch.conf passwd; do cp "/etc/$name" etc/; done
"""
BEGIN = """
set -e
root="$1" mounts="$2"; shift 2
mount --make-rprivate / && mount -t tmpfs container "$root"
bash -ec "$SKELETON" skeleton "$root"
cd "$root"
while IFS=: read -r from to; do mkdir -p "$root$to" && mount --bind "$from" "$root$to"; done <<<"$mounts"
mount -t tmpfs dev dev && mkdir dev/shm && mount -t tmpfs shm dev/shm && ln -s /proc/self/fd dev/fd
for device in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "dev/${device%:*}" c 1 "${device#*:}"; done
mount -t proc proc proc && echo container >/proc/sys/kernel/hostname
pivot_root . old && cd / && umount --lazy /old
unset SKELETON
exec "$@"
"""
LISTENS = "import fcntl, socket, struct, time\nfcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh', b'lo', 1))\n"
"""Sets the loopback interface up: SIOCSIFFLAGS, IFF_UP."""
NAMESPACES = ["--pid", "--mount", "--uts", "--ipc", "--cgroup"]
SET_NETWORK = 0x40000000
"""CLONE_NEWNET of <linux/sched.h>."""


def in_network(path, make):
    """What `make` returns if it is called in another network namespace."""
    made = []

    def enter():
        with Path(path).open() as namespace:
            assert ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), SET_NETWORK) == 0
        made.append(make())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return made[0]


def inside(first):
    """The processes in the PID namespace of a container's first process: ids in the container, by those outside."""
    if not (space := _namespace(first)):
        return {}
    pids = [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _namespace(entry.name) == space]
    return {pid: number for pid in pids if (number := _own_number(pid))}


def _namespace(pid):
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def _own_number(pid):
    try:
        return int(Path(f"/proc/{pid}/status").read_text().partition("NSpid:")[2].splitlines()[0].split()[-1])
    except OSError:
        return 0


class Namespaces:
    """A container of `unshare` and `pivot_root`."""

    def __init__(self, folder):
        if os.getuid():
            pytest.skip("creating namespaces takes root")
        self.root = folder / "root"
        self.root.mkdir()
        pause = ["unshare", "--net", PYTHON, "-c", f"{LISTENS}print(flush=True)\ntime.sleep(1e6)"]
        self.pause = subprocess.Popen(pause, stdout=subprocess.PIPE)
        self.pause.stdout.readline()
        self.network = f"/proc/{self.pause.pid}/ns/net"
        self.process = None

    def start(self, words, *, environment, mounts, log):
        """Start a container with its first process."""
        places = "\n".join(f"{path}:{mounts[path]}" for path in mounts)
        enter = [
            "nsenter",
            f"--net={self.network}",
            "unshare",
            "--fork",
            "--pid",
            "--mount",
            "--uts",
            "--ipc",
            "--cgroup",
        ]
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        self.process = subprocess.Popen(
            [*enter, "bash", "-c", BEGIN, "container", str(self.root), places, *words],
            env={"PATH": path, **environment, "SKELETON": SKELETON},
            stdout=log,
            stderr=log,
        )
        return self.process

    def first(self):
        """The process that is number 1 in the container; 0 if it has ended."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(text.read_text().split()[0]) if self.process.poll() is None else 0

    def stop(self):
        """Ask the container to end, as the kubelet and `docker stop` do."""
        os.kill(self.first(), signal.SIGTERM)

    def close(self):
        if self.process is not None and self.process.poll() is None:
            os.kill(self.first(), signal.SIGKILL)
            self.process.wait()
        self.pause.kill()
        self.pause.wait()
        self.pause.stdout.close()


class Docker:
    """A container of Docker, in the network of another one that does nothing, as in a pod."""

    image = "slipway-test:containers"

    def __init__(self, folder):
        self.name, self.process = f"slipway-test-{os.getpid()}", None
        make_image(self.image, folder / "image")
        pause = [*self.words(f"{self.name}-pause", dict(zip(PROGRAMS, PROGRAMS, strict=True)), "none"), PYTHON, "-c"]
        docker(*pause[:1], "--detach", *pause[1:], "import time; time.sleep(1e6)")
        self.network = f"/proc/{pid_of(f'{self.name}-pause')}/ns/net"

    def words(self, name, mounts, network):
        volumes = [word for path in mounts for word in ("--volume", f"{path}:{mounts[path]}")]
        return ["run", "--rm", "--name", name, "--network", network, *volumes, self.image]

    def start(self, words, *, environment, mounts, log):
        """Start a container with its first process."""
        names = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
        run, *more = self.words(self.name, mounts, f"container:{self.name}-pause")
        self.process = subprocess.Popen(["docker", run, *names, *more, *words], stdout=log, stderr=log)
        return self.process

    def first(self):
        """The process that is number 1 in the container; 0 if it has ended."""
        return pid_of(self.name)

    def stop(self):
        """Ask the container to end."""
        docker("stop", "--time", "60", self.name)

    def close(self):
        docker("rm", "--force", self.name, f"{self.name}-pause", check=False)
        if self.process is not None:
            self.process.wait()


def docker(*words, check=True):
    """The output of Docker's client."""
    return subprocess.run(["docker", *words], check=check, capture_output=True, text=True).stdout.strip()


def pid_of(name):
    """The first process of one of Docker's containers, as this computer numbers it; 0 without one."""
    return int(docker("inspect", "--format", "{{.State.Pid}}", name, check=False) or 0)


def make_image(name, folder):
    """Make an image of empty folders for Docker; the test is skipped where no daemon starts a container of it."""
    folder.mkdir()
    subprocess.run(["bash", "-ec", SKELETON, "skeleton", folder], check=True)
    packed = folder.with_suffix(".tar")
    subprocess.run(["tar", "-C", folder, "-cf", packed, "."], check=True)
    words = ["docker", "run", "--rm", "--ulimit", "memlock=-1", "--volume", "/usr:/usr", name, "/bin/true"]
    tried = shutil.which("docker") is not None and not any(
        subprocess.run(line, check=False, capture_output=True).returncode
        for line in (["docker", "import", packed, name], words)
    )
    if not tried:
        pytest.skip("no Docker daemon starts a container here")


def as_json(document, path):
    """Write a document into a folder that is made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
