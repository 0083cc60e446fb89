"""Service fees from the Price List's public files, for fees whose names no public source confirms."""

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from launcher.agent import safe_json
from launcher.aws.feeds.addresses import Addresses
from launcher.aws.feeds.download import PublicDownloads
from launcher.aws.feeds.public_files import products
from launcher.aws.price_list import Product, holding
from launcher.model.errors import AwsError


class ListedFee(NamedTuple):
    """One price of a service: its usage type, its dollars as listed, and its description."""

    usage_type: str
    usd: str
    unit: str


def fee_offer(
    folder: Path, where: Addresses, pattern: str, region: str, now: datetime
) -> tuple[str, tuple[ListedFee, ...]] | None:
    """The first service in the index whose code matches a pattern, in any case, with its prices in one region.

    None if no service matches.

    Raises:
        AwsError: a file is not available or does not have the documented format.
    """
    with closing(PublicDownloads(folder)) as downloads:
        index = downloads.fetch(where.index)
        assert index is not None  # noqa: S101 - only a known tag brings None
        try:
            offers = safe_json.loads(index.path.read_text(encoding="utf-8"))["offers"]
            codes = sorted(code for code in offers if re.fullmatch(pattern, code, re.IGNORECASE))
        except (KeyError, TypeError, ValueError) as problem:
            raise AwsError(f"{where.index} is not an index of the Price List") from problem
        if not codes:
            return None
        file = downloads.fetch(where.offer(codes[0], region))
        assert file is not None  # noqa: S101 - the same
        listed = products(file.path, f"{codes[0]} in {region}", lambda _: True)
        downloads.forget(file)
    return codes[0], tuple(sorted({fee for product in listed for fee in _fees(product, now)}))


def _fees(product: Product, now: datetime) -> Iterator[ListedFee]:
    for term in holding(product.terms_of("OnDemand"), now):
        for price in term.get("priceDimensions", {}).values():
            usd = price.get("pricePerUnit", {}).get("USD")
            if usd is not None:
                yield ListedFee(product.attributes.get("usagetype", ""), str(usd), str(price.get("unit", "")))
