"""What each target's guard stops, in every state of the vendor's API, for every reason."""

import json
from contextlib import nullcontext
from datetime import timedelta

import boto3
import botocore.session
import pytest
from botocore.stub import Stubber

from launcher.model.report import EndedBy
from tests.checks import some
from tests.infra.guard_account import NOW, REGION, SlurmAccount, account_of, client, hyperpod_node
from tests.infra.guard_modules import guard_module

pytestmark = pytest.mark.xdist_group("guard")

NAME, BUCKET, WORD = "slipway-tiny", "slipway-tiny-checkpoints", "jobs/.budget/stack/1.json"
RECORDED = "jobs/.guard/x/sent/stopped.json"
FLEET = ("STOPPED", "RUNNING", "STOPPING", "STARTING", "STOP_REQUESTED", "START_REQUESTED", "UNKNOWN", "PROTECTED")
"""aws-parallelcluster 3.16.1, pcluster/models/compute_fleet_status_manager.py, ComputeFleetStatus."""
REASONS = {
    "time": {"TTL_HOURS": "2"},
    "idle": {"IDLE_MINUTES": "5"},
    "sum": {
        "STOP_AT_USD": "1",
        "STOP_URI": f"s3://{BUCKET}/{WORD}",
        "STOP_SETTLE_MINUTES": "5",
        "STOP_RESERVE_MINUTES": "15",
        "STOP_ENDING_MINUTES": "5",
        "NODES": "1",
        "OTHER_USD_PER_HOUR": "6",
        "USD_PER_NODE_HOUR": "60",
    },
    "none": {},
}


def statuses(service, shape):
    return tuple(botocore.session.get_session().get_service_model(service).shape_for(shape).enum)


def answers(account, service, *calls):
    """A client that is answered through the Stubber: (operation, answer or error code) in turn."""
    service_client = client(service)
    account.stub = Stubber(service_client)
    for operation, answer in calls:
        if isinstance(answer, str):
            account.stub.add_client_error(operation, answer, "no", http_status_code=400)
        else:
            account.stub.add_response(operation, answer)
    return service_client


class Fleet:
    module, kind, variable = "guard", "Guard", "PARALLELCLUSTER"
    states, gone = FLEET, ("STOPPED", "STOPPING", "STOP_REQUESTED")
    service, operation = "dynamodb", "UpdateItem"

    @staticmethod
    def play(account, state, *, stops, refused):
        # Changed just now: machines of a fleet that has been stopped for longer are ended (test_guard.py).
        account.set_fleet(state, str(NOW))
        dynamodb = boto3.client("dynamodb") if refused else client("dynamodb")
        if refused:
            dynamodb.meta.events.register("before-call.dynamodb.UpdateItem", lambda **_: refuse("UpdateItem", refused))
        account.done = lambda: account.fleet == "STOP_REQUESTED" and (state != "STOP_REQUESTED")
        return dynamodb


def refuse(operation, code):
    raise client("sts").exceptions.ClientError({"Error": {"Code": code, "Message": "no"}}, operation)


class Group:
    module, kind, variable = "eks", "EksGuard", "EKS"
    states, gone = statuses("eks", "NodegroupStatus"), ("DELETING",)
    service, operation = "eks", "UpdateNodegroupConfig"

    @staticmethod
    def play(account, state, *, stops, refused):
        group = {"status": state, "scalingConfig": {"minSize": 2, "maxSize": 4, "desiredSize": 2}}
        calls = [("describe_nodegroup", {"nodegroup": group})] if stops is not None else []
        calls += [("update_nodegroup_config", refused or {"update": {}})] if stops else []
        return answers(account, "eks", *calls)


class Workers:
    module, kind, variable = "hyperpod", "HyperPodGuard", "HYPERPOD"
    states, gone = statuses("sagemaker", "ClusterInstanceStatus"), ("ShuttingDown", "NotFound")
    service, operation = "sagemaker", "BatchDeleteClusterNodes"

    @staticmethod
    def play(account, state, *, stops, refused):
        worker = hyperpod_node(1, status=state)
        calls = [("list_cluster_nodes", {"ClusterNodeSummaries": [worker]})] * (2 if stops is not None else 1)
        calls += [("batch_delete_cluster_nodes", refused or {"Successful": [worker["InstanceId"]]})] if stops else []
        return answers(account, "sagemaker", *calls)


class Endpoint:
    module, kind, variable = "endpoint", "EndpointGuard", "HYPERPOD"
    states, gone = statuses("sagemaker", "EndpointStatus"), ("Deleting",)
    service, operation = "sagemaker", "DeleteEndpoint"

    @staticmethod
    def play(account, state, *, stops, refused):
        described = {
            "EndpointName": NAME,
            "EndpointArn": f"arn:aws:sagemaker:{REGION}:123456789012:endpoint/{NAME}",
            "EndpointStatus": state,
            "CreationTime": NOW,
            "LastModifiedTime": NOW,
        }
        calls = [("describe_endpoint", described)] * (2 if stops is not None else 1)
        if stops:
            calls += [("list_inference_components", {"InferenceComponents": []}), ("delete_endpoint", refused or {})]
        return answers(account, "sagemaker", *calls)


TARGETS = (Fleet, Group, Workers, Endpoint)
NEVER_IDLE = {Endpoint}
BILLED = {"Running", "SystemUpdating", "DeepHealthCheckInProgress"}


@pytest.fixture
def run_check(monkeypatch):
    """One look of a target's guard, with the word to its job given long ago; what people were told."""
    with account_of(monkeypatch, SlurmAccount) as account:
        s3 = client("s3")
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        long_ago = json.dumps({"at": (NOW - timedelta(hours=1)).isoformat()})
        s3.put_object(Bucket=BUCKET, Key=WORD, Body=long_ago.encode())

        def start(target, state, reason, *, refused=None, now=NOW, **more):
            stops = reason != "none" and not (reason == "idle" and target in NEVER_IDLE)
            expects_stop = (state not in target.gone) if stops else None
            service_client = target.play(account, state, stops=expects_stop, refused=refused)
            variables = {target.variable: NAME, "IDLE_MINUTES": "0", **REASONS[reason], **more}
            if target is Endpoint:
                variables.pop("STOP_URI", None)
            with guard_module(target.module) as module, nullcontext() if target is Fleet else account.stub:
                clients = {target.service: service_client}
                settings = account.settings(module, **variables)
                guard = getattr(module, target.kind)(settings, lambda name: clients.get(name) or client(name), now)
                guard.deployed_at = lambda: NOW - timedelta(hours=3)
                guard.made_at = guard.deployed_at
                if target is Fleet or target is Group:
                    guard.nodes = lambda: [{"InstanceId": "i-1"}, {"InstanceId": "i-2"}]
                if target not in NEVER_IDLE:
                    guard.all_idle = lambda _: reason == "idle"
                with nullcontext() if refused is None or not expects_stop else pytest.raises(Exception, match=refused):
                    guard.watch()
            if target is Fleet:
                assert account.done() == bool(expects_stop and not refused)
            else:
                account.stub.assert_no_pending_responses()
            return account.messages

        yield start


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.module)
@pytest.mark.parametrize("reason", REASONS)
def test_every_billed_state_is_stopped_for_every_reason(run_check, target, reason):
    for state in some(target.states):
        if target is Workers and reason == "sum" and state not in BILLED:
            continue  # nothing is billed
        subjects = [subject for subject, _ in run_check(target, state, reason)]
        stops = reason != "none" and not (reason == "idle" and target in NEVER_IDLE)
        assert len(subjects) == (stops and state not in target.gone), (state, subjects)


WORDS = {"time": "its 2 hours have ended", "idle": "been idle for 5 minutes", "sum": "$1"}
CAUSES = {"time": EndedBy.TIME_LIMIT, "sum": EndedBy.BUDGET}


@pytest.mark.parametrize("target", [Fleet, Group, Workers], ids=lambda target: target.module)
@pytest.mark.parametrize("reason", WORDS)
def test_stop_leaves_its_reason_in_the_store_and_jobs_wait(run_check, target, reason):
    state = next(state for state in target.states if state in {"RUNNING", "ACTIVE", "Running"})
    run_check(target, state, reason, FOLDER_URI=f"s3://{BUCKET}/jobs/.guard/x")
    stop = json.loads(client("s3").get_object(Bucket=BUCKET, Key=RECORDED)["Body"].read())
    assert stop["schema"] == "slipway.guard-stop/1"
    assert WORDS[reason] in stop["text"]
    assert stop["jobs_wait"] is True
    assert stop.get("ended_by") == CAUSES.get(reason)


@pytest.mark.parametrize("target", [Fleet, Group, Workers], ids=lambda target: target.module)
def test_refused_or_earlier_stop_leaves_no_reason(run_check, target):
    state = next(state for state in target.states if state in {"RUNNING", "ACTIVE", "Running"})
    folder = f"s3://{BUCKET}/jobs/.guard/x"
    run_check(target, state, "time", refused="AccessDeniedException", FOLDER_URI=folder)
    run_check(target, target.gone[0], "time", FOLDER_URI=folder)
    assert "Contents" not in client("s3").list_objects_v2(Bucket=BUCKET, Prefix=RECORDED)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("code", ["AccessDeniedException", "ResourceInUseException"])
def test_refused_stop_notified_daily_and_retried_each_check(run_check, target, code):
    state = next(state for state in target.states if state in {"RUNNING", "ACTIVE", "Running", "InService"})
    for step in range(3):
        notifications = run_check(target, state, "time", refused=code, now=NOW + step * timedelta(minutes=5))
        assert len(notifications) == (step == 0)
        for subject, text in notifications:
            assert subject == "slipway tiny: the guard could not act"
            assert f"could not stop its nodes: An error occurred ({code})" in text
    notifications = run_check(target, state, "time", refused=code, now=NOW + timedelta(days=1, minutes=5))
    assert len(notifications) == 1
    assert run_check(target, state, "time", now=NOW + timedelta(days=1, minutes=10))
