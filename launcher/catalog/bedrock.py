"""Bedrock's prices, and its models that have the same weights as a model of the catalog.

bedrock.csv          dated prices per million tokens; a row without an AWS source is unverified
bedrock_parts.csv    the same of cached tokens and long requests; of two copies of one price the higher one
bedrock_imports.csv  prices of imported weights, by the custom model unit
import_units.csv     custom model units of a copy, if AWS has published them
same_weights.csv     Bedrock's ids of models with open weights
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from launcher.model.bedrock import BedrockPrice, ImportPrice
from launcher.model.enums import Basis, BedrockProfile

DATA = Path(__file__).parent / "data" / "serving"
LISTED_REGION = "us-east-1"
"""The region whose price a row without a region is."""
PROFILES = tuple(profile.value for profile in BedrockProfile if profile is not BedrockProfile.NONE)
"""Cross-region inference profiles, as the first word of a model id."""
AREAS = {"us": ("us",), "eu": ("eu",), "ap": ("apac",), "ca": ("us",)}
"""Profiles that requests of a region can use, by the first word of the region; every region can use `global`."""
NARROW = {
    "ap-southeast-2": ("au",),
    "ap-southeast-4": ("au",),
    "ap-northeast-1": ("jp",),
    "ap-northeast-3": ("jp",),
}
"""Profiles of one country, preferred to those of its geography (Bedrock user guide, inference profiles)."""


def profiles_of(region: str) -> tuple[str, ...]:
    """The inference profiles that requests of a region can use, the narrowest first.

    >>> profiles_of("ap-northeast-1"), profiles_of("eu-west-1")
    (('jp', 'apac', 'global'), ('eu', 'global'))
    """
    return (*NARROW.get(region, ()), *AREAS.get(region.partition("-")[0], ()), "global")


class BedrockCatalog:
    """Bedrock's prices, read on first use; the same look-up always gives the same answer."""

    def __init__(self, *, prices_as_of: date | None = None) -> None:
        """The prices known on a day; None: all rows. Names are known on every day."""
        self.prices_as_of = prices_as_of

    @cached_property
    def rows(self) -> Mapping[str, tuple[BedrockPrice, ...]]:
        """Every price by model id, of any day."""
        by_model: dict[str, list[BedrockPrice]] = {}
        for row in _rows():
            by_model.setdefault(row.model_id, []).append(row)
        return MappingProxyType({name: tuple(rows) for name, rows in by_model.items()})

    @cached_property
    def same_weights(self) -> Mapping[str, str]:
        """The catalog's model by Bedrock's id."""
        return MappingProxyType({row["model_id"]: row["model"] for row in _table("same_weights.csv")})

    @cached_property
    def regions(self) -> frozenset[str]:
        """The regions that some price names; Bedrock may be available in more."""
        return frozenset(row.region for rows in self.rows.values() for row in rows if row.region)

    def model_id(self, model: str) -> str | None:
        """Bedrock's id of a model of the catalog; None if Bedrock does not have the model."""
        return next((key for key, name in self.same_weights.items() if name == model), None)

    def find(self, label: str) -> str | None:
        """The Bedrock id that the user means: the id itself, or its name without vendor, date and version.

        None if unknown. Of several with the same name the last, which is the newest.
        """
        bare = re.sub(rf"^(bedrock/)?(({'|'.join(PROFILES)}|us-gov)\.)?", "", label.strip().lower())
        if bare in self.rows:
            return bare
        plain_name = _plain(bare)
        matches = [key for key in self.rows if plain_name in (_plain(key), _plain(key.partition(".")[2]))]
        return max(matches, default=None)

    def price(
        self, model_id: str, region: str, profile: BedrockProfile | None = None, *, today: date = date.min
    ) -> BedrockPrice | None:
        """The price of a model for requests of a region; None if unknown.

        With an open profile, Slipway tries the region's own price, then the profile of its geography, then a row
        without a region, then the global profile. Withdrawn models come last.

        A row without profile and region may be the price of the global profile, which is lower, or that of one region.
        Where it stands for the region's own price it is derived: the price of the geography's profile where the global
        profile costs the same, else the highest price of a region of the same area, else the row as it is.

        Args:
            model_id: Bedrock's id.
            region: the source region of the requests.
            profile: the inference profile to use; NONE for the region alone.
            today: the day on which the model must be offered.
        """
        if profile is not None:
            places = [("" if profile is BedrockProfile.NONE else profile.value, where) for where in (region, "")]
        else:
            wider = [(bedrock_profile, where) for bedrock_profile in profiles_of(region) for where in (region, "")]
            places = [("", region), *wider[:-2], ("", ""), *wider[-2:]]
        rows = self._rows_until(model_id)
        chosen = (_first([row for row in rows if (row.profile, row.region) == where]) for where in places)
        bedrock_prices = [self._regional_price(price, region, rows) for price in chosen if price is not None]
        offered = (
            bedrock_price
            for bedrock_price in bedrock_prices
            if bedrock_price.deprecation is None or bedrock_price.deprecation > today
        )
        return next(offered, bedrock_prices[0] if bedrock_prices else None)

    def _regional_price(self, price: BedrockPrice, region: str, rows: Sequence[BedrockPrice]) -> BedrockPrice:
        """A price as that of a region; derived if its row has no profile and no region."""
        if price.profile or price.region or price.basis is Basis.UNVERIFIED:
            return price
        known = [row for row in rows if row.basis is not Basis.UNVERIFIED]
        own = [row for row in known if not row.profile and _area(row.region) == _area(region)]
        areas = [row for row in known if row.profile in profiles_of(region)[:-1]]
        others = [row for row in known if row.profile not in ("", "global")]
        globally = [row for row in known if row.profile == "global"]
        if any(row.input_usd == price.input_usd and row.output_usd == price.output_usd for row in globally):
            dearest = max(areas or others, key=_dollars, default=price)
            return (
                dearest
                if dearest is price
                else _derived_price(price, dearest, f"the {dearest.profile} profile's price")
            )
        if own:
            dearest = max(own, key=_dollars)
            return _derived_price(price, dearest, f"the price of {dearest.region}")
        return price if region == LISTED_REGION else _derived_price(price, price, f"the price of {LISTED_REGION}")

    def priced_profiles(self, model_id: str, region: str) -> tuple[BedrockPrice, ...]:
        """The prices of a model through every inference profile that requests of a region can use."""
        bedrock_prices = (self.price(model_id, region, BedrockProfile(profile)) for profile in profiles_of(region))
        return tuple(bedrock_price for bedrock_price in bedrock_prices if bedrock_price is not None)

    def _rows_until(self, model_id: str) -> Sequence[BedrockPrice]:
        until = self.prices_as_of or date.max
        return [bedrock_price for bedrock_price in self.rows.get(model_id, ()) if bedrock_price.as_of <= until]

    def import_price(self, region: str) -> ImportPrice | None:
        """The price of imported weights in a region; None if unknown."""
        until = self.prices_as_of or date.max
        return next(
            (import_row for import_row in self.imports if import_row.region == region and import_row.as_of <= until),
            None,
        )

    @cached_property
    def imports(self) -> tuple[ImportPrice, ...]:
        """Every price of imported weights."""
        return tuple(
            ImportPrice(
                region=row["region"],
                usd_per_unit_minute=Decimal(row["usd_per_unit_minute"]),
                usd_per_unit_month=Decimal(row["usd_per_unit_month"]),
                source=row["source"],
                basis=Basis(row["basis"]),
                as_of=date.fromisoformat(row["as_of"]),
            )
            for row in _table("bedrock_imports.csv")
        )

    @cached_property
    def import_units(self) -> Mapping[str, int]:
        """Custom model units of a copy, by the catalog's model."""
        return MappingProxyType({row["model"]: int(row["units"]) for row in _table("import_units.csv")})


def _first(rows: Sequence[BedrockPrice]) -> BedrockPrice | None:
    """The first of some rows; rows that may price a candidate take precedence."""
    return min(rows, key=lambda bedrock_price: bedrock_price.basis is Basis.UNVERIFIED, default=None)


def _area(region: str) -> str:
    """The part of the world and the AWS partition of a region: GovCloud has its own prices.

    >>> _area("us-east-1"), _area("us-gov-east-1"), _area("ap-northeast-1")
    ('us', 'us-gov', 'ap')
    """
    return "us-gov" if region.startswith("us-gov-") else region.partition("-")[0]


def _dollars(price: BedrockPrice) -> Decimal:
    return price.input_usd + price.output_usd


def _derived_price(price: BedrockPrice, other: BedrockPrice, what: str) -> BedrockPrice:
    """A region's price taken from another row; the source says which."""
    return replace(
        other,
        profile=price.profile,
        region=price.region,
        deprecation=price.deprecation,
        basis=Basis.DERIVED,
        source=f"{other.source}: {what}, as this region has no row",
    )


def _plain(model_id: str) -> str:
    """A model id without date and version, and without dots and dashes, whose spelling varies.

    >>> _plain("claude-sonnet-4-5-20250929-v1:0"), _plain("Claude Sonnet 4.5"), _plain("nova-micro-v1:0")
    ('claudesonnet45', 'claudesonnet45', 'novamicro')
    """
    text = re.sub(r"(-\d{8})?(-v\d+)?(:\d+)?$", "", model_id.lower())
    return re.sub(r"[^a-z0-9]", "", text)


def _table(name: str) -> Iterator[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _parts() -> Mapping[tuple[str, str, str], dict[str, Decimal]]:
    """Prices of parts of a request, by model, profile and region; rows without an AWS source are left out."""
    by_part: dict[tuple[str, str, str], dict[str, Decimal]] = {}
    for row in _table("bedrock_parts.csv"):
        if Basis(row["basis"]) is not Basis.UNVERIFIED:
            key = (row["model_id"], row["profile"], row["region"])
            by_part.setdefault(key, {})[row["part"]] = Decimal(row["usd"])
    return by_part


def _rows() -> Iterator[BedrockPrice]:
    parts = _parts()
    for row in _table("bedrock.csv"):
        read = f"{row['source'].replace('-', ' ')} of {row['as_of']}"
        cited = f", which cites {row['cited']}" if row["cited"] else ", without a source"
        yield BedrockPrice(
            model_id=row["model_id"],
            profile=row["profile"],
            region=row["region"],
            embedding=row["task"] == "embedding",
            input_usd=Decimal(row["input_usd"]),
            output_usd=Decimal(row["output_usd"]),
            batch_input_usd=_usd(row["batch_input_usd"]),
            batch_output_usd=_usd(row["batch_output_usd"]),
            deprecation=date.fromisoformat(row["deprecation"]) if row["deprecation"] else None,
            source=f"{read}{cited}",
            basis=Basis(row["basis"]),
            as_of=date.fromisoformat(row["as_of"]),
            parts=parts.get((row["model_id"], row["profile"], row["region"]), {}),
        )


def _usd(text: str) -> Decimal | None:
    return Decimal(text) if text else None
