"""The time to query one job's status in a large cluster.

    python -m benchmarks.kubernetes_status [--nodes N] [--pods N] [--runs N] [--json]

The sandbox's API holds the nodes and the pods of many jobs, including the queried job. Each query is a separate
process, including the import of the official client; the fastest counts.

    nodes     nodes of the cluster
    pods      pods in the cluster, 16 per job
    asked_s   seconds of a process that reports one job's status and its reason
    alone_s   the same in a cluster with only that job
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from launcher.model.job import JobFacts, JobState, Submitted
from launcher.sandbox.keys import KeyRing
from launcher.sandbox.kubernetes.cluster import KubernetesCluster
from launcher.submit.kubernetes.connection import ApiEndpoint, to_endpoint
from launcher.submit.kubernetes.jobs import KubernetesJobs

MAX_S = 1.0
A_JOB = 16


def facts(address: str, token: str) -> JobFacts | None:
    """The status of the first job."""
    connection = to_endpoint(ApiEndpoint(name="large", address=address, authority=None, token=lambda: token))
    jobs = KubernetesJobs(connection=connection, namespace="default", kind="Job")
    return jobs.facts(Submitted(job="job-0", key="job-0", folder="default"))


def fill(cluster: KubernetesCluster, nodes: int, pods: int) -> None:
    """Add nodes, and jobs whose pods all run."""
    api = cluster.api
    for number in range(nodes):
        cluster.add_node(f"node-{number}", allocatable={"nvidia.com/gpu": "8"})
    kinds = {name: api.kinds.at(group, "v1", name) for group, name in (("batch", "jobs"), ("", "pods"))}
    for number in range(pods):
        label = {"slipway/job": f"job-{number // A_JOB}"}
        if number % A_JOB == 0:
            name = f"job-{number // A_JOB}"
            job: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "spec": {}, "status": {}}
            api.objects.create(kinds["jobs"], "default", {**job, "metadata": {"name": name, "labels": label}})
        state = {"name": "pytorch", "restartCount": 0, "state": {"running": {"startedAt": "2026-11-22T06:00:00Z"}}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}", "labels": label}}
        spec = {"nodeName": f"node-{number % nodes}", "containers": [{"name": "pytorch", "image": "x:1"}]}
        status = {"phase": "Running", "containerStatuses": [state]}
        api.objects.create(kinds["pods"], "default", {**pod, "spec": spec, "status": status})


def fastest_query(nodes: int, pods: int, runs: int) -> float:
    """Seconds of the fastest query process."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = KubernetesCluster(Path(folder) / "kube", name="large", mark="bench", environment={}, keys=KeyRing())
        # Its API alone: what is there is only looked at.
        cluster.server.start()
        fill(cluster, nodes, pods)
        command = [sys.executable, "-m", "benchmarks.kubernetes_status", "--ask", cluster.server.address]
        took = []
        for _ in range(runs):
            begun = time.perf_counter()
            subprocess.run([*command, cluster.tokens.own], check=True)
            took.append(time.perf_counter() - begun)
        cluster.server.stop()
    return min(took)


def main() -> int:
    """Measure and print the figures; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ask", nargs=2)
    given = parser.parse_args()
    if given.ask:
        found = facts(*given.ask)
        return 0 if found is not None and found.state is JobState.RUNNING and len(found.nodes) == A_JOB else 1
    asked_s, alone_s = fastest_query(given.nodes, given.pods, given.runs), fastest_query(A_JOB, A_JOB, given.runs)
    figures = {"nodes": given.nodes, "pods": given.pods, "asked_s": round(asked_s, 2), "alone_s": round(alone_s, 2)}
    print(json.dumps(figures) if given.json else "\n".join(f"{name:8} {value}" for name, value in figures.items()))
    return 0 if asked_s < MAX_S else 1


if __name__ == "__main__":
    sys.exit(main())
