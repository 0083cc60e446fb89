"""Prices and terms of models that Bedrock serves."""

from collections.abc import Mapping
from dataclasses import field
from datetime import date
from decimal import Decimal

from launcher.model.announced_end import AnnouncedEnd
from launcher.model.enums import Basis, BedrockMode
from launcher.model.record import record


@record
class BedrockPrice:
    """Bedrock's price of a model, dollars per million tokens; None if no price is known."""

    model_id: str
    # The inference profile ("us", "eu", "global") or empty.
    profile: str
    # Empty if one price holds for all regions of the model.
    region: str
    embedding: bool
    input_usd: Decimal
    output_usd: Decimal
    batch_input_usd: Decimal | None
    batch_output_usd: Decimal | None
    # The day after which AWS no longer offers it.
    deprecation: date | None
    source: str
    basis: Basis
    as_of: date
    # The prices of tokens that are read from or written to a prompt cache, and of long requests, by the names of the
    # data file.
    parts: Mapping[str, Decimal] = field(default_factory=dict, hash=False)

    @property
    def end(self) -> AnnouncedEnd | None:
        """The announced end of the model; None without one."""
        if self.deprecation is None:
            return None
        return AnnouncedEnd(
            key=f"bedrock-model/{self.model_id}",
            what=f"{self.model_id} on Bedrock",
            ends=self.deprecation,
            then="AWS withdraws the model",
            withdrawn=True,
            path="workload.serve.model",
            hint="use another model, or your own instances, before then",
            basis=self.basis,
            source=self.source,
            as_of=self.as_of,
        )


@record
class ImportPrice:
    """The cost of imported weights in a region, dollars a custom model unit: a minute that a copy runs, and a month."""

    region: str
    usd_per_unit_minute: Decimal
    usd_per_unit_month: Decimal
    source: str
    basis: Basis
    as_of: date


@record
class BedrockTerms:
    """The terms of a Bedrock candidate."""

    model_id: str
    profile: str
    mode: BedrockMode
    same_weights: str
    """The open model with these weights; empty for a model that only Bedrock has."""
    input_usd_per_million: Decimal | None
    output_usd_per_million: Decimal | None
    region_seen: bool = True
    """Whether any Bedrock price names the region."""
    cached_usd_per_million: Decimal | None = None
    """Price of input read from a prompt cache; None if no price is known, or the plan uses no cache."""
    cheaper: str = ""
    """A cheaper profile that the plan leaves open, in words."""
    end: AnnouncedEnd | None = None
    """The announced end of the model, if any."""

    @property
    def inference_id(self) -> str:
        """The name in a request: the model, or its inference profile."""
        return f"{self.profile}.{self.model_id}" if self.profile else self.model_id
