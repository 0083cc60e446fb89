"""The cost of an endpoint other than its instances: volumes, data, logs, alarms, the stored model, EKS."""

from collections.abc import Callable, Iterator

from launcher.catalog.load import Catalog
from launcher.model.budget_stop import stops_at
from launcher.model.endpoint import (
    RETENTION_DAYS,
    EndpointMode,
    base_instances,
    endpoint_alarms,
    endpoint_volume_gib,
    keeps_requests,
    volume_gib,
)
from launcher.model.fleet import Fleet
from launcher.model.idle import idle_minutes
from launcher.model.money import Assumption, CostComponent
from launcher.model.monitoring import guard_metrics
from launcher.model.plan import Place
from launcher.model.sizing import IMAGE_GIB, LOG_RETENTION_DAYS
from launcher.model.units import HOURS_PER_MONTH, billed_gb
from launcher.model.workload import ServingWorkload
from launcher.pricing.bill_lines import Prices, component
from launcher.pricing.bill_monitoring import GUARD_CALLS_PER_HOUR, GUARD_REQUESTS, monitoring_assumptions, watch
from launcher.pricing.context import PricingContext
from launcher.pricing.serving.traffic import requests_per_month
from launcher.targets.registry import target_of

BYTES_PER_TOKEN = 6.0
"""Bytes of text and its JSON: four letters a token in English, and half as much again; an assumption."""
LOG_KB_PER_REQUEST = 1.0
LOG_GB_PER_INSTANCE_HOUR = 0.005
"""Container logs of an idle engine: an assumption."""
CALLS_OF_A_QUEUE = 2
"""Uploads to the bucket of an asynchronous endpoint for one request: the request, and its answer."""
RETENTION_MONTHS = RETENTION_DAYS * 24 / HOURS_PER_MONTH
KILO, GIGA = 1e3, 1e9


_PriceItem = Callable[[str, str, str, str, float], CostComponent]
"""Makes a line of a name, a group, an item of the catalog, its unit and its quantity."""


def _priced_in(region: str, catalog: Catalog) -> _PriceItem:
    """A function that makes lines with the catalog's prices of non-compute items in a region."""

    def line(name: str, group: str, item: str, unit: str, quantity: float) -> CostComponent:
        return component(name, group, unit, quantity, catalog.bill_item(item, region))

    return line


def other_costs(
    place: Place, serve: ServingWorkload, load: Fleet, weights_gb: float, context: PricingContext
) -> tuple[CostComponent, ...]:
    """The non-compute lines that grow with the load, for a month; `weights_gb` is the stored model."""
    line = _priced_in(place.region, context.catalog)
    endpoint = target_of(place.target).is_managed
    lines = list(
        _endpoint(
            line, serve, load, endpoint_volume_gib(context.catalog.instance_types[place.instance_type], weights_gb) or 0
        )
        if endpoint
        else _cluster(line, place, context, load, weights_gb)
    )
    requests = requests_per_month(serve)
    logs = billed_gb(requests * LOG_KB_PER_REQUEST * KILO / GIGA) + load.hours * LOG_GB_PER_INSTANCE_HOUR
    lines += [
        line("S3 model", "storage", "s3.standard-storage", "GB-month", billed_gb(weights_gb)),
        line("CloudWatch logs", "other", "cloudwatch.logs-ingestion", "GB", logs),
    ]
    if endpoint:
        stored = logs * LOG_RETENTION_DAYS * 24 / HOURS_PER_MONTH
        lines.append(line("CloudWatch logs kept", "other", "cloudwatch.logs-storage", "GB-month", stored))
    return tuple(lines)


def monitoring_lines(
    place: Place, serve: ServingWorkload, mode: EndpointMode | None, context: PricingContext
) -> tuple[CostComponent, ...]:
    """The monitoring lines of an endpoint, independent of its load; none for the user's own cluster (no `mode`)."""
    if mode is None:
        return ()
    prices = Prices(place.region, context.catalog)
    has_idle_alarm = idle_minutes(context.request) is not None
    count = len(endpoint_alarms(mode, scales_to_zero=base_instances(serve) == 0, has_idle_alarm=has_idle_alarm))
    lines = [line.of(line.once) for line in watch(prices, context.request, own_alarms=count)]
    stops = stops_at(context.request, place.option) is not None
    calls = GUARD_CALLS_PER_HOUR * GUARD_REQUESTS * HOURS_PER_MONTH / KILO
    lines += [
        prices.line("custom metrics", "other", "cloudwatch.custom-metric", "metric-month").of(
            len(guard_metrics(rated=True, stops=stops))
        ),
        prices.line("CloudWatch requests", "other", "cloudwatch.requests", "1000 requests").of(calls),
    ]
    return tuple(lines)


def request_storage(
    place: Place, serve: ServingWorkload, mode: EndpointMode | None, context: PricingContext
) -> Iterator[CostComponent]:
    """The bucket in which an endpoint stores requests and answers, until its lifecycle rule deletes them."""
    if mode is None or not keeps_requests(serve, mode):
        return
    line, requests = _priced_in(place.region, context.catalog), requests_per_month(serve)
    size = _traffic_gb(requests, serve.input_tokens + serve.answer_tokens) * RETENTION_MONTHS
    yield line("S3 kept requests", "storage", "s3.standard-storage", "GB-month", size)
    if mode is EndpointMode.ASYNCHRONOUS:
        puts = CALLS_OF_A_QUEUE * requests / KILO
        yield line("S3 uploads", "storage", "s3.put-requests", "1000 requests", puts)


def _endpoint(line: _PriceItem, serve: ServingWorkload, load: Fleet, volume_gb: float) -> Iterator[CostComponent]:
    """Volumes if the type has no local disks, and the data that pass the endpoint."""
    if volume_gb:
        size = volume_gb * load.instances.mean
        yield line("endpoint volumes", "storage", "sagemaker.endpoint-storage", "GB-month", size)
    requests = requests_per_month(serve)
    inputs, outputs = _traffic_gb(requests, serve.input_tokens), _traffic_gb(requests, serve.answer_tokens)
    yield line("requests into the endpoint", "network", "sagemaker.endpoint-data-in", "GB", inputs)
    yield line("answers out of it", "network", "sagemaker.endpoint-data-out", "GB", outputs)


def _cluster(
    line: _PriceItem, place: Place, context: PricingContext, load: Fleet, weights_gb: float
) -> Iterator[CostComponent]:
    if context.request.target.cluster is None:
        yield line("EKS control plane", "other", "eks.cluster", "hour", HOURS_PER_MONTH)
        if context.request.network.vpc_id is None:
            yield line("NAT gateway", "network", "vpc.nat-gateway", "hour", HOURS_PER_MONTH)
            data = (IMAGE_GIB + billed_gb(weights_gb)) * place.nodes
            yield line("NAT data", "network", "vpc.nat-gateway-data", "GB", data)
            yield line("public IPv4 address of the NAT", "network", "vpc.public-ipv4", "hour", HOURS_PER_MONTH)
    size = volume_gib(weights_gb) * load.instances.mean
    yield line("root volumes", "storage", "ebs.gp3-storage", "GB-month", size)


def _traffic_gb(requests: float, tokens: float) -> float:
    return billed_gb(requests * tokens * BYTES_PER_TOKEN / GIGA)


def other_cost_assumptions(mode: EndpointMode | None) -> tuple[Assumption, ...]:
    """The assumptions behind these lines."""
    return (
        *(monitoring_assumptions() if mode is not None else ()),
        _assumption("data of a token, its JSON included", f"{BYTES_PER_TOKEN:g}", "bytes"),
        _assumption("logs", f"{LOG_KB_PER_REQUEST:g}", "kB a request"),
    )


def _assumption(name: str, value: str, unit: str) -> Assumption:
    return Assumption(name=name, value=value, unit=unit, source="assumption, not measured")
