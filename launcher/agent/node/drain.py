"""What the agent tells Slurm: that a node under notice is to get no job, that a job is to come back."""

import os
import shutil
import subprocess

_TIMEOUT_S = 5.0


def drain_node(reason: str) -> str | None:
    """Drain the node that this process runs on.

    Slurm lets its own user and root do that. Where the job's user is neither, and may become root without a password,
    as the default users of ParallelCluster's images may, it is asked that way.

    Returns None when it is drained, else why not.
    """
    node = os.environ.get("SLURMD_NODENAME")
    if not node:
        return "SLURMD_NODENAME is not set: not under Slurm"
    program = shutil.which("scontrol") or "scontrol"
    command = [program, "update", f"nodename={node}", "state=drain", f"reason={reason}"]
    refusal = _run(command)
    if refusal is None:
        return None
    if os.getuid() == 0:
        return refusal
    if not shutil.which("sudo"):
        return f"{refusal}; sudo is not installed"
    as_root = _run(["sudo", "-n", *_configuration(), *command])
    return None if as_root is None else f"{refusal}; as root: {as_root}"


def requeue_job(job: str) -> str | None:
    """Put a job back into the queue, which ends what still runs of it. Returns None when it is back, else why not."""
    return _run([shutil.which("scontrol") or "scontrol", "requeue", job])


def _configuration() -> list[str]:
    """What names a Slurm whose configuration is not in the usual place: sudo starts with an empty environment."""
    return ["env", f"SLURM_CONF={os.environ['SLURM_CONF']}"] if "SLURM_CONF" in os.environ else []


def _run(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode != 0:
        return (done.stderr or done.stdout).strip() or f"{command[0]} ended with {done.returncode}"
    return None
