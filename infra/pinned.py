"""The single plan of a request, for training and serving alike."""

from launcher.catalog.load import Catalog
from launcher.model.plan import Plan
from launcher.model.request import PlanRequest
from launcher.planning.pin import pinned_plan


def pin_plan(request: PlanRequest, catalog: Catalog) -> Plan:
    """The plan of a request that pins its choices.

    Raises:
        ImpossibleError: a choice is not pinned, or the request has errors; with all findings.
    """
    if request.workload.serve is None:
        return pinned_plan(request, catalog)
    # Only a serving plan needs these catalogs.
    from launcher.catalog.bedrock import BedrockCatalog
    from launcher.catalog.serving import load_serving
    from launcher.planning.endpoint_pin import pinned_serving

    return pinned_serving(request, catalog, BedrockCatalog(prices_as_of=catalog.prices_as_of), load_serving())
