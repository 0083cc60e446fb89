"""A cluster and a job are separate: jobs go to an existing cluster, and nothing is deployed for them."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher.model.errors import DeploymentFailedError, ImpossibleError
from launcher.model.report import RunStatus
from launcher.sandbox.sandbox import Sandbox
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.deploy.deployment import deploy_quote
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions
from tests.sandbox.clients import client

REGION, ZONE = "us-east-2", "use2-az1"
pytestmark = pytest.mark.xdist_group("shared-cluster")
TARGET = {"region": REGION, "az_id": ZONE, "instance_type": "p5.48xlarge", "nodes": 2, "kind": "parallelcluster"}
SAVE = 'cd "$SLIPWAY_CHECKPOINT_DIR"; mkdir step-1; echo x >step-1/weights'
PURCHASE = {"option": "spot", "price_overrides": {"p5.48xlarge/spot": "20"}}


def plan(name, **changed):
    """A plan with a job that ends at once, on one of two nodes."""
    document = {
        "slipway": 1,
        "name": name,
        "workload": {"train": {"model": {"params_b": 0.0002}, "method": "pretrain", "hours": 0.5}},
        "target": TARGET,
        "purchase": PURCHASE,
        "run": {"command": ["sh", "-c", f"echo this is {name}; {SAVE}"], "workdir": "."},
    }
    return {**document, **changed}


def job(name, **target):
    """A plan for the cluster `team`."""
    return plan(name, target={**TARGET, "nodes": 1, "cluster": "team", **target})


class Account:
    def __init__(self, sandbox, root):
        self.sandbox, self.root = sandbox, root
        self.messages = []

    def priced(self, document):
        path = self.root / f"{document['name']}.json"
        path.write_text(json.dumps(document))
        priced = price(path, datetime.now(UTC), PriceOptions(any_age=True))
        self.messages = []
        rank, quoted = pick(priced, None)
        return priced, rank, quoted

    def launch(self, document, **options):
        (priced, rank, quoted), settings = (
            self.priced(document),
            {"root": self.root, "sandbox": True, "emulator": self.sandbox, **options},
        )
        return launch_quote(
            priced, rank, quoted, LaunchOptions(notify=self.messages.append, progress=lambda _: None, **settings)
        )

    def deploy(self, document):
        options = DeployOptions(root=self.root, sandbox=True, emulator=self.sandbox, notify=self.messages.append)
        priced, rank, quoted = self.priced(document)
        deploy_quote(priced, rank, quoted, options)

    def deployments(self):
        """Every event of every stack: a deployment adds some."""
        cloudformation = client(self.sandbox, "cloudformation", region_name=REGION)
        stacks = [stack["StackName"] for stack in cloudformation.describe_stacks()["Stacks"]]
        return {name: len(cloudformation.describe_stack_events(StackName=name)["StackEvents"]) for name in stacks}


@pytest.fixture(scope="module")
def owners(tmp_path_factory):
    """A sandbox in which the cluster `team` runs, deployed by a plan without a job."""
    root = tmp_path_factory.mktemp("shared")
    with Sandbox(region=REGION, scheduler="local") as sandbox:
        account = Account(sandbox, root)
        account.deploy({key: value for key, value in plan("team").items() if key not in ("workload", "run")})
        yield account


@pytest.fixture(scope="module")
def first_run(owners):
    """The folder, the report and the messages of the job `first`, whose launch deploys nothing."""
    before = owners.deployments()
    folder, report = owners.launch(job("first"))
    assert owners.deployments() == before
    return folder, report, owners.messages


@pytest.fixture(scope="module")
def second_run(owners, first_run):
    """Those of its second launch, which lists its working folder; the job writes the same checkpoint again."""
    work = owners.root / "work"
    (work / ".ssh").mkdir(parents=True)
    for name in (".env", ".ssh/id_ed25519", "train.py"):
        (work / name).write_text("secret")
    listing = {"command": ["sh", "-c", f"echo has: $(ls -A); {SAVE}"], "workdir": "work"}
    folder, report = owners.launch(job("first") | {"run": listing})
    assert folder.path != first_run[0].path
    return folder, report, owners.messages


def test_two_jobs_on_shared_cluster_deploy_no_stacks(owners, first_run):
    before = owners.deployments()
    runs = {"first": first_run, "second": (*owners.launch(job("second")), owners.messages)}
    for name, (folder, report, messages) in runs.items():
        assert report.status is RunStatus.SUCCEEDED
        assert [name for name, _ in report.stacks] == ["slipway-team-training"]
        assert "cluster team exists: nothing is deployed" in messages
        assert f"this is {name}" in (folder.logs / "attempt-1.log").read_text()
        assert not (folder.path / "cdk.out").exists()
        outputs = folder.read_json("outputs.json")["slipway-team-training"]
        spec = json.loads((folder.rendered_folder / "job.json").read_text())
        assert spec["checkpoint"]["uri"] == f"{outputs['StoreUri']}/{name}"
    assert owners.deployments() == before
    assert owners.sandbox.clusters() == ("slipway-team",)


def test_job_without_checkpoints_ends_with_6_and_reason(owners):
    document = job("silent") | {"run": {"command": ["sh", "-c", 'echo x >"$SLIPWAY_CHECKPOINT_DIR/weights.bin"']}}
    with pytest.raises(DeploymentFailedError) as raised:
        owners.launch(document, interrupt_after_s=5.0)
    assert raised.value.exit_code == 6
    assert raised.value.message == "the job succeeded, but its interruption proved nothing"
    assert [finding.message for finding in raised.value.findings] == [
        (
            "the interruption was not simulated: the job ended earlier than 35 s after its command started, and stored"
            " no checkpoint until then"
        ),
        "the job stored no checkpoint: an interruption would lose all its work",
        "no file is recognised as a checkpoint, so none is stored: weights.bin",
    ]
    assert raised.value.findings[-1].hint == (
        "if these files are checkpoints, and each save writes the same names again, write checkpoint: {pattern: "
        "'weights\\.bin'}; else name them with their step"
    )
    folder = owners.root / ".slipway" / "runs" / "silent" / "latest"
    report = json.loads((folder / "report.json").read_text())
    assert (report["status"], report["checkpoints_stored"], report["layout"]) == ("succeeded", 0, None)
    assert len(report["attempts"]) == 1
    assert any("checkpoints-not-recognised" in line for line in owners.messages)


def test_sandbox_job_gets_files_by_rules_of_real_launch(second_run):
    folder, _, _ = second_run
    assert "has: train.py\n" in (folder.logs / "attempt-1.log").read_text()
    submission = folder.read_json("submission.json")
    assert (submission["head_node"]["via"], submission["work"]["files"]) == ("sandbox", 1)


def test_job_of_second_launch_is_proven_by_a_newer_checkpoint(owners, second_run):
    _, again, messages = second_run
    assert again.status is RunStatus.SUCCEEDED
    # It wrote the checkpoint of the first launch again, which is a new version of it.
    assert not [line for line in messages if "stored no newer checkpoint" in line]
    steps = """echo '{"step": 7}' >>"$SLIPWAY_METRICS"; sleep 1"""
    with pytest.raises(DeploymentFailedError) as unproven:
        owners.launch(job("first") | {"run": {"command": ["sh", "-c", steps], "workdir": "."}})
    assert any("would lose its work since step 1" in finding.message for finding in unproven.value.findings)


@pytest.mark.slow
def test_changed_price_redeploys_no_stack_and_changed_guard_one(owners):
    owners.launch(plan("moved"))
    before = owners.deployments()
    owners.launch(plan("moved", purchase={"option": "spot", "price_overrides": {"p5.48xlarge/spot": "25"}}))
    assert owners.deployments() == before
    owners.launch(plan("moved", guardrails={"idle_minutes": 10}))
    text = " ".join(" ".join(owners.messages).split())
    assert "slipway-moved-network: no change" in text
    assert "slipway-moved-training: 2 changed" in text
    assert "changed AWS::Lambda::Function GuardrailsGuardFunction" in text
    assert owners.deployments()["slipway-moved-training"] > before["slipway-moved-training"]


@pytest.mark.parametrize(
    "changed,words,fix",
    [
        ({"cluster": "taem"}, "no cluster taem in us-east-2", "did you mean team?"),
        ({"nodes": 3}, "no queue of team has 3 x p5.48xlarge, spot", "target.nodes"),
        ({"az_id": "use2-az2"}, "team is in use2-az1, and the price is of use2-az2", "target.az_id: use2-az1"),
    ],
)
def test_unfit_shared_cluster_refused_with_fix(owners, changed, words, fix):
    before = owners.deployments()
    with pytest.raises(ImpossibleError) as caught:
        owners.launch(job("misfit", **changed))
    assert words in caught.value.message
    assert fix in caught.value.hint
    assert owners.deployments() == before


def test_queue_with_other_purchase_option_refused(owners):
    on_demand = {**job("bought"), "purchase": {"option": "on-demand"}}
    with pytest.raises(ImpossibleError, match="on demand; available: p5-48xlarge"):
        owners.launch(on_demand)


def test_shared_cluster_in_new_sandbox_not_found(tmp_path, monkeypatch, slipway):
    Path(tmp_path, "plan.json").write_text(json.dumps(job("lonely")))
    monkeypatch.chdir(tmp_path)
    ended = slipway("launch", "plan.json", "--sandbox", "--yes")
    assert ended.code == 5
    assert "no cluster team in us-east-2" in ended.err
