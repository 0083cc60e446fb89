"""The nodes of a job on plain instances: listed from its group, and replaced without a smaller group."""

import time
from contextlib import nullcontext
from datetime import UTC, datetime
from decimal import Decimal

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends

from launcher import plan_file
from launcher.aws import auto_scaling
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.model.cluster_nodes import NodeAction, NodeFacts, NodeUse
from launcher.model.ec2 import GROUP_OUTPUT
from launcher.model.errors import DeploymentFailedError, ImpossibleError
from launcher.model.job import JobState, Submitted
from launcher.model.tags import CLUSTER_TAG, PURPOSE_TAG, RUN_TAG
from launcher.planning.pin import pinned_plan
from launcher.records.run_folder import RunFolder
from launcher.records.submission import API, HeadNode
from launcher.targets.ec2.cluster import InstancesCluster
from launcher.targets.sagemaker_training.cluster import SageMakerTrainingCluster
from launcher.workflow.cluster.cluster_access import ClusterAccess
from launcher.workflow.cluster.instance_jobs import FAILED_START, InstanceJobs
from launcher.workflow.run.cluster_nodes import dearest_rate
from tests.plans import EXAMPLES
from tests.unit.cli.reports import QUOTE

REGION, GROUP = "us-east-2", "slipway-lora"
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


def clients(*services):
    options = {"region_name": REGION, "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    return [boto3.client(service, **options) for service in services]


@pytest.fixture
def access():
    """The access to a group of two instances of a job."""
    plan = pinned_plan(plan_file.load(EXAMPLES / "ec2" / "lora-g6e.yaml"), load())
    with mock_aws():
        ec2, scaling = clients("ec2", "autoscaling")
        subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
        data = {"ImageId": "ami-00000000000000000", "InstanceType": plan.place.instance_type}
        template = ec2.create_launch_template(LaunchTemplateName="t", LaunchTemplateData=data)["LaunchTemplate"]
        tags = {CLUSTER_TAG: plan.cluster_name, PURPOSE_TAG: "node", RUN_TAG: "job-1"}
        scaling.create_auto_scaling_group(
            AutoScalingGroupName=GROUP,
            MinSize=0,
            MaxSize=4,
            DesiredCapacity=2,
            VPCZoneIdentifier=subnet,
            LaunchTemplate={"LaunchTemplateId": template["LaunchTemplateId"], "Version": "1"},
            Tags=[{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in tags.items()],
        )
        yield ClusterAccess(
            plan=plan,
            cluster=plan.cluster_name,
            head_node=HeadNode(via=API, host="EC2 Auto Scaling", region=REGION),
            outputs={GROUP_OUTPUT: GROUP},
            session=Session(environment=KEYS, region=REGION),
            shell=nullcontext,
            api=nullcontext,
            placed=dict,
        )


def test_instances_of_group_are_nodes_of_job(access):
    nodes = InstancesCluster().nodes(access)
    assert [(node.use, node.job, node.name) for node in nodes] == [
        (NodeUse.BUSY, "job-1", node.instance) for node in nodes
    ]
    assert len(nodes) == 2
    assert all(node.up_since is not None for node in nodes)
    assert "Linux version" in InstancesCluster().boot_output(access, nodes[0])


def test_nodes_of_cluster_and_of_job_have_order_of_ranks_when_younger_instance_has_lower_id(access):
    by_id = sorted(node.name for node in InstancesCluster().nodes(access))
    known = ec2_backends[DEFAULT_ACCOUNT_ID][REGION].all_instances()
    for instance in known:
        instance.launch_time = f"2026-11-20T12:00:0{9 - by_id.index(instance.id)}.000Z"
    assert [node.name for node in InstancesCluster().nodes(access)] == by_id[::-1]
    (storage,) = clients("s3")
    storage.create_bucket(Bucket="ranked", CreateBucketConfiguration={"LocationConstraint": REGION})
    store = Objects.at(access.session, "s3://ranked/jobs")
    jobs = InstanceJobs(
        session=access.session, group=GROUP, job_files=store, channel=store, environment={}, sessions=str
    )
    assert jobs.nodes(Submitted(job="job-1", key="job-1", folder="job-1")).names == tuple(by_id[::-1])


def test_job_whose_instance_did_not_reach_the_store_has_failed_with_the_lines_of_its_log(access):
    storage, logs = clients("s3", "logs")
    storage.create_bucket(Bucket="empty", CreateBucketConfiguration={"LocationConstraint": REGION})
    store = Objects.at(access.session, "s3://empty/jobs")
    jobs = InstanceJobs(
        session=access.session, group=GROUP, job_files=store, channel=store, environment={}, sessions=str
    )
    stopped = Submitted(job="job-0", key="job-0", folder="job-0")
    group = f"{GROUP}-instances"
    logs.create_log_group(logGroupName=group)

    def write(stream, *lines):
        logs.create_log_stream(logGroupName=group, logStreamName=stream)
        events = [{"timestamp": int(time.time() * 1000), "message": line} for line in lines]
        logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)

    write("job-00/i-1", "slipway: ip-1: the start of the job failed with exit code 9")
    write("job-0/i-1", "step 1")
    assert jobs.facts(stopped).state is JobState.CANCELLED
    write("job-0/i-2", "Could not connect to the endpoint URL", f"slipway: ip-2: {FAILED_START} 1")
    facts = jobs.facts(stopped)
    assert facts.state is JobState.FAILED
    assert "Could not connect to the endpoint URL" in facts.reason
    assert facts.attempt.exit_code == 1


def test_diagnostics_have_activities_of_group_and_output_of_newest_instances(access):
    (logs,) = clients("logs")
    cluster, group = InstancesCluster(), f"slipway-{access.plan.cluster_name}-instances"
    at = datetime(2026, 11, 28, 12, tzinfo=UTC)
    failed = {"StatusCode": "Failed", "Description": "Launching a new EC2 instance", "Cause": "At 12:00 a user asked"}
    activity = {"ActivityId": "1", "AutoScalingGroupName": GROUP, "StartTime": at, **failed}
    answer = {"Activities": [{**activity, "StatusMessage": "InsufficientInstanceCapacity"}, activity]}
    with Stubber(access.session.client("autoscaling")) as stubber:
        stubber.add_response("describe_scaling_activities", answer)
        texts = cluster.diagnostics(access)
        assert texts["activities.txt"].splitlines() == [
            "2026-11-28T12:00:00Z Failed Launching a new EC2 instance: InsufficientInstanceCapacity",
            "2026-11-28T12:00:00Z Failed Launching a new EC2 instance: At 12:00 a user asked",
        ]
        assert "does not exist" in texts["logs.txt"]
        logs.create_log_group(logGroupName=group)
        logs.create_log_stream(logGroupName=group, logStreamName="job-1/i-2")
        events = [{"timestamp": int(time.time() * 1000), "message": line} for line in ("Traceback", "KeyError: 'a'")]
        logs.put_log_events(logGroupName=group, logStreamName="job-1/i-2", logEvents=events)
        stubber.add_response("describe_scaling_activities", answer)
        assert cluster.diagnostics(access)["logs/job-1/i-2.txt"] == "Traceback\nKeyError: 'a'"


def test_replacement_lets_job_save(access):
    facts = NodeFacts(node=InstancesCluster().nodes(access)[0], usd_per_hour=Decimal(2), unsaved_s=600.0)
    effect = InstancesCluster().node_effect(NodeAction.REPLACE, facts)
    assert effect.job.startswith("job job-1 loses its instance: the agent saves within the grace period")


def test_replaced_instance_keeps_group_size(access):
    first, second = InstancesCluster().nodes(access)
    InstancesCluster().change_node(NodeAction.REPLACE, first, access)
    after = {node.name for node in InstancesCluster().nodes(access)}
    assert first.name not in after
    assert second.name in after
    assert len(after) == 2


@pytest.mark.parametrize("action", [NodeAction.DRAIN, NodeAction.REBOOT, NodeAction.RESUME])
def test_unsupported_node_action_refused_naming_replace(access, action):
    node = InstancesCluster().nodes(access)[0]
    facts = NodeFacts(node=node, usd_per_hour=Decimal(2))
    with pytest.raises(ImpossibleError, match=f"{action} is not possible on plain instances") as refused:
        InstancesCluster().node_effect(action, facts)
    assert "replace NODE" in refused.value.hint
    assert "$2.00 an hour" in InstancesCluster().node_effect(NodeAction.REPLACE, facts).cost


def test_replacement_costs_at_most_the_dearest_type_that_ec2_may_choose(access, tmp_path):
    rates = {"g6e.xlarge": "40", "g6.xlarge": "90"}
    rates = {"cluster_usd_per_hour": "0", "other_usd_per_hour": "0", "type_usd_per_hour": rates}
    folder = RunFolder(path=tmp_path)
    folder.write_json("quote.json", QUOTE | {"rates": rates | {"prepaid_usd": None, "list_usd_per_hour": None}})
    facts = NodeFacts(
        node=InstancesCluster().nodes(access)[0],
        usd_per_hour=Decimal(20),
        dearest_usd_per_hour=dearest_rate(folder),
    )
    cost = InstancesCluster().node_effect(NodeAction.REPLACE, facts).cost
    assert cost.startswith("the new instance costs at most $45.00 an hour (EC2 chooses its type) from its start")


def test_nodes_of_training_jobs_refused(access):
    with pytest.raises(ImpossibleError, match="SageMaker training jobs have no nodes"):
        SageMakerTrainingCluster().nodes(access)


def test_launch_beside_a_running_job_is_refused_before_anything_changes(access):
    text = (EXAMPLES / "ec2" / "lora-g6e.yaml").read_text(encoding="utf-8").replace("lora-g6e-ec2", "lora")
    plan, cluster = pinned_plan(plan_file.loads(text), load()), InstancesCluster()
    with pytest.raises(DeploymentFailedError, match="job job-1 runs on the instances of lora") as refused:
        cluster.refuse_second_job(plan, access.session)
    assert "slipway cancel lora" in refused.value.hint
    auto_scaling.stop(access.session, GROUP)
    cluster.refuse_second_job(plan, access.session)
    cluster.refuse_second_job(access.plan, access.session)  # which has no group yet
