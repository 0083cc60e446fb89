"""The scripts that set up an instance, run in the sandbox with SLIPWAY_DRY_RUN=1 below a folder of their own.

In this mode a script checks what it finds below SLIPWAY_ROOT, and prints what it would do as root. A script without the
mode does not run.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from launcher.model.instance_type import InstanceType

DRY_RUN = b"SLIPWAY_DRY_RUN"
"""A script that knows this variable runs no command as root if it is 1."""
_LONGEST_S = 120.0
_HOSTNAME = '#!/bin/sh\ncase "$*" in *-I*) echo "{address}" ;; *) echo "ip-{dashed}" ;; esac\n'


def run(
    script: Path, arguments: Sequence[str], root: Path, instance_id: str, address: str
) -> subprocess.CompletedProcess[str]:
    """Run a script as on an instance, whose files are below `root`/machine; its output has both streams."""
    machine, programs = root / "machine", root / "bin"
    written(machine / "sys/devices/virtual/dmi/id/board_asset_tag", f"{instance_id}\n".encode())
    written(programs / "hostname", _HOSTNAME.format(address=address, dashed=address.replace(".", "-")).encode())
    (programs / "hostname").chmod(0o755)
    if not (programs / "python3").exists():
        (programs / "python3").symlink_to(sys.executable)
    return subprocess.run(
        ["timeout", str(_LONGEST_S), "bash", script, *arguments],
        cwd=root,
        env={
            "PATH": f"{programs}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(machine),
            "LC_ALL": "C.UTF-8",
            "SLIPWAY_DRY_RUN": "1",
            "SLIPWAY_ROOT": str(machine),
            # The instance is complete when its script begins.
            "SLIPWAY_TRIES": "1",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


def write_devices(machine: Path, facts: InstanceType | None, mounts: Iterable[str], *, scratch: str) -> None:
    """Write the chips, EFA interfaces, disks and mounts of an instance; local disks are mounted on `scratch`."""
    mounted = list(mounts)
    if facts is not None and facts.nvme_gb:
        mounted.append(f"/dev/md0 {scratch} xfs rw 0 0")
        written(machine / "dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_1", b"")
    written(machine / "proc/mounts", "".join(f"{line}\n" for line in mounted).encode())
    for mount in mounted:
        (machine / mount.split()[1].lstrip("/")).mkdir(parents=True, exist_ok=True)
    for index in range(facts.accelerators if facts is not None else 0):
        written(machine / f"dev/{'neuron' if facts is not None and facts.neuron else 'nvidia'}{index}", b"")
    driver = machine / "sys/bus/pci/drivers/efa"
    driver.mkdir(parents=True)
    for index in range(facts.efa_interfaces if facts is not None else 0):
        device = machine / f"sys/class/infiniband/rdmap{index}/device"
        device.mkdir(parents=True)
        (device / "driver").symlink_to(driver)


def written(path: Path, content: bytes) -> None:
    """Write a file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
