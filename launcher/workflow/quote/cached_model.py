"""Models that the catalog does not know, from the local cache of Hugging Face."""

import os
from dataclasses import replace
from pathlib import Path

from launcher.catalog.catalog import Catalog
from launcher.model.errors import UnreadableInputError
from launcher.model.request import PlanRequest
from launcher.model.workload import ModelDimensions


def with_cached_model(request: PlanRequest, catalog: Catalog) -> PlanRequest:
    """The request with the dimensions of a Hugging Face id that is not in the catalog and lies in the local cache.

    Raises:
        UnreadableInputError: the cached config.json is of an architecture that is not counted, or is damaged.
    """
    workload = request.workload
    if workload.train is not None and isinstance(workload.train.model, str):
        model = _cached_dimensions(workload.train.model, catalog, "workload.train.model")
        if model is not None:
            workload = replace(workload, train=replace(workload.train, model=model))
    if workload.serve is not None and isinstance(workload.serve.model, str):
        model = _cached_dimensions(workload.serve.model, catalog, "workload.serve.model")
        if model is not None:
            workload = replace(workload, serve=replace(workload.serve, model=model))
    return request if workload is request.workload else replace(request, workload=workload)


def _cached_dimensions(name: str, catalog: Catalog, path: str) -> ModelDimensions | None:
    if "/" not in name or catalog.find_model(name) is not None:
        return None
    from launcher.catalog.model_config import ModelConfigError, cached_config, plan_keys, read_model_config

    place = cached_config(name, os.environ, Path.home())
    if place is None:
        return None
    try:
        dimensions = read_model_config(place)
    except ModelConfigError as problem:
        message = f"{path}: {name} is in the local cache of Hugging Face, and its config.json cannot be used: {problem}"
        raise UnreadableInputError(message, hint="give {params_b: N} instead") from problem
    return ModelDimensions(**plan_keys(dimensions))  # type: ignore[arg-type]
