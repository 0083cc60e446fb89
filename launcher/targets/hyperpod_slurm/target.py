"""A HyperPod cluster with Slurm: its facts, and its rules for one place."""

from collections.abc import Iterator, Mapping

from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.finding import Finding, error, warning
from launcher.model.instance_type import InstanceType
from launcher.model.monitoring import JOB_METRICS
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.target import SAGEMAKER, Guard, HeadNode, RoleUse
from launcher.targets.bases import HyperPodTarget, shared_folder


class HyperPodSlurm(HyperPodTarget):
    """A HyperPod cluster with Slurm, whose controller accepts the jobs."""

    kind = TargetKind.HYPERPOD_SLURM
    title = "a HyperPod cluster with Slurm"
    short = "HPS"
    example = "hyperpod/trn2-on-demand.yaml"
    head = HeadNode(name="controller", metrics=1)
    needs_internet = "its nodes install packages at boot"
    guard = Guard(
        module="hyperpod",
        variable="HYPERPOD",
        events=("SageMaker HyperPod Cluster Node Health Event", "SageMaker HyperPod Cluster State Change"),
        idle="workers without a queued job",
        alone=True,
        # Deep health checks.
        trial_hours=(1.0, 2.0),
        metrics_per_call=1,
        job_metrics=JOB_METRICS,
    )
    # FSx for Lustre's smallest file system: its nodes have no other shared folder.
    min_shared_gib = 1200
    own_outputs = ("ClusterId",)
    policies = ("network", "hyperpod")
    person = ("hyperpod-jobs", "nodes")
    roles = (
        RoleUse(
            key="nodes", service=SAGEMAKER, needs=("jobs", "values", "nodes-of-hyperpod"), entered=True, pulls=True
        ),
    )

    def refusals(
        self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]
    ) -> tuple[Finding, ...]:
        """Every reason why a place cannot be HyperPod; empty if it can."""
        rules = (
            self.type_refusals(place, instances),
            self.head_refusals(request, place, instances, "the controller"),
            self.capacity_refusals(request, place),
            _unused_keys(request),
        )
        return tuple(finding for rule in rules for finding in rule)

    def remarks(self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
        """Unconfirmed behavior of a place on HyperPod, and costs that the user did not request."""
        notes = []
        if place.option is PurchaseOption.SPOT:
            message = "AWS documents spot on HyperPod only with EKS; spot with Slurm is not confirmed"
            notes.append(warning("hyperpod-spot-unconfirmed", "purchase.option", message, "on-demand is confirmed"))
        shared = shared_folder(self, "hyperpod-shared-folder", "HyperPod", request)
        return (*notes, *self.unknown_end(request, place), *shared, *self.health_checks(place, instances))


def _unused_keys(request: PlanRequest) -> Iterator[Finding]:
    if request.target.fallback_types:
        message = "HyperPod instance groups always run, so Slipway cannot start a fallback queue on demand"
        hint = "list the types in target.instance_type: each is a candidate"
        yield error("hyperpod-fallback", "target.fallback_types", message, hint)
    if request.target.placement_group:
        message = "HyperPod chooses the placement of its instances"
        yield error("hyperpod-placement", "target.placement_group", message, "set target.placement_group to auto")
    if request.storage.login_pool:
        message = "HyperPod removes its group of login nodes with the last login node"
        yield error("hyperpod-login-pool", "storage.login_pool", message, "remove it")
    if request.run.image is not None and request.target.ami is None:
        message = "it is not confirmed that HyperPod's AMIs have enroot or docker to run an image"
        hint = "install what the command needs in run.setup, or set target.ami to your own AMI that has it"
        yield error("hyperpod-container", "run.image", message, hint)
