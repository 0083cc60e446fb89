"""Each of the five mistakes that disable EFA is detected, and no example makes one."""

import copy
import json
import shutil

import pytest
import yaml

from launcher import plan_file
from launcher.catalog.assets import asset
from launcher.model.errors import ImpossibleError
from launcher.planning.pin import pinned_plan
from launcher.rendering import engine
from launcher.rendering.bundle import render
from launcher.rendering.device_plugins import PLUGINS_FILE, plugin_files
from launcher.rendering.efa_rules import (
    chart_findings,
    document_findings,
    plugin_findings,
    pod_templates,
    stack_findings,
)
from launcher.rendering.names import symbolic_names
from launcher.targets.hyperpod_eks.files import VALUES_FILE, chart_values
from launcher.targets.registry import target_of
from tests.plans import EXAMPLES, ROOT
from tests.unit.rendering.conftest import JOB

EFA = "vpc.amazonaws.com/efa"
STACK = ROOT / "tests/golden/infra/eks-p5-block/training.json"
HYPERPOD = ROOT / "tests/golden/infra/hyperpod-eks-p5en-spot/training.json"
HYPERPODS = EXAMPLES / "hyperpod-eks/p5-queue.yaml"
EVERY = sorted(path for folder in ("eks", "hyperpod-eks", "kubernetes") for path in (EXAMPLES / folder).glob("*.yaml"))


@pytest.fixture
def p5_type(catalog):
    return catalog.instance_types["p5.48xlarge"]


@pytest.fixture
def recorded_stack():
    return json.loads(STACK.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_every_pod_example_requests_efa_and_a_removed_request_is_found(catalog, path):
    plan = pinned_plan(plan_file.load(path), catalog)
    assert target_of(plan.place.target).pods
    facts = catalog.instance_types[plan.place.instance_type]
    assert facts.efa_interfaces
    bundle = render(plan, instances=catalog.instance_types, names=symbolic_names(plan), job=JOB)
    documents = {file.path: list(yaml.safe_load_all(file.text)) for file in bundle.files if file.path.endswith(".yaml")}
    job = documents["kubernetes/job.yaml"]
    if plan.place.nodes == 1:
        # A single node uses no network: its pod starts on nodes without the EFA plugin too.
        assert EFA not in json.dumps([template["spec"]["containers"] for template in pod_templates(job[-1])])
        return
    assert list(document_findings(job, facts.efa_interfaces, where="")) == []
    without = copy.deepcopy(job)
    for template in pod_templates(without[-1]):
        for part in template["spec"]["containers"][0]["resources"].values():
            part.pop(EFA)
    findings = list(document_findings(without, facts.efa_interfaces, where="job.yaml"))
    assert {finding.code for finding in findings} == {"efa-not-asked-for"}
    assert len(findings) == len(pod_templates(without[-1])) > 0
    if PLUGINS_FILE in documents:
        assert list(plugin_findings(documents[PLUGINS_FILE], facts, where="")) == []
    if VALUES_FILE in documents:
        (values,) = documents[VALUES_FILE]
        assert list(chart_findings(values, facts, where="")) == []
    assert {PLUGINS_FILE, VALUES_FILE} & documents.keys() or plan.request.target.cluster


def test_pod_without_huge_pages_is_reported(catalog):
    path = EXAMPLES / "eks/trn1-spot.yaml"
    plan = pinned_plan(plan_file.load(path), catalog)
    bundle = render(plan, instances=catalog.instance_types, names=symbolic_names(plan), job=JOB)
    job = list(yaml.safe_load_all(next(file.text for file in bundle.files if file.path == "kubernetes/job.yaml")))
    job[-1]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"].pop("hugepages-2Mi")
    assert [finding.code for finding in document_findings(job, 8, where="")] == ["efa-without-pages"]


def test_edited_pod_template_without_efa_is_refused(catalog, monkeypatch, tmp_path):
    plan = pinned_plan(plan_file.load(EXAMPLES / "eks/p5-capacity-block.yaml"), catalog)
    shutil.copytree(asset("templates"), tmp_path / "templates")
    pod = tmp_path / "templates/kubernetes/pod.yaml.j2"
    pod.write_text("".join(line for line in pod.read_text().splitlines(keepends=True) if f"{EFA}:" not in line))
    monkeypatch.setattr(engine, "asset", lambda name: tmp_path / name)
    with pytest.raises(ImpossibleError, match="would have no EFA") as refused:
        render(plan, instances=catalog.instance_types, names=symbolic_names(plan), job=JOB)
    assert "asks for 0 of its node's 32" in refused.value.findings[0].message


@pytest.mark.parametrize("change", ["gone", "elsewhere"])
def test_device_plugin_not_running_on_the_nodes_is_reported(p5_type, change):
    (file,) = plugin_files(p5_type, {p5_type.name: p5_type})
    documents = list(yaml.safe_load_all(file.text))
    assert list(plugin_findings(documents, p5_type, where="")) == []
    if change == "gone":
        documents = documents[:1]
    else:
        affinity = documents[-1]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        terms[0]["matchExpressions"][0]["values"] = ["p4d.24xlarge"]
    assert [finding.code for finding in plugin_findings(documents, p5_type, where="")] == ["efa-not-shown"]


class TestHyperpodsChart:
    @pytest.fixture
    def values(self, catalog, p5_type):
        return yaml.safe_load(chart_values(pinned_plan(plan_file.load(HYPERPODS), catalog), p5_type))

    @pytest.mark.parametrize("change", ["gone", "off", "elsewhere"])
    def test_chart_values_without_a_plugin_on_the_nodes_are_reported(self, values, p5_type, change):
        plugin_values = values["aws-efa-k8s-device-plugin"]
        assert list(chart_findings(values, p5_type, where="")) == []
        if change == "gone":
            del values["aws-efa-k8s-device-plugin"]
        elif change == "off":
            plugin_values["devicePlugin"]["enabled"] = False
        else:
            plugin_values["supportedInstanceLabels"]["values"] = ["p5.48xlarge"]  # HyperPod's nodes are ml.p5.48xlarge
        assert [finding.code for finding in chart_findings(values, p5_type, where="")] == ["efa-not-shown"]

    def test_edited_chart_values_without_the_efa_plugin_are_refused(self, catalog, monkeypatch, tmp_path, p5_type):
        plan = pinned_plan(plan_file.load(HYPERPODS), catalog)
        shutil.copytree(asset("templates"), tmp_path / "templates")
        file = tmp_path / "templates/hyperpod/chart-values.yaml.j2"
        file.write_text(file.read_text().replace("enabled: {{ efa | yaml }}", "enabled: false"))
        monkeypatch.setattr(engine, "asset", lambda name: tmp_path / name)
        with pytest.raises(ImpossibleError, match="would show no EFA") as refused:
            render(plan, instances=catalog.instance_types, names=symbolic_names(plan), job=JOB)
        assert refused.value.findings[0].path == "templates/hyperpod/chart-values.yaml.j2"


class TestHyperpodsNodes:
    @pytest.fixture
    def recorded_stack(self):
        return json.loads(HYPERPOD.read_text(encoding="utf-8"))

    @pytest.fixture
    def p5en(self, catalog):
        return catalog.instance_types["p5en.48xlarge"]

    def test_recorded_hyperpod_stack_has_no_efa_findings(self, recorded_stack, p5en):
        assert list(stack_findings(recorded_stack, p5en)) == []

    @pytest.mark.parametrize("kind", ["Ingress", "Egress"])
    def test_hyperpod_security_group_without_self_referencing_rule_is_reported(self, recorded_stack, p5en, kind):
        (name,) = [
            key
            for key, resource in recorded_stack["Resources"].items()
            if resource["Type"] == f"AWS::EC2::SecurityGroup{kind}"
        ]
        del recorded_stack["Resources"][name]
        assert [finding.code for finding in stack_findings(recorded_stack, p5en)] == ["efa-kept-apart"]

    @pytest.mark.parametrize("own", [True, False], ids=["the group's network", "the cluster's network"])
    def test_hyperpod_nodes_of_several_zones_are_reported(self, recorded_stack, p5en, own):
        (pod,) = [
            resource["Properties"]
            for resource in recorded_stack["Resources"].values()
            if resource["Type"] == "AWS::SageMaker::Cluster"
        ]
        (group,) = [
            instance_group
            for instance_group in pod["InstanceGroups"]
            if instance_group["InstanceType"] == "ml.p5en.48xlarge"
        ]
        network = group["OverrideVpcConfig"] if own else group.pop("OverrideVpcConfig") and pod["VpcConfig"]
        network["Subnets"] *= 2
        assert [finding.code for finding in stack_findings(recorded_stack, p5en)] == ["efa-across-zones"]


def test_recorded_node_group_stack_has_no_efa_findings(recorded_stack, p5_type):
    assert list(stack_findings(recorded_stack, p5_type)) == []


def _workers(stack):
    (workers,) = [resource for name, resource in stack["Resources"].items() if name.startswith("WorkersNodesTemplate")]
    return workers["Properties"]["LaunchTemplateData"]


def test_interfaces_missing_in_the_launch_template_are_reported(recorded_stack, p5_type):
    data = _workers(recorded_stack)
    data["NetworkInterfaces"][1]["InterfaceType"] = "interface"
    assert [finding.code for finding in stack_findings(recorded_stack, p5_type)] == ["efa-not-attached"]
    data.pop("NetworkInterfaces")
    assert "and 0 are attached" in next(stack_findings(recorded_stack, p5_type)).message


@pytest.mark.parametrize("kind", ["Ingress", "Egress"])
def test_security_group_without_self_referencing_rule_is_reported(recorded_stack, p5_type, kind):
    resources = recorded_stack["Resources"]
    (name,) = [key for key, resource in resources.items() if resource["Type"] == f"AWS::EC2::SecurityGroup{kind}"]
    del resources[name]
    assert [finding.code for finding in stack_findings(recorded_stack, p5_type)] == ["efa-kept-apart"]


def test_security_group_rule_to_any_address_does_not_replace_the_self_referencing_rule(recorded_stack, p5_type):
    resources = recorded_stack["Resources"]
    (rule,) = [
        resource["Properties"] for resource in resources.values() if resource["Type"] == "AWS::EC2::SecurityGroupEgress"
    ]
    del rule["DestinationSecurityGroupId"]
    rule["CidrIp"] = "0.0.0.0/0"
    assert [finding.code for finding in stack_findings(recorded_stack, p5_type)] == ["efa-kept-apart"]


def test_node_group_of_several_zones_is_reported(recorded_stack, p5_type):
    (group,) = [
        resource["Properties"]
        for name, resource in recorded_stack["Resources"].items()
        if resource["Type"] == "AWS::EKS::Nodegroup" and name.startswith("Workers")
    ]
    group["Subnets"] *= 2
    assert [finding.code for finding in stack_findings(recorded_stack, p5_type)] == ["efa-across-zones"]
