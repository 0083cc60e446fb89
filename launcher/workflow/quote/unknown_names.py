"""The names of a plan that the catalog does not know, for a plan of which a part could not be read."""

from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.load import Catalog
from launcher.model.finding import Finding
from launcher.model.request import PlanRequest
from launcher.planning import checks
from launcher.planning.serving import checks as serving_checks

CODES = frozenset({"unknown-region", "unknown-zone", "unknown-instance-type", "unknown-option", "unknown-model"})
"""Findings on one name each: they hold whatever the rest of the plan says."""


def unknown_names(request: PlanRequest, catalog: Catalog) -> list[Finding]:
    """The findings on unknown names; all others could come from a value that was left out."""
    serve = request.workload.serve
    findings = (
        checks.check(request, catalog)
        if serve is None
        else serving_checks.check(request, serve, catalog, BedrockCatalog())
    )
    return [finding for finding in findings if finding.code in CODES]
