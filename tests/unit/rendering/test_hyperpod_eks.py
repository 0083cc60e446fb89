"""The rendered files of a HyperPod cluster with EKS."""

import shutil
import subprocess

import pytest
import yaml

from launcher import plan_file
from launcher.planning.pin import pinned_plan
from launcher.rendering.batch import JobSettings
from launcher.rendering.bundle import render
from launcher.rendering.names import symbolic_names
from tests.plans import ROOT

FILES = sorted((ROOT / "examples" / "hyperpod-eks").glob("*.yaml"))


@pytest.fixture(params=FILES, ids=lambda path: path.stem, scope="module")
def example_bundle(request, catalog):
    plan = pinned_plan(plan_file.load(request.param), catalog)
    job = JobSettings(run="not-submitted", checkpoint_interval_s=600.0)
    return plan, render(plan, instances=catalog.instance_types, names=symbolic_names(plan), job=job)


def test_rendered_hyperpod_eks_plan_equals_golden_files(example_bundle, golden):
    plan, bundle = example_bundle
    for file in bundle.files:
        if file.path in (
            "cluster.yaml",
            "hyperpod.yaml",
            "chart-values.yaml",
            "governance.yaml",
        ) or file.path.startswith("lifecycle/"):
            golden(f"rendering/hyperpod-eks/{plan.name}/{file.path}", file.text.replace(plan.digest, "<digest>"))


def test_job_bundle_contains_no_plugins_of_the_chart(example_bundle):
    _, bundle = example_bundle
    assert not {"kubernetes/plugins.yaml", "kubernetes/device-plugin.yaml"} & {file.path for file in bundle.files}


def test_job_selects_the_instance_type_of_the_worker_group(example_bundle):
    plan, bundle = example_bundle
    nodes = yaml.safe_load(bundle.file("hyperpod.yaml").text)
    (workers,) = (group for group in nodes["InstanceGroups"] if group["InstanceGroupName"] == "workers")
    documents = yaml.safe_load_all(bundle.file("kubernetes/job.yaml").text)
    (job,) = (document for document in documents if document["kind"] == "PyTorchJob")
    pod = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    assert pod["nodeSelector"]["node.kubernetes.io/instance-type"] == workers["InstanceType"]
    assert (workers["InstanceType"], workers["InstanceCount"]) == (f"ml.{plan.place.instance_type}", plan.place.nodes)


@pytest.fixture
def on_node(example_bundle, tmp_path):
    """Runs a script of a node in a folder that stands for it; what it printed. `mount` is a stand-in."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "mount").write_text(f'#!/bin/bash\necho "bind $2 rw" >>{tmp_path}/bound\n')
    (programs / "mount").chmod(0o755)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/mounts").write_text("/dev/md0 /opt/dlami/nvme ext4 rw 0 0\n")
    (tmp_path / "var/lib/kubelet").mkdir(parents=True)
    (tmp_path / "var/lib/kubelet/kubeconfig").write_text("who I am")
    variables = {"SLIPWAY_ROOT": str(tmp_path), "PATH": f"{programs}:/usr/bin:/bin", "SLIPWAY_TRIES": "1"}

    def run(script, **more):
        done = subprocess.run(["bash", script], check=False, env={**variables, **more}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    (tmp_path / "on_create.sh").write_text(example_bundle[1].file("lifecycle/on_create.sh").text)
    return run


def test_node_without_disks_only_writes_a_log_line(on_node, tmp_path):
    output = on_node(tmp_path / "on_create.sh")
    assert "is a node of" in (tmp_path / "var/log/provision/provisioning.log").read_text()
    assert "systemctl" not in output


@pytest.mark.usefixtures("on_node")
def test_failed_node_script_ends_after_its_last_line_is_in_the_log(tmp_path, slow_tee):
    (tmp_path / "dev/disk/by-id").mkdir(parents=True)
    (tmp_path / "dev/disk/by-id/x-NVMe_Instance_Storage_1").touch()
    (slow_tee / "systemctl").write_text("#!/bin/bash\necho 'Failed to stop kubelet.service' >&2\n[[ $1 != stop ]]\n")
    (slow_tee / "systemctl").chmod(0o755)
    environ = {"SLIPWAY_ROOT": str(tmp_path), "PATH": f"{slow_tee}:/usr/bin:/bin", "SLIPWAY_TRIES": "1"}
    script = tmp_path / "on_create.sh"
    done = subprocess.run(["bash", script], check=False, env=environ, stdout=subprocess.DEVNULL)
    assert done.returncode == 1
    log = (tmp_path / "var/log/provision/provisioning.log").read_text()
    assert log.splitlines()[-1] == "Failed to stop kubelet.service"


@pytest.mark.parametrize(
    "mounted, used",
    [
        (["opt/dlami/nvme"], "opt/dlami/nvme"),
        (["opt/sagemaker"], "opt/sagemaker"),
        (["opt/sagemaker", "opt/dlami/nvme"], "opt/dlami/nvme"),
    ],
)
def test_node_disks_hold_images_and_pod_folders_also_after_a_reboot(on_node, tmp_path, shellcheck, mounted, used):
    (tmp_path / "proc/mounts").write_text("".join(f"/dev/dm-0 /{path} ext4 rw 0 0\n" for path in mounted))
    (tmp_path / "dev/disk/by-id").mkdir(parents=True)
    (tmp_path / "dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_AWS1").touch()
    lines = on_node(tmp_path / "on_create.sh", SLIPWAY_DRY_RUN="1").splitlines()
    began = [line for line in lines if line.startswith("+")]
    assert began == [
        "+ systemctl stop kubelet",
        "+ systemctl stop containerd",
        f"+ bash {tmp_path}/opt/slipway/node-disks.sh",
        "+ systemctl daemon-reload",
        "+ systemctl enable slipway-node-disks.service",
        "+ systemctl start containerd",
        "+ systemctl start kubelet",
    ]
    assert (
        "Before=containerd.service kubelet.service"
        in (tmp_path / "etc/systemd/system/slipway-node-disks.service").read_text()
    )
    disk, script = tmp_path / used / "slipway", tmp_path / "opt/slipway/node-disks.sh"
    for _ in ("made", "the reboot emptied the disks"):
        shutil.rmtree(disk, ignore_errors=True)
        on_node(script)
        assert (disk / "kubelet/kubeconfig").read_text() == "who I am"
    bound = [f"bind {disk}/{name} rw" for name in ("containerd", "kubelet")]
    assert (tmp_path / "bound").read_text().splitlines() == bound * 2
    assert [shellcheck(path) for path in (script, tmp_path / "on_create.sh")] == ["", ""]
    (tmp_path / "proc/mounts").write_text("")
    assert "warning: no NVMe disk is mounted" in on_node(script)
