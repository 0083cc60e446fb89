"""The compute fleet of a ParallelCluster: its state, and how to stop and start it.

`pcluster update-compute-fleet` writes the request into the cluster's DynamoDB table; a daemon on the head node reads it
(pcluster/models/compute_fleet_status_manager.py of ParallelCluster 3.16.1). templates/guard/guard.py and this module
do the same.
"""

from datetime import datetime

from launcher.aws.calls import unless_absent
from launcher.aws.session import Session, error_code, translate_errors
from launcher.model.errors import AwsError

STARTABLE = frozenset({"STOPPED", "STOPPING", "STOP_REQUESTED", "PROTECTED"})
"""States in which nodes do not start. ParallelCluster itself enters PROTECTED if nodes repeatedly fail to start."""
RUNNING, STOPPED = "RUNNING", "STOPPED"
_KEY = {"Id": {"S": "COMPUTE_FLEET"}}


def status(session: Session, cluster: str) -> str | None:
    """ParallelCluster's state word of a cluster's fleet; None if its table has no such record."""
    subject, absent = f"read the compute fleet of {cluster}", {"ResourceNotFoundException"}
    call = session.client("dynamodb").get_item
    answer = unless_absent(call, subject, absent, TableName=_table(cluster), Key=_KEY, ConsistentRead=True)
    item = (answer or {}).get("Item")
    return None if item is None else str(item["Data"]["M"]["status"]["S"])


def request_start(session: Session, cluster: str, old_status: str, now: datetime) -> bool:
    """Request ParallelCluster to start a fleet; False if the fleet's state is no longer `old_status`."""
    return _request(session, cluster, old_status, "START_REQUESTED", now)


def request_stop(session: Session, cluster: str, old_status: str, now: datetime) -> bool:
    """Request ParallelCluster to stop a fleet and end its nodes; False if its state is no longer `old_status`."""
    return _request(session, cluster, old_status, "STOP_REQUESTED", now)


def _request(session: Session, cluster: str, old_status: str, new_status: str, now: datetime) -> bool:
    try:
        with translate_errors(f"ask for {new_status} of the compute fleet of {cluster}"):
            session.client("dynamodb").update_item(
                TableName=_table(cluster),
                Key=_KEY,
                UpdateExpression="set #data.#status = :wanted, #data.#time = :now",
                ConditionExpression="#data.#status = :found",
                ExpressionAttributeNames={"#data": "Data", "#status": "status", "#time": "lastStatusUpdatedTime"},
                ExpressionAttributeValues={
                    ":wanted": {"S": new_status},
                    ":found": {"S": old_status},
                    ":now": {"S": str(now)},
                },
            )
    except AwsError as problem:
        if error_code(problem) == "ConditionalCheckFailedException":
            return False
        raise
    return True


def _table(cluster: str) -> str:
    return f"parallelcluster-{cluster}"
