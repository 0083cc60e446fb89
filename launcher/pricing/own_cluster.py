"""A job on nodes of its own compared with a cluster of the plan's own, which is billed while it exists."""

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from launcher.model.enums import PurchaseOption
from launcher.model.finding import Finding, info
from launcher.model.units import HOURS_PER_MONTH, number_of
from launcher.pricing.training_candidate import TrainingCandidate, training_candidate
from launcher.targets.registry import target_of, training_targets

OWN_CLUSTER = "own-cluster"
"""The code of the finding."""


class OwnCluster(NamedTuple):
    """The same job on a cluster: `usd` with the cluster created and removed for the job, `job_usd` on a permanent one.

    `month_usd` is a month of the permanent cluster; `jobs` a month make that cluster cheaper; None: no number does.
    """

    name: str
    usd: Decimal
    job_usd: Decimal
    month_usd: Decimal
    jobs: int | None


def own_cluster(candidate: TrainingCandidate) -> OwnCluster | None:
    """The cluster that a training job is compared with; None if a price is missing, or the job is not on demand."""
    place = candidate.place
    if place.option is not PurchaseOption.ON_DEMAND or candidate.usd is None:
        return None
    kind = next(target for target in training_targets() if not target_of(target).is_managed)
    # Nodes that exist already for other jobs are no part of the comparison: the plan's own cluster, with its tail.
    other = training_candidate(replace(place, target=kind), candidate.work, candidate.context)
    if other.usd is None or other.charge is None:
        return None
    rate = other.other_costs.up_usd_per_hour(nodes=False)
    job_usd = other.usd - rate * Decimal(repr(other.charge.used_h))
    month_usd, saved = rate * Decimal(repr(HOURS_PER_MONTH)), candidate.usd - job_usd
    jobs = math.ceil(month_usd / saved) if saved > 0 else None
    return OwnCluster(target_of(kind).title, other.usd, job_usd, month_usd, jobs)


def against_cluster(candidate: TrainingCandidate) -> Iterator[Finding]:
    """The comparison in words."""
    cluster = own_cluster(candidate)
    if cluster is None or candidate.usd is None:
        return
    difference = candidate.usd - cluster.usd
    than = f"costs ${abs(difference):,.2f} {'more' if difference > 0 else 'less'} than with {cluster.name}"
    own = target_of(candidate.place.target).title
    message = f"with {own} the job {than} made for it alone (${cluster.usd:,.2f}); {break_even_text(cluster)}"
    yield info(OWN_CLUSTER, "target.kind", message)


def break_even_text(cluster: OwnCluster) -> str:
    """The number of jobs a month from which a permanent cluster pays, in words."""
    month = f"a cluster that stays up costs ${cluster.month_usd:,.2f} a month without nodes"
    if cluster.jobs is None:
        return f"{month}, and its jobs are not cheaper"
    return f"{month} and pays from {number_of(cluster.jobs, 'job')} a month"
