"""A rendered job as it is: its objects are taken, its init container fetches it, its first process starts the agent."""

import hashlib
import os
from dataclasses import replace
from datetime import UTC, datetime

import boto3
import pytest
import yaml
from botocore.config import Config

from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.enums import Operator, TargetKind
from launcher.model.job import JobState
from launcher.planning.pin import pinned_plan
from launcher.rendering.batch import JobArchive, JobSettings
from launcher.rendering.bundle import render
from launcher.rendering.kubernetes_job import job_context, job_manifest, namespace_manifest, namespace_of
from launcher.rendering.names import ClusterNames, journal_uri
from launcher.submit.kubernetes.connection import Endpoint, to_endpoint
from launcher.submit.kubernetes.jobs import KubernetesJobs
from launcher.workflow.run.shipping import job_archive, ship_work
from tests.plans import request_of

pytest.importorskip("kubernetes")
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
KEYS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
TRAINER = """
import hashlib
import os
print("part", os.environ["SLIPWAY_PART"], "meets at", os.environ["PET_RDZV_ENDPOINT"], flush=True)
"""


@pytest.mark.parametrize("operator", [Operator.JOB, Operator.PYTORCHJOB])
def test_a_rendered_job_runs_to_its_end(cluster, endpoint, catalog, tmp_path, until, operator):  # noqa: PLR0917
    session = Session(environment={**KEYS, "AWS_ENDPOINT_URL": endpoint}, region="us-east-1")
    bucket = f"rendered-{operator.value}"
    style = Config(s3={"addressing_style": "path"})
    names = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "us-east-1", "config": style}
    boto3.client("s3", endpoint_url=endpoint, **names).create_bucket(Bucket=bucket)
    store = Objects.at(session, f"s3://{bucket}/store")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(TRAINER)
    plan = pinned_plan(request_of(PLAN), catalog)
    assert plan.place.target is TargetKind.EKS
    where = ClusterNames(subnet_id="s", security_group_id="g", node_policy_arn="a", store_uri=store.uri)
    settings = JobSettings(run=RUN, checkpoint_interval_s=600.0)
    bundle = render(plan, instances=catalog.instance_types, names=where, job=settings)
    shipment = ship_work(tmp_path / "work", store, dict(os.environ), datetime.now(UTC), print)
    with job_archive(bundle, shipment) as (archive, _):
        store.send(archive, ".work/job.tar.gz")
        sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        shipped = JobArchive(uri=f"{store.uri}/.work/job.tar.gz", sha256=sha256, size=str(archive.stat().st_size))
    settings = replace(settings, archive=shipped)
    context = job_context(plan, instances=catalog.instance_types, names=where, job=settings, operator=operator)
    cluster._environment |= {**KEYS, "AWS_ENDPOINT_URL": endpoint, "SLIPWAY_SANDBOX": "1"}
    room = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32", "hugepages-2Mi": "64Gi"}
    for name in ("n1", "n2"):
        cluster.add_node(name, allocatable=room, labels={"node.kubernetes.io/instance-type": "p5.48xlarge"})
    own = cluster.tokens.own
    connection = to_endpoint(Endpoint(name="c", address=cluster.server.address, authority=None, token=lambda: own))
    documents = [*yaml.safe_load_all(namespace_manifest(context)), *yaml.safe_load_all(job_manifest(context))]
    kept = Objects.at(session, journal_uri(f"{store.uri}/{plan.name}", RUN))
    jobs = KubernetesJobs(connection=connection, namespace=namespace_of(plan), kind=documents[-1]["kind"], kept=kept)
    job = jobs.submit(documents, RUN)
    facts = until(lambda: (found := jobs.facts(job)).state.final and found, 60)
    log = jobs.read(job, {"log.txt": 0})["log.txt"].data.decode()
    connection.close()
    assert facts.state is JobState.COMPLETED, (facts, log)
    assert "part 0 meets at 127.0.0.1:" in log
