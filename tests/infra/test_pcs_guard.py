"""PCS's guard as Lambda runs it: the Stubber emulates PCS, moto the rest of AWS."""

import json
import sys
from datetime import timedelta

import pytest

from launcher.rendering.node import login_boots_uri
from tests.infra.guard_account import NOW, ManagedAccount, client, dated_listing, launch_as, started

pytestmark = pytest.mark.xdist_group("guard")

NAME = "slipway-tiny"
BUCKET, FOLDER = "slipway-tiny-checkpoints", "jobs/.guard/stack"
IDS = {"login": "pcs_login00000", "p5-48xlarge": "pcs_nodes00000", "g5-xlarge": "pcs_more000000"}
ARN = "arn:aws:pcs:us-east-2:123456789012:cluster/pcs_a/computenodegroup"


class PcsAccount(ManagedAccount):
    service = "pcs"


GUARD, ACCOUNT_KIND = "pcs", PcsAccount


@pytest.fixture
def pcs_guard(module, aws):
    """A guard of a cluster, the stub that answers for PCS, and the messages that it sends."""
    limits = {"PCS": NAME, "TTL_HOURS": "2", "IDLE_MINUTES": "5", "HUNG_MINUTES": "30"}
    guard, messages = module.PcsGuard(aws.settings(module, **limits), aws.client, NOW), []
    guard.notify = lambda subject, text: messages.append((subject, text))
    return guard, aws.stub, messages


def summary(name):
    moments = {"createdAt": NOW, "modifiedAt": NOW}
    fields = {"name": name, "id": IDS[name], "arn": f"{ARN}/{IDS[name]}", "clusterId": "pcs_a", "status": "ACTIVE"}
    return {**fields, **moments}


def describe(name, *, most, status="ACTIVE", modified=NOW):
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
        params = {"clusterIdentifier": NAME, "computeNodeGroupIdentifier": IDS[name]}
        stub.add_response("get_compute_node_group", describe(name, **more), params)


def expects_stop(stub, name):
    wish = {
        "clusterIdentifier": NAME,
        "computeNodeGroupIdentifier": IDS[name],
        "scalingConfiguration": {"minInstanceCount": 0, "maxInstanceCount": 0},
    }
    stub.add_response("update_compute_node_group", describe(name, most=0), wish)


def machine(kind="node", cluster="tiny"):
    return started(**{"slipway:cluster": cluster, "slipway:machine": kind})[0]


def test_only_compute_nodes_count(pcs_guard):
    guard, _, _ = pcs_guard
    mine = machine()
    machine("login")
    machine(cluster="other")
    assert [node["InstanceId"] for node in guard.nodes()] == [mine]
    assert guard.is_own({"slipway:cluster": "tiny", "slipway:machine": "node"})
    assert not guard.is_own({"slipway:cluster": "tiny", "slipway:machine": "login"})


def test_stop_sets_every_compute_node_group_to_zero(pcs_guard):
    guard, stub, messages = pcs_guard
    lists(stub, ("p5-48xlarge", {"most": 4}), ("g5-xlarge", {"most": 4}))
    expects_stop(stub, "p5-48xlarge")
    expects_stop(stub, "g5-xlarge")
    guard.stop("its 2 hours have ended", 4)
    ((subject, text),) = messages
    assert subject == "nodes stopped"
    assert "its 2 hours have ended" in text
    assert "StartFleet" in text


def test_stop_leaves_its_reason_in_the_store_and_jobs_wait(module, aws):
    s3 = client("s3")
    s3.create_bucket(Bucket="store", CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
    limits = {"PCS": NAME, "IDLE_MINUTES": "0", "TTL_HOURS": "2", "FOLDER_URI": "s3://store/jobs/.guard/x"}
    guard = module.PcsGuard(aws.settings(module, **limits), aws.client, NOW)
    lists(aws.stub, ("p5-48xlarge", {"most": 4}))
    expects_stop(aws.stub, "p5-48xlarge")
    guard.watch_time(NOW - timedelta(hours=2), 4)
    stop = json.loads(s3.get_object(Bucket="store", Key="jobs/.guard/x/sent/stopped.json")["Body"].read())
    assert (stop["text"], stop["jobs_wait"], stop["ended_by"]) == ("its 2 hours have ended", True, "time-limit")


def test_stopped_or_deleting_groups_are_not_updated_again(pcs_guard):
    guard, stub, messages = pcs_guard
    lists(stub, ("p5-48xlarge", {"most": 0}), ("g5-xlarge", {"most": 4, "status": "DELETING"}))
    guard.stop("its 2 hours have ended", 0)
    assert messages == []


def test_nodes_remaining_after_stop_are_terminated(pcs_guard):
    guard, stub, messages = pcs_guard
    node, login = machine(), machine("login")
    lists(stub, ("p5-48xlarge", {"most": 0, "modified": NOW - timedelta(minutes=20)}))
    guard.stop("its 2 hours have ended", 1)
    states = {
        instance["InstanceId"]: instance["State"]["Name"]
        for one in client("ec2").describe_instances()["Reservations"]
        for instance in one["Instances"]
    }
    assert states[node] == "terminated"
    assert states[login] == "running"
    assert [subject for subject, _ in messages] == ["nodes still run after the stop"]


def test_refused_update_is_raised(pcs_guard):
    guard, stub, _ = pcs_guard
    lists(stub, ("p5-48xlarge", {"most": 4}))
    stub.add_client_error("update_compute_node_group", "ConflictException", "the group is UPDATING")
    with pytest.raises(guard.pcs.exceptions.ConflictException):
        guard.stop("its 2 hours have ended", 4)


@pytest.fixture
def login_boots(pcs_guard):
    """Let login nodes fail to boot, minutes before the check; returns the guard's folder."""
    assert pcs_guard
    store = client("s3")
    store.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
    uri = login_boots_uri(f"s3://{BUCKET}/{FOLDER}/messages").removeprefix(f"s3://{BUCKET}/")
    dates = {}
    dated = dated_listing(store, dates)

    def fail(*minutes, purpose="login"):
        for number, before in enumerate(minutes):
            at, node = NOW - timedelta(minutes=before), f"i-{number}"
            launch_as(
                node,
                at - timedelta(minutes=4),
                ended=True,
                **{"slipway:cluster": "tiny", "slipway:machine": purpose},
            )
            key = f"{uri}/{at:%Y%m%dT%H%M%SZ}-{node}-failed.txt"
            store.put_object(Bucket=BUCKET, Key=key, Body=b"machine.sh: /fsx is not mounted\n")
            dates[key] = at
        store.list_objects_v2 = dated
        return sys.modules["job_messages"].Folder(store, f"s3://{BUCKET}/{FOLDER}")

    return fail


def lists_login(stub, **more):
    stub.add_response(
        "list_compute_node_groups", {"computeNodeGroups": [summary("login")]}, {"clusterIdentifier": NAME}
    )
    params = {"clusterIdentifier": NAME, "computeNodeGroupIdentifier": IDS["login"]}
    stub.add_response("get_compute_node_group", describe("login", **more), params)


def test_login_node_that_fails_to_boot_three_times_is_stopped_with_last_lines(pcs_guard, login_boots):
    guard, stub, messages = pcs_guard
    lists_login(stub, most=1, modified=NOW - timedelta(hours=1))
    expects_stop(stub, "login")
    guard.watch_boots(login_boots(30, 20, 10), NOW - timedelta(hours=1), 0)
    assert guard.failures == []
    stub.assert_no_pending_responses()
    ((subject, text),) = messages
    assert subject == "login node stopped"
    assert text.startswith("3 login nodes in a row failed to boot (i-0, i-1, i-2); each try is billed.")
    assert "machine.sh: /fsx is not mounted" in text
    assert "--compute-node-group-identifier login" in text
    body = client("s3").get_object(Bucket=BUCKET, Key=f"{FOLDER}/sent/stopped.json")["Body"].read()
    assert "login nodes in a row failed to boot" in json.loads(body)["text"]


@pytest.mark.parametrize(
    "minutes, modified, purpose",
    [((20, 10), 60, "login"), ((30, 20, 10), 60, "node"), ((30, 20, 10), 15, "login")],
    ids=["two boots", "no login nodes", "boots before the group was started again"],
)
def test_login_node_stays_without_three_new_confirmed_failures(pcs_guard, login_boots, minutes, modified, purpose):
    guard, stub, messages = pcs_guard
    if modified < 30:
        lists_login(stub, most=1, modified=NOW - timedelta(minutes=modified))
    guard.watch_boots(login_boots(*minutes, purpose=purpose), NOW - timedelta(hours=1), 0)
    assert (guard.failures, messages) == ([], [])
    stub.assert_no_pending_responses()


def test_missing_cluster_stops_without_message(pcs_guard):
    guard, stub, messages = pcs_guard
    stub.add_client_error("list_compute_node_groups", "ResourceNotFoundException", "no such cluster")
    guard.stop("its 2 hours have ended", None)
    assert messages == []
