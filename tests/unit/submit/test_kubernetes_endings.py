"""Messages about why a job on Kubernetes failed."""

import pytest

from launcher.submit.kubernetes import jobs

BACKOFF = {"type": "Failed", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}


def end_of(code, *, reason="Error", at="2026-11-22T05:00:00Z", message=""):
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at, "message": message}}


def pod(*states, name="train-0", last=None, disrupted=None, deleted=False, **status):
    """A pod on n1 with a container of each state."""
    containers = [
        {"name": f"c{number}", "state": state, "lastState": last or {}} for number, state in enumerate(states)
    ]
    conditions = [] if disrupted is None else [{"type": "DisruptionTarget", "status": "True", "reason": disrupted}]
    return {
        "metadata": {"name": name, **({"deletionTimestamp": "2026-11-22T05:00:00Z"} if deleted else {})},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Failed", "containerStatuses": containers, "conditions": conditions, **status},
    }


@pytest.mark.parametrize(
    "given, expected",
    [
        (pod(end_of(3)), "pod train-0: container c0 ended with exit 3"),
        (
            pod(end_of(128, reason="StartError", message="no such\n file.")),
            "ended with exit 128 (StartError, no such file)",
        ),
        (pod(end_of(137, reason="OOMKilled")), "was killed because memory ran out (OOMKilled, exit 137)"),
        (pod({"waiting": {"reason": "CrashLoopBackOff"}}, last=end_of(137, reason="OOMKilled")), "memory ran out"),
        (pod(end_of(137), deleted=True), "container c0 was ended by SIGKILL (exit 137) after it was deleted"),
        (pod(end_of(75)), "container c0 received a stop signal, saved and ended (exit 75)"),
        (
            pod(end_of(137), reason="Evicted", message="The node was low on resource: memory. "),
            "pod train-0 was evicted from node n1 (The node was low on resource: memory)",
        ),
        (pod(reason="NodeLost"), "pod train-0 was lost with node n1, which stopped responding"),
        (pod(end_of(143), reason="Terminated"), "pod train-0 ended with node n1, which was shut down"),
        (pod(end_of(143), disrupted="EvictionByEvictionAPI"), "evicted from node n1 through the API, as by a drain"),
        (pod(disrupted="DeletionByPodGC"), "pod train-0 was lost with node n1, which no longer exists"),
        (pod(end_of(143), disrupted="DeletionByTaintManager"), "was evicted from node n1 because of a taint"),
        (pod({"running": {}}, phase="Running"), ""),
        (pod(end_of(0), phase="Succeeded", disrupted="EvictionByEvictionAPI"), ""),
    ],
)
def test_failed_pod_has_a_reason(given, expected):
    ending = jobs.pod_failure_reason([given])
    assert expected in ending
    assert bool(expected) == bool(ending)


def test_last_failed_pod_gives_the_reason_and_evicted_pods_do_not():
    first = pod(end_of(3, at="2026-11-22T05:00:00Z"), name="train-0")
    last = pod(end_of(4, at="2026-11-22T06:00:00Z"), name="train-1")
    evicted = pod(end_of(75, at="2026-11-22T07:00:00Z"), name="train-2")
    assert jobs.pod_failure_reason([evicted, last, first]) == "pod train-1: container c0 ended with exit 4"
    assert jobs.job_failure_reason(BACKOFF, [evicted, last, first], []) == (
        "it failed more often than run.retries allows; pod train-1: container c0 ended with exit 4"
    )


def test_job_without_pods_gives_the_newest_event_or_an_unknown_reason():
    events = [
        {"reason": reason, "lastTimestamp": at, "message": f"{reason} it", "involvedObject": {"name": "train-0"}}
        for reason, at in (("Evicted", "2026-11-22T05:00:00Z"), ("Killing", "2026-11-22T06:00:00Z"), ("Pulled", "9"))
    ]
    assert jobs.job_failure_reason(BACKOFF, [], events).endswith("; pod train-0: Killing: Killing it")
    assert jobs.job_failure_reason(BACKOFF, [], []).endswith("; no pod is left that shows the reason")
    other = {"reason": "PyTorchJobFailed", "message": "PyTorchJob train is failed."}
    assert jobs.job_failure_reason(other, [pod({"running": {}}, phase="Running")], []) == "PyTorchJob train is failed"
    message = (
        "Container pytorch for pod default/train-0-dbe95 failed with exit code 78 matching FailJob rule at index 2"
    )
    assert jobs.job_failure_reason({"reason": "PodFailurePolicy", "message": message}, [], []) == (
        f"a retry would not help: {message}"
    )
