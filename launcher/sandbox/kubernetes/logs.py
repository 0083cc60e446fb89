"""What a pod's containers have printed, as much of it as is asked for."""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from launcher.sandbox.kubernetes.statuses import RefusedError


def read_log(pod: Mapping[str, Any], log: Callable[[str], Path] | None, query: Mapping[str, str]) -> bytes:
    """The lines of a container's log.

    Args:
        pod: the pod.
        log: gives the file of a container; None where nothing of the pod has begun.
        query: container, timestamps, sinceTime, tailLines, limitBytes.

    Raises:
        RefusedError: there is no such container, it has to be named, or it has not begun.
    """
    name, spec = pod["metadata"]["name"], pod["spec"]
    names = [each["name"] for part in ("containers", "initContainers") for each in spec.get(part, ())]
    container = query.get("container") or (names[0] if len(spec["containers"]) == 1 else "")
    if not container:
        text = f"a container name must be specified for pod {name}, choose one of: {names}"
        raise RefusedError("BadRequest", text)
    if container not in names:
        raise RefusedError("BadRequest", f"container {container} is not valid for pod {name}")
    path = log(container) if log is not None else None
    if path is None or not path.is_file():
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return b""
        text = f'container "{container}" in pod "{name}" is waiting to start: PodInitializing'
        raise RefusedError("BadRequest", text)
    lines = path.read_bytes().splitlines(keepends=True)
    if query.get("sinceTime"):
        since = datetime.fromisoformat(query["sinceTime"])
        lines = [each for each in lines if _time(each) >= since]
    if query.get("tailLines"):
        lines = lines[-int(query["tailLines"]) :] if int(query["tailLines"]) else []
    if query.get("timestamps") not in ("1", "true", "True"):
        lines = [each.partition(b" ")[2] for each in lines]
    found = b"".join(lines)
    return found[: int(query["limitBytes"])] if query.get("limitBytes") else found


def _time(line: bytes) -> datetime:
    """When a line was printed, to the microsecond."""
    stamp = line.partition(b" ")[0].decode().removesuffix("000Z")
    return datetime.fromisoformat(f"{stamp}+00:00")
