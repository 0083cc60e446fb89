"""Questions about prices, answered from AWS's public files: no account, no key.

A file's content is kept only as far as it is wanted: of an offer file the wanted products, beside its ETag, so that a
file that has not changed is neither sent nor read again.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256
from pathlib import Path

from launcher.agent import safe_json
from launcher.aws.feeds.addresses import Addresses
from launcher.aws.feeds.bill_items import bill_answer
from launcher.aws.feeds.download import Download, Downloads, Progress
from launcher.aws.feeds.offer_file import products
from launcher.aws.feeds.spot_files import bands, spot_prices
from launcher.aws.price_list import (
    DATA_TRANSFER,
    Product,
    begins_in,
    ec2_answer,
    is_managed,
    is_plain,
    sagemaker_answer,
)
from launcher.catalog.bill import EVERYWHERE, UsageType
from launcher.catalog.fetched_prices import Answer, FetchedPrice

EC2, SAGEMAKER = "AmazonEC2", "AmazonSageMaker"
LEFT_OUT = frozenset(("description", "location", "locationType", "servicecode", "servicename"))
"""Attributes of products that nothing asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """What is wanted of the files: EC2 types, `ml.` types, usage types of the bill with the catalog's units."""

    types: frozenset[str]
    ml_types: frozenset[str]
    usage_types: tuple[UsageType, ...]
    units: Mapping[str, str]

    @property
    def mark(self) -> str:
        """What tells it from another interest."""
        stated = (
            sorted(self.types),
            sorted(self.ml_types),
            [f"{each.service} {each.name} {each.attributes}" for each in self.usage_types],
        )
        return sha256(json.dumps(stated).encode()).hexdigest()[:16]

    def of(self, service: str, region: str) -> tuple[UsageType, ...]:
        """The usage types of one service in a region, or of those that are the same everywhere."""
        return tuple(each for each in self.usage_types if each.service == service and each.is_asked_in(region))


class PublicFiles:
    """AWS's public files, read for one interest."""

    def __init__(self, folder: Path, where: Addresses, interest: Interest) -> None:
        """Nothing is asked yet; `folder` is where files and what was taken from them are kept."""
        self._folder = folder
        self._where = where
        self._interest = interest
        self._downloads = Downloads(folder)

    def close(self) -> None:
        """Close all connections."""
        self._downloads.close()

    def offer(self, service: str, region: str, now: datetime, progress: Progress) -> Answer:
        """The prices of a service in a region: machines of EC2 or SageMaker, and bill items.

        Raises:
            AwsError: the file cannot be had or is not of the shape.
        """
        interest, regions = self._interest, (region,)
        found = self._products(service, region, progress)
        answer = Answer()
        if service == EC2:
            answer = _of_file(ec2_answer(found, interest.types, regions, now, reserved=True), "aws-price-file-ec2")
        if service == SAGEMAKER:
            machines = (each for each in found if is_managed(each.attributes, interest.ml_types, regions))
            answer = _of_file(sagemaker_answer(machines, now), "aws-price-file-sagemaker")
        bill = bill_answer(found, interest.of(service, region), interest.units, region, now)
        return Answer(rates=answer.rates, refusals=answer.refusals, items=bill.items, unmatched=bill.unmatched)

    def spot(self, regions: tuple[str, ...], today: date, progress: Progress) -> Answer:
        """The spot price page's prices, of the day its file changed last.

        Raises:
            AwsError: the file cannot be had or is not of the shape.
        """
        file = self._file(self._where.spot_page, progress)
        read = spot_prices(file.path, self._interest.types, regions)
        return Answer(rates=read.rates, as_of=min(file.changed or today, today))

    def advisor(self, regions: tuple[str, ...], today: date, progress: Progress) -> Answer:
        """The advisor's bands, of the day its file changed last.

        Raises:
            AwsError: the file cannot be had or is not of the shape.
        """
        file = self._file(self._where.spot_advisor, progress)
        day = min(file.changed or today, today)
        return Answer(bands=bands(file.path, self._interest.types, regions, day))

    def _file(self, url: str, progress: Progress) -> Download:
        """A file that is kept as it is."""
        file = self._downloads.fetch(url, progress=progress)
        assert file is not None  # noqa: S101 - only a known tag brings None
        return file

    def _products(self, service: str, region: str, progress: Progress) -> list[Product]:
        """The wanted products of an offer file, from what was kept of it where it has not changed."""
        url = self._where.offer(service, region)
        kept = self._folder / f"{service}-{'all' if region == EVERYWHERE else region}.json"
        tag, before = _kept(kept, self._interest.mark)
        file = self._downloads.fetch(url, known=tag, progress=progress)
        if file is None:
            return before
        found = products(file.path, f"{service} in {region}", self._wanted(service, region))
        if file.tag:
            _keep(kept, file.tag, self._interest.mark, found)
        self._downloads.forget(file)
        return found

    def _wanted(self, service: str, region: str) -> Callable[[dict[str, str]], bool]:
        usage_types, interest = self._interest.of(service, region), self._interest

        def wanted(attributes: dict[str, str]) -> bool:
            if service == EC2 and attributes.get("instanceType") in interest.types:
                return is_plain(attributes)
            if service == SAGEMAKER and is_managed(attributes, interest.ml_types, (region,)):
                return True
            elsewhere = service == DATA_TRANSFER and begins_in(attributes) not in ("", region)
            return not elsewhere and any(each.matches(attributes) for each in usage_types)

        return wanted


def _of_file(answer: Answer, source: str) -> Answer:
    """An answer whose rates name the file they are from."""
    rates = tuple(FetchedPrice(key=each.key, usd=each.usd, note=each.note, source=source) for each in answer.rates)
    return Answer(rates=rates, refusals=answer.refusals)


def _kept(path: Path, mark: str) -> tuple[str, list[Product]]:
    """What was kept of an offer file, with its ETag; nothing where it was for another interest."""
    try:
        state = safe_json.load(path)
        if state["mark"] != mark:
            return "", []
        return state["tag"], [Product(attributes=stated, terms=terms) for stated, terms in state["products"]]
    except (OSError, ValueError, KeyError, TypeError):
        return "", []


def _keep(path: Path, tag: str, mark: str, found: list[Product]) -> None:
    """Keep what was taken from an offer file, whole or not at all."""
    pairs = [
        ({name: text for name, text in each.attributes.items() if name not in LEFT_OUT}, each.terms) for each in found
    ]
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"tag": tag, "mark": mark, "products": pairs}), encoding="utf-8")
    new.replace(path)
