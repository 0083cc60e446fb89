"""The constructs of slipway_aws in apps of others: the page's examples, and what they refuse."""

import functools
import json
import os
import re
import runpy
import subprocess
import sys
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from launcher.catalog.hyperpod_chart import chart_pins
from launcher.cdk import toolchain
from launcher.cdk.chart import packed_chart
from launcher.model.errors import SlipwayError
from tests.infra.conftest import FILES
from tests.infra.linting import complaints
from tests.plans import ROOT
from tests.unit.conftest import content, pins  # noqa: F401 - fixtures

if TYPE_CHECKING:  # `loaded` gives them to the tests
    import aws_cdk as cdk  # noqa: TC004
    from aws_cdk import aws_autoscaling as autoscaling  # noqa: TC004
    from aws_cdk import aws_ec2 as ec2  # noqa: TC004
    from aws_cdk import aws_kms as kms  # noqa: TC004
    from cdk_nag import AwsSolutionsChecks  # noqa: TC004

    from slipway_aws import (  # noqa: TC004
        BudgetGate,
        CheckpointStore,
        Network,
        NodeSecurityGroup,
        SlipwayCluster,
        SlipwayEndpoint,
    )

PAGE = (ROOT / "docs/constructs.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"<!-- file: (\S+) -->\n```(?:yaml|python)\n(.*?)```", PAGE, re.DOTALL)
ACCOUNT = "123456789012"
STACKS = {
    "cluster": {"Platform", "slipway-team-lora-training"},
    "parts": {"Research"},
    "endpoint": {"Production-Web", "slipway-chat-serving"},
}
"""The stacks of each example of the page."""
KINDS = {kind: min(files.values()) for kind, files in FILES.items()}
"""One example of each target."""
PLAN = """
slipway: 1
name: lora
workload:
  train: {model: llama-3.1-8b, method: lora, tokens_b: 0.01, sequence_length: 2048, stack: huggingface}
target: {kind: parallelcluster, region: us-east-1, instance_type: g6e.2xlarge, nodes: 1}
purchase: {option: on-demand}
budget: {max_usd: 60}
run: {command: [python3, train.py]}
"""


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """The names above, when the tests run and not when they are collected."""
    import aws_cdk
    import cdk_nag
    from aws_cdk import aws_autoscaling, aws_ec2, aws_kms

    import slipway_aws

    parts = ("BudgetGate", "CheckpointStore", "Network", "NodeSecurityGroup", "SlipwayCluster", "SlipwayEndpoint")
    globals().update({name: getattr(slipway_aws, name) for name in parts})
    globals().update(cdk=aws_cdk, autoscaling=aws_autoscaling, ec2=aws_ec2, kms=aws_kms)
    globals().update(AwsSolutionsChecks=cdk_nag.AwsSolutionsChecks)


@pytest.fixture
def cdk_app(tmp_path, context):
    """An app of a user, with the project's feature flags."""
    return cdk.App(auto_synth=False, context=context, outdir=str(tmp_path / "cdk.out"))


@pytest.fixture
def plan_file(tmp_path):
    """Writes a plan file, with text replaced."""

    def write(old="", new="", text=PLAN):
        path = tmp_path / "plan.yaml"
        path.write_text(text.replace(old, new) if old else text)
        return path

    return write


def stack_in(app, region="us-east-1", name="Platform"):
    return cdk.Stack(app, name, env=cdk.Environment(account=ACCOUNT, region=region))


def stage_in(app, region="us-east-1"):
    return cdk.Stage(app, "Production", env=cdk.Environment(account=ACCOUNT, region=region))


def templates(app):
    """The templates of all stacks of an app, by their files' names."""
    return {path.name: json.loads(path.read_text()) for path in sorted(cdk_out(app).rglob("*.template.json"))}


def training_template(app):
    (template,) = (one for one in templates(app).values() if "PlanDigest" in one.get("Outputs", {}))
    return template


def cdk_out(app):
    return Path(app.outdir)


def resources_of_type(template, kind):
    return [resource["Properties"] for resource in template["Resources"].values() if resource["Type"] == kind]


@pytest.fixture
def example_folder(tmp_path):
    """A folder with nothing but the files of an example of the page."""

    def write(name):
        for path, text in EXAMPLES:
            folder, _, file = path.partition("/")
            if folder == name:
                (tmp_path / file).write_text(text)
        return tmp_path

    return write


def check_example(name, folder):
    """The stacks of an example, and no linter has a finding."""
    files = sorted((folder / "cdk.out").rglob("*.template.json"))
    manifests = (folder / "cdk.out").rglob("manifest.json")
    artifacts = [artifact for path in manifests for artifact in json.loads(path.read_text())["artifacts"].items()]
    names = {
        artifact["properties"].get("stackName", key)
        for key, artifact in artifacts
        if artifact["type"] == "aws:cloudformation:stack"
    }
    assert names == STACKS[name]
    region = "us-east-2" if name == "parts" else "us-east-1"
    assert [problem for part in {path.parent for path in files} for problem in complaints(part, region)] == []


def test_documented_cluster_synthesises_by_cli_in_foreign_folder_without_findings(example_folder, tmp_path, warm_cli):
    """As a user does: the CDK CLI runs the app of the page in an empty folder."""
    example_folder("cluster")
    (tmp_path / "cdk.json").write_text(json.dumps({"app": f"{sys.executable} app.py", "notices": False}))
    paths = os.pathsep.join([str(ROOT), str(ROOT / "infra/public")])
    node = toolchain.find_node(os.environ).program
    environment = {**os.environ, "PYTHONPATH": paths, "PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}"}
    with warm_cli.used():
        command = [*toolchain.cdk_command(os.environ), "synth", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    check_example("cluster", tmp_path)


@pytest.mark.parametrize("name", sorted({*STACKS} - {"cluster"}))
def test_documented_example_synthesises_without_findings(name, example_folder, monkeypatch):
    """In this process, which has loaded the CDK: the folder of the assembly is what the CLI would give the app."""
    folder = example_folder(name)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(cdk, "App", functools.partial(cdk.App, outdir=str(folder / "cdk.out")))
    runpy.run_path(str(folder / "app.py"), run_name="__main__")
    check_example(name, folder)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_cluster_construct_uses_network_bucket_and_key_of_app(kind, cdk_app, plan_at, tmp_path):
    text = KINDS[kind].read_text()
    region = plan_at(KINDS[kind]).place.region
    path = KINDS[kind].parent / KINDS[kind].name
    platform = stack_in(cdk_app, region)
    vpc, store, key = ec2.Vpc(platform, "Vpc", max_azs=2), CheckpointStore(platform, "Store"), kms.Key(platform, "Key")
    given = {"vpc": vpc, "checkpoint_bucket": store.bucket, "encryption_key": key, "tags": {"cost-centre": "42"}}
    cluster = SlipwayCluster(platform, "Train", plan=path, gate=False, **given)
    cdk_app.synth()
    assert [stack.stack_name.rpartition("-")[2] for stack in cluster.stacks] == ["training"], text
    template = json.dumps(training_template(cdk_app))
    assert "vpc-00000000" not in template
    assert "subnet-0000000" not in template
    assert "slipway-bucket-of-the-app" not in template
    assert "00000000-0000" not in template
    exports = re.findall(r'"Fn::ImportValue": "Platform:ExportsOutput\w*?(Vpc|Store|Key)', template)
    assert {"Store", "Key"} <= set(exports)
    assert "Vpc" in exports
    assert '"cost-centre"' in template


def test_cluster_construct_alone_has_templates_of_slipway_deploy(cdk_app, plan_file, synthesised):
    path = plan_file()
    cluster = SlipwayCluster(cdk.Stage(cdk_app, "Production"), "Train", plan=path)
    cdk_app.synth()
    own = synthesised(path.read_text(), usd_per_hour=str(cluster.quote["usd_per_hour"])).templates
    ours = [sorted(template["Resources"]) for template in templates(cdk_app).values()]
    assert sorted(ours) == sorted(sorted(template["Resources"]) for template in own.values())
    assert len(ours) == 3


def test_plan_over_budget_fails_synthesis_naming_amounts(cdk_app, plan_file):
    SlipwayCluster(stage_in(cdk_app), "Train", plan=plan_file("max_usd: 60", "max_usd: 1"))
    # The app's own gate does not repeat what the cluster's says.
    cdk.Validations.of(cdk_app).add_plugins(BudgetGate(cdk_app))
    with pytest.raises(RuntimeError, match="ValidationFailed") as refused:
        cdk_app.synth()
    assert "Production/Train" in str(refused.value)
    assert str(refused.value).count("high estimate") == 1
    assert re.search(r"budget\.max_usd \$1\.00, high estimate \$\d", str(refused.value))


def test_plan_over_budget_without_gate_synthesises_with_warning(cdk_app, plan_file):
    cluster = SlipwayCluster(stage_in(cdk_app), "Train", plan=plan_file("max_usd: 60", "max_usd: 1"), gate=False)
    cdk_app.synth()
    assert cluster.refusal
    assert "the gate refuses this plan" in (cdk_out(cdk_app) / "validation-report.json").read_text()


HYPERPOD_EKS = ROOT / "examples/hyperpod-eks/p5en-spot.yaml"


def test_hyperpod_eks_construct_without_chart_names_fetch_command(cdk_app):
    SlipwayCluster(stage_in(cdk_app, "us-west-2"), "Train", plan=HYPERPOD_EKS, gate=False)
    cdk_app.synth()
    report = (cdk_out(cdk_app) / "validation-report.json").read_text()
    assert "cdk deploy needs HyperPod's chart: curl" in report
    assert all(file.url in report for file in chart_pins().files)
    assert "SlipwayCluster(..., hyperpod_chart='hyperpod-chart')" in report


@pytest.fixture
def small_chart(monkeypatch, tmp_path, pins, content):  # noqa: F811 - fixtures
    """The pins of a small chart, the folder with its files, and the packed chart."""
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)
    for module in ("infra.chart_files", "infra.stacks.hyperpod_eks"):
        monkeypatch.setattr(f"{module}.chart_pins", lambda: pins)
    return pins, tmp_path, packed_chart(pins, content)


@pytest.mark.parametrize("staged", [False, True])
def test_hyperpod_eks_construct_with_chart_stages_chart_assets(cdk_app, small_chart, staged):
    pinned, folder, packed = small_chart
    scope = stage_in(cdk_app, "us-west-2") if staged else cdk_app
    SlipwayCluster(scope, "Train", plan=HYPERPOD_EKS, gate=False, hyperpod_chart=folder)
    cdk_app.synth()
    found = {}
    for manifest in cdk_out(cdk_app).rglob("*.assets.json"):
        for asset in json.loads(manifest.read_text())["files"].values():
            source = asset["source"].get("path", "")
            if source in (pinned.chart_name, pinned.layer_name):
                found[source] = (manifest.parent / source).read_bytes()
    assert found == {pinned.layer_name: b"helm", pinned.chart_name: packed}


@pytest.mark.parametrize("files", [2, None])
def test_hyperpod_eks_construct_with_wrong_chart_files_refused(cdk_app, tmp_path, files):
    for file in chart_pins().files[:files]:
        (tmp_path / file.name).write_bytes(b"something else")
    make = functools.partial(SlipwayCluster, cdk_app, "Train", plan=HYPERPOD_EKS, gate=False, hyperpod_chart=tmp_path)
    assert (f"{tmp_path} lacks" if files else "is not what this version installs") in refusal_of(make)


def test_app_over_budget_gate_fails_with_amount_per_plan(cdk_app, plan_file):
    production = stage_in(cdk_app)
    cluster = SlipwayCluster(production, "Train", plan=plan_file())
    endpoint = SlipwayEndpoint(production, "Chat", plan=ROOT / "examples/serve/pinned/llama31-8b-g6e.yaml")
    cdk.Validations.of(cdk_app).add_plugins(BudgetGate(cdk_app, max_usd=cluster.high_usd + endpoint.high_usd - 1))
    with pytest.raises(RuntimeError, match="ValidationFailed") as refused:
        cdk_app.synth()
    assert f"Production/Train ${cluster.high_usd:,.2f}, Production/Chat ${endpoint.high_usd:,.2f}" in str(refused.value)


def test_app_within_budget_gate_synthesises(cdk_app, plan_file):
    cluster = SlipwayCluster(stage_in(cdk_app), "Train", plan=plan_file())
    cdk.Validations.of(cdk_app).add_plugins(BudgetGate(cdk_app, max_usd=cluster.high_usd))
    cdk_app.synth()
    assert len(templates(cdk_app)) == 3


def test_gate_context_0_disables_refusal(cdk_app, plan_file):
    cdk_app.node.set_context("slipway:gate", "0")
    SlipwayCluster(stage_in(cdk_app), "Train", plan=plan_file("max_usd: 60", "max_usd: 1"))
    cdk_app.synth()
    assert len(templates(cdk_app)) == 3


def refusal_of(make):
    with pytest.raises(SlipwayError) as refused:
        make()
    return str(refused.value)


def test_construct_in_stack_of_other_region_refused_naming_both(cdk_app, plan_file):
    path = plan_file()
    text = refusal_of(lambda: SlipwayCluster(stack_in(cdk_app, "eu-west-1"), "Train", plan=path))
    assert "Platform is in eu-west-1, the plan lora is for us-east-1" in text


def test_vpc_in_stack_without_region_refused_naming_environment(cdk_app, plan_file):
    vpc = ec2.Vpc(cdk.Stack(cdk_app, "Anywhere"), "Vpc")
    text = refusal_of(lambda: SlipwayCluster(cdk_app, "Train", plan=plan_file(), vpc=vpc))
    assert "Anywhere/Vpc is in an unknown account, an unknown region" in text
    assert "region='us-east-1'" in text


def test_vpc_without_private_subnets_refused(cdk_app, plan_file):
    public = ec2.SubnetConfiguration(name="Public", subnet_type=ec2.SubnetType.PUBLIC)
    vpc = ec2.Vpc(stack_in(cdk_app), "Vpc", subnet_configuration=[public])
    assert "has no private subnets" in refusal_of(lambda: SlipwayCluster(cdk_app, "T", plan=plan_file(), vpc=vpc))


def test_subnets_without_vpc_refused(cdk_app, plan_file):
    subnets = ec2.Vpc(stack_in(cdk_app), "Vpc").private_subnets
    text = refusal_of(lambda: SlipwayCluster(cdk_app, "Train", plan=plan_file(), subnets=subnets))
    assert "give vpc=" in text


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ("instance_type: g6e.2xlarge, ", "", "target.instance_type: must be one value, got any"),
        ("budget:", "budgets:", "did you mean budget"),
        ("region: us-east-1", "region: us-esat-1", "us-east-1"),
        ("target: {", "network: {name: shared, az_ids: [use1-az1]}\ntarget: {", "network.name"),
    ],
)
def test_invalid_plan_in_construct_refused_with_findings(old, new, expected, cdk_app, plan_file):
    vpc = ec2.Vpc(stack_in(cdk_app), "Vpc")
    assert expected in refusal_of(lambda: SlipwayCluster(cdk_app, "T", plan=plan_file(old, new), vpc=vpc))


def test_plan_of_other_workload_refused_naming_construct(cdk_app, plan_file):
    serving = ROOT / "examples/serve/pinned/llama31-8b-g6e.yaml"
    assert "SlipwayEndpoint" in refusal_of(lambda: SlipwayCluster(cdk_app, "T", plan=serving))
    assert "SlipwayCluster" in refusal_of(lambda: SlipwayEndpoint(cdk_app, "E", plan=plan_file()))


def test_network_with_invalid_cidr_refused(cdk_app):
    assert "10.0.0.0/30" in refusal_of(lambda: Network(stack_in(cdk_app), "Network", cidr="10.0.0.0/30"))


def test_constructs_satisfy_cdk_nag(cdk_app):
    stack = stack_in(cdk_app, "us-west-2")
    network = Network(stack, "Network", availability_zone_id="use2-az1")
    NodeSecurityGroup(stack, "Nodes", vpc=network.vpc)
    CheckpointStore(stack, "Store", access_log=True)
    cdk.Validations.of(cdk_app).add_plugins(AwsSolutionsChecks(cdk_app))
    cdk_app.synth()
    (template,) = templates(cdk_app).values()
    assert {one["AvailabilityZoneId"] for one in resources_of_type(template, "AWS::EC2::Subnet")} == {"use2-az1"}


def test_logical_ids_of_constructs_are_unchanged(cdk_app):
    """A changed logical id of a bucket or VPC would replace it at its users."""
    stack = stack_in(cdk_app)
    network = Network(stack, "Network")
    NodeSecurityGroup(stack, "Nodes", vpc=network.vpc)
    CheckpointStore(stack, "Store")
    cdk_app.synth()
    (template,) = templates(cdk_app).values()
    ids = {
        resource["Type"]: key
        for key, resource in template["Resources"].items()
        if resource["Type"] in ("AWS::EC2::VPC", "AWS::S3::Bucket", "AWS::EC2::SecurityGroup")
    }
    assert ids == {
        "AWS::EC2::SecurityGroup": "NodesGroup3A9CFCF5",
        "AWS::EC2::VPC": "NetworkVpcFAC8F4A5",
        "AWS::S3::Bucket": "StoreBucket4FBDE984",
    }


def test_lower_max_usd_of_construct_becomes_guard_limit(cdk_app, plan_file):
    SlipwayCluster(stage_in(cdk_app), "Train", plan=plan_file(), max_usd=Decimal(20))
    cdk_app.synth()
    outputs = training_template(cdk_app)["Outputs"]
    assert "$20" in json.dumps(outputs), outputs


class TestRateOfForeignResources:
    """BudgetGate prices resources of any construct, as slipway estimate does."""

    def app(self, cdk_app, limit, kind="p5.48xlarge", most=4, region="us-east-1"):
        stack = stack_in(cdk_app, region)
        vpc = ec2.Vpc(stack, "Vpc", max_azs=1, nat_gateways=1)
        launch = {"instance_type": ec2.InstanceType(kind), "vpc": vpc}
        image = ec2.MachineImage.generic_linux({region: "ami-0a1b2c3d4e5f60718"})
        autoscaling.AutoScalingGroup(stack, "Nodes", machine_image=image, min_capacity=0, max_capacity=most, **launch)
        cdk.Validations.of(cdk_app).add_plugins(BudgetGate(cdk_app, max_usd_per_hour=limit))
        return cdk_app

    def test_app_over_hourly_limit_fails_naming_dearest_resource(self, cdk_app):
        with pytest.raises(RuntimeError, match="ValidationFailed") as refused:
            self.app(cdk_app, Decimal(100)).synth()
        assert re.search(r"costs up to \$\d{3}\.\d\d an hour, \S+ \(p5.48xlarge, on demand\)", str(refused.value))
        assert "allowed are $100.00" in str(refused.value)

    def test_stacks_with_the_same_logical_ids_are_told_apart_by_their_names(self, cdk_app):
        for name in ("one", "two"):
            stack = cdk.Stack(cdk_app, name, env=cdk.Environment(account="123456789012", region="us-east-1"))
            properties = {"InstanceType": "p5.48xlarge", "ImageId": "ami-0a1b2c3d4e5f60718"}
            cdk.CfnResource(stack, "Node", type="AWS::EC2::Instance", properties=properties)
        cdk.Validations.of(cdk_app).add_plugins(BudgetGate(cdk_app, max_usd_per_hour=Decimal(100)))
        with pytest.raises(RuntimeError, match="ValidationFailed") as refused:
            cdk_app.synth()
        assert re.search(r"one/Node \(.*two/Node \(", str(refused.value))

    def test_app_within_hourly_limit_synthesises(self, cdk_app):
        self.app(cdk_app, Decimal(100), most=1).synth()

    @pytest.mark.parametrize("most, refused", [(1, False), (4, True)])
    def test_stack_without_resources_costs_nothing(self, tmp_path, most, refused):
        # The CDK warns of such a stack, for example one that only contains a SlipwayEndpoint.
        app = cdk.App(outdir=str(tmp_path))
        cdk.Stack(app, "Web", env=cdk.Environment(account="123456789012", region="us-east-1"))
        self.app(app, Decimal(100), most=most)
        ended = pytest.raises(RuntimeError, match=r"costs up to \$\d{3}") if refused else nullcontext()
        with ended:
            app.synth()

    def test_accelerator_without_price_refused(self, cdk_app):
        with pytest.raises(RuntimeError, match=r"no instance type p9\.48xlarge in the catalog"):
            self.app(cdk_app, Decimal(100_000), kind="p9.48xlarge").synth()
