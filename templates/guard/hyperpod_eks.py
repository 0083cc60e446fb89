# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of a HyperPod cluster with EKS: that of one with Slurm, but for idleness and for what costs on.

Its instances run in SageMaker's own account, and no controller reports a queue: time alone stops them.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import boto3
from guard import Node, Settings, respond
from hyperpod import HyperPodGuard


def handler(event: Mapping[str, Any], _context: object) -> None:
    """What Lambda calls."""
    respond(HyperPodEksGuard(Settings.of(os.environ), boto3.client, datetime.now(UTC)), event)


class HyperPodEksGuard(HyperPodGuard):
    """One call of the guard of a HyperPod cluster with EKS."""

    waits = "their pods wait as Pending"
    costs_on = "Control plane, system node and network"

    def all_idle(self, nodes: list[Node]) -> bool:
        """Never: nobody says what its pods do."""
        del nodes
        return False
