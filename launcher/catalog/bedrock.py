"""What Bedrock charges, and which of its models have the same weights as a model of the catalog.

bedrock.csv       dated prices per million tokens; a row without a source AWS stands behind is unverified
same_weights.csv  Bedrock's ids of models whose weights anybody can serve
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from launcher.model.enums import Basis
from launcher.model.serving import BedrockPrice

DATA = Path(__file__).parent / "data" / "serving"
SOURCE = "litellm 1.109.1 of 2026-11-12"
PROFILES = ("us", "eu", "apac", "au", "jp", "global")
"""Cross-region inference profiles, as the first word of a model id."""
AREAS = {"us": ("us",), "eu": ("eu",), "ap": ("apac",), "ca": ("us",)}
"""Profiles that requests of a region can use, by the first word of the region; `global` takes all of them."""


class BedrockCatalog:
    """Bedrock's prices, read on first use; the same look-up always gives the same answer."""

    def __init__(self, *, prices_as_of: date | None = None) -> None:
        """The prices as they were known on a day; None: all rows. Names are known on every day."""
        self.prices_as_of = prices_as_of

    @cached_property
    def rows(self) -> Mapping[str, tuple[BedrockPrice, ...]]:
        """Every price by model id, whatever its day."""
        found: dict[str, list[BedrockPrice]] = {}
        for each in _rows(DATA / "bedrock.csv"):
            found.setdefault(each.model_id, []).append(each)
        return MappingProxyType({name: tuple(rows) for name, rows in found.items()})

    @cached_property
    def same_weights(self) -> Mapping[str, str]:
        """The catalog's model by Bedrock's id."""
        with (DATA / "same_weights.csv").open(encoding="utf-8", newline="") as file:
            return MappingProxyType({row["model_id"]: row["model"] for row in csv.DictReader(file)})

    @cached_property
    def regions(self) -> frozenset[str]:
        """The regions that some price names; Bedrock may be in more."""
        return frozenset(each.region for rows in self.rows.values() for each in rows if each.region)

    def of_model(self, model: str) -> str | None:
        """Bedrock's id of a model of the catalog; None where Bedrock does not have it."""
        return next((key for key, name in self.same_weights.items() if name == model), None)

    def find(self, label: str) -> str | None:
        """Bedrock's id that a person means: the id itself, or its name without vendor, date and version.

        None where it is unknown. Of several of one name the last, which is the newest.
        """
        bare = re.sub(rf"^({'|'.join(PROFILES)}|us-gov)\.", "", label.strip().lower())
        if bare in self.rows:
            return bare
        wanted = _plain(bare)
        found = [key for key in self.rows if wanted in (_plain(key), _plain(key.partition(".")[2]))]
        return max(found, default=None)

    def price(self, model_id: str, region: str, profile: str = "") -> BedrockPrice | None:
        """The price of a model for requests of a region: of that very region, else of all, else of a wider profile.

        Args:
            model_id: Bedrock's id.
            region: where the requests come from.
            profile: an inference profile to use; "" takes the first that there is.
        """
        until = self.prices_as_of or date.max
        rows = [each for each in self.rows.get(model_id, ()) if each.as_of <= until]
        wider = (profile,) if profile else ("", *AREAS.get(region.partition("-")[0], ()), "global")
        for wanted in wider:
            for where in (region, ""):
                chosen = _first([each for each in rows if each.profile == wanted and each.region == where])
                if chosen is not None:
                    return chosen
        return None


def _first(rows: Sequence[BedrockPrice]) -> BedrockPrice | None:
    """The first of some rows, those that may price a candidate before those that may not."""
    return min(rows, key=lambda each: each.basis is Basis.UNVERIFIED, default=None)


def _plain(model_id: str) -> str:
    """A model id without date, version and the dots and dashes that people write differently.

    >>> _plain("claude-sonnet-4-5-20250929-v1:0"), _plain("Claude Sonnet 4.5"), _plain("nova-micro-v1:0")
    ('claudesonnet45', 'claudesonnet45', 'novamicro')
    """
    text = re.sub(r"(-\d{8})?(-v\d+)?(:\d+)?$", "", model_id.lower())
    return re.sub(r"[^a-z0-9]", "", text)


def _rows(path: Path) -> Iterator[BedrockPrice]:
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
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
                source=f"{SOURCE}{cited}",
                basis=Basis(row["basis"]),
                as_of=date.fromisoformat(row["as_of"]),
            )


def _usd(text: str) -> Decimal | None:
    return Decimal(text) if text else None
