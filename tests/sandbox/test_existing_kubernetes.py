"""Jobs on an existing Kubernetes cluster: several at a time, nothing is provisioned, and their removal."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
import yaml

from launcher.aws import stacks
from launcher.aws.eks import granted_roles
from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.model.diagnosis import Outcome
from launcher.model.errors import ImpossibleError
from launcher.model.removal import RetainedKind
from launcher.model.report import RunStatus
from launcher.records.submission import FILE
from launcher.sandbox.sandbox import Sandbox
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.deploy.deployment import deploy_quote
from launcher.workflow.doctor.diagnosis import subject_of
from launcher.workflow.doctor.existing import existing_cluster
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.existing_down import joined_plan, remove_jobs, survey_jobs
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions

pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.xdist_group("existing-cluster")]

REGION = "us-east-2"
TARGET = {"kind": "eks", "region": REGION, "instance_type": "p5.48xlarge", "nodes": 2}
MEETS = """
import sys, time
from pathlib import Path
own, other = Path(sys.argv[1]), Path(sys.argv[2])
own.touch()
end = time.monotonic() + 90
while not other.exists() and time.monotonic() < end:
    time.sleep(0.05)
print("the other is", "there" if other.exists() else "not there", flush=True)
"""


class Account:
    """A sandbox, and the messages of its launches."""

    def __init__(self, sandbox, root):
        self.sandbox, self.root = sandbox, root
        self.session = Session(environment=sandbox.process_environment({}), region=REGION)

    def priced(self, name, **sections):
        document = {"slipway": 1, "name": name, "target": TARGET, "purchase": {"option": "on-demand"}, **sections}
        path = self.root / f"{name}.json"
        path.write_text(json.dumps(document))
        priced = price(path, datetime.now(UTC), PriceOptions(any_age=True))
        rank, quoted = pick(priced, None)
        return priced, rank, quoted

    def deploy(self, name):
        options = DeployOptions(root=self.root, sandbox=True, emulator=self.sandbox, notify=lambda _: None)
        priced, rank, quoted = self.priced(name, network={"api_cidrs": ["52.94.76.0/24"]})
        deploy_quote(priced, rank, quoted, options)

    def launch(self, name, command, *, root=None, messages=None, run=None, uri=None, **target):
        (self.root / name).mkdir(exist_ok=True)
        (self.root / name / "train.py").write_text(MEETS)
        train = {"model": {"params_b": 0.0002}, "method": "pretrain", "hours": 0.5}
        priced, rank, quoted = self.priced(
            name,
            workload={"train": train},
            target={**TARGET, "nodes": 1, "cluster": "team", **target},
            checkpoint={"uri": uri} if uri else {"mode": "none"},
            run={"command": command, "workdir": name, **(run or {})},
        )
        messages = [] if messages is None else messages
        options = LaunchOptions(
            root=root or self.root, sandbox=True, emulator=self.sandbox, notify=messages.append, progress=lambda _: None
        )
        return launch_quote(priced, rank, quoted, options)

    def events(self):
        return {name: len(stacks.resources(self.session, name)) for name in stacks.names(self.session)}


@pytest.fixture(scope="module")
def eks_account(tmp_path_factory):
    """A sandbox with the EKS cluster `team` of two nodes, deployed by a plan without a job."""
    root = tmp_path_factory.mktemp("existing")
    with Sandbox(region=REGION, scheduler="local") as sandbox:
        account = Account(sandbox, root)
        account.deploy("team")
        yield account


@pytest.fixture(scope="module")
def two_runs(eks_account):
    """The plans `left` and `right`, launched at once; each run's folder, report and messages."""
    before = eks_account.events()
    marks = [str(eks_account.root / mark) for mark in ("left-began", "right-began")]
    messages = {"left": [], "right": []}
    with ThreadPoolExecutor() as pool:
        runs = [
            pool.submit(eks_account.launch, name, ["python3", "train.py", *order], messages=messages[name])
            for name, order in (("left", marks), ("right", marks[::-1]))
        ]
        done = {name: (*future.result(), messages[name]) for name, future in zip(messages, runs, strict=True)}
    assert eks_account.events() == before
    return done


def test_two_runs_share_existing_cluster_without_provisioning(eks_account, two_runs):
    for name, (folder, report, messages) in two_runs.items():
        assert (report.status, report.scheduler, report.stacks) == (RunStatus.SUCCEEDED, "kubernetes", ())
        assert any("cluster team exists: Slipway provisions nothing" in line for line in messages)
        assert "the other is there" in (folder.logs / "attempt-1.log").read_text()
        assert not (folder.path / "cdk.out").exists()
        submission = folder.read_json(FILE)
        assert (submission["scheduler"], submission["head_node"]["kind"]) == ("kubernetes", "Job")
        assert submission["head_node"]["host"] == "slipway-team"
        assert submission["folder"] == f"slipway/{submission['job']}"
        assert submission["checkpoint_uri"].endswith(f"/{name}")
    assert eks_account.sandbox.clusters() == ("slipway-team",)


@pytest.mark.usefixtures("two_runs")
def test_down_removes_resources_of_plan_and_keeps_cluster(eks_account):
    environment = eks_account.sandbox.process_environment({})
    eks_account.launch("going", ["true"])
    plan = joined_plan("going", eks_account.root, load())
    survey = survey_jobs(plan, environment)
    ((name, state),) = survey.removal.jobs
    assert (name.startswith("slipway/going-"), state) == (True, "completed")
    kinds = {retained.kind for retained in survey.removal.kept}
    assert kinds == {RetainedKind.CLUSTER, RetainedKind.NAMESPACE, RetainedKind.CHECKPOINTS}
    cluster = "slipway-team", "slipway"
    assert len(granted_roles(eks_account.session, *cluster, "going")) == 1
    messages = []
    assert [state for _, state in remove_jobs(survey, environment, messages.append).jobs] == ["gone"]
    assert messages[-1] == "the cluster's role is no longer granted to pods of slipway/going"
    assert granted_roles(eks_account.session, *cluster, "going") == ()
    assert survey_jobs(plan, environment).jobs == ()
    assert len(granted_roles(eks_account.session, *cluster, "right")) == 1
    other = survey_jobs(joined_plan("right", eks_account.root, load()), environment)
    assert [state for _, state in other.removal.jobs] == ["completed"]
    assert len(eks_account.sandbox.nodes("slipway-team")) == 3


@pytest.mark.usefixtures("two_runs")
def test_doctor_checks_existing_cluster_like_launch(eks_account):
    plan = joined_plan("right", eks_account.root, load())
    environment = eks_account.sandbox.process_environment({})
    subject = subject_of(plan, REGION, catalog=load(), environment=environment, now=datetime.now(UTC))
    checks = {check.name: check for check in existing_cluster(subject)}
    assert checks["cluster"].got.startswith("EKS cluster slipway-team, Kubernetes v1.")
    assert {check.result for check in checks.values()} == {Outcome.OK}
    prefix = f"s3://{store_of(eks_account)}/jobs/right"
    assert checks["pods' role"].got == f"the role is granted, for {prefix} only"


def store_of(account):
    stack = stacks.find(account.session, "slipway-team-training")
    return stack.outputs["StoreUri"].removeprefix("s3://").partition("/")[0]


def test_every_plan_has_service_account_writing_to_plan_folder(eks_account, two_runs):
    folder, _, messages = two_runs["left"]
    eks_account.launch("left", ["true"], messages=(again := []))
    granting = "granting the cluster's role to pods of slipway/left; EKS needs some seconds"
    assert granting in messages
    assert granting not in again, "it is granted already"
    job = yaml.safe_load((folder.path / "rendered/kubernetes/job.yaml").read_text().split("---")[-1])
    assert job["spec"]["template"]["spec"]["serviceAccountName"] == "left"
    accounts = list(yaml.safe_load_all((folder.path / "rendered/kubernetes/namespace.yaml").read_text()))
    assert [account["metadata"]["name"] for account in accounts] == ["slipway", "left"]
    spec = json.loads((folder.path / "rendered/job.json").read_text())
    assert spec["journal"].startswith(f"s3://{store_of(eks_account)}/jobs/left/.runs/left-")


def test_job_for_folder_of_another_plan_refused_before_upload(eks_account):
    other = f"s3://{store_of(eks_account)}/jobs/second"
    with pytest.raises(ImpossibleError) as refused:
        eks_account.launch("third", ["true"], uri=other)
    (finding,) = refused.value.findings
    assert (
        f"the role may write to s3://{store_of(eks_account)}/jobs/third only, but the job writes to {other}"
        in finding.message
    )
    assert granted_roles(eks_account.session, "slipway-team", "slipway", "third") == ()


@pytest.mark.parametrize(
    "target,run,message",
    [
        ({"instance_type": "p4d.24xlarge"}, {}, "0 found; the cluster has"),
        ({"queue": "team-a/gpus"}, {}, "the cluster has no Kueue"),
        ({}, {"operator": "pytorchjob"}, "the cluster supports job"),
        ({"cluster": "teem"}, {}, "no cluster teem"),
    ],
)
def test_job_unfit_for_cluster_refused_before_upload(eks_account, target, run, message):
    with pytest.raises(ImpossibleError) as refused:
        eks_account.launch("unfit", ["true"], run=run, **target)
    messages = [refused.value.message, *(finding.message for finding in refused.value.findings)]
    if message == "no cluster teem":
        assert "checkpoint.uri" in messages[0]
        assert "slipway deploy FILE --sandbox of the plan of teem" in refused.value.hint
    else:
        assert any(message in line for line in messages), messages
