"""What remains after a cluster is removed, with their monthly cost: checkpoints, logs, a shared network."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal

from launcher.aws import bucket_contents, log_groups, stacks
from launcher.aws.created_by_cluster import created_by_cluster
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.catalog.load import Catalog
from launcher.model.administrator import by_administrator
from launcher.model.endpoint import RETENTION_DAYS
from launcher.model.removal import Retained, RetainedKind
from launcher.model.units import HOURS_PER_MONTH, number_of
from launcher.pricing.bill_lines import component
from launcher.workflow.doctor.rates import hourly_rate

GIB = 2**30


def bucket_names(session: Session, store: StackState) -> tuple[str, ...]:
    """The buckets of a checkpoint stack; the checkpoint bucket first, because it writes its log to another bucket."""
    checkpoint_bucket = store.outputs.get("BucketName")
    names = [
        resource.physical_id for resource in stacks.resources(session, store.name) if resource.type == "AWS::S3::Bucket"
    ]
    return tuple(sorted(names, key=lambda name: name != checkpoint_bucket))


def retained_store(
    session: Session, catalog: Catalog, region: str, names: Iterable[str], cluster: str
) -> Iterator[Retained]:
    """The buckets of a retained checkpoint stack."""
    for name in names:
        contents = bucket_contents.contents(session, name)
        if contents is not None:
            text = f"{number_of(contents.versions, 'object')}; slipway down {cluster} --checkpoints deletes them"
            stored = Retained(kind=RetainedKind.CHECKPOINTS, name=name, reason=text, gib=contents.gib)
            yield _with_price(stored, catalog, region, "s3.standard-storage")


def requests(session: Session, catalog: Catalog, region: str, serving: StackState | None) -> Iterator[Retained]:
    """The retained bucket of an endpoint's requests and responses; its objects expire."""
    if serving is None:
        return
    for resource in stacks.resources(session, serving.name):
        contents = (
            bucket_contents.contents(session, resource.physical_id) if resource.type == "AWS::S3::Bucket" else None
        )
        if contents is not None:
            time = f"{number_of(contents.versions, 'object')}, each gone after {RETENTION_DAYS} days"
            text = f"{time}; aws s3 rb s3://{resource.physical_id} --force deletes it"
            stored = Retained(kind=RetainedKind.REQUESTS, name=resource.physical_id, reason=text, gib=contents.gib)
            yield _with_price(stored, catalog, region, "s3.standard-storage")


def foreign(training: StackState | None, *, network: bool, store: bool) -> Iterator[Retained]:
    """Resources that a cluster used and its plan named: they existed before and are not touched.

    `network` and `store`: whether each belongs to the plan. `training` is None if the stack is gone.
    """
    if training is None:
        return
    subnet, uri = training.outputs.get("PrivateSubnetId"), training.outputs.get("StoreUri")
    if network and subnet is not None:
        yield Retained(kind=RetainedKind.NETWORK, name=subnet, reason="used by the plan, not created by it")
    if store and uri is not None:
        yield Retained(kind=RetainedKind.CHECKPOINTS, name=uri, reason="used by the plan, not created by it")


def used_network(
    session: Session, catalog: Catalog, region: str, network: StackState, users: Iterable[str]
) -> Retained:
    """A network that other clusters use."""
    rate = hourly_rate([stacks.template(session, network.name)], catalog, region)
    return Retained(
        kind=RetainedKind.NETWORK,
        name=network.name,
        reason=f"used by {', '.join(sorted(users))}; the price includes its NAT, addresses and endpoints",
        usd_per_month=None if rate.unknown else rate.usd * Decimal(str(HOURS_PER_MONTH)),
        unpriced=f"{rate.unknown[0]} has no price" if rate.unknown else None,
    )


def provider_log(session: Session, training: StackState | None) -> str | None:
    """The log group of the provider's function, None if no longer known."""
    if training is None:
        return None
    for resource in stacks.resources(session, training.name):
        provider = (
            stacks.find(session, resource.physical_id)
            if resource.type == "AWS::CloudFormation::Stack" and resource.physical_id
            else None
        )
        token = provider.outputs.get("ServiceToken") if provider is not None else None
        if token is not None:
            return f"/aws/lambda/{token.rpartition(':')[2]}"
    return None


def retained_logs(
    session: Session, catalog: Catalog, region: str, cluster: str, provider: str | None
) -> Iterator[Retained]:
    """The log groups that only expire: those of ParallelCluster, of its provider, and of HyperPod."""
    pattern = re.compile(rf"/aws/parallelcluster/{re.escape(cluster)}-\d{{12}}")
    groups = [
        group
        for group in log_groups.log_groups(session, f"/aws/parallelcluster/{cluster}-")
        if pattern.fullmatch(group.name)
    ]
    groups += log_groups.log_groups(session, f"/aws/sagemaker/Clusters/{cluster}/")
    if provider is not None:
        groups += [group for group in log_groups.log_groups(session, provider) if group.name == provider]
    for group in groups:
        time = (
            f"each line is kept for {number_of(group.retention_days, 'day')}"
            if group.retention_days
            else "kept without expiry"
        )
        stored = Retained(kind=RetainedKind.LOGS, name=group.name, reason=time, gib=group.stored_bytes / GIB)
        yield _with_price(stored, catalog, region, "cloudwatch.logs-storage")


def control_plane_log(session: Session, catalog: Catalog, region: str, cluster: str) -> Iterator[Retained]:
    """The log group that EKS creates again if it writes after the cluster and the stack's log group are gone."""
    name = log_groups.control_plane_group(cluster)
    for group in log_groups.log_groups(session, name):
        if group.name == name:
            command = f"aws logs delete-log-group --region {region} --log-group-name {name}"
            text = f"written by EKS after the cluster was deleted; a launch removes it, or {command}"
            stored = Retained(kind=RetainedKind.LOGS, name=name, reason=text, gib=group.stored_bytes / GIB)
            yield _with_price(stored, catalog, region, "cloudwatch.logs-storage")


def stranded_cluster(session: Session, region: str, cluster: str) -> Iterator[Retained]:
    """ParallelCluster's own stack, if its provider failed to delete it: all its resources are billed."""
    if stacks.find(session, cluster) is not None:
        command = f"pcluster delete-cluster --region {region} --cluster-name {cluster}"
        yield Retained(
            kind=RetainedKind.CLUSTER,
            name=cluster,
            reason=f"left by ParallelCluster's provider, and billed: {command}",
            unpriced="its nodes are not counted here",
        )


def created_in_kubernetes(session: Session, catalog: Catalog, region: str, cluster: str) -> Iterator[Retained]:
    """Resources that a cluster's objects created in the account; deleting the objects first removes the resources."""
    for created in created_by_cluster(session, cluster):
        is_volume = created.kind is RetainedKind.VOLUME
        why = "only you can decide to delete its data" if is_volume else "it holds the network, whose removal fails"
        text = f"created by an object in the cluster: {why}; {by_administrator(f'{created.command} --region {region}')}"
        retained = Retained(kind=created.kind, name=created.name, reason=text, gib=created.gib)
        if created.volume_type == "gp3":
            retained = _with_price(retained, catalog, region, "ebs.gp3-storage")
        elif created.kind in (RetainedKind.VOLUME, RetainedKind.LOAD_BALANCER):
            retained = replace(retained, unpriced="its price is unknown")
        yield retained


def _with_price(stored: Retained, catalog: Catalog, region: str, item: str) -> Retained:
    line = component(stored.name, "storage", "GB-month", stored.gib or 0.0, catalog.bill_item(item, region))
    return replace(stored, usd_per_month=line.usd, unpriced=line.unpriced)
