"""AWS's two public files on spot: the prices behind the Spot price page, the bands of the Spot Instance Advisor.

Neither is promised by a contract: what is not of the shape that was read in 2026 is not read, and never a price.
"""

from collections.abc import Collection, Iterator
from datetime import date
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.aws.calls import RefusedPriceError, dollars
from launcher.catalog.fetched_prices import Answer, FetchedBand, FetchedPrice, answer
from launcher.catalog.selector import Key
from launcher.model.errors import AwsError

OLD_NAMES = {
    "us-east": "us-east-1",
    "us-west": "us-west-1",
    "eu-ireland": "eu-west-1",
    "apac-sin": "ap-southeast-1",
    "apac-syd": "ap-southeast-2",
    "apac-tokyo": "ap-northeast-1",
}
"""What older copies of the spot price file call regions."""
ONE_ZONE = "one zone's price, the page does not say which"
_BANDS = range(5)


def spot_prices(path: Path, names: Collection[str], regions: Collection[str]) -> Answer:
    """Linux spot prices of some types in some regions, without zones; Local Zone groups are no regions.

    Raises:
        AwsError: the file is not of the shape.
    """
    what = "the public spot prices"
    document = _document(path, what)
    rates = []
    try:
        columns = document["config"]["regions"]
        for region in columns:
            name = OLD_NAMES.get(region["region"], region["region"])
            if name in regions:
                rates += [each for each in _region(region, name) if each.key.name in names]
    except (KeyError, TypeError) as problem:
        raise _other_shape(what) from problem
    if not columns:
        raise _other_shape(what)
    return answer(rates)


def _region(region: dict[str, Any], name: str) -> Iterator[FetchedPrice]:
    """A region's prices; a type may be listed twice, small prices come as 9.0E-4, one that is missing as N/A*."""
    for kind in region["instanceTypes"]:
        for size in kind["sizes"]:
            for column in size["valueColumns"]:
                if column["name"] != "linux":
                    continue
                try:
                    usd = dollars(column["prices"].get("USD"))
                except RefusedPriceError:
                    continue
                yield FetchedPrice(key=Key("spot", size["size"], name), usd=usd, note=ONE_ZONE, source="aws-spot-page")


def bands(path: Path, names: Collection[str], regions: Collection[str], day: date) -> tuple[FetchedBand, ...]:
    """The advisor's bands for Linux of some types in some regions, as of a day.

    Raises:
        AwsError: the file is not of the shape.
    """
    what = "the Spot Instance Advisor's data"
    document = _document(path, what)
    found = []
    try:
        known = document["spot_advisor"]
        for region in sorted(set(known) & set(regions)):
            for name, stated in known[region]["Linux"].items():
                band, saving = stated["r"], stated["s"]
                if band not in _BANDS or not isinstance(saving, int):
                    raise _other_shape(what)
                if name in names:
                    found.append(FetchedBand(name=name, region=region, band=band, savings_percent=saving, as_of=day))
    except (AttributeError, KeyError, TypeError) as problem:
        raise _other_shape(what) from problem
    return tuple(found)


def _document(path: Path, what: str) -> dict[str, Any]:
    """A file of some megabytes, read whole."""
    try:
        found = safe_json.load(path)
    except (OSError, ValueError) as problem:
        raise _other_shape(what) from problem
    if not isinstance(found, dict):
        raise _other_shape(what)
    return found


def _other_shape(what: str) -> AwsError:
    return AwsError(f"{what}: not the shape that is known, so nothing is taken from it")
