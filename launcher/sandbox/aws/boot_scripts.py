"""The scripts that set up an instance, run in the sandbox with SLIPWAY_DRY_RUN=1 below a folder of their own.

In this mode a script checks what it finds below SLIPWAY_ROOT, and prints what it would do as root. A script without the
mode does not run. The report of a boot, which a script prints in this mode, is put into S3 here.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from launcher.model.instance_type import InstanceType
from launcher.sandbox.aws.buckets import backend_of
from launcher.sandbox.aws.fleet import EmulatedEc2

DRY_RUN = b"SLIPWAY_DRY_RUN"
"""A script that knows this variable runs no command as root if it is 1."""
_LONGEST_S = 120.0
_REPORT = re.compile(r"^\+ timeout 60 aws s3 cp .*$", re.MULTILINE)
_REPORTED_LINES, _REPORTED_CHARACTERS = 20, 3000
"""What a script saves of its output (templates/slurm/report_boot.sh)."""
_HOSTNAME = '#!/bin/sh\ncase "$*" in *-I*) echo "{address}" ;; *) echo "ip-{dashed}" ;; esac\n'


def run(
    script: Path, arguments: Sequence[str], root: Path, instance_id: str, address: str
) -> subprocess.CompletedProcess[str]:
    """Run a script as on an instance, whose files are below `root`/machine; its output has both streams."""
    machine, programs = root / "machine", root / "bin"
    write_file(machine / "sys/devices/virtual/dmi/id/board_asset_tag", f"{instance_id}\n".encode())
    program(root, "hostname", _HOSTNAME.format(address=address, dashed=address.replace(".", "-")))
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
            "SLIPWAY_PAUSE_S": "0",
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
        write_file(machine / "dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_1", b"")
    write_file(machine / "proc/mounts", "".join(f"{line}\n" for line in mounted).encode())
    for mount in mounted:
        (machine / mount.split()[1].lstrip("/")).mkdir(parents=True, exist_ok=True)
    for index in range(facts.accelerators if facts is not None else 0):
        write_file(machine / f"dev/{'neuron' if facts is not None and facts.neuron else 'nvidia'}{index}", b"")
    driver = machine / "sys/bus/pci/drivers/efa"
    driver.mkdir(parents=True)
    for index in range(facts.efa_interfaces if facts is not None else 0):
        device = machine / f"sys/class/infiniband/rdmap{index}/device"
        device.mkdir(parents=True)
        (device / "driver").symlink_to(driver)


def write_file(path: Path, content: bytes) -> None:
    """Write a file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def program(root: Path, name: str, text: str) -> None:
    """Write a program that the scripts of an instance find."""
    path = root / "bin" / name
    write_file(path, text.encode())
    path.chmod(0o755)


def put_reports(ec2: EmulatedEc2, output: str) -> None:
    """Put the end of a script's output where the script would put it as the report of its boot."""
    for command in _REPORT.finditer(output):
        lines = output[: command.start()].splitlines(keepends=True)[-_REPORTED_LINES:]
        bucket, _, key = shlex.split(command.group())[-1].removeprefix("s3://").partition("/")
        if ec2.has_object(bucket, None):
            text = "".join(lines)[-_REPORTED_CHARACTERS:]
            backend_of(ec2.account_id, ec2.region).put_object(bucket, key, text.encode())
