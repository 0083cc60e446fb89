"""SageMaker's training jobs: moto completes them immediately, accepts a name twice and drops half of a request.

Emulated, after botocore 1.44.5 (sagemaker/2017-07-24 service-2.json) and the developer guide: CreateTrainingJob with
its enums, patterns and maxima, unique names, subnets and security groups of one VPC, the role that SageMaker must be
able to assume, quotas, rules between members; DescribeTrainingJob, ListTrainingJobs, StopTrainingJob,
DeleteTrainingJob, ListTags of a job; FilterLogEvents of its streams. The states of a job are in
launcher/sandbox/training/job.py. An image of the sandbox's own account must be in its ECR; images of other accounts
are assumed to exist.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.ecr.models import ecr_backends
from moto.iam.models import iam_backends
from moto.logs.models import logs_backends
from moto.logs.responses import LogsResponse
from moto.s3.models import s3_backends
from moto.sagemaker.exceptions import ResourceInUseException, ResourceNotFound, SagemakerClientError, ValidationError
from moto.sagemaker.models import SageMakerModelBackend
from moto.sagemaker.responses import SageMakerResponse

from launcher.aws.api_shape import complaints
from launcher.catalog.load import load
from launcher.catalog.quotas import load_quotas
from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.model.target import SAGEMAKER
from launcher.model.training_job import LOG_GROUP, LONGEST_H
from launcher.sandbox.aws.network import network_problem
from launcher.sandbox.aws.training_plans import bought_in
from launcher.sandbox.training.job import HostCapacity, TrainingJob

REQUIRED = ("TrainingJobName", "RoleArn", "OutputDataConfig", "AlgorithmSpecification", "ResourceConfig")
"""The required members. The model makes the last two optional, for kinds of job that the sandbox does not support."""
TARGET = "training-job"
_ECR = re.compile(r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/([^:@]+)(?:[:@](.+))?")
_PARTITION = "aws"
_MILLISECONDS = 1000
_OF_FILTER = ("logStreamNamePrefix", "logGroupName", "startTime", "endTime", "limit", "nextToken", "filterPattern")


class EmulatedTrainingJobs:
    """The training jobs of a sandbox, by region and name."""

    def __init__(self, folder: Path, mark: str, environment: Callable[[str], Mapping[str, str]]) -> None:
        self._folder, self._mark, self._environment = folder, mark, environment
        self._jobs: dict[tuple[str, str], TrainingJob] = {}
        self.capacity = HostCapacity()

    def create(self, backend: SageMakerModelBackend, request: Mapping[str, Any]) -> str:
        """Create a job; return its ARN."""
        region, name = backend.region_name, str(request.get("TrainingJobName", ""))
        _refuse_invalid(request)
        if problem := network_problem(request.get("VpcConfig"), ACCOUNT, region):
            raise ValidationError(message=problem)
        arn = f"arn:{_PARTITION}:sagemaker:{region}:{ACCOUNT}:training-job/{name}"
        if (region, name) in self._jobs:
            message = (
                "Training job names must be unique within an AWS account and region, and a training job with this name"
                f" already exists ({arn})"
            )
            raise ResourceInUseException(message=message)
        _refuse_role(str(request["RoleArn"]))
        begins = _capacity_start(request, region)
        self._refuse_over_quota(request, region)
        job = TrainingJob(
            request,
            arn,
            self._folder / name,
            environment=self._environment(region),
            mark=self._mark,
            capacity=self.capacity,
            fetch=_fetch,
            put_line=_log_writer(region),
            begins=begins,
            image_there=_is_there(str(request["AlgorithmSpecification"]["TrainingImage"])),
        )
        self._jobs[region, name] = job
        job.start()
        return arn

    def find(self, region: str, name: str) -> TrainingJob:
        """A job by its region and name."""
        job = self._jobs.get((region, name))
        if job is None:
            raise ValidationError(message="Requested resource not found.")
        return job

    def by_arn(self, arn: str) -> TrainingJob | None:
        """A job by its ARN; None if it does not exist."""
        return next((job for job in self._jobs.values() if job.arn == arn), None)

    def in_region(self, region: str) -> list[TrainingJob]:
        """The jobs of a region, newest first."""
        listed = [job for (where, _), job in self._jobs.items() if where == region]
        return sorted(listed, key=lambda job: job.created, reverse=True)

    def running_jobs(self) -> list[str]:
        """The waiting and running jobs as text."""
        return [f"training job {job.name_of_job}" for job in self._jobs.values() if not job.over]

    def delete(self, region: str, name: str) -> None:
        """Delete a job that has ended."""
        if not self.find(region, name).over:
            raise ValidationError(message=f"Training job {name} is not in a terminal state.")
        del self._jobs[region, name]

    def interrupt(self, name: str) -> None:
        """Interrupt a job: its instances are lost."""
        next(job for (_, job_name), job in self._jobs.items() if job_name == name).interrupt()

    def stop_all(self) -> None:
        """End every job."""
        for job in self._jobs.values():
            job.stop()
            job.interrupt()

    def _refuse_over_quota(self, request: Mapping[str, Any], region: str) -> None:
        resources = request["ResourceConfig"]
        kind = "spot training job" if request.get("EnableManagedSpotTraining") else "training job"
        name, instances = f"{resources['InstanceType']} for {kind} usage", int(resources["InstanceCount"])
        run_s, defaults = int(request["StoppingCondition"].get("MaxRuntimeInSeconds", 86400)), load_quotas()
        for key, amount, unit in (("run-time", run_s, "Seconds"), ("instances", instances, "Instances")):
            quota = defaults[f"training-job/{key}"]
            most = self.capacity.quotas.get(quota.name, quota.default)
            if most is not None and amount > most:
                message = (
                    f"The account-level service limit '{quota.name}' is {most} {unit}, with current utilization of 0"
                    f" {unit} and a request delta of {amount} {unit}. Please use AWS Service Quotas to request an"
                    " increase for this quota."
                )
                raise SagemakerClientError("ResourceLimitExceeded", message)
        limit = self.capacity.quotas.get(resources["InstanceType"])
        running = (job.request for job in self.in_region(region) if not job.over)
        used = sum(
            int(job["ResourceConfig"]["InstanceCount"])
            for job in running
            if job["ResourceConfig"]["InstanceType"] == resources["InstanceType"]
        )
        if limit is not None and used + instances > limit:
            message = (
                f"The account-level service limit '{name}' is {limit} Instances, with current utilization of {used}"
                f" Instances and a request delta of {instances} Instances. Please use AWS Service Quotas to request an"
                " increase for this quota."
            )
            raise SagemakerClientError("ResourceLimitExceeded", message)


def _refuse_invalid(request: Mapping[str, Any]) -> None:
    """Refuse a request that SageMaker would refuse."""
    problems = [f"required member {name} is missing" for name in REQUIRED if name not in request]
    problems += complaints("sagemaker", ("CreateTrainingJob",), request)
    if not problems:
        problems = list(_rules(request))
    if problems:
        raise ValidationError(message=f"{len(problems)} validation errors detected: {'; '.join(problems)}")


def _rules(request: Mapping[str, Any]) -> Iterator[str]:
    """Problems of members that depend on each other (API reference, CreateTrainingJob and its types)."""
    resources = request["ResourceConfig"]
    if "StoppingCondition" not in request:
        yield "StoppingCondition is required"
    if not resources.get("InstanceCount") or "VolumeSizeInGB" not in resources:
        yield "ResourceConfig needs InstanceCount of 1 or more, and VolumeSizeInGB"
    image = request["AlgorithmSpecification"].get("TrainingImage", "")
    if _ECR.fullmatch(image) is None:
        yield f"TrainingImage {image!r} is not an Amazon ECR image"
    names = [channel["ChannelName"] for channel in request.get("InputDataConfig", ())]
    if len(names) != len(set(names)):
        yield "names of channels must be unique"
    yield from _rules_of_spot(request)
    yield from _rules_of_type(request)


def _rules_of_spot(request: Mapping[str, Any]) -> Iterator[str]:
    resources, limits = request["ResourceConfig"], request.get("StoppingCondition", {})
    spot = bool(request.get("EnableManagedSpotTraining"))
    run, wait = limits.get("MaxRuntimeInSeconds", 86400), limits.get("MaxWaitTimeInSeconds")
    if run > LONGEST_H * 3600:
        yield f"MaxRuntimeInSeconds {run} is more than 28 days"
    if spot and (wait is None or wait < run):
        yield "MaxWaitTimeInSeconds must be present and equal to or greater than MaxRuntimeInSeconds for managed spot"
    if not spot and wait is not None:
        yield "MaxWaitTimeInSeconds is only for managed spot training"
    if spot and resources.get("KeepAlivePeriodInSeconds"):
        yield "KeepAlivePeriodInSeconds cannot be used with managed spot training"
    if spot and "TrainingPlanArn" in resources:
        yield "TrainingPlanArn cannot be used with managed spot training"


def _rules_of_type(request: Mapping[str, Any]) -> Iterator[str]:
    resources, limits = request["ResourceConfig"], request.get("StoppingCondition", {})
    facts = load().instance_types.get(str(resources.get("InstanceType", "")).removeprefix("ml."))
    if facts is not None and facts.nvme_gb and "VolumeKmsKeyId" in resources:
        yield f"VolumeKmsKeyId cannot be used with {resources['InstanceType']}, which has local storage"
    if facts is not None and facts.accelerator is None and "MaxPendingTimeInSeconds" in limits:
        yield "MaxPendingTimeInSeconds is only for types with accelerators"


def _refuse_role(arn: str) -> None:
    """Refuse a role that SageMaker may not assume."""
    roles = iam_backends[ACCOUNT][_PARTITION].roles.values()
    role = next((role for role in roles if role.arn == arn), None)
    if role is None or SAGEMAKER not in json.dumps(role.assume_role_policy_document):
        message = (
            f"Could not assume role {arn}. Please ensure that the role exists and allows principal"
            " 'sagemaker.amazonaws.com' to assume the role."
        )
        raise ValidationError(message=message)


def _capacity_start(request: Mapping[str, Any], region: str) -> datetime | None:
    """The time when the capacity of the request's training plan begins; None without a training plan."""
    arn, resources = request["ResourceConfig"].get("TrainingPlanArn"), request["ResourceConfig"]
    if arn is None:
        return None
    bought = bought_in(ACCOUNT, region).get(arn)
    if bought is None:
        raise ValidationError(message=f"Could not find training plan {arn}.")
    status = bought.status(datetime.now(UTC))
    if status not in ("Active", "Scheduled"):
        raise ValidationError(message=f"Training plan {arn} is {status}: it must be Scheduled or Active.")
    if bought.target != TARGET:
        raise ValidationError(message=f"Training plan {arn} is for {bought.target}, not for {TARGET}.")
    if bought.instance_type != resources["InstanceType"] or resources["InstanceCount"] > bought.count:
        instances = f"{resources['InstanceCount']} {resources['InstanceType']}"
        message = f"Training plan {arn} has {bought.count} {bought.instance_type}, requested: {instances}."
        raise ValidationError(message=message)
    return bought.starts_at


def _is_there(image: str) -> bool:
    match = _ECR.fullmatch(image)
    if match is None or match[1] != ACCOUNT:
        return match is not None
    repository = ecr_backends[ACCOUNT][match[2]].repositories.get(match[3])
    images = () if repository is None else repository.images
    tag = match[4] or "latest"
    return any(tag in (*image.image_tags, image.image_digest) for image in images)


def _fetch(uri: str, folder: Path) -> int:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    backend = s3_backends[ACCOUNT]["aws"]
    if bucket not in backend.buckets:
        return 0
    keys = [key for name, key in backend.buckets[bucket].keys.items() if name.startswith(prefix)]
    for key in keys:
        target = folder / key.name.removeprefix(prefix).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(key.value)
    return len(keys)


def _log_writer(region: str) -> Callable[[str, float, str], None]:
    """A function that writes a node's log lines to CloudWatch."""
    backend = logs_backends[ACCOUNT][region]

    def put_line(stream: str, moment: float, line: str) -> None:
        if LOG_GROUP not in backend.groups:
            backend.create_log_group(LOG_GROUP, {})
        group = backend.groups[LOG_GROUP]
        if stream not in group.streams:
            group.create_log_stream(stream)
        group.put_log_events(stream, [{"timestamp": int(moment * _MILLISECONDS), "message": line}])

    return put_line


def install(jobs: EmulatedTrainingJobs) -> None:
    """Add the calls to moto's SageMaker."""

    def create_training_job(response: Any) -> ActionResult:
        request = response._get_params()  # noqa: SLF001  the way moto's own responses read
        return ActionResult({"TrainingJobArn": jobs.create(response.sagemaker_backend, request)})

    def describe_training_job(response: Any) -> ActionResult:
        return ActionResult(_job_of(jobs, response).describe())

    def stop_training_job(response: Any) -> EmptyResult:
        job = _job_of(jobs, response)
        if not job.stop():
            status = job.describe()["TrainingJobStatus"]
            raise ValidationError(message=f"The request was rejected because the training job is in status {status}.")
        return EmptyResult()

    def delete_training_job(response: Any) -> EmptyResult:
        jobs.delete(response.sagemaker_backend.region_name, response._get_param("TrainingJobName"))  # noqa: SLF001
        return EmptyResult()

    def list_training_jobs(response: Any) -> ActionResult:
        return ActionResult({"TrainingJobSummaries": _list_jobs(jobs, response)})

    calls = (create_training_job, describe_training_job, stop_training_job, delete_training_job, list_training_jobs)
    for call in calls:
        setattr(SageMakerResponse, call.__name__, call)
    setattr(LogsResponse, "filter_log_events", _by_prefix(LogsResponse.filter_log_events))  # noqa: B010
    setattr(SageMakerResponse, "list_tags", _with_tags_of_jobs(jobs, SageMakerResponse.list_tags))  # noqa: B010


def _job_of(jobs: EmulatedTrainingJobs, response: Any) -> TrainingJob:
    name = response._get_param("TrainingJobName")  # noqa: SLF001  the way moto's own responses read
    return jobs.find(response.sagemaker_backend.region_name, name)


def _list_jobs(jobs: EmulatedTrainingJobs, response: Any) -> list[dict[str, Any]]:
    status, part = (response._get_param(key) for key in ("StatusEquals", "NameContains"))  # noqa: SLF001  the same
    every = [job.describe() for job in jobs.in_region(response.sagemaker_backend.region_name)]
    names = ("TrainingJobName", "TrainingJobArn", "CreationTime", "LastModifiedTime", "TrainingJobStatus")
    return [
        {name: job[name] for name in names}
        for job in every
        if status in (None, job["TrainingJobStatus"]) and (part or "") in job["TrainingJobName"]
    ]


def _with_tags_of_jobs(
    jobs: EmulatedTrainingJobs, of_others: Callable[[Any], ActionResult]
) -> Callable[[Any], ActionResult]:
    def list_tags(response: Any) -> ActionResult:
        arn = response._get_param("ResourceArn")  # noqa: SLF001  the same
        if ":training-job/" not in arn:
            return of_others(response)
        job = jobs.by_arn(arn)
        if job is None:
            raise ResourceNotFound(message="Requested resource not found.")
        return ActionResult({"Tags": job.request.get("Tags", [])})

    return list_tags


def _by_prefix(without: Callable[[Any], str]) -> Callable[[Any], str]:
    """FilterLogEvents with a prefix of stream names too: moto returns the events of all streams."""

    def filter_log_events(response: Any) -> str:
        prefix, name, *limits = (response._get_param(key) for key in _OF_FILTER)  # noqa: SLF001  the same
        group = response.logs_backend.groups.get(name)
        if prefix is None or group is None:
            return without(response)
        names = [stream for stream in group.streams if stream.startswith(prefix)]
        events, token, _ = group.filter_log_events(name, names or [""], *limits, interleaved=True)
        return json.dumps({"events": events, "nextToken": token, "searchedLogStreams": []})

    return filter_log_events
