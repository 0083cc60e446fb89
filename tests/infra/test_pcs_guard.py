"""PCS's guard as Lambda runs it: PCS answers through the Stubber, the rest of AWS is played by moto."""

from datetime import timedelta

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from tests.infra.guard_account import NOW, REGION, client
from tests.infra.guard_modules import guard_module

pytestmark = pytest.mark.xdist_group("guard")

NAME = "slipway-tiny"
IDS = {"login": "pcs_login00000", "p5-48xlarge": "pcs_nodes00000", "g5-xlarge": "pcs_more000000"}
ARN = "arn:aws:pcs:us-east-2:123456789012:cluster/pcs_a/computenodegroup"


@pytest.fixture(scope="module")
def module():
    with guard_module("pcs") as found:
        yield found


@pytest.fixture
def guard(module, monkeypatch):
    """A guard of a cluster, with the stub that answers for PCS."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        topic = client("sns").create_topic(Name="slipway-tiny")["TopicArn"]
        settings = module.Settings.of(
            {
                "CLUSTER": "tiny",
                "PCS": NAME,
                "STACK": "s",
                "TOPICS": topic,
                "AWS_REGION": REGION,
                "PREPAID": "false",
                "TTL_HOURS": "2",
                "IDLE_MINUTES": "5",
                "HUNG_MINUTES": "30",
            }
        )
        pcs = boto3.client("pcs", region_name=REGION)
        stub = Stubber(pcs)
        stub.activate()
        made = module.PcsGuard(settings, lambda service: pcs if service == "pcs" else client(service), NOW)
        said = []
        made.tell = lambda subject, text: said.append((subject, text))
        yield made, stub, said
        stub.assert_no_pending_responses()


def summary(name):
    moments = {"createdAt": NOW, "modifiedAt": NOW}
    own = {"name": name, "id": IDS[name], "arn": f"{ARN}/{IDS[name]}", "clusterId": "pcs_a", "status": "ACTIVE"}
    return {**own, **moments}


def described(name, *, most, status="ACTIVE", modified=NOW):
    group = {
        **summary(name),
        "status": status,
        "modifiedAt": modified,
        "subnetIds": ["subnet-a"],
        "iamInstanceProfileArn": "arn:aws:iam::123456789012:instance-profile/aws-pcs/x",
        "scalingConfiguration": {"minInstanceCount": 0, "maxInstanceCount": most},
        "instanceConfigs": [{"instanceType": "p5.48xlarge"}],
    }
    return {"computeNodeGroup": group}


def lists(stub, *groups):
    """PCS lists the login group and some others, and describes the others."""
    stub.add_response(
        "list_compute_node_groups",
        {"computeNodeGroups": [summary("login"), *(summary(name) for name, _ in groups)]},
        {"clusterIdentifier": NAME},
    )
    for name, more in groups:
        asked = {"clusterIdentifier": NAME, "computeNodeGroupIdentifier": IDS[name]}
        stub.add_response("get_compute_node_group", described(name, **more), asked)


def expects_stop(stub, name):
    wish = {
        "clusterIdentifier": NAME,
        "computeNodeGroupIdentifier": IDS[name],
        "scalingConfiguration": {"minInstanceCount": 0, "maxInstanceCount": 0},
    }
    stub.add_response("update_compute_node_group", described(name, most=0), wish)


def machine(kind="node", cluster="tiny"):
    tags = [{"Key": "slipway:cluster", "Value": cluster}, {"Key": "slipway:machine", "Value": kind}]
    (made,) = client("ec2").run_instances(
        ImageId="ami-12345678",
        InstanceType="p5.48xlarge",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )["Instances"]
    return made["InstanceId"]


def test_nodes_are_counted_and_the_login_node_is_not(guard):
    made, _, _ = guard
    mine = machine()
    machine("login")
    machine(cluster="other")
    assert [node["InstanceId"] for node in made.nodes()] == [mine]
    assert made.is_own({"slipway:cluster": "tiny", "slipway:machine": "node"})
    assert not made.is_own({"slipway:cluster": "tiny", "slipway:machine": "login"})


def test_a_stop_sets_every_group_of_jobs_to_none(guard):
    made, stub, said = guard
    lists(stub, ("p5-48xlarge", {"most": 4}), ("g5-xlarge", {"most": 4}))
    expects_stop(stub, "p5-48xlarge")
    expects_stop(stub, "g5-xlarge")
    made.stop("its 2 hours have ended", 4)
    ((subject, text),) = said
    assert subject == "nodes stopped"
    assert "its 2 hours have ended" in text
    assert "StartFleet" in text


def test_what_is_stopped_is_not_stopped_again(guard):
    made, stub, said = guard
    lists(stub, ("p5-48xlarge", {"most": 0}), ("g5-xlarge", {"most": 4, "status": "DELETING"}))
    made.stop("its 2 hours have ended", 0)
    assert said == []


def test_nodes_that_stay_are_ended(guard):
    made, stub, said = guard
    stays, login = machine(), machine("login")
    lists(stub, ("p5-48xlarge", {"most": 0, "modified": NOW - timedelta(minutes=20)}))
    made.stop("its 2 hours have ended", 1)
    states = {
        instance["InstanceId"]: instance["State"]["Name"]
        for one in client("ec2").describe_instances()["Reservations"]
        for instance in one["Instances"]
    }
    assert states[stays] == "terminated"
    assert states[login] == "running"
    assert [subject for subject, _ in said] == ["nodes still run after the stop"]


def test_a_refusal_is_not_swallowed(guard):
    made, stub, _ = guard
    lists(stub, ("p5-48xlarge", {"most": 4}))
    stub.add_client_error("update_compute_node_group", "ConflictException", "the group is UPDATING")
    with pytest.raises(made.pcs.exceptions.ConflictException):
        made.stop("its 2 hours have ended", 4)


def test_a_cluster_that_is_gone_has_nothing_to_stop(guard):
    made, stub, said = guard
    stub.add_client_error("list_compute_node_groups", "ResourceNotFoundException", "no such cluster")
    made.stop("its 2 hours have ended", None)
    assert said == []
