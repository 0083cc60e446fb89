"""Chip software comes from the catalog; the code has no list of chip names."""

import ast
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

import launcher
from launcher.catalog.load import Catalog, load
from launcher.catalog.tables import read_cells
from launcher.model.enums import OperatingSystem
from launcher.rendering.neuron import environment_script, keeps_compiled_programs
from launcher.rendering.node import node_packages
from tests.checks import some

SOFTWARE = {cells["accelerator"]: cells for cells in read_cells("chip_software.csv")}
STACKS = {cells["name"]: cells for cells in read_cells("training_stacks.csv")}
EXAMPLES = {
    "launcher/model/schema.py": "an example of a value",
    "launcher/targets/bases.py": "a type that stands for any",
    "launcher/planning/pin.py": "an example of a pin",
    "launcher/planning/endpoint_pin.py": "an example of a pin",
}
"""Files that name a type in what a person reads, with the reason."""


def test_every_chip_has_software_with_a_source_and_a_day(catalog: Catalog):
    assert SOFTWARE.keys() == catalog.accelerators.keys()
    for cells in (*SOFTWARE.values(), *STACKS.values()):
        assert cells["source"] in catalog.store.sources
        assert date.fromisoformat(cells["as_of"])


def test_sockets_and_price_cuts_name_existing_types(catalog: Catalog):
    for name in ("sockets.csv", "price_cuts.csv"):
        for cells in some(read_cells(name)):
            assert cells["instance_type"] in catalog.instance_types
            assert cells["source"] in catalog.store.sources


@pytest.mark.parametrize("stack", STACKS)
def test_training_stack_has_pinned_packages_and_a_template(stack: str):
    cells = STACKS[stack]
    assert all(re.fullmatch(r"aws-neuronx-[a-z-]+=[\d.]+", each) for each in cells["node_packages"].split("|"))
    assert all("==" in each for each in cells["python_packages"].split("|"))
    assert (Path(launcher.__file__).parents[1] / "templates" / cells["template"]).is_file()


def test_new_neuron_family_needs_table_rows_only(catalog: Catalog):
    stack = replace(catalog.accelerators["Trainium2"].training_stack, name="next", release="9.9")
    chip = replace(catalog.accelerators["Trainium2"], name="Trainium9", workers=8, training_stack=stack)
    facts = replace(catalog.instance_types["trn2.48xlarge"], name="trn9.48xlarge", family="trn9", chip=chip)
    assert facts.neuron
    assert facts.training_workers == 8 * facts.accelerators
    assert node_packages(facts, OperatingSystem.UBUNTU2404) == stack.node_packages
    assert "Neuron 9.9" in environment_script(facts, OperatingSystem.UBUNTU2404)
    assert not keeps_compiled_programs(facts)
    cached = replace(facts, chip=replace(chip, training_stack=replace(stack, compiles_in_process=False)))
    assert keeps_compiled_programs(cached)


def test_code_contains_no_name_of_a_chip_or_type(catalog: Catalog):
    """A name in the code is a list that the next row has to be added to; names in sentences are none."""
    root = Path(launcher.__file__).parent
    families = {instance_type.family for instance_type in catalog.instance_types.values() if instance_type.accelerator}
    known = {
        *catalog.accelerators,
        *(instance_type.name for instance_type in catalog.instance_types.values() if instance_type.accelerator),
    }
    known |= {*families, *(f"{family}." for family in families), "trn", "inf"}
    places = [
        f"{path.relative_to(root.parent)}:{node.lineno}: {node.value}"
        for path in sorted(root.rglob("*.py"))
        if str(path.relative_to(root.parent)) not in EXAMPLES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in known
    ]
    assert not places


def test_price_cut_is_the_last_of_a_type_or_the_largest_of_all(catalog: Catalog):
    cuts = load().price_cuts
    assert catalog.price_cut("p5en.48xlarge") == cuts["p5en.48xlarge"]
    assert catalog.price_cut("trn2.48xlarge") == max(cuts.values())
