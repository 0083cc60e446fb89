"""The files of a HyperPod cluster with EKS, as they are shown."""

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


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def bundle(request, catalog):
    plan = pinned_plan(plan_file.load(request.param), catalog)
    job = JobSettings(run="not-submitted", checkpoint_interval_s=600.0)
    return plan, render(plan, instances=catalog.instance_types, names=symbolic_names(plan), job=job)


def test_golden(bundle, golden):
    plan, made = bundle
    for each in made.files:
        if each.path in (
            "cluster.yaml",
            "hyperpod.yaml",
            "chart-values.yaml",
            "governance.yaml",
        ) or each.path.startswith("lifecycle/"):
            golden(f"rendering/hyperpod-eks/{plan.name}/{each.path}", each.text.replace(plan.digest, "<digest>"))


def test_the_chart_brings_the_plugins_so_that_the_job_does_not(bundle):
    _, made = bundle
    assert not {"kubernetes/plugins.yaml", "kubernetes/device-plugin.yaml"} & {each.path for each in made.files}


def test_the_job_selects_the_nodes_that_are_made(bundle):
    plan, made = bundle
    nodes = yaml.safe_load(made.file("hyperpod.yaml").text)
    (workers,) = (each for each in nodes["InstanceGroups"] if each["InstanceGroupName"] == "workers")
    documents = yaml.safe_load_all(made.file("kubernetes/job.yaml").text)
    (job,) = (each for each in documents if each["kind"] == "PyTorchJob")
    pod = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    assert pod["nodeSelector"]["node.kubernetes.io/instance-type"] == workers["InstanceType"]
    assert (workers["InstanceType"], workers["InstanceCount"]) == (f"ml.{plan.place.instance_type}", plan.place.nodes)


def test_the_script_on_a_node_is_shell_that_says_where_it_is(bundle, tmp_path):
    _, made = bundle
    script = tmp_path / "on_create.sh"
    script.write_text(made.file("lifecycle/on_create.sh").text)
    done = subprocess.run(
        ["bash", str(script)],
        check=False,
        env={"SLIPWAY_ROOT": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "is a node of" in (tmp_path / "var/log/provision/provisioning.log").read_text()
