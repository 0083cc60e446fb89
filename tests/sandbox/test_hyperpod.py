"""HyperPod with Slurm in the sandbox: deployed, read back, run through a failing machine, removed."""

import json
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.cli.app import main
from launcher.model.report import Report, RunStatus
from launcher.records.run_folder import RunFolder
from launcher.sandbox.cluster import SubnetFacts, TypeFacts
from launcher.sandbox.hyperpod_request import Account, RequestRefusedError, read
from launcher.sandbox.sandbox import Sandbox
from launcher.workflow.deployment import DeployOptions, deploy_quote
from launcher.workflow.launch import LaunchOptions, launch_in_sandbox
from launcher.workflow.price import PriceOptions, pick, price

EXAMPLES = Path(__file__).parents[2] / "examples"
REGION = "us-east-2"
STEPS = 300
TRAINER = ["train.py", "--steps", str(STEPS), "--every", "30"]
PLAN = f"""
slipway: 1
name: tiny-pod
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: hyperpod-slurm, region: {REGION}, instance_type: p5.48xlarge, nodes: 1}}
purchase: {{option: on-demand, price_overrides: {{ml.p5.48xlarge/on-demand: 60}}}}
checkpoint: {{interval: 30, keep: 3, grace_seconds: 20}}
guardrails: {{idle_minutes: 30}}
run: {{command: {json.dumps([sys.executable, *TRAINER])}, workdir: {json.dumps(str(EXAMPLES / "tiny_gpt"))}}}
"""
SCHEDULERS = [
    pytest.param("slurm", marks=[pytest.mark.slurm, pytest.mark.xdist_group("slurm")]),
    pytest.param("local", marks=pytest.mark.xdist_group("launch")),
]


def quoted(root):
    (root / "plan.yaml").write_text(PLAN)
    priced = price(root / "plan.yaml", datetime.now(UTC), PriceOptions(sandbox=True))
    return priced, *pick(priced, None)


@dataclass(frozen=True)
class Launched:
    folder: RunFolder
    report: Report
    told: list[str]
    before: set[str]
    after: set[str]

    def steps(self, attempt):
        log = (self.folder.logs / f"attempt-{attempt}.log").read_text()
        return [int(step) for step in re.findall(r"^step (\d+)/", log, re.MULTILINE)]


@pytest.fixture(scope="module", params=SCHEDULERS)
def launched(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("pod")
    priced, rank, quote = quoted(root)
    told, seen = [], []
    with Sandbox(region=REGION, scheduler=request.param) as box:

        def tell(line):
            told.append(line)
            if line.startswith("submitted") or "automatic recovery" in line:
                seen.append({each.instance_id for each in box.nodes("slipway-tiny-pod")})

        options = LaunchOptions(root=root, interrupt_after_s=0.2, tell=tell, progress=lambda _: None, box=box)
        folder, report = launch_in_sandbox(priced, rank, quote, options)
    assert report.scheduler == request.param
    before, after = seen
    return Launched(folder=folder, report=report, told=told, before=before, after=after)


def test_the_job_outlives_its_machine(launched):
    assert launched.report.status is RunStatus.SUCCEEDED
    first, second = launched.report.attempts
    assert (first.ended_by, first.exit_code, first.resumed_from_step) == ("node-lost", None, 0)
    assert (second.ended_by, second.exit_code, second.last_step) == ("completed", 0, STEPS)
    assert 0 < second.resumed_from_step <= first.last_step < STEPS
    assert first.started_at < first.ended_at <= second.started_at


def test_it_goes_on_from_what_is_in_s3(launched):
    resumed = launched.report.attempts[1].resumed_from_step
    assert min(launched.steps(1)) <= resumed < min(launched.steps(2))
    lines = (launched.folder.logs / "s3-requests.jsonl").read_text().splitlines()
    began = launched.report.attempts[1].started_at.isoformat()
    ours = [each for each in map(json.loads, lines) if f"/step-{resumed}/" in each["path"]]
    assert [each for each in ours if each["method"] == "PUT" and each["time"] < began]
    assert [each for each in ours if each["method"] == "GET" and each["time"] >= began]


def test_nobody_gave_notice_and_another_machine_came(launched):
    events = [json.loads(line)["event"] for line in launched.folder.events.read_text().splitlines()]
    assert "notice" not in events
    assert launched.before.isdisjoint(launched.after)
    assert any("fails, with the job on it" in line for line in launched.told)


def test_what_was_deployed_was_read_back_and_the_rest_is_named(launched):
    verified, left = launched.report.verified_resources, launched.report.not_emulated
    for start in ("HyperPod cluster: InService", "group workers: ml.p5.48xlarge 1 Compute", "file system, GiB: 1200"):
        assert any(each.startswith(start) for each in verified), (start, verified)
    assert "Slurm's partitions and nodes: p5-48xlarge 1" in verified
    assert not [each for each in left if "nothing here reads it back" in each]
    for part in ("srun --auto-resume", "on_create.sh (not run)", "EFA interfaces", "OnStartDeepHealthChecks"):
        assert any(part in each for each in left), (part, left)


@pytest.mark.xdist_group("hyperpod")
def test_it_is_deployed_listed_read_back_and_removed(tmp_path, monkeypatch, capsys):
    told = []
    with Sandbox(region=REGION, scheduler="local") as box:
        session = Session(environment=box.process_environment({}), region=REGION)
        sagemaker = session.client("sagemaker")
        priced, rank, quote = quoted(tmp_path)
        deploy_quote(
            priced, rank, quote, DeployOptions(root=tmp_path, sandbox=True, dry_run=False, tell=told.append, box=box)
        )

        assert any(re.search(r"read back and as planned: \d+ facts", line) for line in told), told
        (listed,) = sagemaker.list_clusters()["ClusterSummaries"]
        nodes = sagemaker.list_cluster_nodes(ClusterName=listed["ClusterName"])["ClusterNodeSummaries"]
        outputs = stacks.describe(session, "slipway-tiny-pod-training").outputs
        assert outputs["ClusterArn"] == listed["ClusterArn"]
        assert outputs["ClusterArn"].endswith(f"/{outputs['ClusterId']}")
        assert sorted(each["InstanceType"] for each in nodes) == ["ml.m6i.xlarge", "ml.p5.48xlarge"]
        (worker,) = box.nodes("slipway-tiny-pod")
        assert worker.instance_id in {each["InstanceId"] for each in nodes}

        document = down(box, tmp_path, monkeypatch, capsys)

        assert {each for each in stacks.names(session) if each.startswith("slipway-")} == {
            "slipway-tiny-pod-checkpoints"
        }
        assert "checkpoints" in {each["kind"] for each in document["kept"]}
        assert box.clusters() == ()
        assert sagemaker.list_clusters()["ClusterSummaries"] == []
        assert session.client("fsx").describe_file_systems()["FileSystems"] == []


def down(box, root, monkeypatch, capsys):
    """What `slipway down FILE` says, as JSON."""
    monkeypatch.chdir(root)
    for name, value in box.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["slipway", "down", "plan.yaml", "--yes", "--json"])
    with pytest.raises(SystemExit) as left:
        main()
    said = capsys.readouterr()
    assert not left.value.code, said.err
    return json.loads(said.out)


class Aws:
    """An AWS with a few things in it."""

    region = REGION

    def instance_type(self, name):
        return {
            "m6i.xlarge": TypeFacts(vcpus=4, memory_mib=16384, gpus=0, efa=False, network_cards=1),
            "p5.48xlarge": TypeFacts(vcpus=192, memory_mib=2097152, gpus=8, efa=True, network_cards=32),
        }.get(name)

    def subnet(self, subnet_id):
        return SubnetFacts(zone="us-east-2a", gives_public_addresses=False) if subnet_id == "subnet-1" else None

    def admits_itself(self, group_id):
        return {"sg-efa": True, "sg-plain": False}.get(group_id)

    def has_object(self, bucket, key):
        return (bucket, key) == ("assets", "scripts/on_create.sh")


ACCOUNT = Account(aws=Aws(), script="    add_setting RequeueExit 75\n", file_systems=frozenset({"fs-1.fsx"}))


def request_with(worker=None, **whole):
    def group(name, type_, count, slurm, more):
        return {
            "InstanceGroupName": name,
            "InstanceType": type_,
            "InstanceCount": count,
            "ExecutionRole": "arn:aws:iam::123456789012:role/machines",
            "LifeCycleConfig": {"SourceS3Uri": "s3://assets/scripts", "OnCreate": "on_create.sh"},
            "SlurmConfig": slurm,
            **more,
        }

    compute = {"NodeType": "Compute", "PartitionNames": ["p5"]}
    return {
        "ClusterName": "pod",
        "InstanceGroups": [
            group("controller", "ml.m6i.xlarge", 1, {"NodeType": "Controller"}, {}),
            group("workers", "ml.p5.48xlarge", 2, compute, worker or {}),
        ],
        "VpcConfig": {"SecurityGroupIds": ["sg-efa"], "Subnets": ["subnet-1"]},
        "Orchestrator": {"Slurm": {"SlurmConfigStrategy": "Merge"}},
        **whole,
    }


def test_a_request_becomes_partitions_nodes_and_the_settings_of_the_script():
    spec = read(request_with(), ACCOUNT)
    (group,) = spec.groups
    assert [each.name for each in spec.queues] == ["p5"]
    assert group.node_names() == ("workers-1", "workers-2")
    assert (group.instance_type, group.gpus, group.capacity_type) == ("p5.48xlarge", 8, "ONDEMAND")
    assert spec.settings == (("RequeueExit", "75"),)


@pytest.mark.parametrize(
    "request_, told",
    [
        (request_with(NodeRecover="Automatic"), "NodeRecover: unknown key, did you mean NodeRecovery"),
        (request_with(NodeRecovery="Sometimes"), "NodeRecovery: got 'Sometimes'"),
        (request_with(ClusterName="a_b"), "ClusterName: got 'a_b'"),
        (request_with(VpcConfig={"SecurityGroupIds": ["sg-plain"], "Subnets": ["subnet-1"]}), "lets all traffic in"),
        (request_with(VpcConfig={"SecurityGroupIds": ["sg-efa"], "Subnets": ["subnet-2"]}), "no subnet 'subnet-2'"),
        (request_with({"InstanceType": "p5.48xlarge"}), "got 'p5.48xlarge', allowed: ml."),
        (request_with({"InstanceCount": "2"}), "got '2', allowed: a whole number"),
        (request_with({"SlurmConfig": {"NodeType": "Login"}}), "needs a Compute group"),
        (
            request_with({"LifeCycleConfig": {"SourceS3Uri": "s3://assets/old", "OnCreate": "on_create.sh"}}),
            "no object s3://assets/old/on_create.sh",
        ),
        (
            request_with({"InstanceStorageConfigs": [{"FsxLustreConfig": {"DnsName": "fs-2.fsx", "MountName": "x"}}]}),
            "no file system fs-2.fsx",
        ),
    ],
)
def test_a_broken_request_is_refused_with_the_reason(request_, told):
    with pytest.raises(RequestRefusedError, match=re.escape(told)):
        read(request_, ACCOUNT)
