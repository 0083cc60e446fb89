"""Other costs beside the compute: the fast sum equals the sum of the lines."""

from dataclasses import replace
from datetime import date
from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as st

from launcher.model.enums import Basis
from launcher.model.money import Price
from launcher.pricing.bill_lines import NOTHING, JobSize, Line, components
from launcher.pricing.other_costs import OtherCosts
from launcher.pricing.training_candidate import TrainingCandidate
from tests.unit.pricing.conftest import price_over

SPOT = price_over({"purchase": {"option": "spot"}, "storage": {"lustre_gib": 4800}, "target": {"nodes": 8}})
FAR = price_over({"target": {"instance_type": "p4d.24xlarge", "region": "ap-northeast-2"}})
RESTS = [
    candidate.other_costs for priced in (SPOT, FAR) if isinstance(candidate := priced.candidates[0], TrainingCandidate)
]


@given(
    hours=st.floats(min_value=0, max_value=1e6),
    interval_s=st.one_of(st.none(), st.floats(min_value=1e-3, max_value=1e6)),
    rest=st.sampled_from(RESTS),
)
def test_other_costs_total_is_within_the_quick_bounds(hours: float, interval_s: float | None, rest: OtherCosts) -> None:
    size = JobSize(hours=hours, checkpoint_interval_s=interval_s)
    other_usd = rest.other_usd(size)
    if other_usd is not None:
        low, high = other_usd
        assert low <= float(rest.total_usd(size)) <= high
        assert high - low <= 0.05 + high * 1e-8


def test_the_dates_of_the_lines_come_the_oldest_first() -> None:
    dates = SPOT.candidates[0].line_dates
    assert list(dates) == sorted(dates)
    assert {name for _, name in dates} == {
        component.name
        for component in SPOT.candidates[0].components
        if component.group != "compute" and component.as_of
    }


AMOUNTS = st.one_of(
    st.integers(min_value=0, max_value=40_000).map(lambda halves: halves / 8),
    st.floats(min_value=0, max_value=1e9),
)
USD = st.decimals(min_value=0, max_value=1000, places=6)


@example(prices=[(Decimal("0.21738"), 257.5)])
@example(prices=[(Decimal("0.15468"), 98.75)])
@given(prices=st.lists(st.tuples(USD, AMOUNTS), max_size=6))
def test_total_is_sum_of_exactly_rounded_lines_also_at_ties(prices: list[tuple[Decimal, float]]) -> None:
    known = Price(usd=Decimal(0), source="x", basis=Basis.LISTED, as_of=date(2026, 1, 1))
    lines = tuple(Line("x", "other", "GB", replace(known, usd=usd), once=amount) for usd, amount in prices)
    size = JobSize(hours=1.0, checkpoint_interval_s=None)
    exact = sum((component.usd or Decimal(0) for component in components(lines, size)), NOTHING)
    assert str(OtherCosts(lines).total_usd(size)) == str(exact)
