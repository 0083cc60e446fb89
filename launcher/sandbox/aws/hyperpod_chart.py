"""Custom::HyperPodChart: HyperPod's chart in an EKS cluster, without the function that installs it.

Judged by: the pinned chart (catalog, hyperpod_chart), and the strict schemas of Kubernetes (kubernetes/validation.py).

If the deployment uploaded the real chart, the helm of the uploaded layer renders the chart, and the cluster validates
every object with its strict schemas. If the deployment uploaded the small chart of the tests, its objects are created,
and the report names the chart. The sandbox refuses what the function would refuse: a chart other than the pinned one, a
missing cluster. Not emulated: the function, its network, the programs in the chart's pods.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

from moto.awslambda.models import lambda_backends
from moto.eks.models import eks_backends

from launcher.catalog.hyperpod_chart import chart_pins
from launcher.sandbox.aws.buckets import backend_of
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError
from launcher.sandbox.cluster.registry import Registry
from launcher.sandbox.cluster.specification import ClusterFailedError
from launcher.sandbox.kubernetes.hyperpod_chart import (
    is_emulated,
    own_objects,
    rendered_by_helm,
    runs_here,
)

KIND = "Custom::HyperPodChart"
_PROPERTIES = frozenset(
    {"ServiceToken", "ServiceTimeout", "Bucket", "Key", "Sha256", "Release", "Namespace", "Values", "Cluster"}
    | {"Endpoint", "Authority"}
)
_OPERATORS = ("training-operator",)
"""The operators of the chart, by the names of kubernetes/custom_kinds.yaml."""


@dataclass(frozen=True, slots=True)
class EmulatedChart:
    """The model; `hosts` runs the clusters' Kubernetes."""

    hosts: Registry

    def model(self) -> Model:
        """The emulated Helm chart of HyperPod."""
        return Model(type=KIND, make=self._make, change=self._change, remove=self._remove)

    def _make(self, requested: Requested) -> Created:
        name, content = requested.need("Cluster"), _check_chart(requested)
        objects, why = _objects(requested, content)
        note = f"HyperPod's chart (the sandbox uses its own small chart: {why})" if why else ""
        try:
            self.hosts.install(name, _OPERATORS, objects, note)
        except ClusterFailedError as problem:
            raise ResourceRefusedError(str(problem)) from problem
        return Created(physical_resource_id=f"{name}/{requested.need('Release')}")

    def _change(self, requested: Requested, before: Created) -> Created:
        """Keep existing objects unchanged: an instance of another type would need other plugins."""
        _check_chart(requested)
        return before

    def _remove(self, _requested: Requested, _created: Created) -> None:
        """Do nothing: the chart is removed with its cluster, as the function does."""


def _check_chart(requested: Requested) -> bytes:
    unknown = set(requested.properties.keys()) - _PROPERTIES
    if unknown:
        raise ResourceRefusedError(f"unknown properties: {', '.join(sorted(unknown))}")
    functions = lambda_backends[requested.account_id][requested.region_name].list_functions()
    if requested.need("ServiceToken") not in {function.function_arn for function in functions}:
        raise ResourceRefusedError(
            f"ServiceToken is not the ARN of an existing function: {requested.need('ServiceToken')}"
        )
    if requested.need("Cluster") not in eks_backends[requested.account_id][requested.region_name].clusters:
        raise ResourceRefusedError(f"no EKS cluster {requested.need('Cluster')}")
    content = _read_upload(requested, requested.need("Key"))
    digest = hashlib.sha256(content).hexdigest()
    if digest != requested.need("Sha256") and not is_emulated(content):
        raise ResourceRefusedError(f"the chart has SHA-256 {digest}, pinned is {requested.need('Sha256')}")
    return content


def _read_upload(requested: Requested, key: str) -> bytes:
    store, bucket = backend_of(requested.account_id, requested.region_name), requested.need("Bucket")
    stored = store.get_object(bucket, key) if bucket in store.buckets else None
    if stored is None:
        raise ResourceRefusedError(f"no object s3://{bucket}/{key}")
    return bytes(stored.value)


def _objects(requested: Requested, chart: bytes) -> tuple[list[dict[str, Any]], str]:
    values = requested.need("Values")
    if is_emulated(chart):
        return list(own_objects(values)), "the real one is not in the cache"
    layer = _read_upload(requested, f"{chart_pins().layer_sha256}.zip")
    if is_emulated(layer) or not runs_here():
        return list(own_objects(values)), "its helm binary does not run on this computer"
    try:
        release, namespace = requested.need("Release"), requested.need("Namespace")
        return rendered_by_helm(chart, layer, values, release=release, namespace=namespace), ""
    except RuntimeError as problem:
        raise ResourceRefusedError(str(problem)) from problem
