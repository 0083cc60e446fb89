"""The agent's command line: `slipway-agent.pyz run --config job.json`."""

import argparse
import contextlib
import gc
import os
import platform
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from launcher.agent.errors import AgentError
from launcher.agent.job import SCHEMA, load


def main(arguments: Sequence[str], *, build: str = "source") -> int:
    """Parse, run, and return the exit code."""
    parser = argparse.ArgumentParser(prog="slipway-agent", description="Run a job's command with checkpoints in S3.")
    version = f"slipway-agent {build[:12]} ({SCHEMA}, Python {platform.python_version()})"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="action", required=True)
    run = commands.add_parser("run", help="restore the newest checkpoint, run the command, upload what it finishes")
    run.add_argument("--config", type=Path, required=True, metavar="JOB_JSON")
    options = parser.parse_args(arguments)
    try:
        spec = load(options.config)
        if spec.journal is not None:
            return int(_load("pod").run_in_pod(spec, spec.journal, dict(os.environ)))
        session = _load("session").Session(spec, dict(os.environ))
        return int(session.run())
    except AgentError as error:
        # In one write, however Python buffers: the agents of other nodes write into the same log.
        with contextlib.suppress(OSError):  # of a log on a full disk: the code counts
            sys.stderr.write("".join(f"slipway-agent: {line}\n" for line in str(error).splitlines()))
        return error.exit_code


def _load(name: str) -> Any:
    """A module of the agent. What the modules make stays, and is excluded from garbage collection."""
    gc.disable()
    try:
        return import_module(f"launcher.agent.{name}")
    finally:
        gc.freeze()
        gc.enable()
