"""Reading a price file as large as a large region's over HTTP: memory, time, a lost connection, and no change.

    python -m benchmarks.price_file [--mib 400] [--small 40] [--json]

The file has the format of the Price List's offer file of EC2: products by SKU with their attributes, terms by kind and
SKU with their dimensions. The server behaves as S3 does for a static object (ETag, ranges under If-Range), and closes
the first connection in the middle. Each read is a separate process with the requests of `slipway prices refresh`.

    files     mib of the file, its products, extracted prices, seconds of processor time, peak_mib of the reader minus
              the peak of one that reads nothing, sent_mib over all connections, connections
    again_s   processor seconds of a second refresh with an unchanged file; again_sent_mib likewise
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from launcher.aws.feeds.addresses import Addresses
from launcher.aws.feeds.public_files import Interest, PublicFiles
from launcher.catalog.usage_types import item_units, usage_types

MIB = 1 << 20
REGION, SERVICE = "us-east-1", "AmazonEC2"
WANTED = ("p5.48xlarge", "trn2.48xlarge", "m6i.xlarge")
SYSTEMS = ("Linux", "Windows", "RHEL", "SUSE", "Red Hat Enterprise Linux with HA", "Ubuntu Pro")
TAG = '"a-large-file"'
MAX_MIB, MAX_OF_SMALL, MAX_AGAIN, MAX_SENT = 120.0, 1.5, 0.05, 1.05


def product(number: int) -> tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A SKU, its product, and its on-demand and reserved terms, with as much text as in the Price List."""
    sku, system = f"SKU{number:013}", SYSTEMS[number % len(SYSTEMS)]
    name = WANTED[number // 600 % len(WANTED)] if number % 600 == 0 else f"x{number % 97}.{number % 13}xlarge"
    attributes = {
        "servicecode": SERVICE,
        "location": "US East (N. Virginia)",
        "locationType": "AWS Region",
        "instanceType": name,
        "currentGeneration": "Yes",
        "instanceFamily": "General purpose",
        "vcpu": "192",
        "physicalProcessor": "AMD EPYC 7R13 Processor",
        "clockSpeed": "3.6 GHz",
        "memory": "2048 GiB",
        "storage": "8 x 3840 GB NVMe SSD",
        "networkPerformance": "3200 Gigabit",
        "processorArchitecture": "64-bit",
        "tenancy": "Shared",
        "operatingSystem": system,
        "licenseModel": "No License required",
        "usagetype": f"BoxUsage:{name}",
        "operation": "RunInstances",
        "availabilityzone": "NA",
        "capacitystatus": "Used",
        "classicnetworkingsupport": "false",
        "dedicatedEbsThroughput": "80000 Mbps",
        "ecu": "NA",
        "enhancedNetworkingSupported": "Yes",
        "gpu": "8",
        "marketoption": "OnDemand",
        "normalizationSizeFactor": "384",
        "preInstalledSw": "NA",
        "regionCode": REGION,
        "servicename": "Amazon Elastic Compute Cloud",
        "vpcnetworkingsupport": "true",
    }
    return (
        sku,
        {"sku": sku, "productFamily": "Compute Instance", "attributes": attributes},
        _on_demand(sku),
        _reserved(sku),
    )


def _on_demand(sku: str) -> dict[str, Any]:
    return {f"{sku}.JRTCKXETXF": _term(sku, "JRTCKXETXF", {"6YS6EN2CT7": ("Hrs", "55.0400000000")}, {})}


def _reserved(sku: str) -> dict[str, Any]:
    found = {}
    for years in (1, 3):
        for payment in ("No Upfront", "Partial Upfront", "All Upfront"):
            code = f"{years}{payment.split()[0].upper()}XXXX"
            stated = {"LeaseContractLength": f"{years}yr", "OfferingClass": "standard", "PurchaseOption": payment}
            prices = {"6YS6EN2CT7": ("Hrs", "20.1200000000"), "2TG2D8R56U": ("Quantity", "98000")}
            found[f"{sku}.{code}"] = _term(sku, code, prices, stated)
    return found


def _term(sku: str, code: str, prices: dict[str, tuple[str, str]], stated: dict[str, str]) -> dict[str, Any]:
    return {
        "offerTermCode": code,
        "sku": sku,
        "effectiveDate": "2026-11-01T00:00:00Z",
        "priceDimensions": {
            f"{sku}.{code}.{rate}": {
                "rateCode": f"{sku}.{code}.{rate}",
                "description": f"${usd} per unit of this machine with this system in US East (N. Virginia)",
                "beginRange": "0",
                "endRange": "Inf",
                "unit": unit,
                "pricePerUnit": {"USD": usd},
                "appliesTo": [],
            }
            for rate, (unit, usd) in prices.items()
        },
        "termAttributes": stated,
    }


def written(path: Path, mib: int) -> int:
    """Write a file of about `mib` MiB; return its number of products."""
    one = sum(len(json.dumps(entry, indent=2)) for entry in product(1)[1:])
    count = mib * MIB // one
    head = {"formatVersion": "v1.0", "disclaimer": "none", "offerCode": SERVICE, "version": "20261101000000"}
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(head, indent=2)[:-2] + ',\n"products": {\n')
        for part, (title, kind) in enumerate((("", "products"), ("OnDemand", "terms"), ("Reserved", "terms")), start=1):
            if kind == "terms":
                file.write('},\n"terms": {\n' if title == "OnDemand" else "},\n")
                file.write(f'"{title}": {{\n')
            for number in range(count):
                fields = product(number)
                comma = "" if number == count - 1 else ","
                file.write(f'"{fields[0]}": {json.dumps(fields[part], indent=2)}{comma}\n')
        file.write("}},\n" + '"attributesList": {}\n}\n')
    return count


@contextmanager
def served(path: Path, cut: int) -> Iterator[tuple[str, list[int]]]:
    """The address of a file's server, and the bytes of each of its responses; the first ends after `cut` bytes."""
    sent: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_words: object) -> None:
            """Write no log."""

        def do_GET(self) -> None:
            if self.headers.get("If-None-Match") == TAG:
                self.send_response(304)
                self.end_headers()
                sent.append(0)
                return
            size, begin = path.stat().st_size, 0
            stated = self.headers.get("Range", "")
            if stated and self.headers.get("If-Range") == TAG:
                begin = int(stated.removeprefix("bytes=").rstrip("-"))
            self.send_response(206 if begin else 200)
            self.send_header("ETag", TAG)
            self.send_header("Content-Length", str(size - begin))
            if begin:
                self.send_header("Content-Range", f"bytes {begin}-{size - 1}/{size}")
            self.end_headers()
            remaining = min(size - begin, cut) if not sent else size - begin
            sent.append(remaining)
            with path.open("rb") as file:
                file.seek(begin)
                while remaining and (piece := file.read(min(remaining, 1 << 18))):
                    self.wfile.write(piece)
                    remaining -= len(piece)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", sent
    finally:
        server.shutdown()
        server.server_close()


def read(address: str, cache: Path) -> dict[str, float]:
    """Read the file like a refresh; without an address, read nothing, to measure the base memory."""
    interest = Interest(types=frozenset(WANTED), ml_types=frozenset(), usage_types=usage_types(), units=item_units())
    files = PublicFiles(cache, Addresses(price_list=address), interest)
    begun = time.process_time()
    answer = files.offer(SERVICE, REGION, datetime(2026, 11, 22, tzinfo=UTC), lambda *_: None) if address else None
    files.close()
    return {
        "seconds": time.process_time() - begun,
        "rates": len(answer.rates) if answer is not None else 0,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def reader(address: str, cache: Path) -> dict[str, float]:
    """`read` in a separate process."""
    command = [sys.executable, "-m", "benchmarks.price_file", "--read", address, str(cache)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def measured(mib: int, folder: Path, idle_mib: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figures of one size: of the first read, with a lost connection, and of the second."""
    path = folder / f"{mib}.json"
    count, size = written(path, mib), path.stat().st_size
    with served(path, size // 2) as (address, sent):
        first = reader(address, folder / f"cache-{mib}")
        came, connections = sum(sent), len(sent)
        second = reader(address, folder / f"cache-{mib}")
        again = {"again_s": round(second["seconds"], 2), "again_sent_mib": round((sum(sent) - came) / MIB, 2)}
    if not first["rates"] or first["rates"] != second["rates"]:
        raise SystemExit(f"{first['rates']} prices were read first, {second['rates']} from what was kept")
    row = {
        "mib": round(size / MIB),
        "products": count,
        "prices": int(first["rates"]),
        "seconds": round(first["seconds"], 1),
        "peak_mib": round(first["peak_mib"] - idle_mib, 1),
        "sent_mib": round(came / MIB),
        "connections": connections,
    }
    path.unlink()
    return row, again


def main() -> int:
    """Measure and print the figures; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=400)
    parser.add_argument("--small", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--read", nargs=2)
    given = parser.parse_args()
    if given.read:
        print(json.dumps(read(given.read[0], Path(given.read[1]))))
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        idle = reader("", folder / "none")["peak_mib"]
        small, _ = measured(given.small, folder, idle)
        large, again = measured(given.mib, folder, idle)
    figures = {**again, "files": [small, large]}
    print(json.dumps(figures) if given.json else json.dumps(figures, indent=2))
    met = (
        large["peak_mib"] <= MAX_MIB,
        large["seconds"] / large["mib"] <= MAX_OF_SMALL * small["seconds"] / small["mib"],
        again["again_s"] <= MAX_AGAIN * large["seconds"] + 0.2,
        large["sent_mib"] <= MAX_SENT * large["mib"],
        again["again_sent_mib"] == 0,
    )
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
