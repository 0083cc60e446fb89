"""How a measured run was set up: its share of the chips' peak, its degrees of parallelism, its software.

Degrees and versions are the trainer's word, in its metrics; the driver's version is the agent's, in its events.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.agent.metrics import MOST_VERSIONS, setup_in, versions_of
from launcher.catalog.load import Catalog
from launcher.catalog.training import load_training
from launcher.model.instance_type import InstanceType
from launcher.model.measurement import Measurement
from launcher.model.money import Range
from launcher.model.request import PlanRequest
from launcher.planning import flops
from launcher.planning.work import Estimator
from launcher.rendering.batch import workers_per_node

_KEYS = (b'"parallel"', b'"software"')


def with_setup(
    found: Measurement, request: PlanRequest, catalog: Catalog, metrics: Path, events: Iterable[Mapping[str, Any]]
) -> Measurement:
    """A measurement with its MFU, its degrees of parallelism and its software.

    Args:
        found: the measurement.
        request: the plan of its run.
        catalog: the models, the chips and the machines; of a type that is no longer there nothing is known.
        metrics: the trainer's lines.
        events: the agent's.
    """
    facts = catalog.instance_types.get(found.instance_type)
    if facts is None:
        return found
    parallelism, software = setup_of(metrics, events, facts, found.nodes)
    mfu = mfu_of(found.tokens_per_s, request, catalog, facts, found.nodes)
    return replace(found, mfu=mfu, parallelism=parallelism, software=software)


def mfu_of(rate: Range, request: PlanRequest, catalog: Catalog, facts: InstanceType, nodes: int) -> Range | None:
    """Tokens a second as a share of the chips' dense bf16 peak; None of a job whose model nobody names.

    Args:
        rate: tokens a second of all nodes.
        request: the plan, whose model says what a token costs.
        catalog: the models and the chips.
        facts: the instance type.
        nodes: how many of it.
    """
    train = request.workload.train
    if train is None or train.model is None:
        return None
    estimator = Estimator(request=request, catalog=catalog, facts=load_training())
    shape = estimator.shape(replace(train, throughput_tokens_per_s=None), facts, nodes)
    most = shape.chips * shape.accelerator.peak_bf16_tflops * 1e12 / flops.per_token(shape)
    return Range(low=rate.low / most, mid=rate.mid / most, high=rate.high / most)


def setup_of(
    metrics: Path, events: Iterable[Mapping[str, Any]], facts: InstanceType, nodes: int
) -> tuple[tuple[tuple[str, int], ...] | None, tuple[tuple[str, str], ...]]:
    """Degrees of parallelism, as the trainer said them last, and versions of software by name.

    Degrees that do not fit the workers that the scheduler starts are left out, all of them: they are of another job.

    Args:
        metrics: the trainer's lines.
        events: the agent's.
        facts: the instance type.
        nodes: how many of it.

    Returns:
        Pairs of a name and a degree, None where nobody said any; pairs of a name and a version.
    """
    degrees: dict[str, int] = {}
    found = {name: version for each in events for name, version in versions_of(each.get("software")).items()}
    for line in metrics.read_bytes().splitlines() if metrics.is_file() else ():
        if any(key in line for key in _KEYS):
            said, versions = setup_in(line)
            degrees, found = said or degrees, found | versions
    fits = degrees and fit(degrees, nodes * workers_per_node(facts))
    return tuple(degrees.items()) if fits else None, tuple(sorted(found.items())[:MOST_VERSIONS])


def fit(degrees: Mapping[str, int], workers: int) -> bool:
    """Whether so many workers can be divided by these degrees; those of expert parallelism lie within the others.

    >>> fit({"data": 2, "tensor": 4, "expert": 8}, 16), fit({"data": 3, "tensor": 4}, 16), fit({"expert": 3}, 16)
    (True, False, False)
    """
    product = math.prod(degree for name, degree in degrees.items() if name != "expert")
    return workers % product == 0 and workers % degrees.get("expert", 1) == 0
