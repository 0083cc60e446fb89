"""AWS's price services on loopback: the Price List, EC2, SageMaker and Savings Plans in their own protocols.

It serves real boto3 through AWS_ENDPOINT_URL_<SERVICE> with the shapes of botocore's service models. It filters and
pages like the services, and fails like them on request.
"""

import json
import re
import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from tests.emulators.answers import check, check_xml
from tests.emulators.loopback import QuietHandler, listening

JSON_SERVICES = {
    "GetProducts": "pricing",
    "DescribeSavingsPlansOfferingRates": "savingsplans",
    "SearchTrainingPlanOfferings": "sagemaker",
}
"""The services of operations with JSON responses."""

EC2 = "http://ec2.amazonaws.com/doc/2016-11-15/"
ADVISOR = json.dumps({"spot_advisor": {"us-east-2": {"Linux": {"p5.48xlarge": {"s": 50, "r": 1}}}}}).encode()
"""The Spot Instance Advisor's data, which has no API."""
SERVICES = ("PRICING", "EC2", "SAGEMAKER", "SAVINGSPLANS")


@dataclass
class Fault:
    """An operation's fault: an error, or an answer that is cut, looped or held back."""

    status: int = 400
    code: str = ""
    message: str = "no"
    what: str = "error"


THROTTLED = Fault(code="ThrottlingException", message="Rate exceeded")
EXPIRED = Fault(code="ExpiredTokenException", message="The security token included in the request is expired")
BROKEN = Fault(status=503, code="InternalFailure", message="We encountered an internal error")
CUT = Fault(what="cut")
LOOP = Fault(what="loop")
HELD = Fault(what="hold")


@dataclass
class ReceivedRequest:
    """One received request."""

    operation: str
    region: str
    body: dict


@dataclass
class AwsPrices:
    """The services' data, the faults to inject, and the received requests."""

    products: list[dict] = field(default_factory=list)
    filtering: bool = True
    """Whether the Price List applies attribute filters."""
    raw_entries: list[str] = field(default_factory=list)
    """Texts that the Price List adds to every answer."""
    spot: list[dict] = field(default_factory=list)
    zones: dict[str, dict[str, str]] = field(default_factory=dict)
    blocks: list[dict] = field(default_factory=list)
    plans: list[dict] = field(default_factory=list)
    rates: list[dict] = field(default_factory=list)
    regions: tuple[str, ...] = ("us-east-1", "us-east-2", "us-west-2")
    page_size: int = 100
    faults: dict[str, deque] = field(default_factory=lambda: defaultdict(deque))
    always: dict[str, Fault] = field(default_factory=dict)
    requests: list[ReceivedRequest] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def environment(self, cache) -> dict[str, str]:
        """The environment variables that point boto3 and Slipway at the services; real AWS rejects the credentials."""
        endpoints = {f"AWS_ENDPOINT_URL_{name}": self.url for name in SERVICES}
        keys = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
        public = {"SLIPWAY_SPOT_ADVISOR_URL": f"{self.url}/advisor.json", "SLIPWAY_SPOT_PAGE_URL": f"{self.url}/none"}
        return {**keys, **endpoints, **public, "XDG_CACHE_HOME": str(cache)}

    def operations(self) -> list[str]:
        """The requested operations, in order."""
        return [request.operation for request in self.requests]

    def fault(self, operation: str) -> Fault | None:
        """The fault of the next request; None without a fault."""
        if self.faults[operation]:
            return self.faults[operation].popleft()
        return self.always.get(operation)

    def page(self, items: list, token: str | None) -> tuple[list, str | None]:
        """One page of a list and the token of the next."""
        start = int(token or 0)
        rest = start + self.page_size
        return items[start:rest], str(rest) if rest < len(items) else None


@contextmanager
def served(state: AwsPrices) -> Iterator[AwsPrices]:
    """The services on a free loopback port."""
    with listening(type("Handler", (_Handler,), {"state": state})) as state.url:
        try:
            yield state
        finally:
            state.released.set()


class _Handler(QuietHandler):
    """Handles one request: its operation, its fault, and its answer."""

    state: AwsPrices
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        """Answer a request for the Spot Instance Advisor's public file, the only file here."""
        body = ADVISOR if self.path == "/advisor.json" else b""
        self.reply(200 if body else 403, body)

    def do_POST(self):
        """Answer a request to any of the services."""
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        target = self.headers.get("X-Amz-Target", "")
        if target:
            operation, body = target.partition(".")[2], json.loads(raw)
        elif self.path.strip("/"):
            operation, body = self.path.strip("/"), json.loads(raw)
        else:
            body = {name: values[0] for name, values in parse_qs(raw).items()}
            operation = body["Action"]
        region = self.headers["Authorization"].partition("Credential=")[2].split("/")[2]
        self.state.requests.append(ReceivedRequest(operation, region, body))
        fault = self.state.fault(operation)
        if fault and fault.what == "hold":
            self.state.released.wait(60)
        if fault and fault.what == "error":
            self._fail(fault, xml="Action" in body)
            return
        method = re.sub(r"(?=[A-Z])", "_", operation).lower()
        text = getattr(self, method)(body, region, fault)
        if "Action" in body:
            check_xml("ec2", operation, text)
        else:
            check(JSON_SERVICES[operation], operation, json.loads(text))
        self._send(200, text, "text/xml" if "Action" in body else "application/json", cut=_cuts(fault))

    def _fail(self, fault, *, xml):
        if xml:
            error = f"<Error><Code>{fault.code}</Code><Message>{escape(fault.message)}</Message></Error>"
            text = f"<Response><Errors>{error}</Errors><RequestID>1</RequestID></Response>"
        else:
            text = json.dumps({"__type": fault.code, "message": fault.message})
        self._send(fault.status, text, "text/xml" if xml else "application/json", error=fault.code)

    def _send(self, status, text, content_type, *, error="", cut=False):
        data = text.encode()
        data = data[: len(data) // 2] if cut else data
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        if error:
            self.send_header("x-amzn-ErrorType", error)
        self.end_headers()
        self.wfile.write(data)

    def _listed(self, items, token, fault):
        """One page; a loop returns the received token."""
        page, after = self.state.page(items, token)
        return page, ("1" if fault and fault.what == "loop" else after)

    def _get_products(self, body, region, fault):
        filters = {filter_["Field"]: filter_["Value"] for filter_ in body.get("Filters", ())}
        products = [
            product
            for product in self.state.products
            if product["serviceCode"] == body["ServiceCode"]
            and (not self.state.filtering or filters.items() <= _fields(product["product"]).items())
        ]
        page, after = self._listed(products, body.get("NextToken"), fault)
        answer = {"FormatVersion": "aws_v1", "PriceList": [*map(json.dumps, page), *self.state.raw_entries]}
        return json.dumps(answer | ({"NextToken": after} if after else {}))

    def _describe_savings_plans_offering_rates(self, body, region, fault):
        filters = {filter_["name"]: set(filter_["values"]) for filter_ in body.get("filters", ())}
        rates = []
        for rate in self.state.rates:
            stated = {item["name"]: item["value"] for item in rate["properties"]}
            plan = rate["savingsPlanOffering"]["planType"]
            if plan not in body["savingsPlanTypes"] or rate["serviceCode"] not in body["serviceCodes"]:
                continue
            if "usageTypes" in body and rate["usageType"] not in body["usageTypes"]:
                continue
            if all(stated.get(name) in values for name, values in filters.items()):
                rates.append(rate)
        page, after = self._listed(rates, body.get("nextToken"), fault)
        return json.dumps({"searchResults": page, "nextToken": after or ""})

    def _search_training_plan_offerings(self, body, region, fault):
        offerings = [
            plan["offering"]
            for plan in self.state.plans
            if plan["region"] == region
            and plan["type"] == body["InstanceType"]
            and body["TargetResources"] == plan["offering"]["TargetResources"]
        ]
        return json.dumps({"TrainingPlanOfferings": offerings})

    def _describe_spot_price_history(self, body, region, fault):
        types = {value for name, value in body.items() if name.startswith("InstanceType.")}
        spots = [spot for spot in self.state.spot if spot["region"] == region and spot["instanceType"] in types]
        page, after = self._listed(spots, body.get("NextToken"), fault)
        rows = [_item(spot, leave=("region",)) for spot in page]
        return _xml("DescribeSpotPriceHistory", "spotPriceHistorySet", rows, after)

    def _describe_availability_zones(self, body, region, fault):
        rows = [
            _item({"zoneName": name, "zoneId": zone, "regionName": region, "zoneState": "available"})
            for name, zone in self.state.zones.get(region, {}).items()
        ]
        return _xml("DescribeAvailabilityZones", "availabilityZoneInfo", rows, None)

    def _describe_regions(self, body, region, fault):
        rows = [_item({"regionName": name, "optInStatus": "opt-in-not-required"}) for name in self.state.regions]
        return _xml("DescribeRegions", "regionInfo", rows, None)

    def _describe_capacity_block_offerings(self, body, region, fault):
        whole = "UltraserverType" in body
        requested_type = body["UltraserverType" if whole else "InstanceType"]
        blocks = [
            block
            for block in self.state.blocks
            if block["region"] == region
            and block.get("ultraserverType" if whole else "instanceType") == requested_type
            and str(block["capacityBlockDurationHours"]) == body["CapacityDurationHours"]
        ]
        rows = [_item(offering, leave=("region",)) for offering in blocks]
        return _xml("DescribeCapacityBlockOfferings", "capacityBlockOfferingSet", rows, None)


def _fields(product: dict) -> dict[str, str]:
    """The filterable attributes of a product."""
    return {"productFamily": product.get("productFamily", ""), **product["attributes"]}


def _cuts(fault: Fault | None) -> bool:
    return fault is not None and fault.what == "cut"


def _item(fields: dict, leave: tuple[str, ...] = ()) -> str:
    parts = []
    for name, value in fields.items():
        if name in leave:
            continue
        text = f"{''.join(_item(item) for item in value)}" if isinstance(value, list) else escape(str(value))
        parts.append(f"<{name}>{text}</{name}>")
    return f"<item>{''.join(parts)}</item>"


def _xml(operation: str, within: str, rows: list[str], after: str | None) -> str:
    token = f"<nextToken>{after}</nextToken>" if after else ""
    inner = f"<requestId>1</requestId><{within}>{''.join(rows)}</{within}>{token}"
    return f'<?xml version="1.0" encoding="UTF-8"?><{operation}Response xmlns="{EC2}">{inner}</{operation}Response>'
