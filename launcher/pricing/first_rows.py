"""Which candidates can have one of the first rows of a screen, by those that have been found so far."""

from collections.abc import Callable
from typing import Generic

from launcher.model.enums import PurchaseOption, SavingsPlanKind
from launcher.model.plan import Place
from launcher.pricing.candidate import AnyCandidate
from launcher.pricing.context import PricingContext
from launcher.pricing.standing import COMPLETE, Standing
from launcher.targets.registry import target_of

Purchase = tuple[PurchaseOption, bool, SavingsPlanKind | None, int | None]
"""A purchase option, whether SageMaker buys it as managed spot, and the kind and years of a commitment."""

FEW = 500
"""Combinations that are few enough to price each kind of them: a choice of this project."""


def purchase_of(place: Place) -> Purchase:
    """How a place is bought, as the rows of a screen differ."""
    managed = place.option is PurchaseOption.SPOT and target_of(place.target).managed_spot
    return place.option, managed, place.plan_kind, place.term_years


class FirstRows(Generic[AnyCandidate]):
    """The first rows of a screen.

    Of the candidates that can be launched, now or once the plan is complete, they are the cheapest of each purchase and
    of each family of accelerators, and then the cheapest ones; of the others those that are cheaper than all of these
    and refused for the first reason of all. A screen also names the cheapest of each family, and whether one has no
    price.
    """

    def __init__(self, rows: int, context: PricingContext, standing_of: Callable[[AnyCandidate], Standing]) -> None:
        self._rows, self._context, self._standing_of = rows, context, standing_of
        self._allowed: list[tuple[float, Purchase, str, Standing]] = []
        self._refused: list[tuple[float, Standing]] = []

    def add(self, candidate: AnyCandidate) -> None:
        """Count a candidate."""
        standing, usd = self._standing_of(candidate), float(candidate.usd or 0)
        if standing in COMPLETE:
            family = self._family(candidate.place.instance_type)
            self._allowed.append((usd, purchase_of(candidate.place), family, standing))
        else:
            self._refused.append((usd, standing))

    def may_show(self, instance_type: str, purchases: set[Purchase], least_usd: float, *, doubtful: bool) -> bool:
        """Whether a candidate of a type that costs no less than a number of dollars can have a row, or be named.

        Every candidate added later costs no less either. `purchases` are the ways to buy it, empty without a price.
        """
        ahead = [row for row in self._allowed if row[0] < least_usd]
        # What is to be bought comes after what can be launched now, so it does not stand for its family.
        to_buy = {purchase for _, purchase, _, standing in ahead if standing is Standing.UNNAMED}
        leads = COMPLETE if purchases and purchases <= to_buy else (Standing.ALLOWED,)
        if not any(family == self._family(instance_type) and standing in leads for _, _, family, standing in ahead):
            return True
        if not purchases:
            return not self.has_unpriced
        return not doubtful and (len(ahead) < self._rows or not purchases <= {row[1] for row in ahead})

    @property
    def has_unpriced(self) -> bool:
        """Whether a candidate has no price."""
        return any(standing is Standing.UNPRICED for _, standing in self._refused)

    @property
    def has_room_for_commitments(self) -> bool:
        """Whether new commitments, which a launch refuses to buy, can have a row: after all other reasons."""
        first_usd = min([row[0] for row in self._allowed], default=None)
        return first_usd is None or not any(
            usd < first_usd and standing in (Standing.OLD_PRICE, Standing.OVER_BUDGET, Standing.UNKNOWN_FEES)
            for usd, standing in self._refused
        )

    def _family(self, name: str) -> str:
        chip = self._context.catalog.instance_types[name].chip
        return chip.family if chip is not None else ""
