"""AWS Parallel Computing Service, which moto lacks: its API's state, and its resources in CloudFormation.

Emulated: the validation of clusters, node groups and queues (launcher/sandbox/cluster/pcs_request.py); five clusters a
region, one in creation at a time, ten groups and ten queues a cluster; the order of removal, and a cluster that is not
deleted shortly after its last group or queue (awsome-distributed-ai, aws-pcs/docs/DEPLOY-TESTING.md); instances in EC2
for every node with PCS's tags and those of its launch template; a private Slurm with a partition for each queue and the
cluster's own settings; UpdateComputeNodeGroup, which removes and starts nodes and is refused during another update; the
lifecycle scripts of instances (pcs_boots.py), and other instances in place of those on which one fails, without end.
Not emulated: user data, mounts, nodes that start with jobs (all run from the beginning), accounting, logs, the time
that creation and removal need, new settings and nodes of a changed cluster or group (they get their request, and
running nodes stay), and jobs that go on while a group grows beyond its first size (Slurm starts again).
"""

import secrets
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from launcher.model import pcs
from launcher.sandbox.aws import pcs_boots, pcs_instances
from launcher.sandbox.aws.fleet import Ec2Fleet, EmulatedEc2
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError
from launcher.sandbox.cluster.pcs_request import (
    ClusterLimits,
    cluster_problems,
    cluster_update_problems,
    group_problems,
    queue_problems,
    update_problems,
)
from launcher.sandbox.cluster.registry import Registry
from launcher.sandbox.cluster.specification import ClusterFailedError, ClusterSpec, NodeGroup, Queue

CREATION = UPDATE = timedelta(seconds=2)
"""How long a cluster that the API creates stays in creation, and a node group in an update; on AWS minutes."""
EMPTIED = timedelta(seconds=2)
"""How long a cluster without groups and queues cannot be deleted yet; on AWS minutes."""
REPLACED_S = 2.0
"""Seconds until another instance starts in place of one that failed to boot; on AWS minutes."""
_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_NAMES = {"ClusterId": "clusterIdentifier", "TemplateId": "id"}


class PcsError(Exception):
    """A refusal with its error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(slots=True, kw_only=True)
class PcsPart:
    """A node group or a queue, as requested."""

    id: str
    name: str
    request: dict[str, Any]
    created_at: datetime
    modified: datetime
    active_at: datetime

    @property
    def status(self) -> str:
        """The status of the group or queue."""
        return "ACTIVE" if self.active else "UPDATING"

    @property
    def active(self) -> bool:
        """Whether the group or queue is in no update."""
        return datetime.now(UTC) >= self.active_at


@dataclass(slots=True, kw_only=True)
class EmulatedPcsCluster:
    """A cluster with its groups and queues by id. `running` is the specification with which its Slurm was started."""

    id: str
    request: dict[str, Any]
    created_at: datetime
    active_at: datetime
    # When its last group or queue was deleted.
    emptied_at: datetime | None = None
    groups: dict[str, PcsPart] = field(default_factory=dict)
    queues: dict[str, PcsPart] = field(default_factory=dict)
    instance_ids: dict[str, list[str]] = field(default_factory=dict)
    # Instances that have booted and that no node of Slurm has yet, and instances that failed to boot, by group.
    booted: dict[str, list[str]] = field(default_factory=dict)
    failed: dict[str, list[str]] = field(default_factory=dict)
    running: ClusterSpec | None = None

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return str(self.request["clusterName"])

    @property
    def status(self) -> str:
        """The status of the cluster."""
        return "CREATING" if datetime.now(UTC) < self.active_at else "ACTIVE"

    def limits(self, *, without: str = "") -> ClusterLimits:
        """The facts about the cluster that validate a request, without one of its groups."""
        others = (group for id_, group in self.groups.items() if id_ != without)
        most = sum(int(other.request["scalingConfiguration"]["maxInstanceCount"]) for other in others)
        subnets = tuple(self.request["networking"]["subnetIds"])
        return ClusterLimits(size=str(self.request["size"]), max_instances=most, subnets=subnets)


def _id() -> str:
    return "pcs_" + "".join(secrets.choice(_CHARACTERS) for _ in range(10))


def _refuse(problems: list[str]) -> None:
    if problems:
        raise PcsError("ValidationException", "; ".join(problems))


class PcsService:
    """The service in one account and region; `clusters` runs the clusters. Thread-safe."""

    def __init__(self, account: str, region: str, clusters: Registry) -> None:
        self.account, self.region = account, region
        self._clusters, self._aws = clusters, EmulatedEc2(account, region)
        self._known: dict[str, EmulatedPcsCluster] = {}
        self._lock = threading.RLock()

    def arn(self, *parts: str) -> str:
        """The ARN of a cluster, or of a part of a cluster."""
        return f"arn:aws:pcs:{self.region}:{self.account}:cluster/{'/'.join(parts)}"

    def clusters(self) -> list[EmulatedPcsCluster]:
        """All clusters."""
        with self._lock:
            return list(self._known.values())

    def cluster(self, name: str) -> EmulatedPcsCluster:
        """A cluster by its name or id."""
        with self._lock:
            for pcs_cluster in self._known.values():
                if name in (pcs_cluster.id, pcs_cluster.name):
                    return pcs_cluster
        raise PcsError("ResourceNotFoundException", f"no cluster {name}")

    @staticmethod
    def part(parts: Mapping[str, PcsPart], name: str, kind: str) -> PcsPart:
        """A group or a queue by its name or id."""
        for candidate in parts.values():
            if name in (candidate.id, candidate.name):
                return candidate
        raise PcsError("ResourceNotFoundException", f"no {kind} {name}")

    def create_cluster(self, request: dict[str, Any], *, creation: timedelta = CREATION) -> EmulatedPcsCluster:
        """Create a cluster."""
        _refuse(cluster_problems(request, self._aws))
        with self._lock:
            name = request["clusterName"]
            if any(cluster.name == name for cluster in self._known.values()):
                raise PcsError("ConflictException", f"a cluster named {name} already exists")
            making = [cluster.name for cluster in self._known.values() if cluster.status == "CREATING"]
            if making:
                raise PcsError("ServiceQuotaExceededException", f"1 cluster at a time is in creation: {making[0]}")
            if len(self._known) >= pcs.MAX_CLUSTERS:
                raise PcsError("ServiceQuotaExceededException", f"{pcs.MAX_CLUSTERS} clusters in {self.region}")
            now = datetime.now(UTC)
            created = EmulatedPcsCluster(id=_id(), request=request, created_at=now, active_at=now + creation)
            self._known[created.id] = created
            return created

    def delete_cluster(self, name: str) -> None:
        """Delete a cluster.

        Raises:
            PcsError: the cluster does not exist, has groups or queues, or had some until a moment ago.
        """
        with self._lock:
            cluster = self.cluster(name)
            remaining = [part.name for part in (*cluster.queues.values(), *cluster.groups.values())]
            if remaining:
                raise PcsError("ConflictException", f"cluster {name} has {', '.join(remaining)} still")
            if cluster.emptied_at is not None and datetime.now(UTC) < cluster.emptied_at + EMPTIED:
                raise PcsError("ConflictException", f"the groups and queues of cluster {name} are being deleted")
            del self._known[cluster.id]

    def create_group(self, request: dict[str, Any]) -> tuple[EmulatedPcsCluster, PcsPart]:
        """Create a node group. Instances of the login group start immediately, other instances with their queue."""
        with self._lock:
            cluster = self._active(request)
            _refuse(group_problems(request, cluster.limits(), self._aws))
            group = self._part(cluster.groups, request, "computeNodeGroupName", pcs.MAX_GROUPS, "compute node groups")
            cluster.instance_ids[group.id] = []
            if group.name == pcs.LOGIN:
                for _ in range(int(request["scalingConfiguration"]["minInstanceCount"])):
                    self.run_instance(cluster, group)
            self._keep_replacing(cluster)
            return cluster, group

    def create_queue(self, request: dict[str, Any]) -> tuple[EmulatedPcsCluster, PcsPart]:
        """Create a queue, and make Slurm run with it.

        Raises:
            PcsError: the service refuses the queue, or Slurm does not start.
        """
        with self._lock:
            cluster = self._active(request)
            _refuse(queue_problems(request, frozenset(cluster.groups)))
            queue = self._part(cluster.queues, request, "queueName", pcs.MAX_QUEUES, "queues")
            self._match(cluster)
            return cluster, queue

    def _active(self, request: Mapping[str, Any]) -> EmulatedPcsCluster:
        cluster = self.cluster(str(request.get("clusterIdentifier")))
        if cluster.status != "ACTIVE":
            raise PcsError("ConflictException", f"cluster {cluster.name} is {cluster.status}")
        return cluster

    @staticmethod
    def _part(parts: dict[str, PcsPart], request: dict[str, Any], key: str, most: int, plural: str) -> PcsPart:
        if any(part.name == request[key] for part in parts.values()):
            raise PcsError("ConflictException", f"{request[key]} already exists")
        if len(parts) >= most:
            raise PcsError("ServiceQuotaExceededException", f"a cluster has at most {most} {plural}")
        now = datetime.now(UTC)
        created = PcsPart(id=_id(), name=request[key], request=request, created_at=now, modified=now, active_at=now)
        parts[created.id] = created
        return created

    def delete_group(self, cluster_name: str, name: str) -> None:
        """Delete a node group with its instances.

        Raises:
            PcsError: the group does not exist, or a queue uses it.
        """
        with self._lock:
            cluster = self.cluster(cluster_name)
            group = self.part(cluster.groups, name, "compute node group")
            users = [queue.name for queue in cluster.queues.values() if group.id in _groups_of(queue)]
            if users:
                raise PcsError("ConflictException", f"compute node group {group.name} is in queue {', '.join(users)}")
            for instance in cluster.instance_ids.pop(group.id):
                self._aws.terminate(instance, "Client.UserInitiatedShutdown")
            del cluster.groups[group.id]
            cluster.emptied_at = datetime.now(UTC)

    def delete_queue(self, cluster_name: str, name: str) -> None:
        """Delete a queue with its jobs."""
        with self._lock:
            cluster = self.cluster(cluster_name)
            del cluster.queues[self.part(cluster.queues, name, "queue").id]
            cluster.emptied_at = datetime.now(UTC)
            self._match(cluster)

    def update_group(self, request: dict[str, Any]) -> tuple[EmulatedPcsCluster, PcsPart]:
        """Scale a node group: nodes beyond its maximum are removed, and Slurm requeues their jobs."""
        with self._lock:
            cluster = self._active(request)
            group = self.part(cluster.groups, str(request["computeNodeGroupIdentifier"]), "compute node group")
            if group.status != "ACTIVE":
                raise PcsError("ConflictException", f"compute node group {group.name} is {group.status}")
            _refuse(update_problems(request, cluster.limits(without=group.id)))
            other = set(request) - {"clusterIdentifier", "computeNodeGroupIdentifier", "clientToken"}
            if other - {"scalingConfiguration"}:
                raise NotImplementedError(
                    f"the sandbox's UpdateComputeNodeGroup changes only scalingConfiguration, got {sorted(other)}"
                )
            self._change(cluster, group, {**group.request, "scalingConfiguration": request["scalingConfiguration"]})
            group.active_at = group.modified + UPDATE
            return cluster, group

    def update_cluster(self, name: str, request: dict[str, Any]) -> None:
        """Update a cluster to the request that its template defines.

        Raises:
            PcsError: the service keeps a changed property, or the cluster or one of its parts is being changed.
        """
        with self._lock:
            cluster = self._active({"clusterIdentifier": name})
            changing = [part.name for part in (*cluster.groups.values(), *cluster.queues.values()) if not part.active]
            if changing:
                raise PcsError("ConflictException", f"{', '.join(changing)} of cluster {cluster.name} is not ACTIVE")
            _refuse([*cluster_problems(request, self._aws), *cluster_update_problems(cluster.request, request)])
            cluster.request = request

    def update_queue(self, name: str, request: dict[str, Any]) -> None:
        """Update a queue to other node groups, and make Slurm run with them."""
        with self._lock:
            cluster = self._active(request)
            _refuse(queue_problems(request, frozenset(cluster.groups)))
            queue = self.part(cluster.queues, name, "queue")
            moved = _groups_of(queue)
            queue.request, queue.modified = request, datetime.now(UTC)
            if moved != _groups_of(queue):
                self._match(cluster)

    def redefine_group(self, name: str, request: dict[str, Any]) -> None:
        """Update a node group to the request that its template defines, also one that was scaled since."""
        with self._lock:
            cluster = self._active(request)
            group = self.part(cluster.groups, name, "compute node group")
            _refuse(group_problems(request, cluster.limits(without=group.id), self._aws))
            self._change(cluster, group, request)

    def _change(self, cluster: EmulatedPcsCluster, group: PcsPart, request: dict[str, Any]) -> None:
        was, becomes = (int(each["scalingConfiguration"]["maxInstanceCount"]) for each in (group.request, request))
        group.request, group.modified = request, datetime.now(UTC)
        self._rescale(cluster, group, was, becomes)

    def _rescale(self, cluster: EmulatedPcsCluster, group: PcsPart, was: int, becomes: int) -> None:
        groups = () if cluster.running is None else cluster.running.groups
        started_with = next((planned.max_count for planned in groups if planned.name == group.name), None)
        if started_with is None:
            return
        if becomes > started_with:
            self._match(cluster)
        elif becomes < was:
            self._clusters.dismiss(cluster.name, cluster.instance_ids[group.id][becomes:])
            del cluster.instance_ids[group.id][becomes:]
        elif becomes > was:
            try:
                self._clusters.enlist(cluster.name, group.name, becomes - was)
            except ClusterFailedError as failure:
                raise PcsError("ValidationException", str(failure)) from failure

    def run_instance(self, cluster: EmulatedPcsCluster, group: PcsPart) -> str:
        """Run an instance of a group, and its lifecycle scripts; return its id, also if one of them failed."""
        instance = pcs_instances.run(self._aws, cluster.id, group.id, group.request)
        cluster.instance_ids[group.id].append(instance)
        if not pcs_boots.boots(self._aws, instance, group.request):
            cluster.failed.setdefault(group.id, []).append(instance)
            if cluster.running is not None:
                # A node of the running Slurm: its instance ends after Slurm has it.
                threading.Timer(REPLACED_S, self._keep_replacing, (cluster,)).start()
        return instance

    def next_instance(self, cluster: EmulatedPcsCluster, group: PcsPart) -> str:
        """An instance for a node of Slurm: one that has booted, or a new one."""
        booted = cluster.booted.get(group.id)
        return booted.pop(0) if booted else self.run_instance(cluster, group)

    def _keep_replacing(self, cluster: EmulatedPcsCluster) -> None:
        """Terminate instances that failed to boot; start others in the background until all nodes have one."""
        with self._lock:
            failed, cluster.failed = cluster.failed, {}
            for group_id, ids in failed.items():
                self._clusters.dismiss(cluster.name, ids)
                self._terminate(cluster, group_id, ids)
        if failed:
            missing = {group_id: len(ids) for group_id, ids in failed.items()}
            threading.Thread(target=self._replace, args=(cluster, missing), name="pcs-starts", daemon=True).start()

    def _terminate(self, cluster: EmulatedPcsCluster, group_id: str, ids: list[str]) -> None:
        known = cluster.instance_ids.get(group_id, [])
        known[:] = [id_ for id_ in known if id_ not in ids]
        for id_ in ids:
            self._aws.terminate(id_, "Client.UserInitiatedShutdown")

    def _replace(self, cluster: EmulatedPcsCluster, missing: Mapping[str, int]) -> None:
        over = threading.Event()
        while any(missing.values()) and not over.wait(REPLACED_S):
            missing = {group_id: self._started_again(cluster, group_id, count) for group_id, count in missing.items()}

    def _started_again(self, cluster: EmulatedPcsCluster, group_id: str, count: int) -> int:
        """Start instances for nodes without one, as far as the group still has these nodes; return how many failed."""
        still = 0
        for _ in range(count):
            with self._lock:
                group = cluster.groups.get(group_id) if cluster.id in self._known else None
                most = 0 if group is None else int(group.request["scalingConfiguration"]["maxInstanceCount"])
                if group is None or len(cluster.instance_ids[group_id]) >= most:
                    continue
                instance = self.run_instance(cluster, group)
                failed = cluster.failed.pop(group_id, [])
                if failed:
                    self._terminate(cluster, group_id, failed)
                    still += 1
                elif group.name != pcs.LOGIN:
                    cluster.booted.setdefault(group_id, []).append(instance)
                    self._clusters.enlist(cluster.name, group.name, 1)
        return still

    def _match(self, cluster: EmulatedPcsCluster) -> None:
        if cluster.running is not None:
            self._clusters.stop(cluster.name)
            cluster.running = None
        if not cluster.queues:
            return
        spec = self._spec(cluster)
        try:
            self._clusters.start(spec, PcsFleet(service=self, cluster=cluster, ec2=self._aws))
        except ClusterFailedError as failure:
            raise PcsError("InternalServerException", str(failure)) from failure
        cluster.running = spec
        self._keep_replacing(cluster)

    def _spec(self, cluster: EmulatedPcsCluster) -> ClusterSpec:
        slurm = cluster.request.get("slurmConfiguration", {})
        network = cluster.request["networking"]
        queues = list(cluster.queues.values())
        return ClusterSpec(
            name=cluster.name,
            head_instance_type="",
            head_subnet_id=network["subnetIds"][0],
            head_security_groups=tuple(network["securityGroupIds"]),
            queues=tuple(Queue(name=part.name, exclusive=False, settings=_settings(part.request)) for part in queues),
            groups=tuple(
                self._node_group(queue.name, cluster.groups[id_]) for queue in queues for id_ in _groups_of(queue)
            ),
            settings=tuple(_settings(cluster.request).items()),
            tags={},
            left_out=(
                *("user data (not run)", "EFA interfaces", "FSx for Lustre (not mounted)"),
                *("accounting", "logs of the scheduler", "nodes that are created for jobs (all exist from the start)")
                * bool(slurm.get("accounting")),
            ),
        )

    def _node_group(self, queue: str, group: PcsPart) -> NodeGroup:
        request = group.request
        name, count = request["instanceConfigs"][0]["instanceType"], request["scalingConfiguration"]
        facts = self._aws.instance_type(name)
        if facts is None:
            raise PcsError("ValidationException", f"EC2 has no instance type {name}")
        most = int(count["maxInstanceCount"])
        data = pcs_instances.template_data(self._aws, request)
        return NodeGroup(
            queue=queue,
            name=group.name,
            instance_type=name,
            capacity_type=request.get("purchaseOption", "ONDEMAND"),
            min_count=most,
            max_count=most,
            subnet_id=request["subnetIds"][0],
            security_groups=(),
            efa=any(interface.get("InterfaceType") == "efa" for interface in data.get("NetworkInterfaces", [])),
            placement_group=bool(data.get("Placement")),
            cpus=facts.vcpus,
            memory_mib=facts.memory_mib,
            gpus=facts.gpus,
            settings=_settings(request),
            own_names=tuple(f"{group.name}-{number + 1}" for number in range(most)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PcsFleet(Ec2Fleet):
    """The instances of a cluster's queues."""

    service: PcsService
    cluster: EmulatedPcsCluster

    @property
    def replaces_down(self) -> bool:
        """Whether down nodes are replaced; how PCS handles them is not documented, and they are here."""
        return True

    def run_head_node(self, spec: ClusterSpec) -> str:
        """Return no id: the account has no instance of the controller, and the login node already exists."""
        del spec
        return ""

    def run_node(self, spec: ClusterSpec, group: NodeGroup, name: str) -> str:
        """Run a node; return the id of its instance."""
        del spec, name
        return self.service.next_instance(self.cluster, self.service.part(self.cluster.groups, group.name, "group"))

    def terminate(self, instance_id: str, reason: str) -> None:
        """Terminate an instance, with EC2's code for the reason."""
        for ids in self.cluster.instance_ids.values():
            if instance_id in ids:
                ids.remove(instance_id)
        self.ec2.terminate(instance_id, reason)


def _settings(request: Mapping[str, Any]) -> dict[str, str]:
    settings = request.get("slurmConfiguration", {}).get("slurmCustomSettings", ())
    return {setting["parameterName"]: setting["parameterValue"] for setting in settings}


def _groups_of(queue: PcsPart) -> list[str]:
    return [
        configuration["computeNodeGroupId"] for configuration in queue.request.get("computeNodeGroupConfigurations", ())
    ]


class EmulatedPcs:
    """The service in every account and region, and its resources in CloudFormation."""

    def __init__(self, clusters: Registry) -> None:
        self._services: defaultdict[tuple[str, str], PcsService] = defaultdict()
        self._clusters, self._lock = clusters, threading.Lock()

    def service(self, account: str, region: str) -> PcsService:
        """The service in an account and a region."""
        with self._lock:
            key = (account, region)
            if key not in self._services:
                self._services[key] = PcsService(account, region, self._clusters)
            return self._services[key]

    def models(self) -> tuple[Model, ...]:
        """The resource types of the service."""
        return (
            Model(
                type="AWS::PCS::Cluster",
                make=self._make_cluster,
                change=self._change_cluster,
                remove=self._remove_cluster,
            ),
            Model(
                type="AWS::PCS::ComputeNodeGroup",
                make=self._make_group,
                change=self._change_group,
                remove=self._remove_group,
            ),
            Model(type="AWS::PCS::Queue", make=self._make_queue, change=self._change_queue, remove=self._remove_queue),
        )

    def _of(self, requested: Requested) -> PcsService:
        return self.service(requested.account_id, requested.region_name)

    def _make_cluster(self, requested: Requested) -> Created:
        service, request = self._of(requested), _request(requested, "clusterName")
        cluster = _call(lambda: service.create_cluster(request, creation=timedelta(0)))
        return _active_resource(service.arn(cluster.id), cluster.id)

    def _change_cluster(self, requested: Requested, before: Created) -> Created:
        request = _request(requested, "clusterName")
        _call(lambda: self._of(requested).update_cluster(before.attributes["Id"], request))
        return before

    def _make_group(self, requested: Requested) -> Created:
        service, request = self._of(requested), _request(requested, "computeNodeGroupName")
        cluster, group = _call(lambda: service.create_group(request))
        return _active_resource(service.arn(cluster.id, "computenodegroup", group.id), group.id)

    def _change_group(self, requested: Requested, before: Created) -> Created:
        request = _request(requested, "computeNodeGroupName")
        _call(lambda: self._of(requested).redefine_group(before.attributes["Id"], request))
        return before

    def _make_queue(self, requested: Requested) -> Created:
        service, request = self._of(requested), _request(requested, "queueName")
        cluster, queue = _call(lambda: service.create_queue(request))
        return _active_resource(service.arn(cluster.id, "queue", queue.id), queue.id)

    def _change_queue(self, requested: Requested, before: Created) -> Created:
        request = _request(requested, "queueName")
        _call(lambda: self._of(requested).update_queue(before.attributes["Id"], request))
        return before

    def _remove_cluster(self, requested: Requested, created: Created) -> None:
        _delete(lambda: self._of(requested).delete_cluster(created.attributes["Id"]))

    def _remove_group(self, requested: Requested, created: Created) -> None:
        _delete(lambda: self._of(requested).delete_group(requested.need("ClusterId"), created.attributes["Id"]))

    def _remove_queue(self, requested: Requested, created: Created) -> None:
        _delete(lambda: self._of(requested).delete_queue(requested.need("ClusterId"), created.attributes["Id"]))


def _active_resource(arn: str, id_: str) -> Created:
    return Created(physical_resource_id=arn, attributes={"Arn": arn, "Id": id_, "Status": "ACTIVE"})


def _call(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except PcsError as refusal:
        raise ResourceRefusedError(f"{refusal} (Service: Pcs, {refusal.code})") from refusal


def _delete(call: Callable[[], None]) -> None:
    try:
        call()
    except PcsError as refusal:
        if refusal.code != "ResourceNotFoundException":
            raise ResourceRefusedError(f"{refusal} (Service: Pcs, {refusal.code})") from refusal


def _request(requested: Requested, name_key: str) -> dict[str, Any]:
    """The request that CloudFormation sends for a resource: its properties with names in lower camel case."""
    properties = {key: value for key, value in dict(requested.properties).items() if key not in ("Name", "Tags")}
    lowered: dict[str, Any] = _lower_keys(properties)
    return {**lowered, name_key: requested.get("Name") or requested.name}


def _lower_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_NAMES.get(key, key[:1].lower() + key[1:]): _lower_keys(inner) for key, inner in value.items()}
    return [_lower_keys(item) for item in value] if isinstance(value, list) else value
