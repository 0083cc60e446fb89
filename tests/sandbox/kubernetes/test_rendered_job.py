"""A rendered job as it is: its objects are taken, its init container fetches it, its first process starts the agent."""

import hashlib
import os
import secrets
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import yaml

from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.enums import Operator, TargetKind
from launcher.model.job import JobState
from launcher.planning.pin import pinned_plan
from launcher.rendering.batch import JobArchive, JobSettings
from launcher.rendering.bundle import render
from launcher.rendering.kubernetes_job import job_manifests, namespace_of
from launcher.rendering.names import ClusterNames, journal_uri
from launcher.submit.kubernetes.connection import ApiEndpoint, to_endpoint
from launcher.submit.kubernetes.jobs import KubernetesJobs
from launcher.workflow.cluster.shipping import job_archive, ship_work
from launcher.workflow.run.submission_watch import Mirror, NoCapacityError, RemoteWatch
from tests.checks import some
from tests.emulators.loopback import QuietHandler, listening
from tests.emulators.moto_server import KEYS, s3_client
from tests.plans import request_of

pytestmark = pytest.mark.long

RUN = "tiny-20261122t060000z-0123abcd"
PLAN = {
    "slipway": 1,
    "name": "tiny",
    "workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 1.0}},
    "target": {"kind": "eks", "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 2},
    "purchase": {"option": "on-demand"},
    "run": {"command": ["python3", "train.py"], "workdir": "work"},
}
TRAINER = """
import hashlib
import os
print("part", os.environ["SLIPWAY_PART"], "meets at", os.environ.get("PET_RDZV_ENDPOINT"), flush=True)
"""
FAILS = """
import os, signal, sys
with open(os.environ["LIVES"], "a") as file:
    file.write(os.environ["SLIPWAY_ATTEMPT"])
if sys.argv[1] == "killed":  # as by the kernel whose memory ran out: the agent goes with its container
    os.kill(int(os.environ["AGENT"]), signal.SIGKILL)
    signal.pause()
sys.exit(int(sys.argv[1]))
"""
MORE = "it failed more often than run.retries allows; "
OPERATORS = (Operator.JOB, Operator.PYTORCHJOB, Operator.HYPERPOD_PYTORCHJOB)
# HyperPod's operator starts pods as the training operator does: a launch runs it (test_hyperpod_eks_launch.py).
FEWER = (*OPERATORS[:2], pytest.param(OPERATORS[2], marks=pytest.mark.slow))


def in_turn(*cases):
    """Each case with each operator; `make test` has one operator a case, Job and PyTorchJob in turn."""
    return [
        pytest.param(operator, *case, marks=[] if operator is OPERATORS[number % 2] else [pytest.mark.slow])
        for number, case in enumerate(cases)
        for operator in OPERATORS
    ]


@pytest.fixture
def submit_rendered(cluster, endpoint, catalog, tmp_path):
    """Submits a job as it is rendered; gives what looks at it, the job, and what reads its first pod's log."""
    connections = []

    def submit(
        operator,
        trainer,
        *,
        nodes=2,
        submission=RUN,
        digest=None,
        lost=False,
        pods=None,
        change=None,
        machines=3,
        **run,
    ):
        environment = {**KEYS, "AWS_ENDPOINT_URL": endpoint}
        session = Session(environment=environment, region="us-east-1")
        bucket = f"rendered-{secrets.token_hex(4)}"
        s3_client(environment).create_bucket(Bucket=bucket)
        store = Objects.at(session, f"s3://{bucket}/store")
        (tmp_path / "work").mkdir(exist_ok=True)
        (tmp_path / "work" / "train.py").write_text(trainer)
        document = {**PLAN, "target": {**PLAN["target"], "nodes": nodes}, "run": {**PLAN["run"], **run}}
        plan = pinned_plan(request_of(document), catalog)
        assert plan.place.target is TargetKind.EKS
        where = ClusterNames(subnet_id="s", security_group_id="g", node_policy_arn="a", store_uri=store.uri)
        settings = JobSettings(run=submission, checkpoint_interval_s=600.0)
        bundle = render(plan, instances=catalog.instance_types, names=where, job=settings)
        shipment = ship_work(tmp_path / "work", store, dict(os.environ), datetime.now(UTC), print)
        if lost:
            (key,) = [object_.key for object_ in store.list_objects(below=".work/")]
            store.delete([key])
        with job_archive(bundle, shipment) as (archive, _):
            store.send(archive, ".work/job.tar.gz")
            sha256 = digest or hashlib.sha256(archive.read_bytes()).hexdigest()
            shipped = JobArchive(uri=f"{store.uri}/.work/job.tar.gz", sha256=sha256, size=str(archive.stat().st_size))
        settings = replace(settings, archive=shipped)
        namespace_text, job_text = job_manifests(
            plan, instances=catalog.instance_types, names=where, job=settings, operator=operator
        )
        cluster._environment |= {**KEYS, "AWS_ENDPOINT_URL": endpoint, "SLIPWAY_SANDBOX": "1", **(pods or {})}
        room = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32", "hugepages-2Mi": "64Gi"}
        names = {f"n{number}" for number in range(machines)}
        for name in names - {node["metadata"]["name"] for node in cluster.nodes()}:
            cluster.add_node(name, allocatable=room, labels={"node.kubernetes.io/instance-type": "p5.48xlarge"})
        token = cluster.tokens.own
        connections.append(
            to_endpoint(ApiEndpoint(name="c", address=cluster.server.address, authority=None, token=lambda: token))
        )
        documents = [*yaml.safe_load_all(namespace_text), *yaml.safe_load_all(job_text)]
        if change:
            change(documents)
        journal = Objects.at(session, journal_uri(f"{store.uri}/{plan.name}", submission))
        kind = documents[-1]["kind"]
        jobs = KubernetesJobs(connection=connections[0], namespace=namespace_of(plan), kind=kind, pod_files=journal)
        job = jobs.submit(documents, submission)
        return jobs, job, lambda: getattr(jobs.read(job, {"log.txt": 0})["log.txt"], "data", b"").decode()

    yield submit
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("operator", FEWER)
def test_rendered_job_runs_to_completion(submit_rendered, until, operator):
    jobs, job, log = submit_rendered(operator, TRAINER)
    facts = until(lambda: (found := jobs.facts(job)).state.final and found)
    assert facts.state is JobState.COMPLETED, (facts, log())
    assert "part 0 " in log()


@pytest.mark.parametrize(
    "operator, ends, retries, lives, begins, reason",
    [
        *in_turn(
            ("3", 1, "12", MORE, "ended with exit 3"),
            ("killed", 1, "12", MORE, "was ended by SIGKILL (exit 137)"),
        ),
        *(
            pytest.param(operator, "3", 0, "1", MORE, "ended with exit 3", marks=pytest.mark.slow)
            for operator in OPERATORS
        ),
    ],
)
def test_failing_job_fails_after_retries(  # noqa: PLR0917
    submit_rendered, until, tmp_path, operator, ends, retries, lives, begins, reason
):
    command = ["bash", "-c", f"LIVES={tmp_path}/lives AGENT=$PPID exec python3 train.py {ends}"]
    jobs, job, log = submit_rendered(operator, FAILS, nodes=1, command=command, retries=retries)
    facts = until(lambda: (found := jobs.facts(job)).state.final and found, lambda: f"{jobs.facts(job)} {log()}")
    assert facts.state is JobState.FAILED, log()
    assert facts.reason.startswith(begins)
    assert reason in facts.reason
    assert (tmp_path / "lives").read_text() == lives, log()


@pytest.mark.parametrize(
    "operator, codes",
    [
        (Operator.JOB, ("78", "126")),
        (Operator.PYTORCHJOB, ("127",)),
        pytest.param(Operator.JOB, ("127",), marks=pytest.mark.slow),
        *(pytest.param(operator, ("78", "126"), marks=pytest.mark.slow) for operator in OPERATORS[1:]),
    ],
)
def test_unretryable_exit_code_is_never_retried(submit_rendered, until, tmp_path, operator, codes):
    submissions = {}
    for code in codes:
        command = ["bash", "-c", f"LIVES={tmp_path}/{code} AGENT=$PPID exec python3 train.py {code}"]
        submissions[code] = submit_rendered(
            operator, FAILS, nodes=1, submission=f"{RUN}-{code}", command=command, retries=3
        )
    for code, (jobs, job, log) in some(submissions.items()):
        facts = until(lambda jobs=jobs, job=job: (found := jobs.facts(job)).state.final and found)
        assert facts.state is JobState.FAILED, log()
        assert facts.reason.startswith("a retry would not help: ")
        assert code in facts.reason
        assert (tmp_path / code).read_text() == "1", log()


@pytest.mark.parametrize(
    "operator, nodes, retries",
    [
        *in_turn((1, 0), (2, 1)),
        *(pytest.param(operator, 1, 2, marks=pytest.mark.slow) for operator in OPERATORS),
    ],
)
def test_job_without_pod_credentials_fails_after_retries(submit_rendered, until, operator, nodes, retries):
    """Only the pods count, and only their last words say why: an operator would go on a hundred times."""
    jobs, job, log = submit_rendered(operator, TRAINER, nodes=nodes, retries=retries, pods={"AWS_ACCESS_KEY_ID": ""})
    facts = until(lambda: (found := jobs.facts(job)).state.final and found, lambda: f"{jobs.facts(job)} {log()}")
    assert (facts.state, facts.restarts) == (JobState.FAILED, 0)
    assert "the pod has no credentials: its service account needs a Pod Identity association" in facts.reason
    assert f"({1 + retries} tries: run.retries)" in facts.reason
    assert not log()


class Refusing(QuietHandler):
    """A store that was taken away from the run after its files were fetched."""

    def do_GET(self):
        body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        self.reply(403, body)

    do_PUT = do_GET


@pytest.mark.parametrize("operator", FEWER)
def test_job_with_refusing_store_fails_after_retries(submit_rendered, until, operator):
    with listening(Refusing) as refusing:

        def refuse(documents):
            specs = documents[-1]["spec"]
            replicas = specs.get("replicaSpecs") or [*specs.get("pytorchReplicaSpecs", {}).values()] or [specs]
            for replica in replicas:
                (agent,) = replica["template"]["spec"]["containers"]
                agent["env"].append({"name": "AWS_ENDPOINT_URL", "value": refusing})

        jobs, job, log = submit_rendered(operator, TRAINER, nodes=1, retries=1, change=refuse)
        facts = until(lambda: (found := jobs.facts(job)).state.final and found, lambda: f"{jobs.facts(job)} {log()}")
    assert (facts.state, facts.restarts) == (JobState.FAILED, 0)
    assert "attempts are not counted" in facts.reason
    assert "AccessDenied" in facts.reason


@pytest.mark.parametrize("operator, machines, why", in_turn((0, "the cluster has no nodes yet"), (1, "too few free")))
def test_job_waiting_too_long_for_nodes_is_cancelled(  # noqa: PLR0917
    submit_rendered, until, tmp_path, operator, machines, why
):
    jobs, job, _ = submit_rendered(operator, TRAINER, nodes=2, machines=machines)
    mirror = Mirror(source=jobs, job=job, folder=tmp_path / "copy")
    watch = RemoteWatch(mirror=mirror, poll_s=0.1, notify=lambda _: None, waits_s=1.2, give_up=lambda: True)
    with pytest.raises(NoCapacityError, match=rf"no capacity within 0.02 minutes \(no capacity: {why}") as refused:
        until(watch.ended)
    assert "purchase.wait_for_capacity_minutes waits longer" in refused.value.hint
    assert refused.value.exit_code == 6
    until(lambda: not jobs.remains(job))
    assert jobs.facts(job) is None


def test_job_with_one_pod_without_credentials_ends_all_pods(submit_rendered, until, tmp_path):
    """The others would wait for it, and keep their nodes."""

    def lock_out(documents):
        pod = documents[-1]["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
        pod["initContainers"][0]["env"].append({"name": "AWS_ACCESS_KEY_ID", "value": ""})

    jobs, job, _ = submit_rendered(Operator.PYTORCHJOB, TRAINER, retries=1, change=lock_out)
    messages = []
    watch = RemoteWatch(
        mirror=Mirror(source=jobs, job=job, folder=tmp_path / "copy"), poll_s=0.1, notify=messages.append
    )
    until(watch.ended, lambda: str(messages))
    assert (watch.facts.state, watch.facts.keeps_nodes) == (JobState.FAILED, True)
    assert any("worker-0: the pod has no credentials" in message for message in messages)
    until(lambda: not jobs.remains(job))


@pytest.mark.parametrize(
    "operator, broken, reason", in_turn(({"digest": "0" * 64}, "wanted"), ({"lost": True}, "S3 answers 404"))
)
def test_job_with_wrong_or_missing_files_fails_before_first_attempt(submit_rendered, until, operator, broken, reason):
    """Its init container fails, which an operator would start a hundred times."""
    jobs, job, log = submit_rendered(operator, TRAINER, nodes=1, retries=3, **broken)
    facts = until(lambda: (found := jobs.facts(job)).state.final and found)
    assert (facts.state, facts.restarts) == (JobState.FAILED, 0), log()
    assert facts.reason.startswith("a retry would not help: ")
    assert reason in log()
