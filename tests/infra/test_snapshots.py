"""The templates of the examples as files to review; what they must hold is asserted elsewhere."""

import pytest

from tests.infra.reading import PARTS


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", ["p5-spot", "trn2-capacity-block"])
def test_golden(golden_stack, synthesised, name, part):
    golden_stack(name, part, synthesised(name).template(part))
