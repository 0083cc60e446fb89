"""The user data of the instances of EKS's node groups: Slipway's own part run at the boot, and whether a node joins.

Judged by: nodeadm of EKS's AMI (awslabs/amazon-eks-ami, nodeadm/api/v1alpha1: NodeConfig, local storage strategies).

Emulated: the script of the user data, with its paths below a folder; the systemd unit that it starts, with a journal in
which the kubelet has registered the node, or nodeadm has refused its configuration; the unit's report of the boot. Not
emulated: nodeadm and the kubelet beyond that; other reasons for which a node does not join its cluster.
"""

import shlex
from email import message_from_string
from email.message import Message
from pathlib import Path
from tempfile import TemporaryDirectory

from launcher.catalog import safe_yaml
from launcher.sandbox.aws import boot_scripts
from launcher.sandbox.aws.fleet import EmulatedEc2

_CONFIG, _SCRIPT = "application/node.eks.aws", "text/x-shellscript"
_API, _KIND = "node.eks.aws/v1alpha1", "NodeConfig"
_STRATEGIES = ("RAID0", "RAID10", "Mounts")
_PLACES = ("/opt/slipway", "/etc/systemd/system")
"""Where the script writes."""


def joins(ec2: EmulatedEc2, instance_id: str, user_data: str) -> bool:
    """Boot an instance with its user data; return whether it joins its cluster."""
    parts = list(message_from_string(user_data).walk())
    refusal = next(filter(None, (_refusal(part) for part in parts if part.get_content_type() == _CONFIG)), "")
    with TemporaryDirectory(prefix="slipway-instance-") as folder:
        root = Path(folder)
        journal = f"nodeadm: {refusal}" if refusal else f"Successfully registered node {instance_id}"
        boot_scripts.program(root, "journalctl", f"#!/bin/sh\necho {shlex.quote(journal)}\n")
        boot_scripts.program(root, "systemctl", f'#!/bin/sh\necho "$*" >>{root}/systemctl\n')
        for number, part in enumerate(part for part in parts if part.get_content_type() == _SCRIPT):
            script = root / f"part-{number}"
            boot_scripts.write_file(script, _below(root, _text(part)).encode())
            boot_scripts.run(script, (), root, instance_id, ec2.address(instance_id))
        started = root / "systemctl"
        for line in started.read_text().splitlines() if started.is_file() else ():
            _start(ec2, root, instance_id, shlex.split(line))
    return not refusal


def _text(part: Message) -> str:
    return str(part.get_payload())


def _below(root: Path, text: str) -> str:
    """A script whose files are those of an instance, below a folder."""
    for place in _PLACES:
        text = text.replace(place, f"{root}/machine{place}")
        (root / f"machine{place}").mkdir(parents=True, exist_ok=True)
    return text


def _start(ec2: EmulatedEc2, root: Path, instance_id: str, words: list[str]) -> None:
    """Run the program of a unit that a script starts."""
    if words[:1] != ["start"]:
        return
    unit = (root / "machine/etc/systemd/system" / words[-1]).read_text()
    line = next(line for line in unit.splitlines() if line.startswith("ExecStart=/bin/bash "))
    script, *arguments = shlex.split(line.removeprefix("ExecStart=/bin/bash "))
    done = boot_scripts.run(Path(script), arguments, root, instance_id, ec2.address(instance_id))
    boot_scripts.put_reports(ec2, done.stdout)


def _refusal(part: Message) -> str:
    """Why nodeadm refuses a configuration; empty if it accepts it."""
    try:
        config = safe_yaml.loads(_text(part))
    except safe_yaml.YamlError as problem:
        return f"the configuration is no YAML: {problem}"
    if not isinstance(config, dict) or (config.get("apiVersion"), config.get("kind")) != (_API, _KIND):
        return f"no kind {_KIND} of {_API}: {config}"
    strategy = config.get("spec", {}).get("instance", {}).get("localStorage", {}).get("strategy", _STRATEGIES[0])
    return "" if strategy in _STRATEGIES else f"localStorage.strategy: {strategy}, allowed: {', '.join(_STRATEGIES)}"
