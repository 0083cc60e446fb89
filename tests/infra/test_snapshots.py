"""The templates of the examples as files to review; what they must hold is asserted elsewhere."""

import json
import re

import pytest

PARTS = ("network", "checkpoints", "training")


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", ["p5-spot", "trn2-capacity-block"])
def test_golden(golden, synthesised, name, part):
    template = synthesised(name).template(part)
    text = json.dumps({key: template[key] for key in ("Resources", "Outputs")}, indent=2, sort_keys=True)
    # Digests of plans and contents of assets.
    golden(f"infra/{name}/{part}.json", re.sub(r"\b[0-9a-f]{64}\b", "<sha256>", text) + "\n")
