"""Taking a node under notice out of Slurm, so that the requeued job does not land on it again."""

import os
import subprocess

_TIMEOUT_S = 5.0


def drain_node(reason: str) -> str | None:
    """Drain the node that this process runs on.

    Args:
        reason: Shown by `sinfo -R`.

    Returns:
        None when it is drained, else why not.
    """
    node = os.environ.get("SLURMD_NODENAME")
    if not node:
        return "SLURMD_NODENAME is not set: not under Slurm"
    command = ["scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode != 0:
        return (done.stderr or done.stdout).strip() or f"scontrol ended with {done.returncode}"
    return None
