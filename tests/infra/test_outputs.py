"""The outputs of every stack are described for readers of the console."""

import json
from pathlib import Path

import pytest

from launcher.rendering.names import HYPERPOD_OUTPUTS, OUTPUTS

GOLDEN = Path(__file__).parents[1] / "golden" / "infra"
TEMPLATES = sorted([*GOLDEN.glob("*/*.json"), *GOLDEN.glob("*.json")])


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(GOLDEN)))
def test_every_stack_output_has_description(path):
    outputs = json.loads(path.read_text()).get("Outputs", {})
    # The CDK itself adds outputs for references between stacks.
    own = {name: output for name, output in outputs.items() if not name.startswith("ExportsOutput")}
    assert [name for name, output in own.items() if not output.get("Description")] == []


@pytest.mark.parametrize("name", [*OUTPUTS.values(), *HYPERPOD_OUTPUTS.values()])
def test_every_output_read_by_launches_has_description(name):
    from infra.parts.outputs import DESCRIPTIONS

    assert DESCRIPTIONS[name]
