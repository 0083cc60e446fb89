"""Prices a serving plan: ranked monthly quotes. Pricing makes no calls and spends nothing."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.load import Catalog
from launcher.catalog.serving import load_serving
from launcher.catalog.serving_images import load_images
from launcher.model.request import PlanRequest
from launcher.planning.serving.model import model_of
from launcher.planning.serving.resolve import resolve_serving, with_catalog_model, with_precision
from launcher.pricing.serving.candidates import serving_candidates
from launcher.pricing.serving.quoting import ServingPriced
from launcher.workflow.quote.load_test_history import load_test_history, remarks, with_load_tests
from launcher.workflow.quote.options import PriceOptions, context_for, refuse_errors


def price_serving(
    path: Path, request: PlanRequest, catalog: Catalog, now: datetime, options: PriceOptions
) -> ServingPriced:
    """The candidates of a serving plan.

    Raises:
        ImpossibleError: no candidate remains; the error has every finding.
    """
    serve = request.workload.serve
    assert serve is not None  # noqa: S101 - the caller has looked
    bedrock = BedrockCatalog(prices_as_of=catalog.prices_as_of)
    request, serve = with_catalog_model(request, serve, catalog, bedrock)
    loads, unreadable = load_test_history(options.runs)
    facts = with_load_tests(load_serving(), loads)
    request, serve = with_precision(request, serve, catalog, facts)
    resolution = resolve_serving(request, serve, catalog, bedrock, facts=facts, today=now.date())
    unused = remarks(loads, serve, model_of(serve, catalog), resolution.choices.estimates, catalog)
    resolution = replace(resolution, findings=(*resolution.findings, *unreadable, *unused))
    refuse_errors(path, resolution.findings, options.settings)
    context = context_for(request, catalog, now, options)
    images = load_images()
    return ServingPriced(
        path=str(path),
        context=context,
        candidates=serving_candidates(resolution.choices, context, images, facts, everything=options.everything),
        findings=resolution.findings,
        considered=resolution.considered,
        choices=resolution.choices,
        closed=resolution.closed,
        facts=facts,
    )
