"""One archive that a stranger could read: what is known of a run and its cluster, without secrets, of bounded size."""

import io
import json
import platform
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.model.cluster_nodes import ClusterNode, NodeUse
from launcher.model.distribution import DISTRIBUTION
from launcher.model.errors import ImpossibleError, SlipwayError
from launcher.model.masking import mask_secrets, secret_values
from launcher.model.plan import Plan
from launcher.model.units import number_of
from launcher.records.run_folder import JOB_FOLDER, RunFolder
from launcher.rendering.names import NETWORK_STACK, STORE_STACK, TRAINING_STACK
from launcher.submit.jobs import JobNodes
from launcher.targets.clusters import cluster_of
from launcher.targets.registry import target_of
from launcher.workflow.cluster.cluster_access import ClusterAccess
from launcher.workflow.run.node_access import cluster_access
from launcher.workflow.run.on_nodes import job_nodes

MAX_FILE, MAX_TOTAL = 1 << 20, 16 << 20
"""Bytes of text of one file, of which the end is kept, and of all files: the archive has about a tenth of it."""
MAX_NODES, MAX_EVENTS = 16, 300
"""Nodes whose boot output and logs are read, and events of each stack."""
NODES_S = 120.0
"""Seconds after which no further node is read."""
_OF_NODE = """show() { printf '$ %s\\n' "$*"; "$@" 2>&1 | head -c 3000; echo; }
show uptime
show df -h
show free -m
# A broken chip may block its tool.
for tool in nvidia-smi neuron-ls; do command -v $tool >/dev/null && show timeout 20 $tool; done
command -v ibv_devinfo >/dev/null && show timeout 20 ibv_devinfo --list
printf '$ dmesg\\n'
{ dmesg --ctime 2>&1 || sudo -n dmesg --ctime 2>&1; } | tail -c 8000
log="$(scontrol show config 2>/dev/null | sed -n 's/^SlurmdLogFile *= //p')"
log="$(printf %s "$log" | sed "s/%n/${SLURMD_NODENAME:-}/; s/%h/$(uname -n)/")"
for log in "$log" /var/log/slurmd.log; do
    [ -r "$log" ] && { printf '\\n$ tail %s\\n' "$log"; tail -c 4000 "$log"; }
done
exit 0
"""
"""What a node says of itself: load, disks, memory, chips, network devices, the kernel's messages, Slurm's log. Systems
Manager returns at most 24,000 characters of a command."""
_RUN_FILES = (
    "plan.json",
    "quote.json",
    "report.json",
    "submission.json",
    "command.json",
    "outputs.json",
    "events.jsonl",
)
_JOB_FILES = ("events*.jsonl", "metrics*.jsonl", "log*.txt", "slurm-*.out")
_LIBRARIES = (DISTRIBUTION, "boto3", "botocore", "kubernetes", "aws-cdk-lib", "typer")

Text = Callable[[], str]


@dataclass(slots=True)
class DebugBundle:
    """The files of an archive: masked texts by path, within the size limits; `missing` has a reason for each other."""

    secrets: frozenset[str]
    files: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    size: int = 0

    def add(self, path: str, text: Text) -> None:
        """Add the end of a text, masked; what cannot be read, or has no room, is named with the reason."""
        try:
            content = text()
        except Exception as problem:  # noqa: BLE001 - a part that breaks is a finding of the archive, not its end
            self.missing[path] = mask_secrets(_reason(problem), self.secrets)
            return
        if not content.strip():
            self.missing[path] = "it is empty"
            return
        # Masked before it is cut: half a secret is not recognized.
        content = mask_secrets(content, self.secrets)
        if len(content) > MAX_FILE:
            content = f"[the last {MAX_FILE:,} of {len(content):,} characters]\n{content[-MAX_FILE:]}"
        if self.size + len(content) > MAX_TOTAL:
            self.missing[path] = f"the bundle has {MAX_TOTAL:,} characters already"
            return
        self.files[path] = content
        self.size += len(content)


def _reason(problem: Exception) -> str:
    return problem.message if isinstance(problem, SlipwayError) else f"{type(problem).__name__}: {problem}"


def collect(
    name: str,
    folder: RunFolder,
    environment: Mapping[str, str],
    now: datetime,
    documents: Mapping[str, Text],
) -> DebugBundle:
    """Everything that is known of a run; a part that cannot be read is named, and stops nothing.

    `documents` are texts that the caller makes, by path: the state of the run, its nodes.
    """
    bundle = DebugBundle(secrets=_secrets(folder, environment))
    bundle.add("versions.json", lambda: json.dumps(versions(), indent=2) + "\n")
    for path, text in documents.items():
        bundle.add(path, text)
    for path, file in _files(folder):
        bundle.add(path, lambda file=file: _tail(file))  # type: ignore[misc]  # called at once
    try:
        with cluster_access(name, folder, environment) as access:
            _add_cluster(bundle, access, stack_names(folder, access.plan))
    except (SlipwayError, OSError) as problem:
        bundle.missing["cluster"] = mask_secrets(_reason(problem), bundle.secrets)
    try:
        with job_nodes(name, folder, environment) as nodes:
            add_nodes(bundle, nodes)
    except (SlipwayError, OSError) as problem:
        bundle.missing["node"] = mask_secrets(_reason(problem), bundle.secrets)
    bundle.files = {"README.txt": _readme(name, folder, now, bundle), **bundle.files}
    return bundle


def write(bundle: DebugBundle, path: Path, name: str, now: datetime) -> int:
    """Write the archive, readable only by its owner; return its bytes.

    Raises:
        ImpossibleError: it cannot be written, or exists.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for file, text in bundle.files.items():
            data = text.encode(errors="replace")
            entry = tarfile.TarInfo(f"{name}-debug/{file}")
            entry.size, entry.mtime, entry.mode = len(data), int(now.timestamp()), 0o600
            archive.addfile(entry, io.BytesIO(data))
    try:
        path.touch(mode=0o600, exist_ok=False)
        path.write_bytes(buffer.getvalue())
    except OSError as problem:
        hint = "name another file with -o"
        raise ImpossibleError(f"cannot write {path}: {problem.strerror}", hint=hint) from problem
    return len(buffer.getvalue())


def versions() -> dict[str, str]:
    """The versions of what ran here."""
    installed = {}
    for library in _LIBRARIES:
        try:
            installed[library] = version(library)
        except PackageNotFoundError:
            installed[library] = "not installed"
    return {**installed, "python": platform.python_version(), "system": f"{platform.system()} {platform.release()}"}


def _secrets(folder: RunFolder, environment: Mapping[str, str]) -> frozenset[str]:
    """The values to mask wherever they occur: of this computer's variables, and of the plan's."""
    values = secret_values(environment)
    try:
        run = folder.read_json("plan.json").get("run", {})
    except SlipwayError:
        return values
    variables = run.get("env", {}) if isinstance(run, dict) else {}
    return values | secret_values({str(key): str(value) for key, value in dict(variables or {}).items()})


def _files(folder: RunFolder) -> Iterator[tuple[str, Path]]:
    for file in _RUN_FILES:
        if (folder.path / file).is_file():
            yield f"run/{file}", folder.path / file
    job = folder.path / JOB_FOLDER
    for pattern in _JOB_FILES:
        yield from ((f"job/{path.name}", path) for path in sorted(job.glob(pattern)) if path.is_file())
    for _, path in folder.attempt_logs:
        yield f"logs/{path.name}", path


def _tail(path: Path) -> str:
    """The end of a file: a log may have gigabytes."""
    with path.open("rb") as stream:
        size = stream.seek(0, io.SEEK_END)
        # A secret that begins before it is cut off with its line.
        begin = max(0, size - 2 * MAX_FILE)
        stream.seek(begin)
        text = stream.read().decode(errors="replace")
    return text.partition("\n")[2] if begin else text


def stack_names(folder: RunFolder, plan: Plan) -> tuple[str, ...]:
    """The stacks of a run: those of its plan, and of its outputs. Its network may be the service's or another's."""
    network, *own = (f"slipway-{plan.cluster_name}-{part}" for part in (NETWORK_STACK, STORE_STACK, TRAINING_STACK))
    try:
        deployed = folder.read_json("outputs.json")
    except SlipwayError:
        return (network, *own)
    # A deployment that failed has outputs of its first stacks only.
    return tuple(dict.fromkeys((*deployed, *own)))


def _add_cluster(bundle: DebugBundle, access: ClusterAccess, names: Iterable[str]) -> None:
    deployed, scheduler = cluster_of(access.plan), target_of(access.plan.place.target).scheduler
    try:
        for file, content in deployed.diagnostics(access).items():
            bundle.add(f"{scheduler}/{file}", lambda content=content: content)  # type: ignore[misc]  # the same
    except SlipwayError as problem:
        bundle.missing[scheduler] = problem.message
    for node in _nodes(bundle, access)[:MAX_NODES]:
        bundle.add(f"boot/{node.name}.txt", lambda node=node: deployed.boot_output(access, node))  # type: ignore[misc]
    for stack in names:
        bundle.add(f"stacks/{stack}.txt", lambda stack=stack: _events(access.session, stack))  # type: ignore[misc]


def add_nodes(bundle: DebugBundle, nodes: JobNodes) -> None:
    """Add what the nodes of a running job say of themselves: to read an idle one would start a job or a pod on it."""
    started = time.monotonic()
    for number, node in enumerate(nodes.names):
        if number >= MAX_NODES or time.monotonic() - started > NODES_S:
            left = number_of(len(nodes.names) - number, "node")
            bundle.missing[f"node/{node}.txt"] = f"{left} not read: an archive has {MAX_NODES}, read within 2 minutes"
            return
        bundle.add(f"node/{node}.txt", lambda node=node: nodes.read(node, ["sh", "-c", _OF_NODE]))  # type: ignore[misc]


def _nodes(bundle: DebugBundle, access: ClusterAccess) -> tuple[ClusterNode, ...]:
    """The nodes with an instance, those that start or are down first."""
    try:
        nodes = cluster_of(access.plan).nodes(access)
    except SlipwayError as problem:
        bundle.missing["boot"] = problem.message
        return ()
    for node in nodes:
        if node.instance is None and node.use is not NodeUse.OFF:
            bundle.missing[f"boot/{node.name}.txt"] = "the instance of the node is not known"
    return tuple(sorted((node for node in nodes if node.instance), key=lambda node: not node.use.needs_boot_output))


def _events(session: Session, name: str) -> str:
    stack = stacks.find(session, name)
    if stack is None:
        raise ImpossibleError(f"stack {name} does not exist")
    return "\n".join([f"{name} {stack.status}", *stacks.event_lines(session, stack, MAX_EVENTS), ""])


def _readme(name: str, folder: RunFolder, now: datetime, bundle: DebugBundle) -> str:
    lines = [
        f"Diagnosis of run {folder.path.name} of {name}, made at {now:%Y-%m-%d %H:%M} UTC.",
        "",
        "Masked: values of secret names, keys and tokens by their form, values of this computer's and the plan's",
        "secret variables, account numbers (ACCOUNT) and e-mail addresses (EMAIL). Read it before you send it:",
        "logs are the trainer's own text.",
        "",
        "Files:",
        *_content_lines((path, f"{len(text):,} characters") for path, text in bundle.files.items()),
    ]
    if bundle.missing:
        lines += ["", "Not included:", *_content_lines(bundle.missing.items())]
    return "\n".join([*lines, ""])


def _content_lines(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [f"  {path}: {what}" for path, what in rows]
