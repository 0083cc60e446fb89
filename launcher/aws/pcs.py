"""AWS PCS clusters: their node groups and queues, and how to change them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.aws.calls import items, unless_absent
from launcher.aws.session import Session, error_code, translate_errors
from launcher.model.errors import AwsError, DeploymentFailedError
from launcher.model.stages import Notify

ACTIVE = "ACTIVE"
_ABSENT = frozenset(("ResourceNotFoundException",))
POLL_S, MAX_POLLS = 15.0, 80
"""Interval and number of polls of a resource under deletion or update: 20 minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A cluster: its state, size, Slurm version and settings, accounting, and its controller's network."""

    id: str
    status: str
    size: str
    version: str
    accounting: str
    settings: Mapping[str, str]
    subnets: tuple[str, ...]
    security_groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A compute node group: its state, type, purchase option and image, and its minimum and maximum of instances.

    `template` is the id and the version of its launch template, `profile` the ARN of its nodes' instance profile.
    """

    id: str
    name: str
    status: str
    instance_type: str
    purchase: str
    image: str
    minimum: int
    maximum: int
    template: tuple[str, str]
    profile: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PcsQueue:
    """A queue: its state, and the ids of its node groups."""

    id: str
    name: str
    status: str
    groups: tuple[str, ...]


def describe_cluster(session: Session, cluster: str) -> ClusterState:
    """A cluster by its name or id."""
    with translate_errors(f"describe PCS cluster {cluster}"):
        description = session.client("pcs").get_cluster(clusterIdentifier=cluster)["cluster"]
    slurm = description.get("slurmConfiguration", {})
    return ClusterState(
        id=str(description["id"]),
        status=str(description["status"]),
        size=str(description["size"]),
        version=str(description["scheduler"]["version"]),
        accounting=str(slurm.get("accounting", {}).get("mode", "NONE")),
        settings={
            setting["parameterName"]: setting["parameterValue"] for setting in slurm.get("slurmCustomSettings", ())
        },
        subnets=tuple(description["networking"].get("subnetIds", ())),
        security_groups=tuple(description["networking"].get("securityGroupIds", ())),
    )


def groups(session: Session, cluster: str) -> tuple[GroupState, ...]:
    """The compute node groups of a cluster; empty if the cluster does not exist."""
    descriptions = (_description(session, cluster, id_) for id_ in _ids(session, cluster, "compute_node_group"))
    return tuple(_group(description) for description in descriptions if description is not None)


def _description(session: Session, cluster: str, id_: str) -> Mapping[str, Any] | None:
    call, subject = session.client("pcs").get_compute_node_group, f"describe node group {id_} of PCS cluster {cluster}"
    description = unless_absent(call, subject, _ABSENT, clusterIdentifier=cluster, computeNodeGroupIdentifier=id_)
    return None if description is None else description["computeNodeGroup"]


def _group(description: Mapping[str, Any]) -> GroupState:
    template = description.get("customLaunchTemplate", {})
    return GroupState(
        id=str(description["id"]),
        name=str(description["name"]),
        status=str(description["status"]),
        instance_type=str(description["instanceConfigs"][0]["instanceType"]),
        purchase=str(description.get("purchaseOption", "ONDEMAND")),
        image=str(description.get("amiId", "")),
        minimum=int(description["scalingConfiguration"]["minInstanceCount"]),
        maximum=int(description["scalingConfiguration"]["maxInstanceCount"]),
        template=(str(template.get("id", "")), str(template.get("version", ""))),
        profile=str(description["iamInstanceProfileArn"]),
    )


def queues(session: Session, cluster: str) -> tuple[PcsQueue, ...]:
    """The queues of a cluster; empty if the cluster does not exist."""
    states = []
    for id_ in _ids(session, cluster, "queue"):
        with translate_errors(f"describe queue {id_} of PCS cluster {cluster}"):
            queue = session.client("pcs").get_queue(clusterIdentifier=cluster, queueIdentifier=id_)["queue"]
        ids = tuple(
            str(configuration["computeNodeGroupId"])
            for configuration in queue.get("computeNodeGroupConfigurations", ())
        )
        states.append(PcsQueue(id=id_, name=str(queue["name"]), status=str(queue["status"]), groups=ids))
    return tuple(states)


def _ids(session: Session, cluster: str, kind: str) -> tuple[str, ...]:
    within = "queues" if kind == "queue" else "computeNodeGroups"
    call, subject = getattr(session.client("pcs"), f"list_{kind}s"), f"list the {kind.replace('_', ' ')}s of {cluster}"
    try:
        return tuple(str(item["id"]) for item in items(call, subject, within, clusterIdentifier=cluster))
    except AwsError as problem:
        if error_code(problem) in _ABSENT:
            return ()
        raise


def scale(
    session: Session, cluster: str, group: str, scaling: Mapping[str, int], pause: Callable[[float], None]
) -> None:
    """Set the scalingConfiguration of a node group, and wait until it is ACTIVE.

    PCS refuses an update during another one, and Slurm has no node of the group before the update has ended.

    Raises:
        DeploymentFailedError: the group is not ACTIVE after the update, or still UPDATING after 20 minutes.
    """
    _await_update(session, cluster, group, pause)
    with translate_errors(f"scale node group {group} of PCS cluster {cluster}"):
        session.client("pcs").update_compute_node_group(
            clusterIdentifier=cluster,
            computeNodeGroupIdentifier=group,
            scalingConfiguration=scaling,
        )
    description = _await_update(session, cluster, group, pause)
    if description["status"] != ACTIVE:
        reasons = [f"{error.get('code')}: {error.get('message')}" for error in description.get("errorInfo", ())]
        raise DeploymentFailedError(
            f"node group {group} of PCS cluster {cluster} is {description['status']} after its update"
            f"{''.join(f'; {reason}' for reason in reasons)}"
        )


def await_groups(session: Session, cluster: str, notify: Notify, pause: Callable[[float], None]) -> None:
    """Wait until no node group of a cluster is being updated; a cluster that does not exist has none.

    Raises:
        DeploymentFailedError: a group is still UPDATING after 20 minutes.
    """
    for group in groups(session, cluster):
        if group.status == "UPDATING":
            notify(f"node group {group.name} of {cluster} is being updated: waiting, at most 20 minutes")
            _await_update(session, cluster, group.id, pause)


def _await_update(session: Session, cluster: str, group: str, pause: Callable[[float], None]) -> Mapping[str, Any]:
    for _ in range(MAX_POLLS):
        description = _description(session, cluster, group)
        if description is None:
            raise DeploymentFailedError(f"PCS cluster {cluster} has no node group {group}")
        if description["status"] != "UPDATING":
            return description
        pause(POLL_S)
    raise DeploymentFailedError(
        f"node group {group} of PCS cluster {cluster} is UPDATING after 20 minutes",
        hint="aws pcs get-compute-node-group gives the reason; launch again once it is ACTIVE",
    )


def empty(session: Session, cluster: str, notify: Notify, pause: Callable[[float], None]) -> None:
    """Remove the queues of a cluster, then its node groups, and wait until each is gone.

    PCS would refuse CloudFormation's own deletion for a while (awsome-distributed-ai, aws-pcs/docs/DEPLOY-TESTING.md).

    Raises:
        DeploymentFailedError: a resource still exists after 20 minutes.
    """
    for kind, plural in (("queue", "queues"), ("compute_node_group", "node groups")):
        checks = 0
        while remaining := _ids(session, cluster, kind):
            if not checks:
                counted = f"{len(remaining)} {plural if len(remaining) > 1 else plural.removesuffix('s')}"
                notify(f"removing {counted} of the PCS cluster before the stack")
            if checks == MAX_POLLS:
                raise DeploymentFailedError(
                    f"{plural} of PCS cluster {cluster} are there after 20 minutes: {', '.join(remaining)}",
                    hint="run slipway down NAME again; aws pcs get-compute-node-group gives the reason",
                )
            for id_ in remaining:
                name = "queueIdentifier" if kind == "queue" else "computeNodeGroupIdentifier"
                try:
                    with translate_errors(f"remove {kind.replace('_', ' ')} {id_} of {cluster}"):
                        getattr(session.client("pcs"), f"delete_{kind}")(clusterIdentifier=cluster, **{name: id_})
                except AwsError as problem:
                    if error_code(problem) not in {*_ABSENT, "ConflictException"}:
                        raise
            checks += 1
            pause(POLL_S)
