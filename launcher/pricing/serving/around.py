"""What an endpoint costs beside its instances: volumes, data, logs, alarms, the stored model, a cluster on EKS."""

from collections.abc import Iterator
from typing import NamedTuple

from launcher.catalog.load import Catalog
from launcher.model.enums import TargetKind
from launcher.model.money import Assumption, CostComponent
from launcher.model.plan import Place
from launcher.model.workload import ServingWorkload
from launcher.pricing.bill_lines import component
from launcher.pricing.desk import Desk
from launcher.pricing.serving.traffic import HOURS_PER_MONTH, Fleet, requests_per_month

BYTES_PER_TOKEN = 6.0
"""Of text and its JSON around it: four letters a token in English, and half as much again; an assumption."""
LOG_KB_PER_REQUEST = 1.0
LOG_GB_PER_INSTANCE_HOUR = 0.005
"""Container logs of an idle engine: an assumption."""
ALARMS = 6
"""Errors of both kinds, model latency, overhead latency, capacity failures, idle time."""
IMAGE_GIB = 30.0
VOLUME_STEP_GIB = 10.0
"""A volume holds the image and the model twice over, as downloaded and as loaded."""
GB_PER_GIB = 1.073741824
KILO, GIGA = 1e3, 1e9


class _Bill(NamedTuple):
    """Lines of one region."""

    region: str
    catalog: Catalog

    def item(self, name: str, group: str, item: str, unit: str, quantity: float) -> CostComponent:
        """A line priced by the catalog's rest of the bill."""
        return component(name, group, unit, quantity, self.catalog.bill_item(item, self.region))


def around(
    place: Place, serve: ServingWorkload, load: Fleet, weights_gb: float, desk: Desk
) -> tuple[CostComponent, ...]:
    """The components beside the instances, for a month; `weights_gb` is what the stored model takes."""
    bill = _Bill(region=place.region, catalog=desk.catalog)
    eks = place.target is TargetKind.EKS
    lines = list(
        _cluster(bill, place, desk, load, weights_gb)
        if eks
        else _endpoint(bill, serve, load, _volume_gb(place, weights_gb, desk))
    )
    requests = requests_per_month(serve)
    logs = requests * LOG_KB_PER_REQUEST * KILO / GIGA + load.hours * LOG_GB_PER_INSTANCE_HOUR
    lines += [
        bill.item("S3 model", "storage", "s3.standard-storage", "GB-month", weights_gb),
        bill.item("CloudWatch logs", "other", "cloudwatch.logs-ingestion", "GB", logs),
        bill.item("CloudWatch alarms", "other", "cloudwatch.alarm", "alarm-month", ALARMS),
    ]
    if serve.data_capture:
        captured = _traffic_gb(requests, serve.input_tokens + serve.answer_tokens)
        lines.append(bill.item("S3 captured requests", "storage", "s3.standard-storage", "GB-month", captured))
    return tuple(lines)


def _endpoint(bill: _Bill, serve: ServingWorkload, load: Fleet, volume_gb: float) -> Iterator[CostComponent]:
    """Volumes where the type has no disks of its own, and the data that pass the endpoint."""
    if volume_gb:
        size = volume_gb * load.instances.mean
        yield bill.item("endpoint volumes", "storage", "sagemaker.endpoint-storage", "GB-month", size)
    requests = requests_per_month(serve)
    inputs, outputs = _traffic_gb(requests, serve.input_tokens), _traffic_gb(requests, serve.answer_tokens)
    yield bill.item("requests into the endpoint", "network", "sagemaker.endpoint-data-in", "GB", inputs)
    yield bill.item("answers out of it", "network", "sagemaker.endpoint-data-out", "GB", outputs)


def _volume_gb(place: Place, weights_gb: float, desk: Desk) -> float:
    """GB of an instance's volume on an endpoint; 0 where the type has disks of its own."""
    own = desk.catalog.instance_types[place.instance_type].nvme_gb
    return 0.0 if own else volume_gib(weights_gb) * GB_PER_GIB


def _cluster(bill: _Bill, place: Place, desk: Desk, load: Fleet, weights_gb: float) -> Iterator[CostComponent]:
    """The control plane, root volumes, and the NAT gateway of a new network."""
    if desk.request.target.cluster is None:
        yield bill.item("EKS control plane", "other", "eks.cluster", "hour", HOURS_PER_MONTH)
        if desk.request.network.vpc_id is None:
            yield bill.item("NAT gateway", "network", "vpc.nat-gateway", "hour", HOURS_PER_MONTH)
            data = (IMAGE_GIB * GB_PER_GIB + weights_gb) * place.nodes
            yield bill.item("NAT data", "network", "vpc.nat-gateway-data", "GB", data)
            yield bill.item("public IPv4 address of the NAT", "network", "vpc.public-ipv4", "hour", HOURS_PER_MONTH)
    size = volume_gib(weights_gb) * GB_PER_GIB * load.instances.mean
    yield bill.item("root volumes", "storage", "ebs.gp3-storage", "GB-month", size)


def volume_gib(weights_gb: float) -> float:
    """GiB of an instance's volume.

    >>> volume_gib(16.1), volume_gib(141.1)
    (60.0, 300.0)
    """
    needed = IMAGE_GIB + 2 * weights_gb / GB_PER_GIB
    return -(-needed // VOLUME_STEP_GIB) * VOLUME_STEP_GIB


def _traffic_gb(requests: float, tokens: float) -> float:
    return requests * tokens * BYTES_PER_TOKEN / GIGA


def around_assumptions() -> tuple[Assumption, ...]:
    """What these lines rest on."""
    return (
        _assumed("data of a token, its JSON included", f"{BYTES_PER_TOKEN:g}", "bytes"),
        _assumed("logs", f"{LOG_KB_PER_REQUEST:g}", "kB a request"),
    )


def _assumed(name: str, value: str, unit: str) -> Assumption:
    return Assumption(name=name, value=value, unit=unit, source="assumption, not measured")
