"""The lifecycle scripts of PCS's instances: run at each boot, with their report to the guard; their failures.

Judged by: botocore 1.44.5 (pcs, NodeLifecycleScript: checksum, arguments, onError), the PCS user guide (node lifecycle
actions: stage NodeBootstrapped, in order, as root, before slurmd).

Emulated: the scripts of stage NodeBootstrapped, from S3, with their checksum; devices, mounts and Slurm of the image
below a folder (boot_scripts.py); the report of a boot, which a script prints in a dry run and which is put into S3
here. Not emulated: user data, which PCS merges with its own part; what scripts do as root; onError other than
TERMINATE; execution policies, because no instance boots twice.
"""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from launcher.catalog.load import load
from launcher.model.pcs import BINARIES
from launcher.sandbox.aws import boot_scripts
from launcher.sandbox.aws.buckets import backend_of
from launcher.sandbox.aws.fleet import EmulatedEc2

_FOUND = {"etc/os-release": b'ID=ubuntu\nVERSION_ID="24.04"\n', f"{BINARIES.lstrip('/')}/sbatch": b""}
"""Files of the PCS-ready image."""


def boots(ec2: EmulatedEc2, instance_id: str, request: Mapping[str, Any]) -> bool:
    """Run the scripts of a group's instance, up to one that fails and terminates it; False if one does."""
    stages = request.get("nodeLifecycleActions", {}).get("stages", {})
    facts = load().instance_types.get(request["instanceConfigs"][0]["instanceType"])
    with TemporaryDirectory(prefix="slipway-instance-") as folder:
        root = Path(folder)
        for name, content in _FOUND.items():
            boot_scripts.write_file(root / "machine" / name, content)
        boot_scripts.write_devices(root / "machine", facts, (), scratch="/opt/dlami/nvme")
        for script in stages.get("nodeBootstrapped", ()):
            path = root / "scripts" / str(script["name"])
            boot_scripts.write_file(path, _stored_bytes(ec2, script["scriptSource"]["scriptLocation"]))
            if boot_scripts.DRY_RUN not in path.read_bytes():
                continue
            done = boot_scripts.run(path, script.get("arguments", ()), root, instance_id, ec2.address(instance_id))
            boot_scripts.put_reports(ec2, done.stdout)
            if done.returncode and script.get("onError") == "TERMINATE":
                return False
    return True


def _stored_bytes(ec2: EmulatedEc2, uri: str) -> bytes:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    stored = backend_of(ec2.account_id, ec2.region).get_object(bucket, key) if ec2.has_object(bucket, key) else None
    return b"" if stored is None else bytes(stored.value)
