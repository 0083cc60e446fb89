"""A first deployment of PCS that failed: its stack has no outputs, and PCS deletes no cluster that has node groups."""

from contextlib import ExitStack
from datetime import UTC, datetime

import pytest
from botocore.stub import Stubber

from launcher import plan_file
from launcher.aws.session import Session
from launcher.aws.stacks import describe
from launcher.catalog.load import load
from launcher.planning.pin import pinned_plan
from launcher.targets.registry import TARGETS
from launcher.workflow.deploy.down import kind_of
from launcher.workflow.deploy.failed_creation import empty_failed_creation, with_left_resources
from tests.infra.registry import schemas
from tests.plans import ROOT

NAME = "slipway-probe-training"
ID = f"arn:aws:cloudformation:us-east-2:123456789012:stack/{NAME}/8131d980"
PCS = "arn:aws:pcs:us-east-2:123456789012:cluster/pcs_abc123"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
MOMENT = datetime(2026, 11, 28, tzinfo=UTC)
CLUSTER = ("Cluster", "AWS::PCS::Cluster", PCS)


@pytest.fixture
def account():
    """A session with stubs of CloudFormation and PCS, which must have been asked everything in the end."""
    session = Session(environment=ENVIRONMENT, region="us-east-2")
    with ExitStack() as open_stubs:
        stubs = {name: open_stubs.enter_context(Stubber(session.client(name))) for name in ("cloudformation", "pcs")}
        yield session, stubs
        for stub in stubs.values():
            stub.assert_no_pending_responses()


def stack_is(stub, status, *outputs, name=NAME):
    described = {"StackName": name, "StackId": ID, "CreationTime": MOMENT, "StackStatus": status}
    described["Outputs"] = [{"OutputKey": key, "OutputValue": value} for key, value in outputs]
    stub.add_response("describe_stacks", {"Stacks": [described]})


def holds(stub, *resources, status="CREATE_COMPLETE"):
    summaries = [
        {
            "LogicalResourceId": logical_id,
            "ResourceType": type_,
            "PhysicalResourceId": physical_id,
            "ResourceStatus": status,
            "LastUpdatedTimestamp": MOMENT,
        }
        for logical_id, type_, physical_id in resources
    ]
    stub.add_response("list_stack_resources", {"StackResourceSummaries": summaries})


def lists(stub, kind, *ids):
    arns = [{"id": id_, "name": f"name-{id_}", "arn": id_, "status": "ACTIVE"} for id_ in ids]
    moments = {"clusterId": "pcs_abc123", "createdAt": MOMENT, "modifiedAt": MOMENT}
    stub.add_response(f"list_{kind}", {kind_key(kind): [item | moments for item in arns]})


def kind_key(kind):
    return "queues" if kind == "queues" else "computeNodeGroups"


def deletes(stub, kind, id_):
    names = {"queue": "queueIdentifier", "compute_node_group": "computeNodeGroupIdentifier"}
    stub.add_response(f"delete_{kind}", {}, {"clusterIdentifier": "pcs_abc123", names[kind]: id_})


@pytest.mark.parametrize("status", ["ROLLBACK_FAILED", "ROLLBACK_COMPLETE", "DELETE_FAILED", "CREATE_FAILED"])
def test_stack_without_outputs_is_recognized_by_the_remaining_cluster(account, status):
    session, stubs = account
    stack_is(stubs["cloudformation"], status)
    holds(stubs["cloudformation"], ("Profile", "AWS::IAM::InstanceProfile", "p"), CLUSTER)
    stack = with_left_resources(session, describe(session, NAME))
    assert stack.outputs == {"PcsClusterId": "pcs_abc123"}
    assert kind_of(stack) == "pcs"


def test_stack_with_a_deleted_cluster_has_no_outputs_and_no_target(account):
    session, stubs = account
    stack_is(stubs["cloudformation"], "ROLLBACK_FAILED")
    holds(stubs["cloudformation"], CLUSTER, status="DELETE_COMPLETE")
    stack = with_left_resources(session, describe(session, NAME))
    assert (stack.outputs, kind_of(stack)) == ({}, None)


def test_stack_with_outputs_is_unchanged(account):
    session, stubs = account
    stack_is(stubs["cloudformation"], "CREATE_COMPLETE", ("PcsClusterId", "pcs_x"))
    assert with_left_resources(session, describe(session, NAME)).outputs == {"PcsClusterId": "pcs_x"}
    assert with_left_resources(session, None) is None


def test_identifiers_of_remaining_resources_are_the_last_part_of_the_physical_id():
    for target in TARGETS.values():
        for type_ in target.left_resources:
            assert schemas()[type_]["primaryIdentifier"] == ["/properties/Arn"]
            assert "/" not in PCS.rpartition("/")[2]
        assert set(target.left_resources.values()) <= set(target.own_outputs)
        assert bool(target.left_resources) == (not target.removed_by_cdk)


@pytest.fixture(scope="module")
def plan():
    return pinned_plan(plan_file.load(ROOT / "examples/pcs/p5-spot.yaml"), load())


def test_next_deployment_removes_groups_and_queues_of_a_failed_one_first(account, plan):
    session, stubs = account
    stack_is(stubs["cloudformation"], "ROLLBACK_FAILED")
    holds(stubs["cloudformation"], CLUSTER)
    pcs = stubs["pcs"]
    lists(pcs, "queues", "q1")
    deletes(pcs, "queue", "q1")
    lists(pcs, "queues")
    lists(pcs, "compute_node_groups", "g1", "g2")
    deletes(pcs, "compute_node_group", "g1")
    deletes(pcs, "compute_node_group", "g2")
    lists(pcs, "compute_node_groups")
    said, pauses = [], []
    empty_failed_creation(plan, session, said.append, pauses.append)
    assert said == [
        "removing 1 queue of the PCS cluster before the stack",
        "removing 2 node groups of the PCS cluster before the stack",
    ]
    assert len(pauses) == 2


@pytest.mark.parametrize("status", ["CREATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "UPDATE_FAILED"])
def test_created_cluster_is_never_emptied_before_a_deployment(account, plan, status):
    session, stubs = account
    stack_is(stubs["cloudformation"], status, ("PcsClusterId", "pcs_abc123"))
    empty_failed_creation(plan, session, print, print)
