"""The shipped list of replacing properties, compared with the registry and the documentation it came from."""

import pytest

from launcher.catalog.updates import load_replacing
from launcher.cdk.difference import METADATA
from tests.infra import registry

REPLACING = load_replacing()


@pytest.mark.parametrize("resource_type", sorted(REPLACING))
def test_it_is_what_the_vendor_says(resource_type):
    shipped = {path: "yes" if certain else "maybe" for path, certain in REPLACING[resource_type].items()}
    assert shipped == registry.replacing(resource_type)


def test_every_type_that_a_stack_holds_is_known(assembly):
    resource_types = {
        resource["Type"]
        for template in assembly.templates.values()
        for resource in template.get("Resources", {}).values()
    }
    assert resource_types - REPLACING.keys() - {METADATA, "Custom::PclusterCluster"} == set()
