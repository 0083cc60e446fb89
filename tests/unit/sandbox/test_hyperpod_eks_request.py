"""Requests for a HyperPod cluster with EKS that the sandbox refuses, and its chart."""

import copy

import pytest
import yaml

from launcher.catalog.hyperpod_chart import chart_pins
from launcher.sandbox.cluster.hyperpod_eks_request import ControlPlane, refuse
from launcher.sandbox.cluster.schema import RequestRefusedError
from launcher.sandbox.kubernetes.hyperpod_chart import emulated_files, is_emulated, own_objects
from launcher.sandbox.kubernetes.validation import refusals
from tests.unit.sandbox.hyperpod_plans import ACCOUNT, PLANS

CONTROL = ControlPlane(version="1.35", vpc_id="vpc-1", has_chart=True)
SCRIPTS = {"SourceS3Uri": "s3://assets/scripts", "OnCreate": "on_create.sh"}
ROLE = "arn:aws:iam::123456789012:role/machines"
REQUEST = {
    "ClusterName": "slipway-x",
    "NodeProvisioningMode": "Continuous",
    "NodeRecovery": "Automatic",
    "Orchestrator": {"Eks": {"ClusterArn": "arn:aws:eks:us-east-2:123456789012:cluster/slipway-x"}},
    "VpcConfig": {"SecurityGroupIds": ["sg-efa"], "Subnets": ["subnet-1"]},
    "InstanceGroups": [
        {
            "InstanceGroupName": "system",
            "InstanceType": "ml.m6i.xlarge",
            "InstanceCount": 1,
            "MinInstanceCount": 1,
            "ExecutionRole": ROLE,
            "LifeCycleConfig": SCRIPTS,
        },
        {
            "InstanceGroupName": "workers",
            "InstanceType": "ml.p5.48xlarge",
            "InstanceCount": 2,
            "ExecutionRole": ROLE,
            "LifeCycleConfig": SCRIPTS,
            "OnStartDeepHealthChecks": ["InstanceStress", "InstanceConnectivity"],
            "CapacityRequirements": {"Spot": {}},
        },
    ],
}


def refused(change=lambda _: None, control=CONTROL):
    """The refusal of the request after a change; "" when it is accepted."""
    request = copy.deepcopy(REQUEST)
    change(request)
    try:
        refuse(request, ACCOUNT, control, {"subnet-1": "vpc-1"})
    except RequestRefusedError as refusal:
        return str(refusal)
    return ""


def workers(**changes):
    def change(request):
        group = request["InstanceGroups"][1]
        for key, value in changes.items():
            if value is None:
                group.pop(key)
            else:
                group[key] = value

    return change


def whole(**changes):
    return lambda request: request.update(changes)


def test_valid_hyperpod_eks_request_is_accepted():
    assert refused() == ""


@pytest.mark.parametrize(
    "change, message",
    [
        (workers(LifeCycleConfig=None), "LifeCycleConfig: missing"),
        (workers(LifeCycleConfig={**SCRIPTS, "OnCreate": "other.sh"}), "no object s3://assets/scripts/other.sh"),
        (workers(SlurmConfig={"NodeType": "Compute"}), "the orchestrator is EKS"),
        (workers(InstanceGroupName="system"), "system is used twice"),
        (workers(MinInstanceCount=3), "MinInstanceCount: got 3, allowed: 2"),
        (workers(InstanceType="p5.48xlarge"), "InstanceType"),
        (workers(TrainingPlanArn=PLANS[0].arn), "not bought on spot"),
        (
            workers(TrainingPlanArn=PLANS[2].arn, CapacityRequirements=None),
            "needs 2 instances, the training plan has 1",
        ),
        (workers(KubernetesConfig={"Taints": [{"Key": "a", "Effect": "NoSchedule"}]}), "not with deep health checks"),
        (workers(Nonsense=1), "Nonsense"),
        (whole(NodeProvisioningMode="None"), "NodeProvisioningMode"),
        (lambda request: request.pop("NodeProvisioningMode"), "spot needs NodeProvisioningMode Continuous"),
        (whole(VpcConfig={"SecurityGroupIds": ["sg-plain"], "Subnets": ["subnet-1"]}), "EFA needs"),
        (whole(VpcConfig={"SecurityGroupIds": ["sg-efa"], "Subnets": ["subnet-2"]}), "the control plane's VPC"),
    ],
)
def test_invalid_hyperpod_eks_request_is_refused_with_the_reason(change, message):
    assert message in refused(change)


@pytest.mark.parametrize(
    "control, message",
    [
        (None, "no EKS cluster slipway-x"),
        (ControlPlane(version="1.36", vpc_id="vpc-1", has_chart=True), "HyperPod supports 1.30 to 1.35"),
        (ControlPlane(version="1.35", vpc_id="vpc-1", has_chart=False), "chart is not installed"),
        (ControlPlane(version="1.35", vpc_id="vpc-2", has_chart=True), "the control plane's VPC"),
    ],
)
def test_hyperpod_nodes_without_a_prepared_eks_cluster_are_refused(control, message):
    assert message in refused(control=control)


class TestChart:
    """The small one in the place of HyperPod's."""

    @staticmethod
    def values(*, nvidia, efa):
        types = ["ml.p5.48xlarge" if nvidia else "ml.trn2.48xlarge"]
        return yaml.safe_dump(
            {
                "nvidia-device-plugin": {"devicePlugin": {"enabled": nvidia}},
                "neuron-device-plugin": {"devicePlugin": {"enabled": not nvidia}},
                "aws-efa-k8s-device-plugin": {
                    "devicePlugin": {"enabled": efa},
                    "supportedInstanceLabels": {"values": types},
                },
            }
        )

    @pytest.mark.long
    @pytest.mark.parametrize("nvidia, plugins", [(True, {"nvidia", "aws-efa"}), (False, {"neuron", "aws-efa"})])
    def test_every_object_of_the_emulated_chart_is_accepted_by_kubernetes(self, nvidia, plugins):
        manifests = list(own_objects(self.values(nvidia=nvidia, efa=True)))
        assert [refusal for document in manifests for refusal in refusals(document)] == []
        names = [manifest["metadata"]["name"] for manifest in manifests if manifest["kind"] == "DaemonSet"]
        assert {
            plugin for plugin in ("nvidia", "neuron", "aws-efa") if any(plugin in name for name in names)
        } == plugins

    def test_emulated_chart_is_recognised_as_emulated(self):
        files = emulated_files()
        assert set(files) == {chart_pins().chart_name, chart_pins().layer_name}
        assert all(is_emulated(content) for content in files.values())
