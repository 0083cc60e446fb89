"""Starting a stopped fleet, with DynamoDB emulated by moto."""

from datetime import UTC, datetime

import boto3
import pytest
from moto import mock_aws

from launcher.aws import compute_fleet
from launcher.aws.session import Session

CLUSTER, TABLE = "slipway-tiny", "parallelcluster-slipway-tiny"
NOW = datetime(2026, 11, 20, 12, 2, tzinfo=UTC)


@pytest.fixture
def table_session():
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    with mock_aws():
        client = boto3.client("dynamodb", region_name="us-east-2", aws_access_key_id="x", aws_secret_access_key="x")
        client.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "Id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "Id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield Session(environment=keys, region="us-east-2", clients={"dynamodb": client})


def put(session, status):
    value = {"M": {"status": {"S": status}, "lastStatusUpdatedTime": {"S": "before"}}}
    session.client("dynamodb").put_item(TableName=TABLE, Item={"Id": {"S": "COMPUTE_FLEET"}, "Data": value})


def test_stopped_fleet_is_requested_to_start(table_session):
    put(table_session, "STOPPED")
    assert compute_fleet.status(table_session, CLUSTER) == "STOPPED"
    assert compute_fleet.request_start(table_session, CLUSTER, "STOPPED", NOW)
    item = table_session.client("dynamodb").get_item(TableName=TABLE, Key={"Id": {"S": "COMPUTE_FLEET"}})["Item"]
    assert item["Data"]["M"] == {"status": {"S": "START_REQUESTED"}, "lastStatusUpdatedTime": {"S": str(NOW)}}


def test_fleet_state_changed_meanwhile_is_not_overwritten(table_session):
    put(table_session, "RUNNING")
    assert not compute_fleet.request_start(table_session, CLUSTER, "STOPPED", NOW)
    assert compute_fleet.status(table_session, CLUSTER) == "RUNNING"


def test_cluster_without_a_fleet_record_has_no_state(table_session):
    assert compute_fleet.status(table_session, CLUSTER) is None
    assert compute_fleet.status(table_session, "slipway-other") is None
