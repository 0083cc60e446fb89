# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""Nodes that do not boot: their service replaces them without end, and every try is billed.

The script that sets up a node writes one object at its end, `messages/boots/<UTC time>-<node>-<ready|failed>.txt`, with
its last lines (templates/slurm/report_boot.sh). Nodes may write any number of them, and jobs too: a check lists one
page of the last hours, reads one object, and counts only the failed boots that EC2 confirms.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from job_messages import KEYS_A_CALL, Folder, plain

if TYPE_CHECKING:
    from guard import Guard

BOOTS, LOGIN_BOOTS = "boots/", "boots/login/"
NAME = re.compile(r"\d{8}T\d{6}Z-(?P<node>[\w.-]{1,100})-(?P<end>ready|failed)\.txt")
TIME = "%Y%m%dT%H%M%SZ"
IN_A_ROW = 3
"""Failed boots after which the next one is expected to fail too."""
SETTLED = timedelta(minutes=30)
"""Nodes that became ready within this time show that others can: a single broken instance stops no cluster."""
WINDOW = timedelta(hours=6)
LINES, CHARACTERS = 5, 200
"""The last lines of a boot that a message contains, and the characters of each."""
STOPPED = "sent/stopped.json"
LONGEST_BOOT = timedelta(hours=1)
"""From the launch of an instance to the end of its boot: an object that is written later reports no boot."""
ENDED = ("shutting-down", "terminated")
MOST_CONFIRMED = 2 * IN_A_ROW
"""The confirmed boots that the guard remembers."""


class Boot(NamedTuple):
    """The last boot of a node: when it ended, and the key of its object."""

    node: str
    at: datetime
    failed: bool
    key: str


class FailedBoots(NamedTuple):
    """The newest boots of a cluster, which all failed."""

    boots: tuple[Boot, ...]
    lines: tuple[str, ...]
    what: str = "node"

    @property
    def words(self) -> str:
        """What happened, with the last lines of the newest."""
        newest = self.boots[-1]
        nodes = ", ".join(boot.node for boot in self.boots[-IN_A_ROW:])
        counted = f"{len(self.boots)} {self.what}s in a row" if len(self.boots) > 1 else f"the only {self.what}"
        return (
            f"{counted} failed to boot ({nodes}); each try is billed. The last lines of"
            f" {newest.node}, {newest.at:%Y-%m-%d %H:%M} UTC, written by the node:\n  " + "\n  ".join(self.lines)
        )


def failed_boots(
    folder: Folder,
    now: datetime,
    since: datetime,
    in_a_row: int,
    confirmed: Callable[[list[Boot]], list[Boot]],
    *,
    place: str = BOOTS,
) -> FailedBoots | None:
    """The failed boots after `since` if `in_a_row` of them show that further nodes would fail too; else None.

    `confirmed` returns those failed boots that AWS confirms; `place` is the folder of their reports.

    Raises:
        ClientError: the store does not respond.
    """
    boots = [boot for boot in newest_boots(folder, now, place) if boot.at > since]
    ready = max((boot.at for boot in boots if not boot.failed), default=None)
    failed = [boot for boot in boots if boot.failed and (ready is None or boot.at > ready)]
    row = tuple(confirmed(failed)) if failed else ()
    if len(row) < in_a_row or (ready is not None and now - ready < SETTLED):
        return None
    lines = [plain(line)[:CHARACTERS] for line in folder.text(row[-1].key).splitlines() if line.strip()]
    shown = tuple(lines[-LINES:]) or ("(the node wrote no line)",)
    return FailedBoots(row, shown, "node" if place == BOOTS else "login node")


def confirmed_boots(guard: "Guard", boots: list[Boot]) -> list[Boot]:
    """The failed boots of instances that EC2 lists as nodes of this cluster, launched shortly before the boot's end.

    Where a failed boot ends its node, the instance must also have ended: a job on a running node cannot report another
    one, nor its own. The guard remembers them, because EC2 lists ended instances for an hour only.

    Raises:
        ClientError: EC2 does not respond.
    """
    known = [] if guard.state is None else guard.state.failed
    states = ENDED if guard.failed_boots_end_nodes else ("running", *ENDED)
    unknown = any(boot.node not in known for boot in boots)
    launched = {node["InstanceId"]: node["LaunchTime"] for node in guard.instances(*states)} if unknown else {}
    confirmed = [boot for boot in boots if boot.node in known or is_boot_of(boot, launched)]
    nodes = [boot.node for boot in confirmed][-MOST_CONFIRMED:]
    if guard.state is not None and nodes != known:
        guard.state.failed = nodes
        guard.store()
    return confirmed


def is_boot_of(boot: Boot, launched: Mapping[str, datetime]) -> bool:
    """Whether a boot ended shortly after the launch of its instance; `launched` has the launches by instance."""
    return boot.node in launched and timedelta(0) <= boot.at - launched[boot.node] <= LONGEST_BOOT


def newest_boots(folder: Folder, now: datetime, place: str = BOOTS) -> list[Boot]:
    """The last boot of each node within the last hours, oldest first; a node with a failed script has failed."""
    start = f"{folder.prefix}/messages/{place}"
    page = folder.s3.list_objects_v2(
        Bucket=folder.bucket, Prefix=start, StartAfter=f"{start}{now - WINDOW:{TIME}}", MaxKeys=KEYS_A_CALL
    )
    boots: dict[str, Boot] = {}
    for entry in sorted(page.get("Contents", []), key=lambda entry: entry["LastModified"]):
        named = NAME.fullmatch(entry["Key"].removeprefix(start))
        if named is None:
            continue
        boot = Boot(named["node"], entry["LastModified"], named["end"] == "failed", entry["Key"])
        before = boots.pop(boot.node, None)
        boots[boot.node] = before if before is not None and before.failed and not boot.failed else boot
    return list(boots.values())


def record_stop(folder: Folder, now: datetime, reason: str, cause: str, *, jobs_wait: bool) -> None:
    """Write why nodes are stopped where launches and `slipway status` read it, and nodes cannot write.

    Args:
        folder: the guard's folder.
        now: the moment.
        reason: why, in words.
        cause: how reports name the end of the attempts on the nodes; empty for nodes that run none.
        jobs_wait: whether jobs wait in the cluster until nodes start again; else a waiting job waits in vain.

    Raises:
        ClientError: the store rejects it.
    """
    document = {"schema": "slipway.guard-stop/1", "at": now.isoformat(), "text": reason, "jobs_wait": jobs_wait}
    document |= {"ended_by": cause} if cause else {}
    key = f"{folder.prefix}/{STOPPED}"
    folder.s3.put_object(
        Bucket=folder.bucket, Key=key, Body=json.dumps(document).encode(), ContentType="application/json"
    )
