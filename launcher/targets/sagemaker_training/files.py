"""Renders a training job: the CreateTrainingJob request, its entry script, and its agents' settings."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from launcher.catalog.quotas import load_quotas
from launcher.catalog.training_images import training_image
from launcher.model.bundle import RenderedFile
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.finding import Finding, error
from launcher.model.idle import warm_minutes
from launcher.model.instance_type import InstanceType
from launcher.model.monitoring import STAGED_FOLDER
from launcher.model.plan import Plan
from launcher.model.tags import RUN_TAG
from launcher.model.training_job import GRACE_S, LONGEST_H, LONGEST_PENDING_S, MAX_RETRIES, SHORTEST_PENDING_S
from launcher.planning.disks import training_volume_gib
from launcher.planning.nat import egress
from launcher.planning.quotas import default_run_s
from launcher.planning.secrets import reference_findings
from launcher.planning.targets import unnamed_capacity
from launcher.rendering import kubernetes_pod
from launcher.rendering.batch import JobSettings
from launcher.rendering.cluster import notify_findings, tags, unknown_types
from launcher.rendering.kubernetes_job import START_FILE, START_SCRIPT, job_name, pod_spec
from launcher.rendering.names import ClusterNames, checkpoint_uri, journal_uri
from launcher.rendering.node import script_text
from launcher.rendering.slurm_job import JOB_FILE
from launcher.rendering.target_files import TargetFiles
from launcher.targets.registry import billed_name
from launcher.targets.sagemaker_training.target import SageMakerTraining

REQUEST_FILE = "sagemaker/training-job.json"
ENTRY_FILE = "sagemaker/entry.py"
ENVIRONMENT_FILE = "sagemaker/environment.json"
ENTRY_SCRIPT = "templates/sagemaker/entry.py"
CHANNEL = "slipway"
ROOT = "/tmp/slipway"  # noqa: S108 - in the container: SageMaker's scratch space, on the instance's own disks
"""The job folder, and checkpoints before they are uploaded (SageMaker developer guide, "model-train-storage")."""
PYTHON = "python3"
SPARE, SPARE_H = 1.5, 1.0
"""The run limit over the high estimate, this project's choice: the limit ends jobs that hang, not slow jobs."""


def _image_findings(plan: Plan, facts: InstanceType) -> Iterator[Finding]:
    if image_of(plan, facts) is None:
        chip = facts.accelerator or "no accelerator"
        message = f"Slipway knows no AWS training image for {facts.name} ({chip}) in {plan.place.region}"
        yield error(
            "image-missing", "run.image", message, "set run.image to your own image in ECR, preferably by digest"
        )


def image_of(plan: Plan, facts: InstanceType) -> str | None:
    """The plan's image, or AWS's image for training jobs on the chip; None if none is known."""
    return plan.request.run.image or training_image(facts, plan.place.region, service="sagemaker")


def request_of(
    plan: Plan, *, instances: Mapping[str, InstanceType], names: ClusterNames, job: JobSettings
) -> dict[str, Any]:
    """The request of CreateTrainingJob."""
    facts, run, request = instances[plan.place.instance_type], plan.request.run, plan.request
    name, key_arn = job_name(plan, job.run), request.storage.kms_key_arn
    source = {
        "S3DataType": "S3Prefix",
        # The slash keeps out places whose names begin in the same way.
        "S3Uri": f"{names.store_uri}/{STAGED_FOLDER}/{name}/",
        "S3DataDistributionType": "FullyReplicated",
    }
    output = {"S3OutputPath": f"{journal_uri(checkpoint_uri(plan, names), job.run)}/output/", "CompressionType": "NONE"}
    body: dict[str, Any] = {
        "TrainingJobName": name,
        "RoleArn": names.role_arn,
        "AlgorithmSpecification": {
            "TrainingImage": image_of(plan, facts),
            "TrainingInputMode": "File",
            "ContainerEntrypoint": [PYTHON, f"/opt/ml/input/data/{CHANNEL}/{ENTRY_FILE.rpartition('/')[2]}"],
        },
        "InputDataConfig": [{"ChannelName": CHANNEL, "InputMode": "File", "DataSource": {"S3DataSource": source}}],
        "OutputDataConfig": output | ({} if key_arn is None else {"KmsKeyId": key_arn}),
        "ResourceConfig": _resources(plan, facts),
        "StoppingCondition": _stopping(plan, facts, job),
        "EnableManagedSpotTraining": plan.place.option is PurchaseOption.SPOT,
        "Tags": [{"Key": tag.key, "Value": tag.value} for tag in tags(plan)] + [{"Key": RUN_TAG, "Value": job.run}],
    }
    retries = job.retries_of(run)
    if retries:
        # SageMaker's own retries, after its own errors alone; those of the command are the agent's.
        body["RetryStrategy"] = {"MaximumRetryAttempts": min(retries, MAX_RETRIES)}
    if request.network.vpc_id is not None:
        groups = [names.security_group_id, *request.network.security_group_ids]
        body["VpcConfig"] = {"SecurityGroupIds": groups, "Subnets": list(request.network.subnet_ids)}
    elif egress(request, plan.place, instances) is not None:
        body["VpcConfig"] = {"SecurityGroupIds": [names.security_group_id], "Subnets": [names.subnet_id]}
    if request.security.encrypt_traffic:
        body["EnableInterContainerTrafficEncryption"] = True
    return body


def _resources(plan: Plan, facts: InstanceType) -> dict[str, Any]:
    """The instances. Types with NVMe disks get no volume, and accept no volume key."""
    resources: dict[str, Any] = {
        "InstanceType": billed_name(plan.place),
        "InstanceCount": plan.place.nodes,
        "VolumeSizeInGB": training_volume_gib(plan.request, plan.place.nodes, facts),
    }
    if plan.request.storage.kms_key_arn is not None and not facts.nvme_gb:
        resources["VolumeKmsKeyId"] = plan.request.storage.kms_key_arn
    if warm_minutes(plan.request):
        resources["KeepAlivePeriodInSeconds"] = math.ceil(warm_minutes(plan.request) * 60)
    if plan.place.option is PurchaseOption.TRAINING_PLAN and plan.request.purchase.training_plan is not None:
        resources["TrainingPlanArn"] = plan.request.purchase.training_plan.arn
    return resources


def run_limit_s(plan: Plan, job: JobSettings) -> int:
    """MaxRuntimeInSeconds: the plan's time limit, else the high estimate and half as much again.

    Without a time limit at most the quota that every account has: SageMaker refuses a longer request.
    """
    hours, longest_s = plan.request.run.time_limit_h, default_run_s(load_quotas())
    if hours is not None:
        return math.ceil(min(hours, LONGEST_H) * 3600)
    return longest_s if job.longest_h is None else min(longest_s, math.ceil((job.longest_h * SPARE + SPARE_H) * 3600))


def _stopping(plan: Plan, facts: InstanceType, job: JobSettings) -> dict[str, int]:
    """The limits for run and wait time. After an interruption, managed spot may wait again for up to the run limit."""
    run_s, wait_s = run_limit_s(plan, job), math.ceil(plan.request.purchase.wait_for_capacity_minutes * 60)
    condition = {"MaxRuntimeInSeconds": run_s}
    if plan.place.option is PurchaseOption.SPOT:
        condition["MaxWaitTimeInSeconds"] = 2 * run_s + wait_s
    elif facts.accelerator is not None:
        condition["MaxPendingTimeInSeconds"] = min(max(wait_s, SHORTEST_PENDING_S), LONGEST_PENDING_S)
    return condition


def environment_of(plan: Plan, facts: InstanceType, names: ClusterNames, job: JobSettings) -> dict[str, str]:
    """The environment of each node's first process; the request's own Environment allows 512 characters per value."""
    variables = kubernetes_pod.environment(plan, facts, names, job=job, operator="job", leader="")
    variables["SLIPWAY_ROOT"] = ROOT
    del variables["SLIPWAY_MEETING"], variables["SLIPWAY_PARTS"]  # resourceconfig.json says both
    return variables


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


class SageMakerTrainingFiles(TargetFiles):
    """The request of a training job, and what runs in its containers."""

    def findings(self, plan: Plan, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
        """Why Slipway cannot create a training job for a plan; empty if it can."""
        place = plan.place
        if place.target is not TargetKind.SAGEMAKER_TRAINING:
            return (error("not-a-training-job", "target.kind", f"{place.target} is not a SageMaker training job"),)
        if unknown := unknown_types(plan, instances):
            return unknown
        refused = (
            *SageMakerTraining().refusals(plan.request, place, instances),
            *_image_findings(plan, instances[place.instance_type]),
        )
        return (
            *refused,
            *unnamed_capacity(plan.request, plan.place),
            *reference_findings(plan.request.run),
            *notify_findings(plan),
        )

    def cluster_files(
        self, plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames
    ) -> list[RenderedFile]:
        """Empty: a training job has no cluster."""
        return []

    def job_findings(self, plan: Plan) -> tuple[Finding, ...]:
        """Empty: the findings about the nodes include those about the job."""
        return ()

    def job_files(
        self, plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames, job: JobSettings
    ) -> list[RenderedFile]:
        """The files of a plan's job; empty if the plan has no job."""
        if plan.request.workload.train is None:
            return []
        facts = instances[plan.place.instance_type]
        spec = pod_spec(plan, names=names, job=job)
        environment = environment_of(plan, facts, names, job)
        return [
            RenderedFile(path=REQUEST_FILE, text=_json(request_of(plan, instances=instances, names=names, job=job))),
            RenderedFile(path=ENTRY_FILE, text=script_text(ENTRY_SCRIPT)),
            RenderedFile(path=ENVIRONMENT_FILE, text=_json(environment)),
            RenderedFile(path=START_FILE, text=script_text(START_SCRIPT)),
            RenderedFile(path=JOB_FILE, text=replace(spec, grace_s=min(GRACE_S, spec.grace_s or GRACE_S)).to_json()),
        ]
