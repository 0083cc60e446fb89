"""Registers the models of this package with moto, and a placeholder for each type without a model."""

from collections.abc import Callable
from typing import Any

from moto.cloudformation import parsing

from launcher.sandbox.aws import (
    auto_scaling,
    buckets,
    calls,
    capacity_blocks,
    component_calls,
    compute_fleet,
    documents,
    eks_calls,
    file_systems,
    guards,
    hyperpod_calls,
    instance_commands,
    intrinsics,
    network,
    node_groups,
    offerings,
    on_demand_reservations,
    parameters,
    permissions,
    roles,
    scaling,
    security_groups,
    service_quotas,
    spot_prices,
    stacks,
    task_governance,
    training_jobs,
    training_plans,
)
from launcher.sandbox.aws.auto_scaling import Groups
from launcher.sandbox.aws.eks import EmulatedEks
from launcher.sandbox.aws.endpoints import Endpoints
from launcher.sandbox.aws.hyperpod import HyperPod
from launcher.sandbox.aws.hyperpod_chart import EmulatedChart
from launcher.sandbox.aws.images import publish_images
from launcher.sandbox.aws.ledger import EmulationLedger
from launcher.sandbox.aws.parallelcluster import ParallelCluster
from launcher.sandbox.aws.pcs import EmulatedPcs
from launcher.sandbox.aws.placeholder import METADATA, NOTHING_MADE
from launcher.sandbox.aws.published import PublishedStacks
from launcher.sandbox.aws.resources import Resources
from launcher.sandbox.aws.task_governance import TaskGovernance
from launcher.sandbox.aws.training_jobs import EmulatedTrainingJobs
from launcher.sandbox.cluster.registry import Registry
from launcher.sandbox.endpoint.model_server import Behaviour


def install(
    ledger: EmulationLedger,
    clusters: Registry,
    behaviour: Callable[[], Behaviour],
    *,
    jobs: EmulatedTrainingJobs,
    groups: Groups,
    pcs: EmulatedPcs,
) -> None:
    """Make moto in this process deploy with the sandbox's models."""
    nested = PublishedStacks()
    of_parallelcluster = (nested.model(), ParallelCluster(clusters, nested.versions).model())
    models = {
        model.type: model
        for model in (
            *buckets.MODELS,
            *documents.MODELS,
            *EmulatedEks(clusters).models(),
            *file_systems.MODELS,
            *guards.MODELS,
            *network.MODELS,
            *parameters.MODELS,
            *roles.MODELS,
            *scaling.MODELS,
            *security_groups.MODELS,
            *of_parallelcluster,
            *Endpoints(behaviour).models(),
            HyperPod(clusters, clusters).model(),
            EmulatedChart(clusters).model(),
            *TaskGovernance(clusters).models(),
            *pcs.models(),
            auto_scaling.model(groups),
            METADATA,
        )
    }

    def model_of(resource_type: str) -> Any:
        """The model of a resource type: the sandbox's, else moto's, else the model that creates nothing."""
        return models.get(resource_type) or parsing.get_model_map().get(resource_type, NOTHING_MADE)

    parsing.resource_class_from_type = model_of
    Resources.ledger = ledger
    _install_calls(clusters, jobs, groups)


def _install_calls(clusters: Registry, jobs: EmulatedTrainingJobs, groups: Groups) -> None:
    """Make moto answer the calls of this package."""
    stacks.install()
    calls.install()
    compute_fleet.install(clusters)
    component_calls.install()
    intrinsics.install()
    buckets.install()
    file_systems.install()
    hyperpod_calls.install(clusters, clusters)
    eks_calls.install(clusters)
    node_groups.install(clusters)
    task_governance.install()
    training_jobs.install(jobs)
    auto_scaling.install(groups)
    instance_commands.install(instance_commands.Commands(groups))
    training_plans.install()
    publish_images()
    offerings.install()
    capacity_blocks.install()
    on_demand_reservations.install()
    spot_prices.install(groups.capacity)
    service_quotas.install(groups.capacity)
    permissions.install()
