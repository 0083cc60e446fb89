"""HyperPod with Slurm: refusals, rendered files, and its lifecycle script run below a folder."""

import json
import shutil
import subprocess

import botocore.session
import pytest
import yaml
from botocore.validate import ParamValidator

from launcher import plan_file
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.planning.pin import pinned_plan
from launcher.targets.hyperpod_slurm.files import HyperPodSlurmFiles, lifecycle_files
from launcher.targets.hyperpod_slurm.target import HyperPodSlurm
from tests.checks import some
from tests.plans import ROOT

EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples" / "hyperpod").glob("*.yaml"))}
BASH = shutil.which("bash")
ARN = "arn:aws:sagemaker:us-east-2:123456789012:training-plan/p5"
POD = {"kind": "hyperpod-slurm"}
PLANNED = {"option": "training-plan", "training_plan": {"arn": ARN, "count": 2}}


@pytest.fixture(params=sorted(EXAMPLES), scope="module")
def hyperpod_plan(request, catalog):
    return pinned_plan(plan_file.load(EXAMPLES[request.param]), catalog)


def messages_by_code(plan, catalog):
    return {
        finding.code: f"{finding.message} {finding.hint}"
        for finding in HyperPodSlurmFiles().findings(plan, catalog.instance_types)
    }


class TestRefusals:
    @pytest.mark.parametrize(
        "extra, code, alternative",
        [
            ({"purchase": {"option": "capacity-block"}}, "hyperpod-ec2-capacity", "purchase.training_plan"),
            (
                {"purchase": {"reservation": {"id": "cr-0123456789abcdef0"}}},
                "hyperpod-ec2-capacity",
                "target.kind to parallelcluster",
            ),
            ({"purchase": {"option": "reserved"}}, "option-without-nodes", "training-plan"),
            (
                {"purchase": {"option": "savings-plan", "plan_kind": "compute", "term_years": 1}},
                "savings-plan-kind",
                "sagemaker",
            ),
            ({"purchase": {"option": "training-plan"}}, "plan-without-arn", "purchase.training_plan.arn"),
            (
                {"purchase": {**PLANNED, "training_plan": {"arn": ARN.replace("us-east-2", "us-west-2")}}},
                "training-plan-region",
                "target.region to us-west-2",
            ),
            (
                {"purchase": {**PLANNED, "training_plan": {"arn": ARN}}, "target": {"nodes": 3}},
                "training-plan-size",
                "4",
            ),
            ({"purchase": {**PLANNED, "training_plan": {"arn": ARN, "count": 6}}}, "training-plan-size", "1, 2, 4, 8"),
            ({"purchase": PLANNED, "target": {"nodes": 4}}, "training-plan-count", "has 2"),
            (
                {"purchase": PLANNED, "target": {"instance_type": "g5.48xlarge"}},
                "no-training-plan",
                "not available in training plans",
            ),
            ({"target": {"instance_type": "trn1.2xlarge", "nodes": 1}}, "not-on-hyperpod", "trn1.32xlarge"),
            ({"target": {"fallback_types": ["p5en.48xlarge"]}}, "hyperpod-fallback", "target.instance_type"),
            ({"target": {"placement_group": True}}, "hyperpod-placement", "auto"),
            ({"run": {"image": "team/trainer:1"}}, "hyperpod-container", "target.ami"),
            ({"storage": {"head_node": "c7i.xlarge"}}, "not-on-hyperpod", "m6i.xlarge"),
            ({"guardrails": {"notify": ["arn:aws:s3:::b"]}}, "notify-unreachable", "email address"),
        ],
    )
    def test_hyperpod_refusal_names_the_alternative(self, plan_of, catalog, extra, code, alternative):
        messages = messages_by_code(plan_of(**{**extra, "target": {**POD, **extra.get("target", {})}}), catalog)
        assert set(messages) == {code}
        assert alternative in messages[code]

    def test_inferentia_on_hyperpod_is_referred_to_sagemaker_endpoints(self, plan_of, catalog):
        plan = plan_of(workload={"train": None}, target={**POD, "instance_type": "inf2.48xlarge", "nodes": 1})
        assert "sagemaker-endpoint" in messages_by_code(plan, catalog)["not-on-hyperpod"]

    def test_training_plan_arn_of_another_service_is_refused(self, plan_of):
        with pytest.raises(UnreadableInputError) as refusal:
            plan_of(target=POD, purchase={"training_plan": {"arn": "arn:aws:ec2:us-east-2:123456789012:instance/i-1"}})
        assert "the ARN of a training plan" in f"{refusal.value.message} {refusal.value.findings}"

    def test_plan_impossible_on_hyperpod_is_not_rendered(self, plan_of, bundle_of):
        with pytest.raises(ImpossibleError):
            bundle_of(plan_of(target={**POD, "placement_group": True}))

    def test_possible_hyperpod_plan_has_no_findings(self, hyperpod_plan, catalog):
        assert messages_by_code(hyperpod_plan, catalog) == {}


def test_unconfirmed_hyperpod_features_are_remarked(plan_of, catalog):
    plan = plan_of(target=POD, purchase={"option": "spot"})
    assert messages_by_code(plan, catalog) == {}
    codes = [remark.code for remark in HyperPodSlurm().remarks(plan.request, plan.place, catalog.instance_types)]
    assert codes == ["hyperpod-spot-unconfirmed", "hyperpod-shared-folder", "hyperpod-health-checks"]


@pytest.mark.parametrize("nodes, checks", [(1, ["InstanceStress"]), (2, ["InstanceStress", "InstanceConnectivity"])])
def test_one_hyperpod_worker_has_no_connectivity_check(plan_of, bundle_of, nodes, checks):
    plan = plan_of(target={**POD, "nodes": nodes}, purchase={"option": "on-demand"})
    request = yaml.safe_load(bundle_of(plan).file("cluster.yaml").text)
    assert request["InstanceGroups"][-1]["OnStartDeepHealthChecks"] == checks


class TestFiles:
    def test_hyperpod_plan_renders_request_lifecycle_scripts_and_job(self, hyperpod_plan, bundle_of):
        bundle = bundle_of(hyperpod_plan)
        lifecycle = ["lifecycle/on_create.sh", "lifecycle/node.sh", "lifecycle/metrics.py"]
        assert [file.path for file in bundle.files[:4]] == ["cluster.yaml", *lifecycle]
        assert {"job.sbatch", "job.json"} <= {file.path for file in bundle.files}
        request = yaml.safe_load(bundle.file("cluster.yaml").text)
        assert request["InstanceGroups"][-1]["InstanceCount"] == hyperpod_plan.place.nodes

    def test_hyperpod_job_resumes_automatically_and_leaves_before_the_training_plan_ends(self, bundle_of, catalog):
        bundle = bundle_of(pinned_plan(plan_file.load(EXAMPLES["p5-training-plan"]), catalog))
        assert "[[ -d /opt/sagemaker_cluster ]]" in bundle.file("job.sbatch").text
        assert "--kill-on-bad-exit=0 --auto-resume=1)" in bundle.file("job.sbatch").text
        job = json.loads(bundle.file("job.json").text)
        assert (job["ends_at"], job["leave_before_s"]) == ("2026-12-08T11:30:00+00:00", 75 * 60)

    def test_parallelcluster_job_contains_no_sagemaker_words(self, plan_of, bundle_of):
        assert "sagemaker" not in bundle_of(plan_of()).file("job.sbatch").text

    def test_rendered_hyperpod_plan_equals_golden_files(self, golden, hyperpod_plan, bundle_of):
        bundle = bundle_of(hyperpod_plan)
        for path in ("cluster.yaml", "lifecycle/on_create.sh"):
            text = bundle.file(path).text.replace(hyperpod_plan.digest, "<digest>")
            like = f"rendering/hyperpod/p5-plan/{path}" if path.endswith(".sh") else None
            golden(f"rendering/hyperpod/{hyperpod_plan.name}/{path}", text, like)

    def test_cluster_request_passes_the_botocore_model_of_create_cluster(self, hyperpod_plan, bundle_of):
        """By botocore's own model of CreateCluster: names, types, patterns and enumerations' types."""
        model = botocore.session.get_session().get_service_model("sagemaker")
        request = yaml.safe_load(bundle_of(hyperpod_plan).file("cluster.yaml").text)
        shape = model.operation_model("CreateCluster").input_shape
        assert ParamValidator().validate(request, shape).generate_report() == ""
        group = model.shape_for("ClusterInstanceGroupSpecification").members
        for instance_group in request["InstanceGroups"]:
            assert instance_group["InstanceType"] in group["InstanceType"].enum
            assert set(instance_group.get("OnStartDeepHealthChecks", [])) <= set(
                group["OnStartDeepHealthChecks"].member.enum
            )


class TestScript:
    """Each machine's addresses are those of the host that runs the test: the resource file is written around them."""

    OTHER, CONTROLLER = "10.0.0.99", "10.0.0.1"

    @pytest.fixture
    def machine(self, tmp_path, catalog):
        """A folder that looks like a machine of a group: what HyperPod leaves there, and the devices of its type."""

        def make(plan, group):
            facts = catalog.instance_types[plan.place.instance_type]
            root, scripts = tmp_path / "root", tmp_path / "scripts"
            scripts.mkdir()
            for name, text in lifecycle_files(plan, catalog.instance_types).items():
                (scripts / name).write_text(text, encoding="utf-8")
            host_ip = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()[0]
            address = {"controller": self.CONTROLLER, "login": self.OTHER, "workers": self.OTHER, group: host_ip}
            listed = [
                {"Name": name, "Instances": [{"CustomerIpAddress": ip, "InstanceId": "i-1"}]}
                for name, ip in address.items()
            ]
            listed.append({"Name": "workers-that-are-yet-to-come", "Instances": None})
            write(root, "opt/ml/config/resource_config.json", json.dumps({"InstanceGroups": listed}))
            write(root, "opt/slurm/etc/slurm.conf", f"ClusterName=x\nSlurmctldHost=ip({address['controller']})\n")
            write(root, "etc/systemd/system/slurmd.service", "ExecStart=/opt/slurm/sbin/slurmd -D ${SLURMD_OPTIONS}\n")
            write(root, "proc/mounts", "10.0.0.7@tcp:/abc /fsx lustre rw 0 0\n/dev/md0 /opt/dlami/nvme ext4 rw 0 0\n")
            chips = "neuron" if facts.family.startswith("trn") else "nvidia"
            for index in range(facts.accelerators):
                write(root, f"dev/{chips}{index}", "")
            write(root, "dev/nvidiactl", "")
            # HGX boards with NVLink 5 show devices of other drivers too: a p6-b200 ten, of which eight are EFA.
            others = 2 if plan.place.instance_type.startswith("p6-b200") else 0
            for index in range(facts.efa_interfaces + others):
                driver = write(root, f"sys/bus/drivers/{'efa' if index < facts.efa_interfaces else 'mlx5_core'}/x", "")
                device = root / f"sys/class/infiniband/rdmap{index}/device"
                device.mkdir(parents=True)
                (device / "driver").symlink_to(driver.parent)
            return root

        return make

    @pytest.fixture
    def start(self, tmp_path):
        def run(root, **more):
            environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "SLIPWAY_DRY_RUN": "1", "SLIPWAY_ROOT": str(root)}
            environ |= {"SLIPWAY_TRIES": "1", **more}
            script = tmp_path / "scripts/on_create.sh"
            return subprocess.run([BASH, script], env=environ, capture_output=True, text=True, check=False)

        return run

    @pytest.mark.long
    def test_lifecycle_scripts_pass_shellcheck(self, hyperpod_plan, catalog, shellcheck, tmp_path):
        for name, text in some(lifecycle_files(hyperpod_plan, catalog.instance_types).items()):
            if name.endswith(".sh"):
                path = tmp_path / name
                path.write_text(text, encoding="utf-8")
                assert shellcheck(path) == ""

    def test_worker_lifecycle_checks_devices_and_joins_the_controller(self, hyperpod_plan, machine, start):
        root = machine(hyperpod_plan, "workers")
        answer = start(root)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        lines = answer.stdout.splitlines()
        assert lines[-1].endswith("workers is ready")
        assert "+ systemctl enable --now slurmd" in lines
        assert "+ systemctl enable --now slipway-metrics.service" in lines
        assert "+ systemctl disable --now slurmctld" in lines
        unit = (root / "etc/systemd/system/slurmd.service").read_text()
        assert unit == f"ExecStart=/opt/slurm/sbin/slurmd -D --conf-server {self.CONTROLLER}\n"
        assert (root / "scratch").resolve() == root / "opt/dlami/nvme/scratch"
        assert (root / "fsx/ubuntu").is_dir()
        assert (root / "opt/slipway/metrics.py").is_file()
        assert (root / "var/log/provision/provisioning.log").read_text() == answer.stdout

    def test_controller_lifecycle_sets_requeue_exit_and_reports_jobs(self, hyperpod_plan, machine, start):
        root = machine(hyperpod_plan, "controller")
        for _ in range(2):
            answer = start(root)
            assert answer.returncode == 0, answer.stdout + answer.stderr
        settings = (root / "opt/slurm/etc/slurm.conf").read_text().splitlines()
        assert settings[2:] == ["JobRequeue=1", "RequeueExit=75"]
        assert "+ systemctl enable --now slurmctld" in answer.stdout.splitlines()
        assert "+ systemctl enable --now slurmd" not in answer.stdout.splitlines()
        job = root / "opt/slipway/jobs.sh"
        assert subprocess.run([BASH, "-n", job], check=False).returncode == 0
        assert f"--dimensions Cluster={hyperpod_plan.cluster_name} " in job.read_text()
        assert 'export PATH="/opt/slurm/bin:$PATH"' in job.read_text()

    def test_slurm_folder_with_a_release_number_is_found(self, hyperpod_plan, machine, start):
        root = machine(hyperpod_plan, "controller")
        (root / "opt/slurm").rename(root / "opt/slurm-24.11")
        assert start(root).returncode == 0
        assert "RequeueExit=75" in (root / "opt/slurm-24.11/etc/slurm.conf").read_text()
        assert "/opt/slurm-24.11/bin:" in (root / "opt/slipway/jobs.sh").read_text()

    def test_controller_without_slurm_configuration_is_refused(self, hyperpod_plan, machine, start):
        root = machine(hyperpod_plan, "controller")
        (root / "opt/slurm/etc/slurm.conf").write_text("ClusterName=x\n")
        answer = start(root)
        assert (answer.returncode, "names the controller" in answer.stdout) == (1, True)

    def test_reporter_publishes_the_number_of_jobs_in_the_queue(self, hyperpod_plan, machine, start, tmp_path):
        start(machine(hyperpod_plan, "controller"))
        programs = tmp_path / "bin"
        write(programs, "squeue", "#!/bin/bash\nprintf '7\\n8\\n'\n").chmod(0o755)
        write(programs, "aws", '#!/bin/bash\necho "$*"\nkill "$PPID"\n').chmod(0o755)
        answer = subprocess.run(
            [BASH, tmp_path / "root/opt/slipway/jobs.sh"],
            env={"PATH": f"{programs}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.stdout.endswith("--unit Count --value 2\n")

    def test_login_node_without_devices_is_ready(self, catalog, machine, start):
        root = machine(pinned_plan(plan_file.load(EXAMPLES["trn2-on-demand"]), catalog), "login")
        shutil.rmtree(root / "dev")
        answer = start(root)
        assert (answer.returncode, answer.stdout.splitlines()[-1]) == (0, "slipway: trn2-pod: login is ready")

    def test_only_devices_of_the_efa_driver_are_counted(self, plan_of, catalog, machine, start):
        """A p6-b200 shows ten InfiniBand devices (awsome-distributed-ai, p6-b200 notes): two are the board's own."""
        place = {**POD, "instance_type": "p6-b200.48xlarge", "nodes": 2}
        root = machine(plan_of(target=place, purchase={"option": "on-demand"}), "workers")
        assert len(list((root / "sys/class/infiniband").iterdir())) == 10
        answer = start(root)
        assert (answer.returncode, ": 8 EFA interfaces" in answer.stdout) == (0, True), answer.stdout

    @pytest.mark.parametrize(
        "gone, message",
        [
            ("sys/class/infiniband/rdmap0", "an EFA interface is missing"),
            ("dev/nvidia3", "an accelerator is missing"),
            ("proc/mounts", "/fsx is not mounted"),
            ("opt/ml/config/resource_config.json", "No such file"),
        ],
    )
    def test_worker_with_a_missing_device_or_mount_is_refused(self, catalog, machine, start, gone, message):
        root = machine(pinned_plan(plan_file.load(EXAMPLES["p5-training-plan"]), catalog), "workers")
        shutil.rmtree(root / gone) if (root / gone).is_dir() else (root / gone).unlink()
        answer = start(root)
        assert answer.returncode == 1
        assert message in answer.stdout
        assert "is ready" not in answer.stdout

    def test_failed_lifecycle_script_ends_after_its_last_line_is_in_the_log(self, hyperpod_plan, machine, slow_tee):
        root = machine(hyperpod_plan, "workers")
        (root / "proc/mounts").unlink()
        environ = {"PATH": f"{slow_tee}:/usr/bin:/bin", "SLIPWAY_DRY_RUN": "1", "SLIPWAY_ROOT": str(root)}
        environ["SLIPWAY_TRIES"] = "1"
        script = root.parent / "scripts/on_create.sh"
        done = subprocess.run([BASH, script], env=environ, stdout=subprocess.DEVNULL, check=False)
        assert done.returncode == 1
        assert "/fsx is not mounted" in (root / "var/log/provision/provisioning.log").read_text().splitlines()[-1]

    def test_worker_without_nvme_uses_the_root_volume_with_a_warning(self, hyperpod_plan, machine, start):
        root = machine(hyperpod_plan, "workers")
        write(root, "proc/mounts", "10.0.0.7@tcp:/abc /fsx lustre rw 0 0\n")
        answer = start(root)
        assert answer.returncode == 0
        assert "warning: no NVMe disk" in answer.stdout
        assert (root / "scratch").is_dir()

    def test_dry_run_of_lifecycle_script_without_root_folder_is_refused(self, hyperpod_plan, machine, start):
        machine(hyperpod_plan, "workers")
        assert start("", SLIPWAY_ROOT="").returncode == 2


def write(root, path, text):
    """A file below a folder."""
    whole = root / path
    whole.parent.mkdir(parents=True, exist_ok=True)
    whole.write_text(text, encoding="utf-8")
    return whole
