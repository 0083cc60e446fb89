"""The lifecycle scripts of HyperPod's instances: run at each start, with their log, and what follows a failure.

Judged by: the SageMaker developer guide ("SageMaker HyperPod cluster management" for the log and the message of a
failed script, "SageMaker HyperPod cluster events reference" for events; read 2026-11-29), botocore 1.44.5
(sagemaker/2017-07-24 service-2.json).

Emulated: the folder of scripts, copied from S3; resource_config.json; devices, mounts and slurm.conf of the instance
below a folder; its log in CloudWatch; the failure of a script. With continuous provisioning, a failed instance is
terminated and another one starts, without end; else the instance stays as failed. Not emulated: what scripts do as
root (they run with SLIPWAY_DRY_RUN=1, and a script without this mode does not run); time limits of scripts; security
groups of file systems; instances that replace others on request, except with Slurm.
"""

import json
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from moto.logs.models import logs_backends
from moto.sagemaker.models import ClusterNode, sagemaker_backends

from launcher.catalog.load import load
from launcher.sandbox.aws import boot_scripts
from launcher.sandbox.aws.buckets import backend_of
from launcher.sandbox.aws.pod_cluster import FAILURE, RUNNING, EmulatedPodCluster
from launcher.sandbox.cluster.hyperpod_eks_request import eks_name
from launcher.sandbox.cluster.hyperpod_request import ec2_type, script_place
from launcher.sandbox.cluster.registry import Registry
from launcher.sandbox.cluster.specification import ClusterFailedError

REPLACED_S = 5.0
"""Seconds until another instance starts in place of a failed one; HyperPod takes minutes."""
_AT_ONCE = 4
_LOG_GROUPS = threading.Lock()
_LOG = "var/log/provision/provisioning.log"
_SLURMD = b"[Service]\nExecStart=/opt/slurm/sbin/slurmd -D $SLURMD_OPTIONS\n"


def start_instances(cluster: EmulatedPodCluster, group: str, count: int) -> list[str]:
    """Start instances of a group, and run their scripts; return the ids of those that started.

    With continuous provisioning, nodes whose instances failed wait for other ones; else these instances stay as failed.
    """
    ids = [cluster.add(group) for _ in range(count)]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        failures = dict(zip(ids, threads.map(lambda id_: _failure(cluster, id_), ids), strict=True))
    for instance_id, failure in failures.items():
        if failure and cluster.continuous:
            logical_id = str(uuid.uuid4())
            cluster.waiting[logical_id] = group
            _terminate(cluster, instance_id, logical_id, failure)
        elif failure:
            cluster.nodes[instance_id].status = FAILURE
            cluster.failure = failure
    started = [instance_id for instance_id, failure in failures.items() if not failure]
    cluster.check_on_start(started)
    return started


def keep_replacing(cluster: EmulatedPodCluster, clusters: Registry, hosts: Registry) -> None:
    """Start instances for nodes that wait for one, in the background, until none waits or the cluster is gone."""
    if cluster.waiting:
        arguments = (cluster, lambda group, id_: _join(cluster, group, id_, clusters, hosts))
        threading.Thread(target=_replace, args=arguments, name="hyperpod-starts", daemon=True).start()


def _replace(cluster: EmulatedPodCluster, join: Callable[[str, str], None]) -> None:
    over = threading.Event()
    known: Mapping[str, Any] = sagemaker_backends[cluster.account_id][cluster.region_name].clusters
    while not over.wait(REPLACED_S) and cluster.waiting and known.get(cluster.cluster_name) is cluster:
        for logical_id, group in list(cluster.waiting.items()):
            instance_id = cluster.add(group, tried=True)
            failure = _failure(cluster, instance_id)
            if failure:
                _terminate(cluster, instance_id, logical_id, failure)
            elif cluster.waiting.pop(logical_id, None) is None:
                cluster.nodes.pop(instance_id, None)
            else:
                cluster.nodes[instance_id].status = RUNNING
                cluster.check_on_start([instance_id])
                join(group, instance_id)


def _join(cluster: EmulatedPodCluster, group: str, instance_id: str, clusters: Registry, hosts: Registry) -> None:
    """Add a started instance to the cluster's Slurm or Kubernetes."""
    control = eks_name(cluster.request)
    if control is None:
        cluster.ready.setdefault(group, []).append(instance_id)
        clusters.enlist(cluster.cluster_name, group, 1)
        return
    running = cluster.instances(group)
    hosts.resize(control, group, len(running))
    hosts.identify(control, group, running)


def next_instance(cluster: EmulatedPodCluster, group: str) -> str:
    """The id of a started instance for a node of Slurm.

    Raises:
        ClusterFailedError: its script failed.
    """
    ready = cluster.ready.get(group) or start_instances(cluster, group, 1)
    if not ready:
        raise ClusterFailedError(reason(cluster))
    return ready.pop(0)


def reason(cluster: EmulatedPodCluster) -> str:
    """SageMaker's reason for the newest instance that failed to start."""
    events = [event["EventDetails"]["EventMetadata"]["Instance"]["FailureMessage"] for event in cluster.failed_starts]
    return cluster.failure or events[-1]


def _terminate(cluster: EmulatedPodCluster, instance_id: str, logical_id: str, failure: str) -> None:
    node = cluster.nodes.pop(instance_id)
    start = f"Instance lifecycle script execution for EC2 Instance {instance_id} has Failed."
    cluster.failed_starts.append(
        {
            "EventId": str(uuid.uuid4()),
            "ClusterArn": cluster.arn,
            "ClusterName": cluster.cluster_name,
            "InstanceGroupName": node.instance_group_name,
            "InstanceId": instance_id,
            "ResourceType": "Instance",
            # moto's times have no zone: they are UTC.
            "EventTime": datetime.now(UTC).replace(tzinfo=None),
            "EventLevel": "Error",
            "Description": f"{start} To view lifecycle script logs, visit log group '{_log_group(cluster)}'",
            "EventDetails": {
                "EventMetadata": {"Instance": {"FailureMessage": failure, "NodeLogicalId": logical_id}},
            },
        }
    )


def _failure(cluster: EmulatedPodCluster, instance_id: str) -> str:
    """Run an instance's script; return SageMaker's reason if it failed, else an empty text."""
    node = cluster.nodes[instance_id]
    scripts, entry = _scripts(cluster, node.instance_group_name)
    if boot_scripts.DRY_RUN not in scripts.get(entry, b""):
        return ""
    with TemporaryDirectory(prefix="slipway-instance-") as folder:
        root = Path(folder)
        for name, text in scripts.items():
            boot_scripts.write_file(root / "scripts" / name, text)
        address = _write_files(cluster, node, root)
        done = boot_scripts.run(root / "scripts" / entry, (), root, node.instance_id, address)
        log = root / "machine" / _LOG
        lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    stream = f"LifecycleConfig/{node.instance_group_name}/{instance_id}"
    _write_log(cluster, stream, lines)
    if done.returncode == 0:
        return ""
    return (
        f'Instance {instance_id} failed to provision with the following error: "Lifecycle scripts did not run'
        f" successfully. To view lifecycle script logs, visit log group '{_log_group(cluster)}' and log stream"
        f" '{stream}'. If you cannot find corresponding lifecycle script logs in CloudWatch, please make sure you"
        " follow one of the options here: https://docs.aws.amazon.com/sagemaker/latest/dg/"
        'sagemaker-hyperpod-faq-slurm.html#hyperpod-faqs-q1." Note that multiple instances may be impacted.'
    )


def _scripts(cluster: EmulatedPodCluster, group: str) -> tuple[dict[str, bytes], str]:
    """The files of a group's folder of scripts by name, and the name of its entry point."""
    place = script_place(cluster.groups[group])
    store = backend_of(cluster.account_id, cluster.region_name)
    if place is None or place[0] not in store.buckets:
        return {}, ""
    bucket, (folder, _, entry) = place[0], place[1].rpartition("/")
    prefix = f"{folder}/" if folder else ""
    keys = [key for key in store.buckets[bucket].keys if key.startswith(prefix)]
    stored = {key.removeprefix(prefix): store.get_object(bucket, key) for key in keys}
    return {name: file.value for name, file in stored.items() if file is not None}, entry


def _write_files(cluster: EmulatedPodCluster, node: ClusterNode, root: Path) -> str:
    """Write what HyperPod and its image leave on an instance; return its address."""
    machine, nodes = root / "machine", dict(cluster.nodes)
    addresses = {id_: f"10.0.{number // 250}.{4 + number % 250}" for number, id_ in enumerate(nodes)}
    address = addresses[node.instance_id]
    listed = [
        {
            "Name": name,
            "InstanceType": group["InstanceType"],
            "Instances": [
                {"InstanceName": f"{name}-{number + 1}", "CustomerIpAddress": addresses[id_], "InstanceId": id_}
                for number, id_ in enumerate(id_ for id_, other in nodes.items() if other.instance_group_name == name)
            ],
        }
        for name, group in cluster.groups.items()
    ]
    config = {
        "ClusterConfig": {"ClusterName": cluster.cluster_name, "ClusterArn": cluster.arn},
        "InstanceGroups": listed,
    }
    boot_scripts.write_file(machine / "opt/ml/config/resource_config.json", json.dumps(config).encode())
    group = cluster.groups[node.instance_group_name]
    if group.get("SlurmConfig", {}).get("NodeType") == "Controller":
        host = f"SlurmctldHost=ip-{address.replace('.', '-')}({address})\n"
        text = f"ClusterName={cluster.cluster_name}\n{host}"
        boot_scripts.write_file(machine / "opt/slurm/etc/slurm.conf", text.encode())
    boot_scripts.write_file(machine / "etc/systemd/system/slurmd.service", _SLURMD)
    mounts = [
        f"{config['FsxLustreConfig']['DnsName']}@tcp:/{config['FsxLustreConfig']['MountName']}"
        f" {config['FsxLustreConfig'].get('MountPath', '/fsx')} lustre rw 0 0"
        for config in group.get("InstanceStorageConfigs", [])
        if "FsxLustreConfig" in config
    ]
    boot_scripts.write_devices(machine, load().instance_types.get(ec2_type(group)), mounts, scratch="/opt/sagemaker")
    return address


def _log_group(cluster: EmulatedPodCluster) -> str:
    return f"/aws/sagemaker/Clusters/{cluster.cluster_name}/{cluster.cluster_id}"


def _write_log(cluster: EmulatedPodCluster, stream: str, lines: list[str]) -> None:
    """Write the lines of a script to the cluster's log group, which SageMaker creates."""
    backend, group = logs_backends[cluster.account_id][cluster.region_name], _log_group(cluster)
    with _LOG_GROUPS:
        if group not in backend.groups:
            backend.create_log_group(group, {})
    backend.create_log_stream(group, stream)
    now = int(datetime.now(UTC).timestamp() * 1000)
    events = [{"timestamp": now, "message": line} for line in lines if line]
    if events:
        backend.put_log_events(group, stream, events)
