"""Custom::HyperPodChart: HyperPod's chart in an EKS cluster, without the function that installs it.

The real chart, where it is what the deployment has uploaded, is rendered by the helm of the uploaded layer, and the
cluster's strict schemas judge every object of it. Where a small one of our own was uploaded in its place, its objects
are created, and a report says so. Refused is what the function would refuse: another chart than the one that is
pinned, a cluster that is not there. Not emulated: the function, its network, the programs in the chart's pods.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

from moto.awslambda.models import lambda_backends
from moto.eks.models import eks_backends

from launcher.catalog.hyperpod_chart import chart_pins
from launcher.sandbox.aws.buckets import backend_of
from launcher.sandbox.aws.eks import Hosts
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError
from launcher.sandbox.aws.parallelcluster import ClusterFailedError
from launcher.sandbox.kubernetes.hyperpod_chart import (
    HelmFailedError,
    is_stand_in,
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
"""What the chart brings, by the names of kubernetes/custom_kinds.yaml."""


@dataclass(frozen=True, slots=True)
class HyperPodChart:
    """The model, over what runs the clusters' Kubernetes."""

    hosts: Hosts

    def model(self) -> Model:
        """It."""
        return Model(type=KIND, make=self._make, change=self._change, remove=self._remove)

    def _make(self, wanted: Requested) -> Created:
        name, content = wanted.need("Cluster"), _checked(wanted)
        objects, why = _objects(wanted, content)
        word = f"HyperPod's chart (the sandbox uses its own small chart: {why})" if why else ""
        try:
            self.hosts.install(name, _OPERATORS, objects, word)
        except ClusterFailedError as problem:
            raise ResourceRefusedError(str(problem)) from problem
        return Created(physical_resource_id=f"{name}/{wanted.need('Release')}")

    def _change(self, wanted: Requested, before: Created) -> Created:
        """Objects that are there stay as they are: a machine of another type would need other plugins."""
        _checked(wanted)
        return before

    def _remove(self, _wanted: Requested, _made: Created) -> None:
        """It goes with its cluster, as the function has it."""


def _checked(wanted: Requested) -> bytes:
    unknown = set(wanted.properties.keys()) - _PROPERTIES
    if unknown:
        raise ResourceRefusedError(f"unknown properties: {', '.join(sorted(unknown))}")
    functions = lambda_backends[wanted.account_id][wanted.region_name].list_functions()
    if wanted.need("ServiceToken") not in {function.function_arn for function in functions}:
        raise ResourceRefusedError(f"ServiceToken is no function that is there: {wanted.need('ServiceToken')}")
    if wanted.need("Cluster") not in eks_backends[wanted.account_id][wanted.region_name].clusters:
        raise ResourceRefusedError(f"no EKS cluster {wanted.need('Cluster')}")
    content = _uploaded(wanted, wanted.need("Key"))
    found = hashlib.sha256(content).hexdigest()
    if found != wanted.need("Sha256") and not is_stand_in(content):
        raise ResourceRefusedError(f"the chart has SHA-256 {found}, pinned is {wanted.need('Sha256')}")
    return content


def _uploaded(wanted: Requested, key: str) -> bytes:
    store, bucket = backend_of(wanted.account_id, wanted.region_name), wanted.need("Bucket")
    found = store.get_object(bucket, key) if bucket in store.buckets else None
    if found is None:
        raise ResourceRefusedError(f"no object s3://{bucket}/{key}")
    return bytes(found.value)


def _objects(wanted: Requested, chart: bytes) -> tuple[list[dict[str, Any]], str]:
    values = wanted.need("Values")
    if is_stand_in(chart):
        return list(own_objects(values)), "the real one is not in the cache"
    layer = _uploaded(wanted, f"{chart_pins().layer_sha256}.zip")
    if is_stand_in(layer) or not runs_here():
        return list(own_objects(values)), "its helm does not run on this machine"
    try:
        release, namespace = wanted.need("Release"), wanted.need("Namespace")
        return rendered_by_helm(chart, layer, values, release=release, namespace=namespace), ""
    except HelmFailedError as problem:
        raise ResourceRefusedError(str(problem)) from problem
