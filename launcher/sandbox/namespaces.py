"""A host name and a hosts file for each emulated node, where root may create namespaces.

Nodes of a cluster do not share a name, and resolve each other only as their service lets them. Where this user may not
create namespaces (UTS and mount, Linux, root), all nodes have this computer's name and file, and what depends on a
node's name is not tested. All nodes share this computer's network, and each has its own loopback address.
"""

import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from types import MappingProxyType

_UNSHARE = ("--uts", "--mount", "--propagation", "private")
_SCRIPT = (
    'echo "$1" >/proc/sys/kernel/hostname && hosts="$(mktemp)" && echo "$2" >"$hosts" && chmod 644 "$hosts" &&'
    ' mount --bind "$hosts" /etc/hosts && rm "$hosts" && shift 2 &&'
    ' while [ "$1" != -- ]; do mount --bind "$2" "$1" && shift 2 || exit; done && shift && exec "$@"'
)


def can_name_hosts() -> bool:
    """Whether this user may give a process its own host name and hosts file."""
    return os.geteuid() == 0 and _works()


@functools.cache
def _works() -> bool:
    program = shutil.which("unshare")
    if program is None:
        return False
    tried = subprocess.run(
        [program, *_UNSHARE, "--", "sh", "-c", "mount --bind /etc/hosts /etc/hosts"], capture_output=True, check=False
    )
    return tried.returncode == 0


def address(group: str, number: int) -> str:
    """The loopback address of a node, from 127.64.0.1: the same for each call, different for the nodes of a group.

    >>> address("job", 1) != address("job", 2), address("job", 1).startswith("127.")
    (True, True)
    """
    digest = hashlib.sha256(group.encode()).digest()
    return f"127.{64 + digest[0] % 128}.{digest[1]}.{1 + (digest[2] + number) % 250}"


def node_address(name: str) -> str:
    """The address of a cluster's node by its name; where nodes have no hosts file of their own, this computer's."""
    return address(name, 1) if can_name_hosts() else "127.0.0.1"


def with_own_name_only(command: Sequence[str], name: str) -> list[str]:
    """The command on a node that resolves its own name and no other node's, as in PCS (see `on_node`)."""
    return on_node(command, name=name, hosts={name: node_address(name)})


def on_node(
    command: Sequence[str], *, name: str, hosts: Mapping[str, str], mounts: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """The command with its own host name and hosts file, or unchanged where this user may not create namespaces.

    The process keeps its id: each program of the prefix becomes the next one.

    Args:
        command: the program with its arguments.
        name: the node's host name.
        hosts: addresses by host name; a name that is missing does not resolve.
        mounts: files that replace others on this node, by the path of the replaced file.
    """
    if not can_name_hosts():
        return list(command)
    file = "127.0.0.1 localhost\n::1 localhost\n" + "".join(f"{where} {host}\n" for host, where in hosts.items())
    replaced = [path for pair in mounts.items() for path in pair]
    return ["unshare", *_UNSHARE, "--", "sh", "-c", _SCRIPT, "node", name, file, *replaced, "--", *command]
