"""The agent's requests to Slurm: drain a node under notice, requeue a job."""

import os
import shutil
import subprocess

_TIMEOUT_S = 5.0


def drain_node(reason: str) -> str | None:
    """Drain the node that this process runs on.

    Slurm permits this only for its own user and root. If the job's user is neither, and may become root without a
    password, as the default users of ParallelCluster's images may, Slipway uses sudo.

    Returns None if the node is drained, else the reason.
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
    """Requeue a job, which ends its remaining processes. Returns None if the job is queued again, else the reason."""
    return _run([shutil.which("scontrol") or "scontrol", "requeue", job])


def _configuration() -> list[str]:
    """The arguments that pass a Slurm configuration outside the usual path: sudo starts with an empty environment."""
    return ["env", f"SLURM_CONF={os.environ['SLURM_CONF']}"] if "SLURM_CONF" in os.environ else []


def _run(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode != 0:
        return (done.stderr or done.stdout).strip() or f"{command[0]} ended with {done.returncode}"
    return None
