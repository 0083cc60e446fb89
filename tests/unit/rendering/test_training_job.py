"""The CreateTrainingJob request is valid under the API's model; the entry script finds its rank among the nodes."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from launcher import plan_file
from launcher.aws.training_jobs import request_complaints
from launcher.model.errors import ImpossibleError
from launcher.planning.pin import pinned_plan
from launcher.targets.sagemaker_training.files import (
    ENTRY_FILE,
    ENTRY_SCRIPT,
    ENVIRONMENT_FILE,
    REQUEST_FILE,
    SageMakerTrainingFiles,
)
from tests.plans import ROOT, laid_over, request_of

EXAMPLES = sorted((ROOT / "examples" / "sagemaker").glob("*.yaml"))
JOBS = {"target": {"kind": "sagemaker-training"}}
PLAN = "arn:aws:sagemaker:us-east-2:123456789012:training-plan/december"


def request(bundle):
    return json.loads(bundle.file(REQUEST_FILE).text)


@pytest.fixture
def request_with(plan_of, bundle_of):
    """The request of a small plan with more keys laid over it."""
    return lambda **extra: request(bundle_of(plan_of(**laid_over(JOBS, extra))))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_training_job_request_of_every_example_passes_the_service_model(path, catalog, bundle_of):
    training_request = request(bundle_of(pinned_plan(plan_file.load(path), catalog)))
    assert request_complaints(training_request) == []
    assert training_request["AlgorithmSpecification"]["TrainingImage"].partition("/")[0].endswith("amazonaws.com")


@pytest.mark.parametrize(
    "member, value",
    [
        (("ResourceConfig", "InstanceType"), "ml.p5.47xlarge"),
        (("TrainingJobName",), "a_b"),
        (("TrainingJobName",), "a" * 64),
        (("AlgorithmSpecification", "ContainerEntrypoint"), ["x" * 257]),
        (("AlgorithmSpecification", "TrainingInputMode"), "Stream"),
        (("Environment",), {"A": "x" * 513}),
        (("Environment",), {f"A{number}": "" for number in range(101)}),
        (("ResourceConfig", "KeepAlivePeriodInSeconds"), 99_999),
        (("StoppingCondition", "MaxPendingTimeInSeconds"), 60),
        (("Tags",), [{"Key": "a*b", "Value": ""}]),
        (("Nonsense",), 1),
    ],
)
def test_request_refused_by_the_service_and_passed_by_botocore_is_refused(request_with, member, value):
    training_request = request_with()
    place = training_request
    for name in member[:-1]:
        place = place[name]
    place[member[-1]] = value
    complaints = request_complaints(training_request)
    assert complaints
    assert all(member[0] in complaint for complaint in complaints)


def test_managed_spot_sets_a_wait_time_and_on_demand_a_pending_time(request_with):
    spot = request_with(purchase={"option": "spot"})["StoppingCondition"]
    assert spot["MaxWaitTimeInSeconds"] >= spot["MaxRuntimeInSeconds"]
    assert "MaxPendingTimeInSeconds" not in spot
    plain = request_with(purchase={"wait_for_capacity_minutes": 45})["StoppingCondition"]
    assert plain["MaxPendingTimeInSeconds"] == 45 * 60
    assert "MaxWaitTimeInSeconds" not in plain


def test_time_limit_warm_pool_training_plan_and_vpc_reach_the_request(request_with):
    limited = request_with(run={"command": ["true"], "time_limit_h": 3})
    assert limited["StoppingCondition"]["MaxRuntimeInSeconds"] == 3 * 3600
    assert "KeepAlivePeriodInSeconds" not in limited["ResourceConfig"]
    assert request_with(guardrails={"idle_minutes": 20})["ResourceConfig"]["KeepAlivePeriodInSeconds"] == 1200
    bought = {"option": "training-plan", "training_plan": {"arn": PLAN, "count": 2}}
    assert request_with(purchase=bought)["ResourceConfig"]["TrainingPlanArn"] == PLAN
    network = {"vpc_id": "vpc-0123456789abcdef0", "subnet_ids": ["subnet-0123456789abcdef0"]}
    assert request_with(network=network)["VpcConfig"]["Subnets"] == network["subnet_ids"]
    assert request_with(security={"encrypt_traffic": True})["EnableInterContainerTrafficEncryption"] is True
    assert "EnableInterContainerTrafficEncryption" not in limited
    assert "VpcConfig" not in limited


def test_closed_job_runs_in_the_subnet_of_its_new_network(request_with):
    closed = request_with(network={"nat": "none", "private": True})["VpcConfig"]
    assert closed == {"SecurityGroupIds": ["sg-node0security0000"], "Subnets": ["subnet-private0subnet000"]}
    assert "VpcConfig" not in request_with(network={"nat": "none"})


def test_kms_key_of_a_type_with_local_disks_is_not_a_volume_key(request_with):
    key = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    training_request = request_with(storage={"kms_key_arn": key})
    assert training_request["OutputDataConfig"]["KmsKeyId"] == key
    assert "VolumeKmsKeyId" not in training_request["ResourceConfig"]


@pytest.mark.parametrize(
    "extra, code, path",
    [
        ({"target": {"instance_type": "m5.8xlarge"}}, "not-for-training-jobs", "target.instance_type"),
        ({"run": {"command": ["true"], "image": "docker.io/team/image:1"}}, "image-not-in-ecr", "run.image"),
        ({"target": {"instance_type": "c5.xlarge", "nodes": 1}}, "image-missing", "run.image"),
        ({"run": {"command": ["true"], "time_limit_h": 700}}, "training-job-time", "run.time_limit_h"),
        ({"guardrails": {"idle_minutes": 90}}, "warm-pool-time", "guardrails.idle_minutes"),
        (
            {"guardrails": {"idle_minutes": 9}, "purchase": {"option": "spot"}},
            "warm-pool-spot",
            "guardrails.idle_minutes",
        ),
        ({"purchase": {"option": "capacity-block"}}, "hyperpod-ec2-capacity", "purchase.reservation"),
        ({"storage": {"lustre_gib": 1200}}, "training-job-unused", "storage.lustre_gib"),
        ({"storage": {"login_nodes": 1}}, "training-job-unused", "storage.login_nodes"),
        ({"checkpoint": {"mode": "own", "uri": "/fsx/run"}}, "training-job-mount", "checkpoint.uri"),
        ({"network": {"endpoints": ["logs"]}}, "training-job-network", "network.endpoints"),
    ],
)
def test_impossible_training_job_is_refused_with_the_plan_key(catalog, extra, code, path):
    base = {
        "slipway": 1,
        "name": "small",
        "workload": {"train": {"model": {"params_b": 1}, "hours": 2}},
        "target": {"kind": "sagemaker-training", "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 1},
        "purchase": {"option": "on-demand"},
    }
    try:
        plan = pinned_plan(request_of(laid_over(base, extra)), catalog)
    except ImpossibleError as refused:
        findings = refused.findings
    else:
        findings = SageMakerTrainingFiles().findings(plan, catalog.instance_types)
    assert (code, path) in [(finding.code, finding.path) for finding in findings]
    assert all(finding.hint for finding in findings if finding.code == code)


@pytest.fixture
def entry():
    """The entry script as a module."""
    spec = importlib.util.spec_from_file_location("entry", ROOT / ENTRY_SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_training_job_hosts_are_ranked_by_number(entry):
    hosts = sorted(f"algo-{number}" for number in range(1, 13))
    assert hosts[1] == "algo-10"
    environment = {}
    entry.write_placement({"hosts": hosts, "current_host": "algo-2", "network_interface_name": "eth0"}, environment)
    assert environment["JOB_COMPLETION_INDEX"] == "1"
    assert environment["SLIPWAY_MEETING"] == "algo-1"
    assert environment["SLIPWAY_PARTS"] == "12"


class Container:
    """The folders of a container, with a job folder whose start script is the test's own."""

    def __init__(self, folder: Path, start: str) -> None:
        self.ml, self.root = folder / "opt" / "ml", folder / "tmp" / "slipway"
        channel, config = self.ml / "input" / "data" / "slipway", self.ml / "input" / "config"
        for path in (channel, config, folder / "job" / "kubernetes"):
            path.mkdir(parents=True)
        (folder / "job" / "kubernetes" / "start.py").write_text(start)
        (folder / "job" / "fetch_work.py").write_text("")
        with tarfile.open(channel / "job.tar.gz", "w:gz") as archive:
            archive.add(folder / "job", ".")
        (channel / "environment.json").write_text(json.dumps({"SLIPWAY_ROOT": str(self.root)}))
        script = (ROOT / ENTRY_SCRIPT).read_text()
        (channel / "entry.py").write_text(script.replace("PAUSE_S = 2.0", "PAUSE_S = 0.01"))
        hosts = {"hosts": ["algo-1"], "current_host": "algo-1", "network_interface_name": "lo"}
        (config / "resourceconfig.json").write_text(json.dumps(hosts))
        self.process = subprocess.Popen(
            [sys.executable, channel / "entry.py"], env={"PATH": os.environ["PATH"]}, stderr=subprocess.DEVNULL
        )

    @property
    def failure(self) -> str:
        path = self.ml / "output" / "failure"
        return path.read_text() if path.is_file() else ""


def test_failed_attempt_is_retried_and_the_last_failure_is_written_for_sagemaker(tmp_path):
    start = """
import json, pathlib, sys
count = pathlib.Path("count")
number = int(count.read_text()) + 1 if count.is_file() else 1
count.write_text(str(number))
with open("events.jsonl", "a") as events:
    print(json.dumps({"event": "failed", "reason": f"attempt {number} went wrong", "exit_code": 1}), file=events)
sys.exit(1 if number == 1 else 79)
"""
    container = Container(tmp_path, start)
    assert container.process.wait(60) == 79
    assert container.failure == "attempt 2 went wrong (exit code 1)\n"
    assert (container.root / "job" / "count").read_text() == "2"


@pytest.mark.parametrize(
    "start, code, words",
    [
        ("raise OSError(28, 'No space left on device', '/opt/ml/checkpoints')", 1, "No space left on device"),
        (
            "import os, sys\nprint('x' * 9999, 'of memory', file=sys.stderr, flush=True)\nos.kill(os.getpid(), 9)",
            137,
            "of memory",
        ),
        # A process that it leaves behind holds its standard error.
        ("import os, sys, time\nif os.fork():\n    sys.exit('no driver')\ntime.sleep(20)", 1, "no driver"),
    ],
    ids=["full-disk", "killed", "left-a-process"],
)
def test_agent_that_cannot_start_fails_the_job_after_three_tries_with_last_lines(tmp_path, start, code, words):
    count = "open('count', 'a').write('x')\n"
    container = Container(tmp_path, count + start)
    assert container.process.wait(60) == code
    assert (container.root / "job" / "count").read_text() == "xxx"
    assert container.failure.startswith(f"the agent could not start, 3 times in a row (exit code {code}): ")
    assert words in container.failure


def test_process_that_an_ended_agent_left_can_write_beside_the_next_one(tmp_path):
    start = """
import os, pathlib, sys, time
if pathlib.Path("events.jsonl").exists():
    for _ in range(100):
        time.sleep(0.1)
        if pathlib.Path("written").exists():
            sys.exit(0)
    sys.exit(79)
pathlib.Path("events.jsonl").write_text("{}")
if os.fork():
    sys.exit(1)
for _ in range(5):
    time.sleep(1)
    print("a line", file=sys.stderr, flush=True)
pathlib.Path("written").touch()
"""
    assert Container(tmp_path, start).process.wait(60) == 0


def test_agent_that_ends_after_an_event_is_started_again(tmp_path):
    start = """
import pathlib, sys
with open("count", "a") as file:
    file.write("x")
if pathlib.Path("count").stat().st_size in (2, 5):
    print("{}", file=open("events-1.jsonl", "a"))
sys.exit(1)
"""
    container = Container(tmp_path, start)
    assert container.process.wait(60) == 1
    assert (container.root / "job" / "count").read_text() == "x" * 8


def test_sigterm_reaches_the_agent_and_no_further_attempt_starts(tmp_path):
    start = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path("saved").write_text("1"), sys.exit(75)))
pathlib.Path("ready").write_text("1")
time.sleep(60)
"""
    container = Container(tmp_path, start)
    ready, end = container.root / "job" / "ready", time.monotonic() + 30
    while not ready.is_file() and time.monotonic() < end:
        time.sleep(0.05)
    container.process.send_signal(signal.SIGTERM)
    assert container.process.wait(30) == 75
    assert (container.root / "job" / "saved").is_file()
    assert container.failure == ""


def test_job_archive_with_a_path_outside_the_folder_is_refused(tmp_path, entry):
    archive, outside = tmp_path / "job.tar.gz", tmp_path / "x"
    outside.write_text("")
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(outside, "../outside")
    with pytest.raises(ValueError, match="outside the job folder"):
        entry.unpack(archive, tmp_path / "folder" / "job")


def test_input_channel_contains_entry_script_environment_and_job_document(plan_of, bundle_of):
    bundle = bundle_of(plan_of(**JOBS))
    document = json.loads(bundle.file(ENVIRONMENT_FILE).text)
    assert document["SLIPWAY_OPERATOR"] == "job"
    assert not {"SLIPWAY_PARTS", "SLIPWAY_MEETING"} & set(document)
    assert bundle.file(ENTRY_FILE).text == (ROOT / ENTRY_SCRIPT).read_text()
    assert json.loads(bundle.file("job.json").text)["grace_s"] == 120.0
