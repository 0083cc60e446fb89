"""The state of a ParallelCluster's compute fleet, in the DynamoDB table that its guard and `pcluster` write.

Emulated: the row COMPUTE_FLEET. STOP_REQUESTED removes the nodes and START_REQUESTED brings them back
(pcluster/models/compute_fleet_status_manager.py of ParallelCluster 3.16.1). Not emulated: the minute between two checks
of clustermgtd, and the intermediate states.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from moto.dynamodb.models import DynamoDBBackend, dynamodb_backends

from launcher.sandbox.aws.model import Requested
from launcher.sandbox.cluster.registry import Registry

_PREFIX = "parallelcluster-"
_KEY = {"Id": {"S": "COMPUTE_FLEET"}}
_ENDS = {"STOP_REQUESTED": "STOPPED", "START_REQUESTED": "RUNNING"}


def create_table(requested: Requested, cluster: str) -> None:
    """Create the table of a cluster, with the state of a running fleet."""
    dynamodb = dynamodb_backends[requested.account_id][requested.region_name]
    table = f"{_PREFIX}{cluster}"
    if table not in dynamodb.tables:
        dynamodb.create_table(
            table,
            schema=[{"AttributeName": "Id", "KeyType": "HASH"}],
            throughput=None,
            attr=[{"AttributeName": "Id", "AttributeType": "S"}],
            global_indexes=None,
            indexes=None,
            streams=None,
            billing_mode="PAY_PER_REQUEST",
            sse_specification=None,
            tags=[],
            deletion_protection_enabled=None,
            warm_throughput=None,
        )
    dynamodb.put_item(table, {**_KEY, "Data": {"M": {"status": {"S": "RUNNING"}, "lastStatusUpdatedTime": {"S": "0"}}}})


def is_stopped(requested: Requested, cluster: str) -> bool:
    """Whether the fleet of a cluster is stopped (`has_running_capacity` in pcluster/models/cluster.py)."""
    row = dynamodb_backends[requested.account_id][requested.region_name].get_item(f"{_PREFIX}{cluster}", _KEY, None)
    return row is not None and row.to_json()["Attributes"]["Data"]["M"]["status"]["S"] == "STOPPED"


def stop(requested: Requested, cluster: str, fleets: Registry) -> None:
    """Stop the fleet of a cluster, as it was stopped before an update."""
    backend, table = dynamodb_backends[requested.account_id][requested.region_name], f"{_PREFIX}{cluster}"
    data = {"status": {"S": "STOP_REQUESTED"}, "lastStatusUpdatedTime": {"S": "0"}}
    backend.put_item(table, {**_KEY, "Data": {"M": data}})
    _follow(backend, table, fleets)


def remove(requested: Requested, cluster: str) -> None:
    """Delete the table together with its cluster."""
    dynamodb_backends[requested.account_id][requested.region_name].tables.pop(f"{_PREFIX}{cluster}", None)


def install(fleets: Registry) -> None:
    """Make the nodes follow the rows that are written into such a table."""
    written = DynamoDBBackend.update_item
    DynamoDBBackend.update_item = _with_followers(written, fleets)  # type: ignore[method-assign]


def _with_followers(written: Callable[..., Any], fleets: Registry) -> Callable[..., Any]:
    """Moto's function; after each call the nodes follow the requested state in the row."""

    @wraps(written)
    def write_and_follow(backend: DynamoDBBackend, table_name: str, *args: Any, **options: Any) -> Any:
        answer = written(backend, table_name, *args, **options)
        name = table_name.rpartition("/")[2]
        if name.startswith(_PREFIX):
            _follow(backend, name, fleets)
        return answer

    return write_and_follow


def _follow(backend: DynamoDBBackend, table: str, fleets: Registry) -> None:
    item = backend.get_item(table, _KEY, None)
    if item is None:
        return
    row: Mapping[str, Any] = item.to_json()["Attributes"]
    data = row["Data"]["M"]
    done = _ENDS.get(data["status"]["S"])
    if done is None:
        return
    fleets.set_fleet(table.removeprefix(_PREFIX), up=done == "RUNNING")
    backend.put_item(table, {**_KEY, "Data": {"M": {**data, "status": {"S": done}}}})
