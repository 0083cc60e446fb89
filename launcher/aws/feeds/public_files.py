"""Price requests answered from AWS's public files, without an account.

Slipway stores only the wanted content of a file: of an offer file the wanted products, next to its ETag, so that an
unchanged file is neither sent nor read again.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from launcher.agent import safe_json
from launcher.aws.calls import RefusedPriceError, dollars
from launcher.aws.feeds.addresses import Addresses
from launcher.aws.feeds.bill_items import bill_answer
from launcher.aws.feeds.download import Download, Progress, PublicDownloads
from launcher.aws.price_list import (
    DATA_TRANSFER,
    Product,
    begins_in,
    ec2_answer,
    is_managed,
    is_plain,
    sagemaker_answer,
    stated_attributes,
)
from launcher.catalog.bill import EVERYWHERE
from launcher.catalog.fetched_prices import FetchedBand, FetchedPrice, FetchedPrices, answer
from launcher.catalog.selector import Key
from launcher.catalog.usage_types import UsageType
from launcher.model.errors import AwsError

# The Price List's offer file of one service in one region, read piece by piece and never held whole.
#
# A file of EC2 in a large region has hundreds of megabytes: `products` by SKU, then `terms` by kind and SKU. What is
# wanted is picked on the way; a piece becomes a `Product` of the very shape that GetProducts answers with.


CHUNK = 1 << 20
_SPACE = " \t\r\n"
_MAX_CHARACTERS = 16 << 20
"""Limit of one product or its terms; AWS's have about 10,000."""

ProductFilter = Callable[[dict[str, str]], bool]
"""Whether a product with these attributes is wanted."""
OLD_NAMES = {
    "us-east": "us-east-1",
    "us-west": "us-west-1",
    "eu-ireland": "eu-west-1",
    "apac-sin": "ap-southeast-1",
    "apac-syd": "ap-southeast-2",
    "apac-tokyo": "ap-northeast-1",
}
"""Region names in older copies of the spot price file."""
_BANDS = range(5)
EC2, SAGEMAKER = "AmazonEC2", "AmazonSageMaker"
LEFT_OUT = frozenset(("description", "location", "locationType", "servicecode", "servicename"))
"""Attributes of products that Slipway does not use."""


def products(path: Path, source: str, selects: ProductFilter) -> list[Product]:
    """The wanted products of an offer file with their terms.

    Raises:
        AwsError: the file does not have the documented format, or is incomplete.
    """
    attributes: dict[str, dict[str, str]] = {}
    terms: dict[str, dict[str, Any]] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for kind, sku, piece in _pieces(_JsonStream(file)):
                if kind == "products":
                    stated = stated_attributes(piece) if "attributes" in piece else {}
                    if selects(stated):
                        attributes[sku] = stated
                elif sku in attributes:
                    terms.setdefault(sku, {})[kind] = piece
    except (ValueError, AttributeError, EOFError) as problem:
        raise AwsError(f"{source}: not the format of an offer file, so no price is read from it") from problem
    return [
        Product(attributes=product_attributes, terms=terms.get(sku, {}))
        for sku, product_attributes in attributes.items()
    ]


def _pieces(reader: "_JsonStream") -> Iterator[tuple[str, str, Any]]:
    parts_read = set()
    for part in reader.members():
        if part == "products":
            parts_read.add(part)
            for sku in reader.members():
                yield part, sku, reader.value()
        elif part == "terms":
            if "products" not in parts_read:
                raise ValueError("terms before products")
            parts_read.add(part)
            for kind in reader.members():
                for sku in reader.members():
                    yield kind, sku, reader.value()
        else:
            reader.skip()
    if parts_read != {"products", "terms"}:
        raise ValueError("products or terms are missing")


class _JsonStream:
    """A JSON text read from the front: the members of an object one by one, each value decoded or skipped."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._text = ""
        self._at = 0
        self._ended = False

    def members(self) -> Iterator[str]:
        """The keys of the object that begins here; the caller reads or skips each value.

        Raises:
            ValueError: no object begins here.
            EOFError: the text ends within the object.
        """
        self._take("{")
        if self._next() == "}":
            self._at += 1
            return
        while True:
            key = self.value()
            self._take(":")
            yield key
            if self._next() == "}":
                self._at += 1
                return
            self._take(",")

    def value(self) -> Any:
        """The value that begins here; a complete object or array is held in memory."""
        self._next()
        while True:
            try:
                value, end = safe_json.value_at(self._text, self._at)
            except ValueError:
                if len(self._text) - self._at > _MAX_CHARACTERS or not self._fill():
                    raise
                continue
            # A number at the end of what was read may go on.
            if end < len(self._text) or not self._fill():
                self._at = end
                return value

    def skip(self) -> None:
        """Skip the value that begins here without holding more than one of its members in memory."""
        if self._next() == "{":
            for _ in self.members():
                self.value()
        else:
            self.value()

    def _take(self, expected: str) -> None:
        actual = self._next()
        if actual != expected:
            raise ValueError(f"{actual!r} where {expected!r} should be")
        self._at += 1

    def _next(self) -> str:
        while True:
            while self._at < len(self._text):
                character = self._text[self._at]
                if character not in _SPACE:
                    return character
                self._at += 1
            if not self._fill():
                raise EOFError

    def _fill(self) -> bool:
        if self._ended:
            return False
        chunk = self._file.read(CHUNK)
        self._ended = not chunk
        if chunk:
            self._text = self._text[self._at :] + chunk
            self._at = 0
        return bool(chunk)


# AWS's two public files on spot: the prices behind the Spot price page, the bands of the Spot Instance Advisor.
#
# Neither is promised by a contract: what is not of the shape that was read in 2026 is not read, and never a price.


def spot_prices(path: Path, names: Collection[str], regions: Collection[str]) -> FetchedPrices:
    """Linux spot prices of some types in some regions, without zones; Local Zone groups are no regions.

    Raises:
        AwsError: the file's format is not the documented one.
    """
    source = "the public spot prices"
    document = _document(path, source)
    rates = []
    try:
        columns = document["config"]["regions"]
        for region in columns:
            name = OLD_NAMES.get(region["region"], region["region"])
            if name in regions:
                rates += [fetched_price for fetched_price in _region(region, name) if fetched_price.key.name in names]
    except (KeyError, TypeError) as problem:
        raise _other_shape(source) from problem
    if not columns:
        raise _other_shape(source)
    return answer(rates)


def _region(region: dict[str, Any], name: str) -> Iterator[FetchedPrice]:
    """A region's prices; the file may list a type twice, writes small prices as 9.0E-4 and missing ones as N/A*."""
    for kind in region["instanceTypes"]:
        for size in kind["sizes"]:
            for column in size["valueColumns"]:
                if column["name"] != "linux":
                    continue
                try:
                    usd = dollars(column["prices"].get("USD"))
                except RefusedPriceError:
                    continue
                yield FetchedPrice(
                    key=Key("spot", size["size"], name),
                    usd=usd,
                    note="one zone's price, the page does not say which",
                    source="aws-spot-page",
                )


def bands(path: Path, names: Collection[str], regions: Collection[str], day: date) -> tuple[FetchedBand, ...]:
    """The advisor's bands for Linux of some types in some regions, as of a day."""
    source = "the Spot Instance Advisor's data"
    document = _document(path, source)
    parsed_bands = []
    try:
        known = document["spot_advisor"]
        for region in sorted(set(known) & set(regions)):
            for name, stated in known[region]["Linux"].items():
                band, saving = stated["r"], stated["s"]
                if band not in _BANDS or not isinstance(saving, int):
                    raise _other_shape(source)
                if name in names:
                    parsed_bands.append(
                        FetchedBand(name=name, region=region, band=band, savings_percent=saving, as_of=day)
                    )
    except (AttributeError, KeyError, TypeError) as problem:
        raise _other_shape(source) from problem
    return tuple(parsed_bands)


def _document(path: Path, source: str) -> dict[str, Any]:
    try:
        document = safe_json.load(path)
    except (OSError, ValueError) as problem:
        raise _other_shape(source) from problem
    if not isinstance(document, dict):
        raise _other_shape(source)
    return document


def _other_shape(source: str) -> AwsError:
    return AwsError(f"{source}: unknown format, so nothing is read from it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """The wanted content of the files: EC2 types, `ml.` types, usage types of the bill with the catalog's units."""

    types: frozenset[str]
    ml_types: frozenset[str]
    usage_types: tuple[UsageType, ...]
    units: Mapping[str, str]

    @property
    def mark(self) -> str:
        """A hash that distinguishes this interest from others."""
        stated = (
            sorted(self.types),
            sorted(self.ml_types),
            [f"{usage_type.service} {usage_type.name} {usage_type.attributes}" for usage_type in self.usage_types],
        )
        return sha256(json.dumps(stated).encode()).hexdigest()[:16]

    def of(self, service: str, region: str) -> tuple[UsageType, ...]:
        """The usage types of one service in a region, or of those that are the same everywhere."""
        return tuple(
            usage_type
            for usage_type in self.usage_types
            if usage_type.service == service and usage_type.is_listed_in(region)
        )


class PublicFiles:
    """AWS's public files, read for one interest."""

    def __init__(self, folder: Path, where: Addresses, interest: Interest) -> None:
        self._folder = folder
        self._where = where
        self._interest = interest
        self._downloads = PublicDownloads(folder)

    def close(self) -> None:
        """Close all connections."""
        self._downloads.close()

    def offer(self, service: str, region: str, now: datetime, progress: Progress) -> FetchedPrices:
        """The prices of a service in a region: instances of EC2 or SageMaker, and bill items.

        Raises:
            AwsError: the file is not available or does not have the documented format.
        """
        interest, regions = self._interest, (region,)
        listed = self._products(service, region, progress)
        answer = FetchedPrices()
        if service == EC2:
            answer = _with_source(ec2_answer(listed, interest.types, regions, now, reserved=True), "aws-price-file-ec2")
        if service == SAGEMAKER:
            instances = (product for product in listed if is_managed(product.attributes, interest.ml_types, regions))
            answer = _with_source(sagemaker_answer(instances, now), "aws-price-file-sagemaker")
        bill = bill_answer(listed, interest.of(service, region), interest.units, region, now)
        return FetchedPrices(rates=answer.rates, refusals=answer.refusals, items=bill.items, unmatched=bill.unmatched)

    def spot(self, regions: tuple[str, ...], today: date, progress: Progress) -> FetchedPrices:
        """The prices of the spot price page, as of the day of its file's last change.

        Raises:
            AwsError: the file is not available or does not have the documented format.
        """
        file = self._file(self._where.spot_page, progress)
        read = spot_prices(file.path, self._interest.types, regions)
        return FetchedPrices(rates=read.rates, as_of=min(file.changed or today, today))

    def advisor(self, regions: tuple[str, ...], today: date, progress: Progress) -> FetchedPrices:
        """The advisor's bands, as of the day of its file's last change.

        Raises:
            AwsError: the file is not available or does not have the documented format.
        """
        file = self._file(self._where.spot_advisor, progress)
        day = min(file.changed or today, today)
        return FetchedPrices(bands=bands(file.path, self._interest.types, regions, day))

    def _file(self, url: str, progress: Progress) -> Download:
        file = self._downloads.fetch(url, progress=progress)
        assert file is not None  # noqa: S101 - only a known tag brings None
        return file

    def _products(self, service: str, region: str, progress: Progress) -> list[Product]:
        url = self._where.offer(service, region)
        stored = self._folder / f"{service}-{'all' if region == EVERYWHERE else region}.json"
        tag, before = _stored_products(stored, self._interest.mark)
        file = self._downloads.fetch(url, known=tag, progress=progress)
        if file is None:
            return before
        read = products(file.path, f"{service} in {region}", self._filter(service, region))
        if file.tag:
            _store(stored, file.tag, self._interest.mark, read)
        self._downloads.forget(file)
        return read

    def _filter(self, service: str, region: str) -> Callable[[dict[str, str]], bool]:
        usage_types, interest = self._interest.of(service, region), self._interest

        def selects(attributes: dict[str, str]) -> bool:
            if service == EC2 and attributes.get("instanceType") in interest.types:
                return is_plain(attributes)
            if service == SAGEMAKER and is_managed(attributes, interest.ml_types, (region,)):
                return True
            elsewhere = service == DATA_TRANSFER and begins_in(attributes) not in ("", region)
            return not elsewhere and any(usage_type.matches(attributes) for usage_type in usage_types)

        return selects


def _with_source(answer: FetchedPrices, source: str) -> FetchedPrices:
    rates = tuple(FetchedPrice(key=rate.key, usd=rate.usd, note=rate.note, source=source) for rate in answer.rates)
    return FetchedPrices(rates=rates, refusals=answer.refusals)


def _stored_products(path: Path, mark: str) -> tuple[str, list[Product]]:
    """The stored products of an offer file, with its ETag; empty if they were stored for another interest."""
    try:
        state = safe_json.load(path)
        if state["mark"] != mark:
            return "", []
        return state["tag"], [Product(attributes=stated, terms=terms) for stated, terms in state["products"]]
    except (OSError, ValueError, KeyError, TypeError):
        return "", []


def _store(path: Path, tag: str, mark: str, listed: list[Product]) -> None:
    pairs = [
        ({name: text for name, text in product.attributes.items() if name not in LEFT_OUT}, product.terms)
        for product in listed
    ]
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"tag": tag, "mark": mark, "products": pairs}), encoding="utf-8")
    new.replace(path)
