"""Offers for a plan: one instance type with one purchase option, and all its places, sizes and terms."""

from typing import NamedTuple

from launcher.model.enums import PurchaseOption, SavingsPlanKind, TargetKind
from launcher.model.plan import Place

Term = tuple[SavingsPlanKind | None, int | None]
"""Kind and years of a commitment."""


class CandidateGroup(NamedTuple):
    """One instance type on one target with one purchase option; without costs and times."""

    target: TargetKind
    instance_type: str
    option: PurchaseOption
    # Regions with a zone id, None for any zone.
    locations: tuple[tuple[str, str | None], ...]
    # Fewest first.
    node_counts: tuple[int, ...]
    # Kinds and years of commitments, (None, None) without a commitment.
    terms: tuple[Term, ...] = ((None, None),)

    @property
    def combinations(self) -> int:
        """The number of places in the group."""
        return len(self.locations) * len(self.node_counts) * len(self.terms)

    def place(self, location: int, nodes: int, term: int) -> Place:
        """One place of the group: `location` and `term` by their index, `nodes` as a number."""
        region, zone = self.locations[location]
        kind, years = self.terms[term]
        return Place(
            target=self.target,
            instance_type=self.instance_type,
            nodes=nodes,
            region=region,
            az_id=zone,
            option=self.option,
            plan_kind=kind,
            term_years=years,
        )
