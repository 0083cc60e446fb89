"""Types without accelerators: only pinned, for a job with given hours or a cluster, never searched."""

from datetime import UTC, datetime

import pytest

from launcher.catalog.load import load
from launcher.model.errors import ImpossibleError
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.checks import some

NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture
def price_workload(tmp_path):
    def make(workload, target="{instance_type: c5.xlarge, nodes: 2, region: us-east-2}"):
        path = tmp_path / "plan.yaml"
        path.write_text(f"slipway: 1\nname: a\nworkload: {workload}\ntarget: {target}\n", encoding="utf-8")
        return price(path, NOW, PriceOptions(any_age=True, everything=True))

    return make


@pytest.mark.parametrize("workload", ["{train: {hours: 0.2}}", "{train: {model: {params_b: 0.1}, hours: 0.2}}", "{}"])
def test_pinned_type_without_accelerator_is_priced(price_workload, workload):
    best = price_workload(workload).quote(1)
    assert (best.plan.place.instance_type, best.plan.place.nodes) == ("c5.xlarge", 2)
    assert best.usd is not None


def test_tokens_on_type_without_accelerator_refused(price_workload):
    with pytest.raises(ImpossibleError) as caught:
        price_workload("{train: {model: llama-3.1-8b, tokens_b: 1}}")
    assert "jobs of given hours" in caught.value.findings[0].message


def test_types_without_accelerator_are_never_searched(price_workload):
    priced_plan = price_workload("{}", "{region: us-east-2}")
    types = load().instance_types
    assert all(types[candidate.place.instance_type].accelerator for candidate in some(priced_plan.candidates))
