"""AWS's public price files on loopback: offer files, the spot page's file, the advisor's data.

It responds as CloudFront and S3 do for a static object: a strong ETag, Last-Modified, `If-None-Match`, `Range` under
`If-Range`, 403 for a missing object (S3 without the permission to list). The shapes are those of `spot.json` of
2026-08-06 and of `spot-advisor-data.json` of 2026-03-20 (alexei-led/spotinfo@69bcec6 and @5bdc33c), and of the Price
List's documented offer file (AWS Billing user guide, "Reading the service price list file").
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import md5

from tests.emulators.loopback import QuietHandler, listening

SPOT_DAY, ADVISOR_DAY = "Fri, 20 Nov 2026 06:00:00 GMT", "Fri, 20 Mar 2026 10:00:00 GMT"


@dataclass
class PublicPrices:
    """The files by path, their modification dates, the faults to inject, and the received requests."""

    files: dict[str, bytes] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)
    cuts: dict[str, list[int]] = field(default_factory=dict)
    """Bytes after which the server closes the connection, for the next responses."""
    tags: bool = True
    requests: list[tuple[str, str, int]] = field(default_factory=list)
    """Path, received `Range` or `If-None-Match`, and returned status."""
    url: str = ""

    def offer(self, service: str, region: str, *products: dict) -> None:
        """Publish an offer file with entries in the format of GetProducts."""
        offer_file = {
            "formatVersion": "v1.0",
            "disclaimer": "{not a price}",
            "offerCode": service,
            "version": "20261119",
        }
        offer_file |= {
            "publicationDate": "2026-11-19T00:00:00Z",
            "products": {},
            "terms": {"OnDemand": {}, "Reserved": {}},
        }
        for number, product in enumerate(products):
            sku = f"SKU{number}"
            offer_file["products"][sku] = {**product["product"], "sku": sku}
            for kind, terms in product["terms"].items():
                offer_file["terms"][kind][sku] = terms
        self.files[offer_path(service, region)] = json.dumps({**offer_file, "attributesList": {}}, indent=1).encode()

    def environment(self, cache) -> dict[str, str]:
        """The environment variables that point Slipway at the files; no credentials."""
        return {
            "AWS_ENDPOINT_URL_PRICING": self.url,
            "SLIPWAY_SPOT_PAGE_URL": f"{self.url}/spot.json",
            "SLIPWAY_SPOT_ADVISOR_URL": f"{self.url}/advisor.json",
            "XDG_CACHE_HOME": str(cache),
        }

    def statuses(self, path: str) -> list[int]:
        """The returned statuses for a path."""
        return [status for requested, _, status in self.requests if requested == path]


def offer_path(service: str, region: str) -> str:
    """The path of an offer file: of a region, or of the entire service ("*")."""
    return f"/offers/v1.0/aws/{service}/current{'' if region == '*' else f'/{region}'}/index.json"


def spot_file(prices: dict[str, dict[str, str]]) -> bytes:
    """The spot page's file of prices by region and type."""

    def size(name: str, usd: str) -> dict:
        columns = [{"name": "linux", "prices": {"USD": usd}}, {"name": "mswin", "prices": {"USD": "N/A*"}}]
        return {"size": name, "valueColumns": columns}

    regions = [
        {
            "region": region,
            "footnotes": {"*": "notAvailableForCCorCGPU"},
            "instanceTypes": [
                {"type": "gpuCurrentGen", "sizes": [size(name, usd) for name, usd in sizes.items() for _ in range(2)]}
            ],
        }
        for region, sizes in prices.items()
    ]
    config = {"rate": "perhr", "valueColumns": ["linux", "mswin"], "currencies": ["USD"], "regions": regions}
    return json.dumps({"vers": 0.01, "config": config}).encode()


def advisor_file(bands: dict[str, dict[str, tuple[int, int]]]) -> bytes:
    """The advisor's data: saving and band by region and type."""
    labels = (("<5%", 5), ("5-10%", 11), ("10-15%", 16), ("15-20%", 22), (">20%", 100))
    ranges = [
        {"index": index, "label": label, "dots": index, "max": most} for index, (label, most) in enumerate(labels)
    ]
    regions = {
        region: {"Linux": {name: {"s": saving, "r": band} for name, (saving, band) in types.items()}, "Windows": {}}
        for region, types in bands.items()
    }
    return json.dumps({"global_rate": "<10%", "ranges": ranges, "instance_types": {}, "spot_advisor": regions}).encode()


def item_product(
    usage: str, region: str, unit: str, *tiers: tuple[str, str, str], family: str = "", **more: str
) -> dict:
    """An entry of a bill item: tiers of begin, end and price, and further attributes."""
    prices = {
        f"P{index}": {"unit": unit, "beginRange": begin, "endRange": end, "appliesTo": [], "pricePerUnit": {"USD": usd}}
        for index, (begin, end, usd) in enumerate(tiers)
    }
    term = {"effectiveDate": "2026-07-01T00:00:00Z", "termAttributes": {}, "priceDimensions": prices}
    attributes = {"usagetype": usage, "regionCode": region, "operation": "", **more}
    return {"product": {"productFamily": family, "attributes": attributes}, "terms": {"OnDemand": {"one": term}}}


@contextmanager
def served(state: PublicPrices) -> Iterator[PublicPrices]:
    """The files on a free loopback port."""
    with listening(type("Handler", (_Handler,), {"state": state})) as state.url:
        yield state


class _Handler(QuietHandler):
    state: PublicPrices

    def do_GET(self):
        """Send one static object."""
        body = self.state.files.get(self.path)
        stated = self.headers.get("Range") or self.headers.get("If-None-Match") or ""
        if body is None:
            self._answer(403, b"<Error><Code>AccessDenied</Code></Error>", stated)
            return
        tag = f'"{md5(body, usedforsecurity=False).hexdigest()}"'
        if self.headers.get("If-None-Match") == tag:
            self._answer(304, b"", stated)
            return
        part = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(part[1]) if part and self.headers.get("If-Range") == tag else 0
        if start >= len(body):
            self._answer(416, b"", stated)
            return
        self._answer(206 if start else 200, body[start:], stated, tag)

    def _answer(self, status: int, body: bytes, stated: str, tag: str = "") -> None:
        self.state.requests.append((self.path, stated, status))
        self.send_response(status)
        if tag and self.state.tags:
            self.send_header("ETag", tag)
        if tag and self.path in self.state.changed:
            self.send_header("Last-Modified", self.state.changed[self.path])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cuts = self.state.cuts.get(self.path, [])
        self.wfile.write(body[: cuts.pop(0)] if cuts and body else body)
        self.close_connection = True
