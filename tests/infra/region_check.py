"""Compares the resource types of a plan's stacks with the registry of every region that sells its instance type."""

from dataclasses import replace

from launcher.catalog.registry import REGISTRY
from launcher.catalog.tables import read_cells
from launcher.model.enums import Level
from launcher.model.hyperpod import GOVERNANCE_TYPES
from launcher.planning.registry import BUDGET, COMPONENT, budget_findings, registry_findings
from tests.checks import some
from tests.infra.deployer import types
from tests.infra.registry import types_in

OPTIONAL = {BUDGET, COMPONENT, *GOVERNANCE_TYPES}
"""Types that only some plans of a target need: each has its own rule."""
METADATA, CUSTOM = "AWS::CDK::Metadata", "Custom::"


def check_every_region(assembly, catalog):
    """Assert that the registry has what the stacks contain, or that planning refuses the region; return the refused."""
    plan = assembly.plan
    needed = {name for name in types(assembly) if not name.startswith(CUSTOM)} - {METADATA}
    assert needed <= {row["resource_type"] for row in read_cells(REGISTRY)}
    refused = []
    for region in some(catalog.commercial(catalog.regions_of(plan.place.instance_type))):
        place = replace(plan.place, region=region, az_id=None)
        without = {BUDGET} if any(budget_findings(plan.request, region)) else set()
        missing = needed - without - types_in(region) - {COMPONENT, *GOVERNANCE_TYPES}
        findings = registry_findings(plan.request, place, catalog)
        errors = [finding for finding in findings if finding.level is Level.ERROR]
        assert bool(missing) == bool(errors), (region, missing, errors)
        refused += [region] if errors else []
    return refused
