"""`slipway estimate`: synthesised apps of others, priced from their templates."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from launcher.catalog.load import load
from launcher.catalog.tables import read_cells
from launcher.pricing.template.estimate import READERS, estimate
from launcher.pricing.template.values import Template
from tests.documents import read_document
from tests.plans import ROOT

REGION, NOW = "us-east-1", datetime(2026, 11, 20, tzinfo=UTC)
CATALOG = load()
GOLDEN = ROOT / "tests/golden/infra"
G6E = CATALOG.on_demand("g6e.2xlarge", REGION).usd
P5 = CATALOG.on_demand("p5.48xlarge", REGION).usd


def find(resources, region=REGION, parameters=None, **body):
    template = Template({"Resources": resources, **body}, "App", region, parameters)
    return estimate([template], CATALOG, NOW, "template.json")


def resource(kind, **properties):
    return {"Type": kind, "Properties": properties}


def launch_template(**data):
    return resource("AWS::EC2::LaunchTemplate", LaunchTemplateData=data)


def group(count, **more):
    sizes = {"MinSize": "1", "MaxSize": str(count)}
    return resource("AWS::AutoScaling::AutoScalingGroup", **sizes, **more)


def by(template_ref):
    return {"LaunchTemplateId": {"Ref": template_ref}, "Version": {"Fn::GetAtt": [template_ref, "LatestVersionNumber"]}}


def compute(estimated):
    return [line for line in estimated.lines if line.group == "compute"]


def only(estimated, group_="compute"):
    (line,) = (one for one in estimated.lines if one.group == group_)
    return line


def test_instance_is_priced_on_demand_with_volume_and_source():
    disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 500, "VolumeType": "gp3", "Throughput": 250}}
    estimated = find({"Node": resource("AWS::EC2::Instance", InstanceType="g6e.2xlarge", BlockDeviceMappings=[disk])})
    line = only(estimated)
    assert (line.usd_per_hour, line.usd_per_month) == (G6E.quantize(Decimal("0.0001")), G6E * 730)
    assert line.source
    assert line.as_of == CATALOG.on_demand("g6e.2xlarge", REGION).as_of
    storage = {line.name: line.usd_per_month for line in estimated.lines if line.group == "storage"}
    assert storage["volume, gp3"] == pytest.approx(Decimal("40.0"))  # 500 GB at $0.08
    assert storage["throughput of volume"] == pytest.approx(Decimal("5.0"))  # 125 MiB/s above the free 125 at $0.04


def test_auto_scaling_group_counts_minimum_now_and_maximum():
    resources = {"Lt": launch_template(InstanceType="p5.48xlarge"), "Nodes": group(4, LaunchTemplate=by("Lt"))}
    line = only(find(resources))
    assert (line.quantity, line.max_quantity) == (1, 4)
    assert line.max_usd_per_hour == (4 * P5).quantize(Decimal("0.0001"))


def test_mixed_instances_policy_splits_on_demand_and_spot():
    policy = {
        "LaunchTemplate": {
            "LaunchTemplateSpecification": by("Lt"),
            "Overrides": [{"InstanceType": "g6e.2xlarge"}, {"InstanceType": "g6e.4xlarge"}],
        },
        "InstancesDistribution": {"OnDemandBaseCapacity": 1, "OnDemandPercentageAboveBaseCapacity": 0},
    }
    resources = {"Lt": launch_template(), "Nodes": group(5, MixedInstancesPolicy=policy)}
    on_demand, spot = sorted(compute(find(resources)), key=lambda line: line.max_quantity)
    assert (on_demand.max_quantity, spot.max_quantity) == (1, 4)
    assert on_demand.unit_price_usd == CATALOG.on_demand("g6e.4xlarge", REGION).usd
    assert "the dearest" in on_demand.note
    assert "spot" in spot.name


def test_instance_in_reservation_of_template_is_not_counted_twice():
    target = {"CapacityReservationTarget": {"CapacityReservationId": {"Ref": "Odcr"}}}
    resources = {
        "Odcr": resource("AWS::EC2::CapacityReservation", InstanceType="p5.48xlarge", InstanceCount=2),
        "Lt": launch_template(InstanceType="p5.48xlarge", CapacityReservationSpecification=target),
        "Nodes": group(2, LaunchTemplate=by("Lt")),
    }
    estimated = find(resources)
    assert sum(line.usd_per_hour for line in compute(estimated)) == (2 * P5).quantize(Decimal("0.0001"))


@pytest.mark.parametrize("kind,count", [("SPOT", 3), ("ON_DEMAND", 3)])
def test_node_group_is_priced_by_capacity_type(kind, count):
    sizes = {"MinSize": 0, "DesiredSize": 1, "MaxSize": count}
    nodes = resource("AWS::EKS::Nodegroup", InstanceTypes=["p5.48xlarge"], CapacityType=kind, ScalingConfig=sizes)
    line = only(find({"Nodes": nodes}))
    assert (line.quantity, line.max_quantity) == (1, count)
    assert (line.unit_price_usd < P5) is (kind == "SPOT")


def test_endpoint_variant_scales_and_unused_config_is_free():
    variant = {"VariantName": "all", "InstanceType": "ml.g6e.2xlarge", "InitialInstanceCount": 1}
    config = resource("AWS::SageMaker::EndpointConfig", ProductionVariants=[variant])
    scaled = {"Fn::Join": ["", ["endpoint/", {"Fn::GetAtt": ["Chat", "EndpointName"]}, "/variant/all"]]}
    target = resource("AWS::ApplicationAutoScaling::ScalableTarget", ResourceId=scaled, MinCapacity=1, MaxCapacity=6)
    chat = resource("AWS::SageMaker::Endpoint", EndpointConfigName={"Fn::GetAtt": ["Config", "EndpointConfigName"]})
    line = only(find({"Config": config, "Chat": chat, "Target": target}))
    assert (line.quantity, line.max_quantity) == (1, 6)
    assert line.unit_price_usd == CATALOG.sagemaker("ml.g6e.2xlarge", REGION, "hosting").usd
    assert find({"Config": config}).lines == ()


def test_instances_of_training_plan_are_at_its_rate_and_paid_in_advance():
    plan = f"arn:aws:sagemaker:{REGION}:123456789012:training-plan/chat"
    reserved = {"CapacityReservationPreference": "capacity-reservations-only", "MlReservationArn": plan}
    variant = {"VariantName": "all", "InstanceType": "ml.p4d.24xlarge", "InitialInstanceCount": 2}
    config = resource(
        "AWS::SageMaker::EndpointConfig", ProductionVariants=[{**variant, "CapacityReservationConfig": reserved}]
    )
    chat = resource("AWS::SageMaker::Endpoint", EndpointConfigName={"Fn::GetAtt": ["Config", "EndpointConfigName"]})
    group = {"InstanceGroupName": "w", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 2, "TrainingPlanArn": plan}
    pod = resource("AWS::SageMaker::Cluster", InstanceGroups=[group])
    for resources, name in (({"Config": config, "Chat": chat}, "p4d.24xlarge"), ({"Pod": pod}, "p5.48xlarge")):
        line = only(find(resources))
        assert line.unit_price_usd == CATALOG.training_plan(name, REGION).usd
        assert line.note.startswith("paid in advance")


def test_hyperpod_groups_use_cluster_rate():
    groups = [{"InstanceGroupName": "w", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 2}]
    line = only(find({"Pod": resource("AWS::SageMaker::Cluster", InstanceGroups=groups)}))
    assert line.usd_per_hour == (2 * CATALOG.sagemaker("ml.p5.48xlarge", REGION, "cluster").usd).quantize(
        Decimal("0.0001")
    )


def test_training_job_of_state_machine_counts_only_in_maximum():
    job = {"InstanceCount": 2, "InstanceType": "ml.p5.48xlarge", "VolumeSizeInGB": 100}
    state = {"Resource": "arn:aws:states:::sagemaker:createTrainingJob.sync", "Parameters": {"ResourceConfig": job}}
    text = json.dumps({"StartAt": "Train", "States": {"Train": state}})
    definition = {"Fn::Join": ["", [text[:20], text[20:]]]}
    estimated = find({"Machine": resource("AWS::StepFunctions::StateMachine", DefinitionString=definition)})
    assert estimated.usd_per_hour == 0
    assert only(estimated).max_quantity == 2


def test_state_machine_without_jobs_is_billed_by_use():
    text = json.dumps({"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 1}}})
    estimated = find({"Machine": resource("AWS::StepFunctions::StateMachine", DefinitionString=text)})
    assert estimated.lines == ()
    assert [kind.by_use for kind in estimated.uncounted] == [True]


def test_network_and_storage_have_hourly_prices():
    subnets = [{"Ref": "A"}, {"Ref": "B"}]
    resources = {
        "A": resource("AWS::EC2::Subnet"),
        "B": resource("AWS::EC2::Subnet"),
        "Nat": resource("AWS::EC2::NatGateway"),
        "Ip": resource("AWS::EC2::EIP"),
        "Alb": resource("AWS::ElasticLoadBalancingV2::LoadBalancer"),
        "Nlb": resource("AWS::ElasticLoadBalancingV2::LoadBalancer", Type="network"),
        "Logs": resource("AWS::EC2::VPCEndpoint", VpcEndpointType="Interface", SubnetIds=subnets),
        "Fs": resource(
            "AWS::FSx::FileSystem",
            FileSystemType="LUSTRE",
            StorageCapacity=4800,
            LustreConfiguration={"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
        ),
    }
    estimated = find(resources)
    hourly = {line.resource: line.usd_per_hour for line in estimated.lines}
    assert hourly["Nat"] == Decimal("0.045")
    assert hourly["Ip"] == Decimal("0.005")
    assert hourly["Alb"] == hourly["Nlb"] == Decimal("0.0225")
    assert hourly["Logs"] == Decimal("0.02")
    assert hourly["Fs"] == pytest.approx(Decimal(4800) * Decimal("0.21") / 730, abs=Decimal("0.0001"))
    assert (estimated.free, estimated.incomplete) == (2, False)


@pytest.mark.parametrize(
    "resources,named",
    [
        ({"N": resource("AWS::EC2::Instance", InstanceType="p9.48xlarge")}, "p9.48xlarge"),
        ({"N": resource("AWS::EC2::Instance", InstanceType={"Ref": "Type"})}, "parameter Type has no value here"),
        ({"N": resource("AWS::EC2::Instance", LaunchTemplate={"LaunchTemplateId": "lt-1"})}, "InstanceType is missing"),
        ({"G": group({"Ref": "Size"}, LaunchTemplate=by("Lt")), "Lt": launch_template()}, "MaxSize"),
        ({"N": resource("AWS::EKS::Nodegroup", ScalingConfig={"MaxSize": {"Ref": "Size"}})}, "parameter Size"),
    ],
)
def test_unknown_resource_value_is_named_and_never_zero(resources, named):
    body = {"Type": {"Type": "String"}, "Size": {"Type": "Number"}}
    for kind in resources.values():
        if kind["Type"] == "AWS::AutoScaling::AutoScalingGroup":
            kind["Properties"]["MaxSize"] = {"Ref": "Size"}
    estimated = find(resources, Parameters=body)
    line = only(estimated)
    assert named in line.unpriced
    assert line.usd_per_hour is None
    assert estimated.incomplete


def test_parameter_uses_default_or_given_value():
    body = {"Type": {"Type": "String", "Default": "g6e.2xlarge"}}
    node = {"N": resource("AWS::EC2::Instance", InstanceType={"Ref": "Type"})}
    assert only(find(node, Parameters=body)).unit_price_usd == G6E
    assert only(find(node, Parameters=body, parameters={"Type": "p5.48xlarge"})).unit_price_usd == P5


@pytest.mark.parametrize("stage,count", [("prod", 1), ("test", 0)])
def test_resource_counts_only_if_condition_holds(stage, count):
    node = {**resource("AWS::EC2::Instance", InstanceType="p5.48xlarge"), "Condition": "Prod"}
    conditions = {"Prod": {"Fn::Equals": [{"Ref": "Stage"}, "prod"]}}
    parameters = {"Stage": {"Type": "String", "Default": stage}}
    assert len(compute(find({"N": node}, Conditions=conditions, Parameters=parameters))) == count


def test_mapping_and_condition_resolve_instance_type():
    chosen = {"Fn::If": ["Big", {"Fn::FindInMap": ["Types", {"Ref": "AWS::Region"}, "big"]}, "g6e.2xlarge"]}
    node = {"N": resource("AWS::EC2::Instance", InstanceType=chosen)}
    mappings = {"Types": {REGION: {"big": "p5.48xlarge"}}}
    conditions = {"Big": {"Fn::Not": [{"Fn::Equals": [{"Ref": "AWS::Region"}, "eu-west-1"]}]}}
    assert only(find(node, Mappings=mappings, Conditions=conditions)).unit_price_usd == P5


def test_circular_conditions_terminate():
    node = {**resource("AWS::EC2::Instance", InstanceType="p5.48xlarge"), "Condition": "A"}
    assert len(compute(find({"N": node}, Conditions={"A": {"Condition": "B"}, "B": {"Condition": "A"}}))) == 1


def test_every_fixed_resource_type_has_price():
    rows = read_cells("template_resources.csv")
    for row in (one for one in rows if one["treatment"] == "fixed"):
        (line,) = find({"R": resource(row["type"])}).lines
        assert line.unpriced is None, row
    assert {row["treatment"] for row in rows} == {"free", "by-use", "fixed"}
    assert not {row["type"] for row in rows if row["treatment"] == "fixed"} & set(READERS)


NODE = {"N": resource("AWS::EC2::Instance", InstanceType="p5.48xlarge")}


class TestCommand:
    def app(self, folder: Path, resources, environment="aws://123456789012/us-east-1", **nested):
        out = folder / "cdk.out"
        out.mkdir()
        properties = {"templateFile": "App.template.json", "stackName": "app-prod"}
        artifact = {"type": "aws:cloudformation:stack", "environment": environment, "properties": properties}
        (out / "manifest.json").write_text(json.dumps({"version": "48.0.0", "artifacts": {"App": artifact}}))
        (out / "App.template.json").write_text(json.dumps({"Resources": resources}))
        for name, body in nested.items():
            (out / f"{name}.json").write_text(json.dumps(body))
        return folder

    def test_app_with_nested_stacks_gives_valid_document(self, slipway, tmp_path):
        nested = {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": "inner.json"}}
        self.app(tmp_path, {**NODE, "Inner": nested}, inner={"Resources": NODE})
        document = read_document(slipway("estimate", str(tmp_path), "--json").out)
        assert document["stacks"] == ["app-prod", "app-prod/Inner"]
        assert Decimal(document["usd_per_hour"]) == (2 * P5).quantize(Decimal("0.0001"))

    def test_lines_of_estimate_fit_80_columns(self, slipway, tmp_path, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        resources = {"Lt": launch_template(InstanceType="p5.48xlarge"), "Nodes": group(400, LaunchTemplate=by("Lt"))}
        lines = slipway("estimate", str(self.app(tmp_path, resources))).out.splitlines()
        assert any("groups at their maximum" in line for line in lines)
        assert max(map(len, lines)) <= 80
        assert [line for line in lines if line and not line.strip()] == []

    @pytest.mark.parametrize("limit,code", [("1", 3), ("1000", 0)])
    def test_rate_above_limit_exits_with_3(self, slipway, tmp_path, limit, code):
        result = slipway("estimate", str(self.app(tmp_path, NODE)), "--max-usd-per-hour", limit)
        assert result.code == code
        assert ("refused:" in result.out) is bool(code)

    def test_accelerator_without_price_exits_with_4_and_other_type_with_0(self, slipway, tmp_path):
        folder = self.app(tmp_path, {"N": resource("AWS::EC2::Instance", InstanceType="p9.48xlarge")})
        result = slipway("estimate", str(folder), "--max-usd-per-hour", "1000")
        assert (result.code, "p9.48xlarge" in result.out) == (4, True)
        template = tmp_path / "t.json"
        template.write_text(json.dumps({"Resources": {"N": resource("AWS::EC2::Instance", InstanceType="t9.nano")}}))
        result = slipway("estimate", str(template), "--region", REGION, "--max-usd-per-hour", "1")
        assert (result.code, "not priced: N, t9.nano" in result.out) == (0, True)

    def test_stack_without_region_requires_region_option(self, slipway, tmp_path):
        folder = self.app(tmp_path, NODE, environment="aws://unknown-account/unknown-region")
        result = slipway("estimate", str(folder))
        assert (result.code, "--region us-east-1" in result.err) == (2, True)
        assert slipway("estimate", str(folder), "--region", "eu-west-1").code == 0

    def test_yaml_short_forms_are_read(self, slipway, tmp_path):
        template = tmp_path / "t.yaml"
        template.write_text(
            "Parameters: {Kind: {Type: String, Default: p5.48xlarge}}\n"
            "Resources:\n  N: {Type: AWS::EC2::Instance, Properties: {InstanceType: !Ref Kind, ImageId: !Sub '${X}'}}\n"
        )
        assert "p5.48xlarge" in slipway("estimate", str(template), "--region", REGION).out

    @pytest.mark.parametrize("text", ["[]", "{}", "not: a template", '{"Resources": 3}', "{", "\x00"])
    def test_invalid_template_refused(self, slipway, tmp_path, text):
        template = tmp_path / "t.json"
        template.write_text(text)
        assert slipway("estimate", str(template), "--region", REGION).code == 2

    def test_manifest_cannot_read_outside_folder(self, slipway, tmp_path):
        secret = tmp_path / "secret.json"
        secret.write_text(json.dumps({"Resources": NODE}))
        folder = self.app(tmp_path, NODE)
        manifest = folder / "cdk.out/manifest.json"
        manifest.write_text(manifest.read_text().replace("App.template.json", "../secret.json"))
        assert slipway("estimate", str(folder)).code == 2

    def test_estimate_of_own_stack_equals_quoted_rate(self, slipway):
        path = str(GOLDEN / "eks-p5-block/training.json")
        document = read_document(slipway("estimate", path, "--region", REGION, "--json").out)
        nodes = next(line for line in document["lines"] if line["accelerated"])
        assert Decimal(nodes["unit_price_usd"]) == CATALOG.capacity_block("p5.48xlarge", REGION).usd
