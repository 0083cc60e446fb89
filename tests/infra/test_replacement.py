"""The shipped list of replacing properties, compared with the registry and the documentation it came from."""

import pytest

from launcher.catalog.updates import load_replacing
from launcher.cdk.difference import METADATA
from tests.infra import registry

REPLACING = load_replacing()


@pytest.mark.parametrize("resource_type", sorted(REPLACING))
def test_shipped_replacement_table_equals_registry(resource_type):
    shipped = {path: "yes" if certain else "maybe" for path, certain in REPLACING[resource_type].items()}
    assert shipped == registry.replacing(resource_type)


def test_every_stack_resource_type_has_replacement_rules(assembly):
    resource_types = {
        resource["Type"]
        for template in assembly.templates.values()
        for resource in template.get("Resources", {}).values()
    }
    assert resource_types - REPLACING.keys() - {METADATA, "Custom::PclusterCluster"} == set()
