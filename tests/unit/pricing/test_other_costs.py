"""Other costs beside the compute: the fast sum equals the sum of the lines."""

from hypothesis import given
from hypothesis import strategies as st

from launcher.pricing.bill_lines import JobSize
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
    around = rest.other_usd(size)
    if around is not None:
        low, high = around
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
