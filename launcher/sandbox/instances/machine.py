"""One emulated EC2 instance as a process: its user data run by bash, with its own name, folder and metadata service.

Emulated: the user data, run for real; the metadata service with tags, lifecycle state and notices; the AWS CLI of AWS's
images, which a job uses beside Python, curl and Docker (launcher/sandbox/instances/aws_cli.py); root's login shell by
`runuser`, as the sandbox's own user; where root may, the instance's host name and hosts file. Not emulated: cloud-init,
systemd, disks, chips, the hop limit.
"""

import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from launcher.model.emulator import MARK
from launcher.sandbox import namespaces, processes
from launcher.sandbox.cluster.imds import MetadataService
from launcher.sandbox.instances import aws_cli_client
from launcher.sandbox.keys import KeyRing

NODE = "SLIPWAY_SANDBOX_INSTANCE"
"""Environment variable of every process on an instance."""
LIFECYCLE = "autoscaling/target-lifecycle-state"
CONSOLE = "console.log"
_TAG = re.compile(r"[A-Za-z0-9+=.,_:@-]+")
_LOGIN = """#!/bin/sh
# `runuser -l root -c LINE`, with or without sudo: root's login shell on this instance, as the owner of the sandbox.
program="$(basename "$0")"
case "$program $*" in
"runuser -l root -c "*) shift 2 ;;
"sudo runuser "*) exec "$@" ;;
*) echo "$program: the sandbox's image has no command $program $*" >&2; exit 1 ;;
esac
HOME={home} exec bash -l "$@"
"""
"""What changes the user on an instance; bash reads the computer's own /etc/profile."""


class Machine:
    """A running instance."""

    def __init__(
        self,
        *,
        instance_id: str,
        address: str,
        region: str,
        zone: str,
        instance_type: str,
        lifecycle: str,
        tags: Mapping[str, str],
        user_data: str,
        folder: Path,
        environment: Mapping[str, str],
        mark: str,
        keys: KeyRing,
        cli: Callable[[], Path],
    ) -> None:
        """`lifecycle` is EC2's word for the purchase; the metadata service shows `tags`; `cli`: see `Groups`."""
        self.id, self.address, self.folder = instance_id, address, folder
        self.host = f"ip-{address.replace('.', '-')}"
        facts = {
            "instance-id": instance_id,
            "instance-type": instance_type,
            "instance-life-cycle": lifecycle,
            "placement/region": region,
            "placement/availability-zone": zone,
            "local-ipv4": address,
            "local-hostname": self.host,
            LIFECYCLE: "InService",
            **{f"tags/instance/{key}": value for key, value in tags.items()},
        }
        self.metadata = MetadataService(facts, keys)
        self._user_data, self._mark = user_data, mark
        self.environment = self._variables(environment, cli())
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def _variables(self, environment: Mapping[str, str], cli: Path) -> dict[str, str]:
        image = self.folder / "image"
        image.mkdir(parents=True)
        program = image / "aws"
        command = shlex.join([sys.executable, "-I", "-S", aws_cli_client.__file__, str(cli)])
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        for name in ("tmp", "scratch", "root"):
            (self.folder / name).mkdir()
        for name in ("sudo", "runuser"):
            login = image / name
            login.write_text(_LOGIN.format(home=shlex.quote(str(self.folder / "root"))), encoding="utf-8")
            login.chmod(0o755)
        variables = {
            **environment,
            "PATH": f"{image}:{environment['PATH']}",
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.metadata.endpoint,
            "HOSTNAME": self.host,
            # Here an instance sees this computer's files.
            "SLIPWAY_ROOT": str(self.folder / "opt" / "slipway"),
            "SLIPWAY_SCRATCH": str(self.folder / "scratch"),
            "TMPDIR": str(self.folder / "tmp"),
            "SLIPWAY_BOOT_ID": self.id,
            MARK: self._mark,
            NODE: self.id,
        }
        variables.pop("AWS_EC2_METADATA_DISABLED", None)
        return variables

    def boot(self) -> None:
        """Start the user data, as cloud-init does at the first boot."""
        script = self.folder / "user_data"
        script.write_text(self._user_data, encoding="utf-8")
        if not self._user_data.startswith("#!"):
            return  # cloud-init runs nothing else as a script
        with (self.folder / CONSOLE).open("ab") as console:
            self._process = processes.start(
                self.on_node([str(script)]), folder=self.folder, environment=self.environment, output=console
            )

    def on_node(self, command: list[str]) -> list[str]:
        """A command on this instance; a script needs no permission to be run here."""
        hosts = {self.host: self.address}
        return namespaces.on_node(["bash", *command], name=self.host, hosts=hosts)

    def entry(self) -> Path:
        """A script of the sandbox's owner: runs its argument as a command line on this instance, on its terminal."""
        path = self.folder / "enter"
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        command = shlex.join(["env", "-i", *variables]) + ' TERM="${TERM:-dumb}" ' + shlex.join(self.on_node(["-c"]))
        path.touch(mode=0o700)
        path.write_text(f'cd {shlex.quote(str(self.folder))} && exec {command} "$1"\n', encoding="utf-8")
        return path

    @property
    def busy(self) -> bool:
        """Whether the user data still runs."""
        return self._process is not None and self._process.poll() is None

    def run(self, script: str, seconds: float) -> subprocess.CompletedProcess[str]:
        """Run a script on the instance as root, as Systems Manager's agent does."""
        command = self.on_node(["-c", script])
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def end(self) -> None:
        """End the instance with all its processes; its disks are gone."""
        with self._lock:
            processes.end(lambda: processes.with_descendants(processes.marked_processes(NODE, self.id)))
            if self._process is not None:
                self._process.wait()
            self.metadata.stop()


def shown_tags(tags: Mapping[str, str]) -> str:
    """Why EC2 starts no instance whose metadata service shows these tags; empty if it does.

    >>> shown_tags({"slipway:run": "a"}), shown_tags({"cost/center": "7"})
    ('', "Tag key 'cost/center' cannot be shown in instance metadata")
    """
    wrong = next((key for key in tags if _TAG.fullmatch(key) is None or key in (".", "..", "_index")), None)
    return "" if wrong is None else f"Tag key {wrong!r} cannot be shown in instance metadata"
