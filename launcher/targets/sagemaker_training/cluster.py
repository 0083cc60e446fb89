"""A plan's training job: its code in its own channel, created once under its name."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from launcher.agent import safe_json
from launcher.aws import training_jobs
from launcher.aws.session import CredentialsError, Session, error_code
from launcher.aws.training_jobs import NAME_TAKEN, OVER_QUOTA
from launcher.model.errors import AwsError, DeploymentFailedError, ImpossibleError
from launcher.model.finding import error
from launcher.model.job import Submitted
from launcher.model.monitoring import STAGED_FOLDER
from launcher.model.plan import Plan
from launcher.model.stages import Notify
from launcher.model.training_job import JOBS_OUTPUT, LOG_GROUP
from launcher.records.submission import API, HeadNode, Submission
from launcher.rendering.blanks import with_names
from launcher.submit.shell import Shell
from launcher.targets.sagemaker_training.files import ENTRY_FILE, ENVIRONMENT_FILE, REQUEST_FILE
from launcher.workflow.cluster.deployed import DeployedCluster, JobConnection, JobRequest, Outputs
from launcher.workflow.cluster.readback.training import stack_readers
from launcher.workflow.cluster.shipping import job_archive, ship_work, submission_of
from launcher.workflow.cluster.training_jobs import reach_training_job

_LIMIT = re.compile(r"service limit '([^']+)'")
"""The quota that a ResourceLimitExceeded names."""
END_POLLS, END_POLL_S = 18, 10.0
"""The number and interval (s) of polls until stopped jobs have ended: three minutes."""


def refuse_bad_request(request: Mapping[str, Any]) -> None:
    """Accept only a request that the API's model allows.

    Raises:
        ImpossibleError: the model does not allow the request; the findings list every violation.
    """
    complaints = [
        error("training-job-request", "", complaint) for complaint in training_jobs.request_complaints(request)
    ]
    if complaints:
        message = f"{request['TrainingJobName']}: CreateTrainingJob would refuse the request"
        raise ImpossibleError(message, findings=complaints)


def create_job(session: Session, request: Mapping[str, Any], key: str) -> None:
    """Create a training job, or find the one that an earlier call with this key created."""
    name = str(request["TrainingJobName"])
    try:
        training_jobs.create(session, request)
    except CredentialsError:
        raise
    except AwsError as problem:
        code = error_code(problem)
        if code == NAME_TAKEN:
            description = training_jobs.describe(session, name)
            if description is not None and training_jobs.run_of(session, description["TrainingJobArn"]) == key:
                return
            message = f"training job {name} exists already and belongs to another submission"
            raise DeploymentFailedError(message, hint="launch again: each launch has its own name") from problem
        if code == OVER_QUOTA:
            raise DeploymentFailedError(problem.message, hint=_quota_hint(request, problem.message)) from problem
        if not code:
            raise
        raise DeploymentFailedError(problem.message, hint=problem.hint) from problem


def _quota_hint(request: Mapping[str, Any], message: str) -> str:
    """The quota that a refusal names, else that of the request's instances."""
    named = _LIMIT.search(message)
    if named is not None:
        longer = (
            "; or set run.time_limit_h below it and launch again: the job resumes" if "run time" in named[1] else ""
        )
        return f"raise the quota '{named[1]}' (Service Quotas, sagemaker){longer}"
    kind = "spot training job" if request["EnableManagedSpotTraining"] else "training job"
    quota = f"{request['ResourceConfig']['InstanceType']} for {kind} usage"
    return f"raise the quota '{quota}' (Service Quotas, sagemaker): spot and on-demand have separate quotas"


def _running(session: Session, outputs: Outputs) -> tuple[Mapping[str, Any], ...]:
    return training_jobs.running(session, outputs[JOBS_OUTPUT].partition("=")[2])


class SageMakerTrainingCluster(DeployedCluster):
    """The resources of training jobs, and the jobs themselves: there is no cluster."""

    readers = stack_readers()

    def describe(self, plan: Plan, head: str, node_text: str) -> str:
        """One line that describes the deployment."""
        return f"training jobs of {plan.cluster_name}: a role and what watches them; {node_text} with each job"

    def head_node(self, plan: Plan, outputs: Outputs, session: Session) -> HeadNode:
        """SageMaker's API, which accepts the jobs."""
        return HeadNode(via=API, host="SageMaker", region=session.region)

    def access_commands(self, plan: Plan, outputs: Outputs) -> list[tuple[str, str]]:
        """Commands that show a plan's jobs: users cannot log in to their instances."""
        region = plan.place.region
        return [
            ("its jobs", f"aws sagemaker list-training-jobs --region {region} --name-contains {plan.name}"),
            ("their output", f"aws logs tail {LOG_GROUP} --region {region} --follow"),
        ]

    def submit(self, request: JobRequest) -> Submission:
        """Ship a job to its channel and create the training job; report it only after SageMaker has accepted it.

        Raises:
            ImpossibleError: the request breaks the API's own rules.
            AwsError: a call failed, and Slipway does not know whether the job was created.
        """
        bundle = with_names(request.bundle, request.cluster.names)
        request.folder.write_bundle(bundle)
        call: dict[str, Any] = safe_json.loads(bundle.file(REQUEST_FILE).text)
        refuse_bad_request(call)
        session = Session(environment=request.environment, region=request.quoted.plan.place.region)
        shipment = ship_work(request.workdir, request.store, request.here, datetime.now(UTC), request.notify)
        request.notify(shipment.text())
        name = str(call["TrainingJobName"])
        channel = f"{STAGED_FOLDER}/{name}"
        with job_archive(bundle, shipment) as (path, agent):
            request.store.send(path, f"{channel}/job.tar.gz")
        for file in (ENTRY_FILE, ENVIRONMENT_FILE):
            request.store.put(f"{channel}/{file.rpartition('/')[2]}", bundle.file(file).text.encode())
        place = f"{request.store.uri}/{channel}"
        request.folder.append_event(
            "job-folder-put", where=request.cluster.head_node.text(), folder=place, agent_sha256=agent
        )
        submission = submission_of(request, request.cluster.head_node, shipment, name)
        submission.write(request.folder)
        create_job(session, call, request.key)
        done = submission.with_job(Submitted(job=name, key=request.key, folder=name))
        done.write(request.folder)
        request.folder.append_event("submitted", job=name, key=request.key)
        request.notify(f"created: training job {name}")
        return done

    def reach(
        self, submission: Submission, environment: Mapping[str, str], shell: Callable[[], Shell]
    ) -> JobConnection:
        """The connection to a training job, by SageMaker's API."""
        return reach_training_job(submission, environment, shell)

    def empty(self, session: Session, outputs: Outputs, notify: Notify, pause: Callable[[float], None]) -> None:
        """Stop the jobs before the stack deletes the role with which they store checkpoints."""
        names = [str(job["TrainingJobName"]) for job in _running(session, outputs)]
        for name in names:
            notify(f"stopping training job {name}: it saves and ends within 2 minutes")
            training_jobs.stop(session, name)
        for _ in range(END_POLLS if names else 0):
            if not _running(session, outputs):
                return
            pause(END_POLL_S)

    def instance_counts(self, session: Session, outputs: Outputs) -> Mapping[str, int]:
        """The number of instances of running jobs, by type."""
        counts: Counter[str] = Counter()
        for job in _running(session, outputs):
            counts[str(job["ResourceConfig"]["InstanceType"])] += int(job["ResourceConfig"]["InstanceCount"])
        return counts
