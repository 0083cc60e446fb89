"""HyperPod in the workflow: training plan checks, refused jobs, and reading back the created cluster."""

from dataclasses import replace
from datetime import UTC, datetime

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from launcher import plan_file
from launcher.aws.session import Session
from launcher.aws.stacks import StackResource, StackState
from launcher.catalog.load import load
from launcher.model.errors import AwsError, DeploymentFailedError, ImpossibleError
from launcher.planning.pin import pinned_plan
from launcher.targets.hyperpod_slurm import readback
from launcher.targets.hyperpod_slurm.cluster import HyperPodSlurmCluster
from launcher.workflow.cluster.readback.reading import Reading
from launcher.workflow.cluster.training_plans import refuse_unless_training_plan_fits
from launcher.workflow.doctor import leftovers
from tests.plans import NOW, ROOT

ARN = "arn:aws:sagemaker:us-east-2:123456789012:training-plan/p5-december"
CAPACITY = "arn:aws:sagemaker:us-east-2:123456789012:reserved-capacity/x"
OUTPUTS = {
    "ClusterName": "slipway-p5-plan",
    "PrivateSubnetId": "subnet-0123456789abcdef0",
    "NodeSecurityGroupId": "sg-1",
}


@pytest.fixture(scope="module")
def training_plan():
    path = ROOT / "examples" / "hyperpod" / "p5-training-plan.yaml"
    return pinned_plan(plan_file.load(path), load())


@pytest.fixture
def stubbed_sagemaker():
    """A session whose SageMaker and FSx give the test's answers."""
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    clients = {
        name: boto3.client(name, region_name="us-east-2", aws_access_key_id="x", aws_secret_access_key="x")
        for name in ("sagemaker", "fsx")
    }
    session = Session(environment=keys, region="us-east-2", clients=clients)
    with Stubber(clients["sagemaker"]) as sagemaker, Stubber(clients["fsx"]) as fsx:
        yield session, sagemaker, fsx
        sagemaker.assert_no_pending_responses()


def bought(**changes):
    part = {
        "ReservedCapacityArn": CAPACITY,
        "InstanceType": "ml.p5.48xlarge",
        "TotalInstanceCount": 2,
        "Status": "Scheduled",
        "AvailabilityZoneId": "use2-az1",
        **changes.pop("part", {}),
    }
    return {
        "TrainingPlanArn": ARN,
        "TrainingPlanName": "p5-december",
        "Status": "Scheduled",
        "TargetResources": ["hyperpod-cluster"],
        "TotalInstanceCount": 2,
        "StartTime": datetime(2026, 12, 1, 11, 30, tzinfo=UTC),
        "EndTime": datetime(2026, 12, 8, 11, 30, tzinfo=UTC),
        "UpfrontFee": "18000",
        "CurrencyCode": "USD",
        "ReservedCapacitySummaries": [part],
        **changes,
    }


class TestTrainingPlan:
    def look(self, plan, aws, answer):
        session, sagemaker, _ = aws
        sagemaker.add_response("describe_training_plan", answer, {"TrainingPlanName": "p5-december"})
        refuse_unless_training_plan_fits(plan, session, NOW)

    def refused(self, plan, aws, answer):
        """The codes of what refuses it."""
        try:
            self.look(plan, aws, answer)
        except ImpossibleError as refusal:
            return [finding.code for finding in refusal.findings]
        return []

    @pytest.mark.parametrize("status", ["Scheduled", "Active"])
    def test_fitting_training_plan_accepted(self, training_plan, stubbed_sagemaker, status):
        assert self.refused(training_plan, stubbed_sagemaker, bought(Status=status)) == []

    @pytest.mark.parametrize(
        "changes, code",
        [
            ({"TargetResources": ["training-job"]}, "training-plan-for"),
            ({"Status": "Expired"}, "training-plan-status"),
            ({"TotalInstanceCount": 1}, "training-plan-count"),
            ({"part": {"InstanceType": "ml.p5en.48xlarge"}}, "training-plan-type"),
            ({"part": {"AvailabilityZoneId": "use2-az3"}}, "training-plan-zone"),
            ({"EndTime": datetime(2026, 12, 7, 11, 30, tzinfo=UTC)}, "training-plan-window"),
            ({"StartTime": datetime(2026, 12, 2, 11, 30, tzinfo=UTC)}, "training-plan-window"),
        ],
    )
    def test_unfit_training_plan_refused_with_finding(self, training_plan, stubbed_sagemaker, changes, code):
        with pytest.raises(ImpossibleError) as refusal:
            self.look(training_plan, stubbed_sagemaker, bought(**changes))
        (finding,) = refusal.value.findings
        assert (finding.code, bool(finding.path), bool(finding.hint)) == (code, True, True)

    def test_expired_training_plan_refused_despite_planned_window(self, training_plan, stubbed_sagemaker):
        with pytest.raises(ImpossibleError) as refusal:
            self.look(training_plan, stubbed_sagemaker, bought(EndTime=datetime(2026, 11, 19, 11, 30, tzinfo=UTC)))
        over, window = refusal.value.findings
        assert (over.code, window.code) == ("training-plan-over", "training-plan-window")
        assert window.hint == "set it to 2026-11-19T11:30:00Z"

    def test_training_plan_window_checked_only_if_planned(self, training_plan, stubbed_sagemaker):
        purchase = training_plan.request.purchase
        unsaid = replace(purchase.training_plan, starts_at=None, ends_at=None)
        request = replace(training_plan.request, purchase=replace(purchase, training_plan=unsaid))
        other = bought(StartTime=datetime(2026, 12, 2, 11, 30, tzinfo=UTC))
        assert self.refused(training_plan, stubbed_sagemaker, other) == ["training-plan-window"]
        assert self.refused(replace(training_plan, request=request), stubbed_sagemaker, other) == []

    def test_unknown_training_plan_is_reported(self, training_plan, stubbed_sagemaker):
        session, sagemaker, _ = stubbed_sagemaker
        sagemaker.add_client_error("describe_training_plan", "ResourceNotFound")
        with pytest.raises(AwsError, match="describe training plan arn:aws:sagemaker"):
            refuse_unless_training_plan_fits(training_plan, session, NOW)


class TestJobs:
    def test_missing_session_manager_plugin_refuses_job_with_command(self, training_plan, tmp_path):
        with pytest.raises(ImpossibleError) as refusal:
            HyperPodSlurmCluster().refuse_job(training_plan, {"PATH": str(tmp_path)})
        assert (
            "aws ssm start-session --region us-east-2 --target sagemaker-cluster:ID_controller-" in refusal.value.hint
        )
        assert "sbatch job.sbatch" in refusal.value.hint

    def test_job_with_session_manager_plugin_accepted_on_own_cluster(self, training_plan, tmp_path):
        for name in ("aws", "session-manager-plugin"):
            (tmp_path / name).write_text("#!/bin/sh\n")
            (tmp_path / name).chmod(0o755)
        HyperPodSlurmCluster().refuse_job(training_plan, {"PATH": str(tmp_path)})
        elsewhere = replace(training_plan.request, target=replace(training_plan.request.target, cluster="shared"))
        with pytest.raises(ImpossibleError, match="only to the plan's own HyperPod cluster"):
            HyperPodSlurmCluster().refuse_job(replace(training_plan, request=elsewhere), {"PATH": str(tmp_path)})

    def test_running_controller_becomes_head_node(self, training_plan, stubbed_sagemaker):
        def listed(number, group, status):
            return {
                "InstanceGroupName": group,
                "InstanceId": f"i-{number:017x}",
                "InstanceType": "ml.m6i.xlarge",
                "LaunchTime": NOW,
                "InstanceStatus": {"Status": status},
            }

        session, sagemaker, _ = stubbed_sagemaker
        expected_params = {"ClusterName": "slipway-p5-plan", "InstanceGroupNameContains": "controller"}
        nodes = [
            listed(1, "controller", "Failure"),
            listed(2, "controller", "Running"),
            listed(3, "controllers", "Running"),
        ]
        sagemaker.add_response("list_cluster_nodes", {"ClusterNodeSummaries": nodes}, expected_params)
        outputs = {"ClusterName": "slipway-p5-plan", "ClusterId": "abcdefghijkl", "Region": "us-east-2"}
        node = HyperPodSlurmCluster().head_node(training_plan, outputs, session)
        assert node.instance == "sagemaker-cluster:abcdefghijkl_controller-i-00000000000000002"
        assert (node.via, node.user) == ("session", "ubuntu")
        sagemaker.add_response("list_cluster_nodes", {"ClusterNodeSummaries": nodes[:1]}, expected_params)
        with pytest.raises(DeploymentFailedError, match="the controller of"):
            HyperPodSlurmCluster().head_node(training_plan, outputs, session)


class TestReadBack:
    @pytest.fixture
    def reading(self, training_plan, stubbed_sagemaker):
        name = "slipway-p5-plan-training"
        stack = StackState(id="x", name=name, status="CREATE_COMPLETE", protected=False, outputs=OUTPUTS, tags={})
        kind = "AWS::FSx::FileSystem"
        file_system = StackResource(
            stack=name, logical_id="Lustre", physical_id="fs-0123456789abcdef0", type=kind, status="x"
        )
        return Reading(
            plan=training_plan,
            session=stubbed_sagemaker[0],
            zone="use2-az1",
            usd_per_hour=None,
            deployed_now=True,
            main=stack,
            resources=(file_system,),
            queues=None,
        )

    def group(self, name, type_, count, part, **more):
        slurm = {"NodeType": part, **more.pop("slurm", {})}
        return {
            "InstanceGroupName": name,
            "InstanceType": type_,
            "CurrentCount": count,
            "TargetCount": count,
            "SlurmConfig": slurm,
            **more,
        }

    def described(self, **changes):
        workers = self.group(
            "workers",
            "ml.p5.48xlarge",
            2,
            "Compute",
            slurm={"PartitionNames": ["p5-48xlarge"]},
            TrainingPlanArn=ARN,
            **changes.pop("workers", {}),
        )
        return {
            "ClusterArn": "arn:aws:sagemaker:us-east-2:123456789012:cluster/abcdefghijkl",
            "ClusterName": "slipway-p5-plan",
            "ClusterStatus": "InService",
            "NodeRecovery": "Automatic",
            "InstanceGroups": [self.group("controller", "ml.m6i.xlarge", 1, "Controller"), workers],
            "VpcConfig": {"Subnets": ["subnet-0123456789abcdef0"], "SecurityGroupIds": ["sg-1"]},
            **changes,
        }

    def test_hyperpod_cluster_as_planned_agrees(self, stubbed_sagemaker, reading):
        stubbed_sagemaker[1].add_response("describe_cluster", self.described(), {"ClusterName": "slipway-p5-plan"})
        readback.cluster(reading)
        assert reading.checks.wrong == []
        assert any("group workers: ml.p5.48xlarge 2 Compute" in line for line in reading.checks.agreed)

    @pytest.mark.parametrize(
        "changes, message",
        [
            ({"ClusterStatus": "RollingBack"}, "HyperPod cluster"),
            ({"NodeRecovery": "None"}, "faulty instances"),
            ({"VpcConfig": {"Subnets": ["subnet-0fedcba9876543210"], "SecurityGroupIds": ["sg-1"]}}, "subnet"),
            ({"workers": {"TargetCount": 1}}, "group workers"),
        ],
    )
    def test_different_hyperpod_cluster_is_reported(self, stubbed_sagemaker, reading, changes, message):
        answer = self.described(**{key: value for key, value in changes.items() if key != "workers"})
        answer["InstanceGroups"][1].update(changes.get("workers", {}))
        stubbed_sagemaker[1].add_response("describe_cluster", answer, {"ClusterName": "slipway-p5-plan"})
        readback.cluster(reading)
        (wrong,) = reading.checks.wrong
        assert message in wrong

    def test_file_system_size_is_compared_with_priced_size(self, stubbed_sagemaker, reading):
        answer = {
            "Lifecycle": "AVAILABLE",
            "StorageCapacity": 2400,
            "SubnetIds": ["subnet-0123456789abcdef0"],
            "LustreConfiguration": {"PerUnitStorageThroughput": 250},
        }
        stubbed_sagemaker[2].add_response(
            "describe_file_systems", {"FileSystems": [answer]}, {"FileSystemIds": ["fs-0123456789abcdef0"]}
        )
        readback.file_systems(reading)
        assert reading.checks.wrong == ["file system, GiB: planned 1200, found 2400"]


def test_retained_log_groups_have_price():
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    with mock_aws():
        client = boto3.client("logs", region_name="us-east-2", aws_access_key_id="x", aws_secret_access_key="x")
        for name in ("slipway-p5-plan/abcdefghijkl", "slipway-other/abcdefghijkl"):
            client.create_log_group(logGroupName=f"/aws/sagemaker/Clusters/{name}")
        session = Session(environment=keys, region="us-east-2", clients={"logs": client})
        (retained,) = leftovers.retained_logs(session, load(), "us-east-2", "slipway-p5-plan", None)
    assert retained.name == "/aws/sagemaker/Clusters/slipway-p5-plan/abcdefghijkl"
