"""Shells on Kubernetes nodes without a job: a pod on the node for as long as the shell is open.

The pod requests nothing, so that it also fits on a full node, and it tolerates every taint, so that it also starts on a
cordoned node. The devices of the node are those that its image's runtime shows without a request: none on most nodes.
"""

import contextlib
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.submit.jobs import SchedulerError
from launcher.submit.kubernetes.connection import ApiRefusedError, Connection
from launcher.submit.kubernetes.nodes import PodNodes
from launcher.submit.kubernetes.words import waiting

LONGEST_S = 12 * 3600
"""A pod whose shell was never closed ends by itself."""
START_S, POLL_S = 300.0, 1.0
_NOT_FOUND, _EVERY_CLUSTERS = 404, "default"


@dataclass(slots=True, kw_only=True)
class ShellPods:
    """The nodes of a cluster, by name; a node gets its pod at its first use, and `close` removes the pods."""

    connection: Connection
    namespace: str
    image: str
    names: tuple[str, ...]
    pods: dict[str, str] = field(default_factory=dict)
    sleep: Callable[[float], None] = field(default=time.sleep)

    def shell(self, node: str) -> int:
        """Open a shell in the node's pod; return its exit code."""
        return self._with_pod(node).shell(node)

    def run(self, node: str, command: Sequence[str]) -> int:
        """Run a command in the node's pod; return its exit code."""
        return self._with_pod(node).run(node, command)

    def read(self, node: str, command: Sequence[str]) -> str:
        """The output of a short command in the node's pod."""
        return self._with_pod(node).read(node, command)

    def tunnel(self, node: str, port: int, local_port: int, ready: Callable[[], None]) -> int:
        """Forward a local port to a port of the node's pod."""
        return self._with_pod(node).tunnel(node, port, local_port, ready)

    def close(self) -> None:
        """Remove the pods, at once."""
        for pod in self.pods.values():
            with contextlib.suppress(SchedulerError):
                self.connection.ask("DELETE", f"{self._path}/{pod}", body={"gracePeriodSeconds": 0})

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def _with_pod(self, node: str) -> PodNodes:
        if node not in self.pods:
            self.pods[node] = self._start_pod(node)
        return PodNodes(connection=self.connection, namespace=self.namespace, pods=((node, self.pods[node]),))

    def _start_pod(self, node: str) -> str:
        """Create the pod of a node, and wait until it runs.

        Raises:
            SchedulerError: it does not start in time, or the cluster refuses it.
        """
        name = f"slipway-shell-{secrets.token_hex(4)}"
        try:
            self.connection.ask("POST", self._path, body=self._pod(name, node))
        except ApiRefusedError as refused:
            if refused.code != _NOT_FOUND or self.namespace == _EVERY_CLUSTERS:
                raise
            # The first launch makes the plan's own.
            self.namespace = _EVERY_CLUSTERS
            self.connection.ask("POST", self._path, body=self._pod(name, node))
        self.pods[node] = name
        waited = 0.0
        while True:
            pod = self.connection.ask("GET", f"{self._path}/{name}")
            if pod.get("status", {}).get("phase") == "Running":
                return name
            if waited >= START_S:
                reason = waiting(pod) or "its node does not start it"
                raise SchedulerError(f"the pod for a shell on {node} does not start: {reason}")
            self.sleep(POLL_S)
            waited += POLL_S

    def _pod(self, name: str, node: str) -> dict[str, Any]:
        container = {"name": "shell", "image": self.image, "command": ["sleep", str(LONGEST_S)]}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {"slipway/shell": "true"}},
            "spec": {
                "nodeName": node,
                "restartPolicy": "Never",
                "activeDeadlineSeconds": LONGEST_S,
                "terminationGracePeriodSeconds": 1,
                "tolerations": [{"operator": "Exists"}],
                "containers": [container],
            },
        }
