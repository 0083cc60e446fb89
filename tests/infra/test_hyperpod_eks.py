"""HyperPod with EKS: shown equals deployed, in AWS's order; chart and layer by digest; external rules."""

import hashlib
import json

import pytest
import yaml

from launcher.catalog.hyperpod_chart import chart_pins
from launcher.model import eks
from launcher.model.errors import ImpossibleError
from launcher.planning.pin import pinned_plan
from tests.checks import some
from tests.infra.reading import behind, garbage, key_of, rules, shown, variables, with_words
from tests.plans import request_of

KIND = "hyperpod-eks"
CLUSTER, CHART = "AWS::SageMaker::Cluster", "Custom::HyperPodChart"


@pytest.fixture
def trn2_planned(named):
    return named("trn2-training-plan")


def groups(assembly):
    return {group["InstanceGroupName"]: group for group in assembly.only("training", CLUSTER)["InstanceGroups"]}


def functions(assembly):
    """The two functions, by the part of the stack that they are in."""
    lambda_functions = assembly.resources("training", "AWS::Lambda::Function").items()
    return {
        part: function for key, function in lambda_functions for part in ("Chart", "Guardrails") if key.startswith(part)
    }


class TestRenderedFiles:
    def test_node_groups_equal_rendered_file(self, example, catalog):
        shown_request, properties = (
            yaml.safe_load(shown(example, catalog)["hyperpod.yaml"]),
            example.only("training", CLUSTER),
        )
        tags = [{tag["Key"]: tag["Value"] for tag in side.pop("Tags")} for side in (shown_request, properties)]
        assert tags[0].items() <= {**tags[1], "SageMaker": "true"}.items()
        assert tags[1]["SageMaker"] == "true", "AWS's policy for the operator asks for it"
        assert with_words(properties, shown_request) == shown_request

    def test_control_plane_equals_rendered_file(self, example, catalog):
        shown_request, properties = (
            yaml.safe_load(shown(example, catalog)["cluster.yaml"]),
            example.only("training", "AWS::EKS::Cluster"),
        )
        assert (shown_request["Cluster"]["Name"], shown_request["Cluster"]["Version"]) == (
            properties["Name"],
            properties["Version"],
        )
        addons = example.resources("training", "AWS::EKS::Addon").values()
        assert {(addon["AddonName"], addon["AddonVersion"]) for addon in shown_request["Addons"]} == {
            (addon["AddonName"], addon["AddonVersion"]) for addon in addons
        }
        assert "NodeGroups" not in shown_request
        assert example.resources("training", "AWS::EKS::Nodegroup") == {}

    def test_chart_values_and_script_equal_rendered_files(self, example, catalog):
        files = shown(example, catalog)
        assert example.only("training", CHART)["Values"] == files["chart-values.yaml"]
        (script,) = example.folder.glob("lifecycle.*/on_create.sh")
        assert script.read_text() == files["lifecycle/on_create.sh"]


class TestNodes:
    def test_system_instance_group_has_one_node_for_cluster_pods(self, example):
        system = groups(example)["system"]
        assert (system["InstanceType"], system["InstanceCount"], system["MinInstanceCount"]) == ("ml.m6i.xlarge", 1, 1)
        assert "OnStartDeepHealthChecks" not in system
        assert "CapacityRequirements" not in system

    def test_faulty_instances_are_replaced_with_continuous_provisioning(self, example):
        cluster = example.only("training", CLUSTER)
        assert (cluster["NodeRecovery"], cluster["NodeProvisioningMode"]) == ("Automatic", "Continuous")
        assert groups(example)["workers"]["OnStartDeepHealthChecks"] == ["InstanceStress", "InstanceConnectivity"]

    def test_each_instance_group_has_one_subnet_and_a_script(self, example):
        for group in some(groups(example).values()):
            assert len(group["OverrideVpcConfig"]["Subnets"]) == 1
            assert group["LifeCycleConfig"]["OnCreate"] == "on_create.sh"
            assert group["KubernetesConfig"]["Labels"] == {"slipway/group": group["InstanceGroupName"]}

    def test_spot_and_training_plan_set_worker_capacity(self, p5en_spot, trn2_planned):
        assert groups(p5en_spot)["workers"]["CapacityRequirements"] == {"Spot": {}}
        assert groups(trn2_planned)["workers"]["TrainingPlanArn"].endswith("training-plan/trn2-december")
        assert "TrainingPlanArn" not in groups(trn2_planned)["system"]

    def test_on_demand_workers_have_no_capacity_requirements(self, synthesised):
        assembly = synthesised(
            "{slipway: 1, name: plain, target: {kind: hyperpod-eks, region: us-east-2, instance_type: p5.48xlarge,"
            " nodes: 1}, purchase: {option: on-demand}}"
        )
        workers = groups(assembly)["workers"]
        assert not {"CapacityRequirements", "TrainingPlanArn"} & workers.keys()
        assert workers["OnStartDeepHealthChecks"] == ["InstanceStress"], "the other one needs a second instance"
        assert assembly.only("training", "AWS::EKS::Cluster")["ResourcesVpcConfig"]["EndpointPublicAccess"] is False

    def test_asset_garbage_collection_keeps_lifecycle_scripts(self, example):
        assert garbage(example) == []


class TestOrder:
    """Control plane, chart, nodes, and then what runs on them: anything else deadlocks or is not monitored."""

    def test_nodes_depend_on_chart(self, example):
        chart, nodes = key_of(example, CHART), key_of(example, CLUSTER)
        assert chart in behind(example, nodes)
        assert nodes not in behind(example, chart)
        assert key_of(example, "AWS::EKS::Cluster") in behind(example, chart)

    def test_chart_depends_on_access_entry_layer_and_rules(self, example):
        before = behind(example, key_of(example, CHART))
        resources = example.template("training")["Resources"]
        kinds = {resources[key]["Type"] for key in before}
        assert {"AWS::EKS::AccessEntry", "AWS::Lambda::LayerVersion", "AWS::EC2::SecurityGroupEgress"} <= kinds

    def test_nodes_depend_on_node_addons_and_rules(self, example):
        before = behind(example, key_of(example, CLUSTER))
        for name in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent"):
            assert key_of(example, "AWS::EKS::Addon", AddonName=name) in before
        assert set(example.resources("training", "AWS::EC2::SecurityGroupIngress")) <= before

    def test_addons_with_pods_depend_on_nodes(self, example):
        nodes = key_of(example, CLUSTER)
        for name in ("coredns", eks.CERTIFICATES[0], eks.OPERATOR[0]):
            key = key_of(example, "AWS::EKS::Addon", AddonName=name)
            assert nodes in behind(example, key)
            assert key not in behind(example, nodes)

    def test_operator_depends_on_certificates_and_pod_identity(self, example):
        before = behind(example, key_of(example, "AWS::EKS::Addon", AddonName=eks.OPERATOR[0]))
        assert key_of(example, "AWS::EKS::Addon", AddonName=eks.CERTIFICATES[0]) in before
        key = key_of(example, "AWS::EKS::PodIdentityAssociation", Namespace="aws-hyperpod")
        assert key in before
        association = example.resources("training", "AWS::EKS::PodIdentityAssociation")[key]
        assert association["ServiceAccount"] == "hp-training-operator-controller-manager"
        addon = example.resources("training", "AWS::EKS::Addon")[
            key_of(example, "AWS::EKS::Addon", AddonName=eks.OPERATOR[0])
        ]
        assert "PodIdentityAssociations" not in addon, "the add-on refuses it inside"


class TestChart:
    def test_synthesis_without_chart_files_names_assets_by_digest(self, example):
        pins, file = chart_pins(), f"slipway-{example.plan.cluster_name}-training.assets.json"
        assets = json.loads((example.folder / file).read_text())["files"]
        paths = {asset["source"]["path"] for asset in assets.values()}
        assert {pins.chart_name, pins.layer_name} <= paths
        assert not (example.folder / pins.chart_name).exists()
        keys = {
            place["objectKey"]: asset["source"]["path"]
            for asset in assets.values()
            for place in asset["destinations"].values()
        }
        assert keys[f"{pins.sha256}.zip"] == pins.chart_name
        assert keys[f"{pins.layer_sha256}.zip"] == pins.layer_name

    def test_chart_function_checks_digest_and_reads_only_chart(self, example):
        chart = example.only("training", CHART)
        assert (chart["Sha256"], chart["Key"]) == (chart_pins().sha256, f"{chart_pins().sha256}.zip")
        roles = example.resources("training", "AWS::IAM::Role")
        (role,) = (role for key, role in roles.items() if key.startswith("Chart"))
        statements = {statement["Sid"]: statement for statement in role["Policies"][0]["PolicyDocument"]["Statement"]}
        assert set(statements) == {"GetChart", "AttachToSubnet", "WriteLog"}
        assert json.dumps(statements["GetChart"]["Resource"]).endswith(f'/{chart_pins().sha256}.zip"]]}}')

    def test_chart_function_runs_in_node_subnet(self, example):
        function = functions(example)["Chart"]
        network = example.only("training", CLUSTER)["VpcConfig"]
        assert function["VpcConfig"] == {
            "SecurityGroupIds": network["SecurityGroupIds"],
            "SubnetIds": network["Subnets"],
        }

    def test_device_plugins_match_instance_type(self, p5en_spot, trn2_planned):
        nvidia, neuron = (
            yaml.safe_load(assembly.only("training", CHART)["Values"]) for assembly in (p5en_spot, trn2_planned)
        )
        enabled_plugins = [
            {name: values[f"{name}-device-plugin"]["devicePlugin"]["enabled"] for name in ("nvidia", "neuron")}
            for values in (nvidia, neuron)
        ]
        assert enabled_plugins == [{"nvidia": True, "neuron": False}, {"nvidia": False, "neuron": True}]
        for values, name in ((nvidia, "ml.p5en.48xlarge"), (neuron, "ml.trn2.48xlarge")):
            assert values["aws-efa-k8s-device-plugin"]["supportedInstanceLabels"]["values"] == [name]
        assert nvidia["health-monitoring-agent"]["region"] == "us-west-2"

    def test_changed_chart_values_change_resource(self, p5en_spot, trn2_planned):
        values = [assembly.only("training", CHART)["Values"] for assembly in (p5en_spot, trn2_planned)]
        assert len({hashlib.sha256(value.encode()).hexdigest() for value in values}) == 2


class TestRights:
    def test_role_actions_have_no_wildcard_and_star_resources_are_listed(self, example):
        for role in some(example.resources("training", "AWS::IAM::Role").values()):
            for document in role.get("Policies", ()):
                for statement in document["PolicyDocument"]["Statement"]:
                    actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
                    assert not [action for action in actions if "*" in action]
                    if statement["Resource"] == "*":
                        known = ("Describe", "DescribeNetwork", "DescribeInstances", "PutMetrics", "AttachToSubnet")
                        assert statement["Sid"] in known

    def test_node_role_assigns_pod_addresses_only_in_cluster_subnet(self, example):
        roles = example.resources("training", "AWS::IAM::Role")
        (machine,) = (role for key, role in roles.items() if key.startswith("ExecutionRole"))
        statements = {
            statement["Sid"]: statement for statement in machine["Policies"][0]["PolicyDocument"]["Statement"]
        }
        (subnet,) = (arn for arn in statements["CreateInterfaces"]["Resource"] if ":subnet/" in json.dumps(arn))
        assert statements["PodAddresses"]["Condition"] == {"ArnLike": {"ec2:Subnet": subnet}}
        assert statements["AssumePodRoles"]["Resource"] == {"Fn::GetAtt": [key_of(example, "AWS::EKS::Cluster"), "Arn"]}
        jobs = json.dumps(machine["ManagedPolicyArns"])
        assert "NodePolicy" not in jobs, "what jobs may do is granted to their pods alone"

    def test_guard_invokes_pod_counter_in_cluster_network(self, p5en_spot):
        key = key_of(p5en_spot, "AWS::Lambda::Function", Handler="chart.handler")
        assert variables(p5en_spot)["PODS_FUNCTION"] == {"Fn::GetAtt": [key, "Arn"]}
        counter_variables = p5en_spot.resources("training", "AWS::Lambda::Function")[key]["Environment"]["Variables"]
        cluster_key = key_of(p5en_spot, "AWS::EKS::Cluster")
        assert counter_variables == {
            "CLUSTER_NAME": {"Ref": cluster_key},
            "CLUSTER_ENDPOINT": {"Fn::GetAtt": [cluster_key, "Endpoint"]},
            "CLUSTER_AUTHORITY": {"Fn::GetAtt": [cluster_key, "CertificateAuthorityData"]},
        }
        roles = p5en_spot.resources("training", "AWS::IAM::Role")
        (policy,) = next(role for name, role in roles.items() if name.startswith("GuardrailsGuard"))["Policies"]
        (may,) = [statement for statement in policy["PolicyDocument"]["Statement"] if statement["Sid"] == "CountPods"]
        assert (may["Action"], may["Resource"]) == ("lambda:InvokeFunction", {"Fn::GetAtt": [key, "Arn"]})

    def test_guard_has_time_to_live_and_idle_limit(self, p5en_spot, trn2_planned):
        guard_variables = variables(p5en_spot)
        assert (guard_variables["HYPERPOD_EKS"], guard_variables["TTL_HOURS"]) == ("slipway-p5en-hyperpod", "48")
        assert functions(p5en_spot)["Guardrails"]["Handler"] == "hyperpod_eks.handler"
        assert set(rules(p5en_spot)) == {"Schedule", "NodeHealth", "State"}
        assert (
            "workers without a pod that asks for chips for 5 minutes stop"
            in (p5en_spot.template("training")["Outputs"]["GuardrailSummary"]["Value"])
        )
        assert variables(trn2_planned)["PREPAID"] == "true"


@pytest.mark.parametrize("nodes, added", [(2, [2]), (50, [50]), (120, [50, 50, 20])])
def test_start_commands_add_all_workers_in_batches(nodes, added):
    from infra.stacks.hyperpod_eks import start_commands

    commands = start_commands("us-west-2", "slipway-x", nodes)
    assert [int(command.rpartition("=")[2]) for command in commands] == added
    assert all("--nodes-to-add InstanceGroupName=workers," in command for command in commands)


@pytest.mark.parametrize(
    "extra, code",
    [
        ({"purchase": {"option": "capacity-block"}}, "hyperpod-ec2-capacity"),
        ({"purchase": {"option": "training-plan"}}, "plan-without-arn"),
        ({"storage": {"lustre_gib": 1200}}, "eks-unused"),
        ({"target": {"queue": "gpus"}}, "no-team-queue"),
        ({"network": {"vpc_id": "vpc-0123456789abcdef0", "subnet_ids": ["subnet-0123456789abcdef0"]}}, "one-zone"),
        ({"target": {"cluster": "research"}}, "nothing-to-build"),
    ],
)
def test_invalid_plan_refused_before_synthesis(catalog, tmp_path, extra, code):
    from infra.build import build_app

    target = {"kind": "hyperpod-eks", "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 2}
    plan = {"slipway": 1, "name": "bad", "target": target, "purchase": {"option": "on-demand"}, **extra}
    plan["target"] = {**target, **extra.get("target", {})}
    with pytest.raises(ImpossibleError) as refusal:
        build_app(pinned_plan(request_of(plan), catalog), outdir=tmp_path)
    assert code in {finding.code for finding in refusal.value.findings}
    assert list(tmp_path.iterdir()) == []
