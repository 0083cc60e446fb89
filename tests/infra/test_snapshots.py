"""The templates of the examples as files to review; what they must hold is asserted elsewhere."""

import pytest

PARTS = ("network", "checkpoints", "training")


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", ["p5-spot", "trn2-capacity-block"])
def test_golden(golden_stack, synthesised, name, part):
    golden_stack(name, part, synthesised(name).template(part))
