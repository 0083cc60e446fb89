"""The update of a PCS node group, checked against the service's own model."""

from datetime import UTC, datetime

import boto3
import pytest
from botocore.stub import Stubber

from launcher.aws import pcs
from launcher.aws.session import Session
from launcher.model.errors import DeploymentFailedError

ONE = {"minInstanceCount": 0, "maxInstanceCount": 1}
NAMED = {"clusterIdentifier": "small", "computeNodeGroupIdentifier": "nodes"}


def group(status, *reasons):
    now = datetime(2026, 11, 27, tzinfo=UTC)
    return {
        "computeNodeGroup": {
            "name": "nodes",
            "id": "pcs_1",
            "clusterId": "pcs_2",
            "createdAt": now,
            "modifiedAt": now,
            "arn": "arn:aws:pcs:us-east-2:123456789012:cluster/pcs_2/computenodegroup/pcs_1",
            "status": status,
            "subnetIds": ["subnet-1"],
            "customLaunchTemplate": {"id": "lt-1", "version": "1"},
            "iamInstanceProfileArn": "arn:aws:iam::123456789012:instance-profile/AWSPCS-nodes",
            "scalingConfiguration": ONE,
            "instanceConfigs": [{"instanceType": "p5.48xlarge"}],
            "errorInfo": [{"code": code, "message": message} for code, message in reasons],
        }
    }


@pytest.fixture
def stub():
    client = boto3.client("pcs", region_name="us-east-2", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def scale(stub):
    """Scale the group to one node; return how long the call paused."""

    def call():
        paused = []
        session = Session(environment={}, region="us-east-2", clients={"pcs": stub.client})
        pcs.scale(session, "small", "nodes", ONE, paused.append)
        return paused

    return call


def test_pcs_update_waits_for_the_previous_update_and_for_completion(stub, scale):
    for status in ("UPDATING", "ACTIVE"):
        stub.add_response("get_compute_node_group", group(status), NAMED)
    stub.add_response("update_compute_node_group", group("UPDATING"), {**NAMED, "scalingConfiguration": ONE})
    for status in ("UPDATING", "UPDATING", "ACTIVE"):
        stub.add_response("get_compute_node_group", group(status), NAMED)
    assert scale() == [pcs.POLL_S] * 3


def test_failed_pcs_update_gives_the_reasons(stub, scale):
    stub.add_response("get_compute_node_group", group("UPDATE_FAILED"), NAMED)
    stub.add_response("update_compute_node_group", group("UPDATING"), {**NAMED, "scalingConfiguration": ONE})
    stub.add_response("get_compute_node_group", group("UPDATE_FAILED", ("AccessDenied", "no PassRole")), NAMED)
    with pytest.raises(DeploymentFailedError) as failure:
        scale()
    assert failure.value.message == (
        "node group nodes of PCS cluster small is UPDATE_FAILED after its update; AccessDenied: no PassRole"
    )


def test_pcs_update_over_the_time_limit_is_an_error(stub, scale):
    for _ in range(pcs.MAX_POLLS):
        stub.add_response("get_compute_node_group", group("UPDATING"), NAMED)
    with pytest.raises(DeploymentFailedError, match="nodes of PCS cluster small is UPDATING after 20 minutes"):
        scale()


def test_missing_pcs_node_group_is_an_error(stub, scale):
    stub.add_client_error("get_compute_node_group", "ResourceNotFoundException", "no compute node group nodes")
    with pytest.raises(DeploymentFailedError, match="PCS cluster small has no node group nodes"):
        scale()


def test_pcs_groups_under_update_are_waited_for_with_one_line(stub):
    own = {"clusterIdentifier": "small", "computeNodeGroupIdentifier": "pcs_1"}
    described = group("UPDATING")["computeNodeGroup"]
    keys = ("name", "id", "arn", "clusterId", "createdAt", "modifiedAt", "status")
    listed = {"computeNodeGroups": [{key: described[key] for key in keys}]}
    stub.add_response("list_compute_node_groups", listed, {"clusterIdentifier": "small"})
    for status in ("UPDATING", "UPDATING", "ACTIVE"):
        answer = group(status)
        answer["computeNodeGroup"]["purchaseOption"] = "SPOT"
        stub.add_response("get_compute_node_group", answer, own)
    session = Session(environment={}, region="us-east-2", clients={"pcs": stub.client})
    said, paused = [], []
    pcs.await_groups(session, "small", said.append, paused.append)
    assert said == ["node group nodes of small is being updated: waiting, at most 20 minutes"]
    assert paused == [pcs.POLL_S]
