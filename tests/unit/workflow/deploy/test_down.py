"""Which cluster a name or a file selects for removal, and a removal without waiting."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import boto3
import pytest
from botocore.stub import Stubber

from launcher.answers.down import document, page
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.catalog.load import load
from launcher.model.errors import AwsError, ImpossibleError, UnreadableInputError
from launcher.model.removal import Removal, Retained, RetainedKind
from launcher.workflow.deploy.down import ExistingResources, RemovalTarget, kind_of, subject, survey, take_down

ID = "arn:aws:cloudformation:us-east-2:123456789012:stack/slipway-a-training/0"


def write(path, **keys):
    path.write_text(json.dumps({"slipway": 1, "name": "mine", **keys}))
    return str(path)


@pytest.mark.parametrize(
    "outputs, kind",
    [
        ({"ClusterId", "ClusterArn"}, "hyperpod-slurm"),
        ({"ClusterId", "ClusterArn", "AccessRoleArn"}, "hyperpod-eks"),
        ({"ClusterArn", "AccessRoleArn"}, "eks"),
        ({"PcsClusterId"}, "pcs"),
        ({"TrainingJobs"}, "sagemaker-training"),
        ({"HeadNodeInstanceId"}, None),
    ],
)
def test_target_kind_follows_from_the_stack_outputs(outputs, kind):
    stack = StackState(id=ID, name="a", status="", protected=False, outputs=dict.fromkeys(outputs, "x"), tags={})
    assert kind_of(stack) == kind


class TestSubject:
    def test_subject_of_a_name_is_the_cluster_in_the_given_region(self, tmp_path):
        assert subject("team", "us-west-2", tmp_path, {}) == RemovalTarget(
            cluster="team", region="us-west-2", network=None
        )

    def test_subject_of_a_plan_file_is_the_cluster_of_the_plan(self, tmp_path):
        network = {"name": "lab", "az_ids": ["use2-az1"]}
        path = write(tmp_path / "plan.json", target={"region": "us-east-2"}, network=network)
        teardown_subject = subject(path, None, tmp_path, {"AWS_REGION": "eu-west-1"})
        assert teardown_subject == RemovalTarget(cluster="mine", region="us-east-2", network="lab")

    def test_region_of_the_newest_run_overrides_the_environment(self, tmp_path):
        folder = tmp_path / ".slipway" / "runs" / "mine" / "20261120T120000Z"
        folder.mkdir(parents=True)
        write(folder / "plan.json", target={"region": "us-east-1"})
        (folder.parent / "latest").symlink_to(folder.name)
        assert subject("mine", None, tmp_path, {"AWS_REGION": "eu-west-1"}).region == "us-east-1"

    def test_plan_with_several_regions_uses_the_region_of_the_environment(self, tmp_path):
        path = write(tmp_path / "plan.json", target={"region": ["us-east-1", "us-east-2"]})
        assert subject(path, None, tmp_path, {"AWS_DEFAULT_REGION": "us-east-2"}).region == "us-east-2"
        with pytest.raises(UnreadableInputError, match="the region of"):
            subject(path, None, tmp_path, {})

    @pytest.mark.parametrize("text", ["missing.yaml", "some/where"])
    def test_missing_plan_file_is_refused(self, text, tmp_path):
        with pytest.raises(UnreadableInputError, match="cannot read the plan file"):
            subject(text, "us-east-2", tmp_path, {})

    def test_plan_for_an_existing_cluster_does_not_remove_the_cluster(self, tmp_path):
        path = write(tmp_path / "plan.json", target={"cluster": "team", "region": "us-east-2"})
        with pytest.raises(ImpossibleError, match="its jobs run on team"):
            subject(path, None, tmp_path, {})


def test_interrupted_down_reports_the_continuing_cloudformation_stack():
    stack = StackState(id=ID, name="slipway-a-training", status="CREATE_COMPLETE", protected=False, outputs={}, tags={})
    down_subject = RemovalTarget(cluster="a", region="us-east-2", network=None)
    shown = Removal(cluster="a", region="us-east-2", done=False, stacks=(), instances=(), kept=())
    teardown = ExistingResources(
        subject=down_subject, going=(stack,), buckets=(), erase=False, kept=(), provider_log=None, removal=shown
    )
    client = boto3.client("cloudformation", region_name="us-east-2", aws_access_key_id="x", aws_secret_access_key="x")
    event = {
        "StackId": ID,
        "StackName": stack.name,
        "EventId": "1",
        "LogicalResourceId": stack.name,
        "PhysicalResourceId": ID,
        "ResourceType": "AWS::CloudFormation::Stack",
        "ResourceStatus": "CREATE_COMPLETE",
        "Timestamp": datetime(2026, 11, 20, tzinfo=UTC),
    }
    messages = []

    def leave(seconds):
        raise KeyboardInterrupt

    with Stubber(client) as stub:
        stub.add_response("describe_stack_events", {"StackEvents": [event]})
        stub.add_response("delete_stack", {})
        stub.add_response("describe_stack_events", {"StackEvents": [event]})
        going = {
            "StackName": "slipway-a-training",
            "StackStatus": "DELETE_IN_PROGRESS",
            "CreationTime": event["Timestamp"],
        }
        stub.add_response("describe_stacks", {"Stacks": [{**going, "StackId": event["StackId"]}]})
        session = Session(environment={}, region="us-east-2", clients={"cloudformation": client})
        with pytest.raises(KeyboardInterrupt):
            take_down(teardown, session, load(), messages.append, leave)

    assert messages[-1].startswith("CloudFormation continues with slipway-a-training")


def test_unknown_aws_profile_is_reported_by_name():
    session = Session(environment={"AWS_PROFILE": "no-such-profile"}, region="us-east-2")
    with pytest.raises(AwsError, match="no-such-profile"):
        survey(RemovalTarget(cluster="a", region="us-east-2", network=None), session, load(), erase=False)


def test_down_page_adds_up_the_retained_resources():
    retained = (
        Retained(
            kind=RetainedKind.CHECKPOINTS, name="b", reason="12 objects", gib=1536.0, usd_per_month=Decimal("35.328")
        ),
        Retained(
            kind=RetainedKind.LOGS, name="/aws/l", reason="kept without expiry", gib=0.0, usd_per_month=Decimal(0)
        ),
        Retained(kind=RetainedKind.CLUSTER, name="slipway-a", reason="left behind", unpriced="not counted here"),
    )
    removal = Removal(
        cluster="a",
        region="us-east-2",
        done=False,
        stacks=(("slipway-a-training", "CREATE_COMPLETE"),),
        instances=(("m5.2xlarge", 1), ("p5.48xlarge", 2)),
        kept=retained,
    )
    text = "\n".join(page(removal, 100))
    assert document(removal)["usd_per_month"] == "35.328"
    assert (
        document(replace(removal, kept=(replace(retained[0], usd_per_month=Decimal("0.2300")),)))["usd_per_month"]
        == "0.23"
    )
    assert "slipway-a-training  CREATE_COMPLETE" in text
    assert "1 x m5.2xlarge, 2 x p5.48xlarge run now, and the jobs on them end" in text
    assert "1,536 GiB; $35.33 a month; 12 objects" in text
    assert "0 GiB; $0.00 a month; kept without expiry" in text
    assert "unpriced: not counted here; left behind" in text
    assert "$35.33 a month for retained resources, without those that have no price" in text


@pytest.mark.parametrize("done", [False, True])
def test_page_of_a_cluster_with_running_jobs_names_the_jobs_and_the_lost_work(done):
    removal = Removal(
        cluster="a",
        region="us-east-2",
        done=done,
        stacks=(("slipway-a-training", "CREATE_COMPLETE"),),
        instances=(),
        kept=(),
        jobs=(("gpt", "running, attempt 2, on 2 nodes"),),
    )
    text = "\n".join(page(removal, 100))
    assert "    gpt: running, attempt 2, on 2 nodes" in text
    assert ("to save it first: slipway cancel gpt" in text) is not done
    saved = "\n".join(page(replace(removal, saves=True), 100))
    assert ("they store a checkpoint before their instances end" in saved) is not done
    assert "is lost" not in saved
    assert document(removal)["jobs"] == [{"name": "gpt", "status": "running, attempt 2, on 2 nodes"}]
