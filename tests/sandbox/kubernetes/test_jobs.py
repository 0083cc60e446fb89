"""The launcher's side: jobs are submitted once, inspected, followed across lost connections, and removed."""

import base64
import gc
import threading
import time
from contextlib import closing
from dataclasses import replace

import pytest

from launcher.aws.eks import token
from launcher.aws.session import Session
from launcher.catalog import safe_yaml
from launcher.catalog.load import load
from launcher.model.enums import Operator
from launcher.model.errors import ImpossibleError
from launcher.model.job import JobState
from launcher.rendering.device_plugins import plugin_files
from launcher.submit.jobs import SchedulerError, UnreachableError
from launcher.submit.kubernetes.connection import ApiEndpoint, ApiRefusedError, to_context, to_endpoint
from launcher.submit.kubernetes.jobs import KubernetesJobs, served_operators
from launcher.workflow.run.submission_watch import Mirror, RemoteWatch
from tests import waiting

pytestmark = pytest.mark.long


@pytest.fixture
def owner_connection(cluster, key_ring):
    credentials = {"AWS_ACCESS_KEY_ID": key_ring.owner.id, "AWS_SECRET_ACCESS_KEY": key_ring.owner.secret}
    session = Session(environment=credentials, region="us-east-2")
    endpoint = ApiEndpoint(
        name="slipway-eks", address=cluster.server.address, authority=None, token=lambda: token(session, "slipway-eks")
    )
    api_connection = to_endpoint(endpoint)
    yield api_connection
    api_connection.close()


@pytest.fixture
def jobs(owner_connection):
    return KubernetesJobs(connection=owner_connection, namespace="default", kind="Job", sleep=lambda _: time.sleep(0.2))


def test_repeated_submission_creates_one_job(cluster, jobs, pod_job, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    document = pod_job("sleep 0.3")
    first, second = jobs.submit([document], "k"), jobs.submit([document], "k")
    assert first == second == jobs.find("k", f"{jobs.namespace}/train")
    until(lambda: jobs.facts(first).state is JobState.COMPLETED)
    assert len(cluster.pods()) == 1
    other = pod_job("true")
    other["metadata"]["annotations"]["slipway/run"] = "other"
    with pytest.raises(SchedulerError, match="belongs to another submission"):
        jobs.submit([other], "other")


@pytest.mark.parametrize("owner, count", [("slipway", 2), ("them", 1)])
def test_device_plugin_of_slipway_covers_types_of_later_plan(jobs, pod_job, owner, count):
    """Without it, nodes of another type would show no devices, and the job would wait for them."""
    catalog = load().instance_types
    for known in (("p5.48xlarge",), ("p5.48xlarge", "p5en.48xlarge")):
        (file,) = plugin_files(catalog["p5.48xlarge"], {name: catalog[name] for name in known})
        plugin, _ = safe_yaml.documents(file.text)
        plugin["metadata"]["labels"]["app.kubernetes.io/managed-by"] = owner
        jobs.submit([plugin, pod_job("true")], "k")
    path = "/apis/apps/v1/namespaces/kube-system/daemonsets/nvidia-device-plugin-daemonset"
    affinity = jobs.connection.find(path)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [len(expression["values"]) for expression in term["matchExpressions"]] == [count]


def test_submission_survives_short_server_outage(cluster, jobs, pod_job):
    cluster.server.stop()
    threading.Timer(0.3, cluster.server.start).start()
    assert jobs.submit([pod_job("true")], "k").job == "train"


def test_long_server_outage_reported_and_refusal_not_retried(cluster, jobs, pod_job):
    spoiled = pod_job("true")
    spoiled["spec"]["backoffLimits"] = 1
    with pytest.raises(ApiRefusedError, match="unknown field"):
        jobs.submit([spoiled], "k")
    cluster.server.stop()
    with pytest.raises(UnreachableError, match="no answer"):
        jobs.submit([pod_job("true")], "k")


@pytest.mark.parametrize(
    "part, name",
    [("kueue.reconcile", "Kubernetes controllers"), ("kubelet.PodRun._live", r"kubelet of pod train-0-\w+")],
)
def test_fault_of_emulator_ends_following_with_error(cluster, jobs, pod_job, monkeypatch, tmp_path, part, name):  # noqa: PLR0917
    """Nothing would happen any more, and whoever follows would wait."""

    def broken(*_):
        raise TypeError("a fault")

    jobs = replace(jobs, pod_files=Nothing())
    submitted = jobs.submit([pod_job("sleep 60")], "k")
    watch = RemoteWatch(mirror=Mirror(source=jobs, job=submitted, folder=tmp_path), poll_s=0.1, notify=lambda _: None)
    assert not watch.ended()
    monkeypatch.setattr(f"launcher.sandbox.kubernetes.{part}", broken)
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    with pytest.raises(ApiRefusedError, match=rf"the sandbox's {name} failed: TypeError\('a fault'\)") as caught:
        waiting.until(watch.ended)
    assert "server.log, which a launch keeps as logs/sandbox.log in its run folder" in caught.value.message
    assert caught.value.exit_code == 1


def test_waiting_job_gives_reason_and_running_job_nodes(cluster, jobs, pod_job, until):
    done = jobs.submit([pod_job("sleep 30", gpus="8")], "k")
    until(lambda: jobs.facts(done).reason == "no capacity: the cluster has no nodes yet")
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "4"})
    until(lambda: jobs.facts(done).reason == "no capacity: too few free GPUs on 1 of 1 nodes")
    cluster.add_node("n2", allocatable={"nvidia.com/gpu": "8"})
    facts = until(lambda: (job_facts := jobs.facts(done)).state is JobState.RUNNING and job_facts)
    assert (facts.nodes, facts.reason) == (("n2",), "")
    jobs.cancel(done)
    until(lambda: jobs.facts(done) is None)
    until(lambda: not jobs.remains(done))
    assert cluster.pods() == []


@pytest.mark.parametrize("code", [0, 3])
def test_ended_job_is_not_cancelled(cluster, jobs, pod_job, until, code):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    done = jobs.submit([pod_job(f"exit {code}")], "k")
    ended = until(lambda: (job_facts := jobs.facts(done)).state.final and job_facts)
    assert not jobs.cancel(done)
    assert jobs.facts(done) == ended
    jobs.remove(done)
    until(lambda: jobs.facts(done) is None)
    assert not jobs.cancel(done)


def test_job_completing_during_cancellation_stays_completed(cluster, jobs, pod_job, until, monkeypatch):
    """It completes after it was looked at and before its deletion arrives."""
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    done = jobs.submit([pod_job("sleep 2")], "k")
    until(lambda: jobs.facts(done).state is JobState.RUNNING)
    ask = type(jobs.connection).ask

    def late(self, method, path, **more):
        if method == "DELETE":
            until(lambda: jobs.facts(done).state is JobState.COMPLETED)
        return ask(self, method, path, **more)

    monkeypatch.setattr(type(jobs.connection), "ask", late)
    assert not jobs.cancel(done)
    assert jobs.facts(done).state is JobState.COMPLETED


def test_failed_job_gives_container_exit_code(cluster, jobs, pod_job, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    done = jobs.submit([pod_job("exit 3")], "k")
    facts = until(lambda: (job_facts := jobs.facts(done)).state is JobState.FAILED and job_facts)
    assert "container pytorch ended with exit 3" in facts.reason
    assert facts.attempt.exit_code == 3


class Nothing:
    """What the pods have kept in the store."""

    def list_objects(self, **_):
        return ()


@pytest.fixture
def kill_pod(core):
    """Kills a job's first pod without any grace; its name."""

    def kill(jobs, done):
        name = jobs.pods(done.job)[0]["metadata"]["name"]
        core.delete_namespaced_pod(name, "default", grace_period_seconds=0)
        return name

    return kill


def test_follower_reports_killed_pod(cluster, jobs, pod_job, kill_pod, tmp_path):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    jobs = replace(jobs, pod_files=Nothing())
    done = jobs.submit([pod_job("trap '' TERM; sleep 60; sleep 60")], "k")
    waiting.until(lambda: jobs.facts(done).state is JobState.RUNNING)
    name, messages = kill_pod(jobs, done), []
    watch = RemoteWatch(
        mirror=Mirror(source=jobs, job=done, folder=tmp_path / "mirror"), poll_s=0, notify=messages.append
    )
    waiting.until(watch.ended)
    why = f"Container pytorch for pod default/{name} failed with exit code 137 matching FailJob rule"
    assert messages[-1].startswith(f"job train failed: a retry would not help: {why}")


def test_operators_of_cluster_are_detected(jobs):
    assert served_operators(jobs.connection) == (Operator.HYPERPOD_PYTORCHJOB, Operator.PYTORCHJOB, Operator.JOB)


def test_token_names_cluster_and_is_refused_without_name(cluster, owner_connection):
    assert owner_connection.ask("GET", "/version")["major"] == "1"
    url = b"https://sts.us-east-2.amazonaws.com/?Action=GetCallerIdentity"
    bare = base64.urlsafe_b64encode(url).decode().rstrip("=")
    wrong = ApiEndpoint(name="x", address=cluster.server.address, authority=None, token=lambda: f"k8s-aws-v1.{bare}")
    with pytest.raises(ApiRefusedError, match="Unauthorized") as refused:
        to_endpoint(wrong).ask("GET", "/version")
    assert "access entry" in refused.value.hint


def test_kubeconfig_context_is_used_unchanged(cluster, tmp_path):
    config = tmp_path / "config"
    config.write_text(
        f"""apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{cluster.server.address}"}}}}]
users: [{{name: u, user: {{token: {cluster.tokens.own}}}}}]
contexts: [{{name: there, context: {{cluster: c, user: u}}}}]
"""
    )
    assert to_context("there", str(config)).ask("GET", "/version")["minor"] == "34"
    with pytest.raises(ImpossibleError, match=r"target\.context: elsewhere"):
        to_context("elsewhere", str(config))


PAGE = (
    "mkdir -p $HOSTNAME && cd $HOSTNAME && echo from $HOSTNAME >x && exec python3 -u -m http.server 0 --bind 127.0.0.1"
)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_command_runs_in_pod_and_tunnel_reaches_pod_port(cluster, jobs, pod_job, until, capfd):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "2"})
    submitted = jobs.submit([pod_job(PAGE, nodes=2)], "k")
    until(lambda: jobs.facts(submitted).state is JobState.RUNNING)
    nodes = jobs.nodes(submitted)
    assert nodes.names == ("n1", "n1")
    assert nodes.run("n1", ["sh", "-c", "echo in $HOSTNAME; echo no >&2; exit 7"]) == 7
    assert capfd.readouterr() == ("in train-0\n", "no\n")
    with pytest.raises(SchedulerError, match=r"not-there.*No such file"):
        nodes.run("n1", ["not-there"])
    for command, reason in (("echo no chips >&2; exit 127", "no chips"), ("exit 7", "exit 7")):
        with pytest.raises(SchedulerError, match=f"^n1: sh: {reason}$"):
            nodes.read("n1", ["sh", "-c", command])
    pod = jobs.pods("train")[0]["metadata"]["name"]
    log = until(lambda: cluster.log("default", pod, {})).decode()
    port = int(log.split("port ")[1].split()[0])
    tunnel, refused = jobs.connection.forward("default", pod, port)
    with closing(tunnel):
        tunnel.sendall(b"GET /x HTTP/1.0\r\n\r\n")
        answer = b""
        while b"from train-0" not in answer:
            answer += tunnel.recv(1000)
    assert refused() == ""
    tunnel, refused = jobs.connection.forward("default", pod, 1)
    with closing(tunnel):
        assert tunnel.recv(1) == b""
    assert "failed to connect to localhost:1" in refused()
    cluster.server.rights.denied.add(("create", "pods/exec"))
    with pytest.raises(ApiRefusedError, match='cannot create resource "pods/exec"'):
        nodes.run("n1", ["true"])
    gc.collect()  # the official client leaves sockets of refused and of forwarded connections to it
