"""A request with its candidates, best first: their ranks, quotes and digests."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Generic, TypeAlias, TypeVar

from launcher.catalog.load import Catalog
from launcher.model.enums import PurchaseOption
from launcher.model.finding import Finding
from launcher.model.money import Price, Range, Unpriced, UsdRange
from launcher.model.plan import SHORT_ID
from launcher.model.quote import Gate, Quote
from launcher.model.range_causes import RangeCauses
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.planning.job_command import WASTE
from launcher.planning.optimizers import TIGHT
from launcher.planning.quotas import DEFAULT_QUOTA
from launcher.pricing.candidate import Candidate
from launcher.pricing.context import PricingContext
from launcher.pricing.gate import decide
from launcher.pricing.refusals import MAY_BE_LATE
from launcher.pricing.standing import Standing
from launcher.pricing.stop_findings import LIMIT_NEEDED, STOPPED_BY_QUOTA

SCREEN_ROWS = 16
"""Rows that are kept: all of a screen, and few of a table of thousands."""
WHOLE_USD = 100
"""Dollars from which cents are not shown."""
NVIDIA, NEURON = "nvidia", "neuron"
"""Families of accelerators: GPUs, and Trainium."""
LACKING = (TIGHT, MAY_BE_LATE, STOPPED_BY_QUOTA, LIMIT_NEEDED, *WASTE)
"""The codes of what a candidate lacks for the job as planned."""

Candidate_co = TypeVar("Candidate_co", bound=Candidate, covariant=True)


@record
class Alternative:
    """Hardware that Slipway cannot deploy, at its cheapest size and place.

    `usd` is compute, checkpoints and data, None without a price.
    """

    service: str
    instance_type: str
    accelerator: str
    nodes: int
    region: str
    option: PurchaseOption
    hours: Range
    usd: UsdRange | None
    price: Price | Unpriced


@record(slots=False)
class PricedRequest(ABC, Generic[Candidate_co]):
    """A request with its candidates, best first; a quote is computed on demand."""

    # The path of the plan file.
    path: str
    context: PricingContext
    candidates: Sequence[Candidate_co]
    # Those of the whole plan.
    findings: tuple[Finding, ...]
    # The number of combinations that were examined.
    considered: int
    blocking: tuple[Finding, ...] = ()
    """Those for which a launch is refused, whichever candidate it takes."""
    can_pick: bool = True
    """Whether `--pick` takes these candidates: not those of a plan whose choices a comparison has opened."""
    _quotes: dict[int, Quote] = field(default_factory=dict)
    _digests: dict[int, str] = field(default_factory=dict)

    @property
    def request(self) -> PlanRequest:
        """The request."""
        return self.context.request

    @property
    def shortfalls(self) -> tuple[Finding, ...]:
        """What the first candidate lacks: memory for the job as planned, time to the deadline, work for all chips.

        Of a training job also time until its quota stops it.
        """
        return self._first_findings(self.row, LACKING)

    @property
    def limits(self) -> tuple[Finding, ...]:
        """The default quotas that are too small for the first candidate."""
        return self._first_findings(self.quote, (DEFAULT_QUOTA,))

    def _first_findings(self, quote_of: Callable[[int], Quote], codes: Collection[str]) -> tuple[Finding, ...]:
        return tuple(found for found in quote_of(1).findings if found.code in codes) if self.candidates else ()

    @property
    def catalog(self) -> Catalog:
        """The prices."""
        return self.context.catalog

    @property
    def now(self) -> datetime:
        """The current time."""
        return self.context.now

    def quote(self, rank: int) -> Quote:
        """The quote of a rank, from 1; a quote that the gate refuses names the best candidate that it allows."""
        return self._with_gate_hint(rank, self._cached_quote(rank))

    def row(self, rank: int) -> Quote:
        """The table row of a rank: its quote, which may lack lines, assumptions, policies, cash and break-even."""
        if rank not in self._rows or rank in self._quotes:
            row = self._row(rank, break_even=False)
            if len(self._rows) >= SCREEN_ROWS:
                return row
            self._rows[rank] = row
        return self._rows[rank]

    @cached_property
    def _rows(self) -> dict[int, Quote]:
        """The first rows that were asked for: a screen asks for each several times."""
        return {}

    def _row(self, rank: int, *, break_even: bool) -> Quote:
        if rank in self._quotes:
            return self._with_gate_hint(rank, self._quotes[rank])
        return self._with_id(rank, self._outline(rank, break_even=break_even))

    @property
    def rows(self) -> Iterator[Quote]:
        """The rows of all candidates with their break-even, each computed on demand and not cached."""
        return (self._row(rank, break_even=True) for rank in range(1, len(self.candidates) + 1))

    def range_causes(self, rank: int) -> RangeCauses | None:
        """The causes of a rank's range; None without a range."""
        return self.quote(rank).range_causes

    def quote_at_any_age(self, rank: int) -> Quote:
        """The quote with a gate that ignores the age of the price; callers refresh the price before they rely on it."""
        quoted, rules = self._cached_quote(rank), replace(self.context.rules, any_age=True)
        if quoted.gate.allows_launch or quoted.commitment_usd is not None:
            # What a commitment would cost is judged before its age.
            return self._with_gate_hint(rank, quoted)
        gate = decide(quoted.plan, quoted.price, quoted.usd, quoted.usd_per_hour, quoted.findings, rules=rules)
        return self._with_gate_hint(rank, replace(quoted, gate=gate))

    def _with_gate_hint(self, rank: int, quoted: Quote) -> Quote:
        """A rank's quote with its short id; one that the gate refuses names the best candidate that it allows."""
        gate = self._hint_at_allowed(quoted.gate)
        return self._with_id(rank, quoted if gate is quoted.gate else replace(quoted, gate=gate))

    def _with_id(self, rank: int, quoted: Quote) -> Quote:
        length = len(self.short_id(rank))
        return quoted if length == quoted.id_length else replace(quoted, id_length=length)

    def _hint_at_allowed(self, gate: Gate) -> Gate:
        """The decision; a refusal names the best candidate that the gate allows."""
        if gate.allows_launch or not self.can_pick or self.cheapest_allowed is None:
            return gate
        hint = f"{gate.hint}; {self._allowed_hint}" if gate.hint else self._allowed_hint
        return Gate(verdict=gate.verdict, exit_code=gate.exit_code, reason=gate.reason, hint=hint)

    @cached_property
    def _allowed_hint(self) -> str:
        usd = self.candidates[0].usd or Decimal(0)
        shown = f"{usd:,.0f}" if usd >= WHOLE_USD else f"{usd:,.2f}"
        used = "used" if self.candidates[0].place.option is PurchaseOption.BEDROCK else "launched"
        return f"{self.context.rules.changes.rank} {self.short_id(1)} at ${shown} can be {used} now"

    def _cached_quote(self, rank: int) -> Quote:
        if rank not in self._quotes:
            self._quotes[rank] = self._quote(rank)
        return self._quotes[rank]

    @abstractmethod
    def _quote(self, rank: int) -> Quote:
        """The quote of a rank, from 1."""

    def _outline(self, rank: int, *, break_even: bool) -> Quote:  # noqa: ARG002 - a shorter form may leave it out
        """The row of a rank, from 1: its quote, unless a subclass has a shorter form."""
        return self.quote(rank)

    def digest(self, rank: int) -> str:
        """The digest of a rank's plan, without computing its quote."""
        if rank not in self._digests:
            self._digests[rank] = self.candidates[rank - 1].digest
        return self._digests[rank]

    def short_id(self, rank: int) -> str:
        """The first letters of a rank's digest: the same on every day and computer, longer where two would be equal."""
        digest = self.digest(rank)
        return digest[: self._id_lengths.get(digest, SHORT_ID)]

    @cached_property
    def _id_lengths(self) -> dict[str, int]:
        """The lengths of the short ids that are longer than others, computed once: usually there is none."""
        return dict(_lengths({self.digest(rank) for rank in range(1, len(self.candidates) + 1)}))

    def standing(self, rank: int) -> Standing:
        """What the gate says of a rank."""
        if rank not in self._standings:
            self._standings[rank] = self._standing_of(self.candidates[rank - 1])
        return self._standings[rank]

    @cached_property
    def _standings(self) -> dict[int, Standing]:
        """The standings that were asked for: a screen is tried in several sizes."""
        return {}

    @abstractmethod
    def _standing_of(self, candidate: Any) -> Standing:
        """What the gate says of a candidate."""

    @cached_property
    def quotes(self) -> tuple[Quote, ...]:
        """Every candidate's quote."""
        return tuple(self.quote(rank) for rank in range(1, len(self.candidates) + 1))

    @cached_property
    def cheapest_allowed(self) -> int | None:
        """The rank of the cheapest candidate that the gate allows, which is the first; None without one."""
        return 1 if self.candidates and self.standing(1) is Standing.ALLOWED else None

    def family(self, candidate: Candidate) -> str:
        """Whether a candidate is nvidia or neuron; "" on Bedrock."""
        return self.catalog.accelerators[candidate.accelerator].family if candidate.accelerator else ""

    def cheapest_of(self, family: str) -> int | None:
        """The rank of a family's cheapest possible candidate without a new multi-year commitment; None without one."""
        for rank, candidate in enumerate(self.candidates, start=1):
            tied = candidate.place.term_years is not None and candidate.place.option not in self._requested_options
            if candidate.usd is not None and not candidate.refusals and not tied and self.family(candidate) == family:
                return rank
        return None

    @property
    def _requested_options(self) -> tuple[PurchaseOption, ...]:
        """The purchase options that the plan names; owned commitments are not new, so `owned` allows all options."""
        return tuple(PurchaseOption) if self.request.purchase.owned else self.request.purchase.option or ()

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """Other hardware for the job, priced but not deployed."""
        return ()

    @property
    @abstractmethod
    def params_b(self) -> float | None:
        """Billions of parameters of the model; None if unknown."""

    @property
    def impossible(self) -> bool:
        """Whether every candidate has a refusal."""
        return all(candidate.refusals for candidate in self.candidates)


def _lengths(digests: Iterable[str]) -> Iterator[tuple[str, int]]:
    """The digests that share their first letters with another, with the number of letters that tells them apart."""
    same: dict[str, list[str]] = {}
    for digest in digests:
        same.setdefault(digest[:SHORT_ID], []).append(digest)
    for alike in same.values():
        for digest in alike if len(alike) > 1 else ():
            lengths = range(SHORT_ID, len(digest))
            others = [other for other in alike if other != digest]
            yield digest, next(n for n in lengths if not any(other.startswith(digest[:n]) for other in others))


Priced: TypeAlias = PricedRequest[Candidate]
"""A request for training or for serving, with its candidates."""
