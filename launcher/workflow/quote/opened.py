"""The candidates of a plan with its choices open, and those of the plan as written: the subjects of a comparison."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Generic, TypeVar

from launcher.model.enums import PurchaseOption
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding
from launcher.model.plan import Place
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.pricing.priced import Priced

Candidates_co = TypeVar("Candidates_co", bound=Priced, covariant=True)


@record(slots=False)
class Opened(Generic[Candidates_co]):
    """The candidates of a plan with its choices open, and those of the plan as written."""

    priced: Candidates_co
    pinned: Candidates_co
    request: PlanRequest

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the plan as written."""
        return self.pinned.findings

    def pins(self, place: Place) -> bool:
        """Whether the plan as written has candidates of the type and purchase option of a place."""
        return (place.instance_type, place.option) in self._pinned_kinds

    @cached_property
    def _pinned_kinds(self) -> set[tuple[str, PurchaseOption]]:
        return {(candidate.place.instance_type, candidate.place.option) for candidate in self.pinned.candidates}


def both_priced(
    request: PlanRequest, wide: PlanRequest, price: Callable[[PlanRequest], Candidates_co]
) -> tuple[Candidates_co, Candidates_co]:
    """The candidates of the opened plan and of the plan as written; the latter twice if the opened plan has none.

    Raises:
        ImpossibleError: no candidate remains; the error has every finding.
    """
    pinned = price(request)
    if wide == request:
        return pinned, pinned
    try:
        return replace(price(wide), can_pick=False), pinned
    except ImpossibleError:
        return pinned, pinned
