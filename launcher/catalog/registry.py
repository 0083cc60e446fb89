"""Resource types that a region's CloudFormation registry lacks: no stack with one can be deployed there."""

from collections.abc import Iterable, Mapping
from functools import cache

from launcher.catalog.tables import read_cells

REGISTRY = "registry.csv"
"""Written by benchmarks/registry.py from the registries that cfn-lint carries."""


EVERY_TYPE = "*"
"""The row of regions without a known registry."""


@cache
def _lacking() -> Mapping[str, frozenset[str]]:
    """Regions by the resource type that they lack."""
    return {row["resource_type"]: frozenset(row["lacking"].split("|")) - {""} for row in read_cells(REGISTRY)}


def missing_types(types: Iterable[str], region: str) -> tuple[str, ...]:
    """The types that a region's registry lacks; empty for a region whose registry is unknown.

    >>> missing_types(("AWS::S3::Bucket", "AWS::Budgets::Budget"), "eu-north-1")
    ('AWS::Budgets::Budget',)
    """
    return tuple(name for name in types if region in _lacking()[name])


def regions_with(types: Iterable[str], regions: Iterable[str]) -> tuple[str, ...]:
    """Those of some regions whose registry is known to have all types."""
    wanted = (EVERY_TYPE, *types)
    return tuple(region for region in regions if not missing_types(wanted, region))
