"""A job for Kubernetes: its objects, the start script of its pods, and its agents' settings."""

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from launcher.agent.job import JobSpec
from launcher.catalog import safe_yaml
from launcher.model.bundle import RenderedFile
from launcher.model.enums import CheckpointMode, Operator
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.instance_type import InstanceType
from launcher.model.kubernetes import EVERYBODYS, SERVICE_ACCOUNT, team_queue
from launcher.model.plan import Plan
from launcher.model.request import KUBERNETES_NAME
from launcher.planning.secrets import reference_findings
from launcher.rendering import kubernetes_pod as pod
from launcher.rendering.batch import JobSettings, NodeView, job_spec
from launcher.rendering.efa_rules import document_findings
from launcher.rendering.engine import render_template
from launcher.rendering.names import ClusterNames, checkpoint_uri, journal_uri
from launcher.rendering.node import script_text
from launcher.rendering.slurm_job import JOB_FILE
from launcher.targets.registry import target_of

NAMESPACE_FILE = "kubernetes/namespace.yaml"
MANIFEST_FILE = "kubernetes/job.yaml"
START_FILE = "kubernetes/start.py"
FETCH_SCRIPT, START_SCRIPT = "templates/kubernetes/fetch_job.py", "templates/kubernetes/start.py"
IN_A_POD = NodeView(
    folder="${SLIPWAY_ROOT}/job", scratch="${SLIPWAY_ROOT}/scratch", contained=True, slurm=False, imds=False
)
"""The view of a job in a pod. Only pods on the host network reach the metadata service: the notice is a signal."""
LOG_PATTERN = r'.*("step": ?\d+|step[= ]\d+)'
"""A line of progress: the JSON line of SLIPWAY_METRICS, if a trainer prints that too, or `step=N`.

HyperPod's elastic agent matches from the start of a line (hyperpod-elastic-agent 1.1.3, logagent/log_agent.py).
"""
INTERRUPTIONS = 100
"""The number of restarts after interruptions, if the operator counts interruptions as failures."""
_IMAGE = re.compile(
    r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
"""The references that Docker's grammar allows (distribution/reference, regexp.go), with a tag, a digest, or both."""
_NAME_LENGTH, _TOKEN_LENGTH = 40, 8
"""Limits of a job's name: Kubernetes allows a pod's name 63 characters, including `-worker-` and a number."""


def findings(plan: Plan, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """The job settings of a plan that pods of this version do not support."""
    run, facts = plan.request.run, instances[plan.place.instance_type]
    return (
        *_name_findings(plan),
        *_image_findings(plan, facts),
        *_efa_findings(plan, facts),
        *reference_findings(run),
    )


def _name_findings(plan: Plan) -> Iterator[Finding]:
    if not re.fullmatch(KUBERNETES_NAME, plan.name) or plan.name == EVERYBODYS:
        message = f"its service account on Kubernetes would be called {plan.name}, which it cannot be"
        hint = f"begin and end it with a letter or a digit, and do not call it {EVERYBODYS}"
        yield error("not-an-account", "name", message, hint)


def _image_findings(plan: Plan, facts: InstanceType) -> Iterator[Finding]:
    run = plan.request.run
    if run.image is not None and not _IMAGE.fullmatch(run.image):
        message = f"must name an image as a registry does, got {run.image}"
        yield error("not-an-image", "run.image", message, "registry/team/trainer@sha256:..., or with a tag")
    if run.image is None and pod.image_of(plan, facts) is None:
        chip = facts.accelerator or "no accelerator"
        message = f"Slipway knows no AWS training image for {facts.name} ({chip}) in {plan.place.region}"
        yield error("image-missing", "run.image", message, "name an image of your own, best by its digest")
    if run.container is not None:
        message = f"pods are containers already, got {run.container}"
        yield error("container-in-pod", "run.container", message, "leave run.container at auto")


def _efa_findings(plan: Plan, facts: InstanceType) -> Iterator[Finding]:
    """Several nodes of a type whose EFA interfaces are unknown: the pods would silently use TCP."""
    if plan.place.nodes > 1 and "efa_interfaces" in facts.unknown:
        message = f"how many EFA interfaces {facts.name} has is not known, and pods get those that they ask for"
        yield error(
            "efa-unknown", "target.instance_type", message, "use a type whose interfaces are known, or one node"
        )


def operator_of(plan: Plan) -> Operator:
    """The operator that a plan names, else the operator of its own cluster: HyperPod's chart has Kubeflow's."""
    requested = plan.request.run.operator
    if requested is not None:
        return requested
    return Operator.PYTORCHJOB if target_of(plan.place.target).resumes_jobs else Operator.JOB


def namespace_of(plan: Plan) -> str:
    """The namespace of a plan's jobs: the namespace of its queue, or Slipway's own.

    Task governance has one queue per namespace, whose name contains the namespace. HyperPod restarts jobs automatically
    only in its own namespaces (sagemaker-hyperpod-cli@011ca92, job-auto-restart).
    """
    space, _, queue = (plan.request.target.queue or "").rpartition("/")
    governed = team_queue(queue)
    if space or governed is not None:
        return space or str(governed and governed.namespace)
    return "hyperpod-slipway" if target_of(plan.place.target).resumes_jobs else "slipway"


def service_account(plan: Plan, *, dedicated: bool) -> str:
    """The service account whose rights the pods of a plan's jobs have."""
    return plan.name if dedicated else SERVICE_ACCOUNT


def job_name(plan: Plan, run: str) -> str:
    """The name of a submission's objects: the plan's name, shortened if long, and a token unique to the run."""
    token = hashlib.sha256(run.encode()).hexdigest()[:_TOKEN_LENGTH]
    plain = re.sub("[^a-z0-9-]", "-", plan.name)[: _NAME_LENGTH - _TOKEN_LENGTH - 1].strip("-")
    return f"{plain or 'job'}-{token}" if (plain or "j")[0].isalpha() else f"j{plain[1:]}-{token}"


def job_manifests(
    plan: Plan,
    *,
    instances: Mapping[str, InstanceType],
    names: ClusterNames,
    job: JobSettings,
    operator: Operator | None = None,
    account: str | None = None,
) -> tuple[str, str]:
    """The objects of a job as YAML: the namespace with its service account, and the job with its service.

    `operator` and `account`: those of the inspected cluster; None: those of the plan.

    Raises:
        ImpossibleError: with the current template, the job would run without EFA.
        ValueError: no image is known.
    """
    facts, run = instances[plan.place.instance_type], plan.request.run
    operator = operator or operator_of(plan)
    name, retries = job_name(plan, job.run), job.retries_of(run)
    account = account or service_account(plan, dedicated=plan.request.target.cluster is None)
    place = {"namespace": namespace_of(plan), "service_account": account}
    text = render_template(
        "kubernetes/job.yaml.j2",
        **place,
        plan=plan,
        facts=facts,
        job=job,
        name=name,
        operator=operator.value,
        workers_per_node=facts.training_workers,
        image=_image(plan, facts),
        selector=pod.selector(plan, facts),
        tolerated=pod.toleration_keys(facts),
        resource=pod.resource_name(facts),
        hugepages_mib=pod.huge_pages_mib(facts),
        cpus=pod.cpus_of(facts),
        memory_gib=pod.memory_gib_of(facts),
        shared_memory_gib=pod.shared_memory_gib_of(facts),
        grace_s=pod.grace_s(plan, job),
        queue=(plan.request.target.queue or "").rpartition("/")[2] or None,
        topology=pod.topology(plan, facts),
        environment=pod.environment(plan, facts, names, job=job, operator=operator.value, leader=f"{name}-0.{name}"),
        claims=pod.claims(plan),
        fetch_script=script_text(FETCH_SCRIPT).splitlines(),
        time_limit_s=None if run.time_limit_h is None else math.ceil(run.time_limit_h * 3600),
        retries=retries,
        backoff=(retries + (0 if operator is Operator.JOB else INTERRUPTIONS)) * plan.place.nodes,
        restarts=retries + INTERRUPTIONS,
        auto_resume=target_of(plan.place.target).resumes_jobs,
        log_pattern=LOG_PATTERN,
        hung_s=math.ceil(plan.request.guardrails.hung_minutes * 60) or None,
    )
    needed, documents = facts.required_efa(plan.place.nodes), safe_yaml.documents(text)
    lost = tuple(document_findings(documents, needed, where="templates/kubernetes"))
    if lost:
        raise ImpossibleError(f"{plan.name}: its pods would have no EFA", findings=lost)
    return render_template("kubernetes/namespace.yaml.j2", plan=plan, **place), text


def _image(plan: Plan, facts: InstanceType) -> str:
    image = pod.image_of(plan, facts)
    if image is None:
        message = f"no image is known for {facts.name}"
        raise ValueError(message)
    return image


def job_files(
    plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames, job: JobSettings
) -> list[RenderedFile]:
    """The files of a plan's job; empty if the plan has only a cluster."""
    if plan.request.workload.train is None:
        return []
    namespace_text, job_text = job_manifests(plan, instances=instances, names=names, job=job)
    return [
        RenderedFile(path=NAMESPACE_FILE, text=namespace_text),
        RenderedFile(path=MANIFEST_FILE, text=job_text),
        RenderedFile(path=START_FILE, text=script_text(START_SCRIPT)),
        RenderedFile(path=JOB_FILE, text=pod_spec(plan, names=names, job=job).to_json()),
    ]


def pod_spec(plan: Plan, *, names: ClusterNames, job: JobSettings, view: NodeView = IN_A_POD) -> JobSpec:
    """The job description for the agents of a job's pods: pods share only the store, and SIGTERM ends the pod.

    Raises:
        ImpossibleError: the agent would not accept the description, with all reasons.
    """
    specification = job_spec(plan, names=names, job=job, view=view)
    journal = journal_uri(checkpoint_uri(plan, names), job.run)
    grace_s, retries = float(pod.grace_s(plan, job)), job.retries_of(plan.request.run)
    data = tuple(replace(spec, path=pod.by_volume(plan, spec.path)) for spec in specification.data)
    policy = specification.checkpoint
    if policy.mode == CheckpointMode.OWN and policy.uri is not None:
        policy = replace(policy, uri=pod.by_volume(plan, policy.uri))
    return replace(specification, journal=journal, grace_s=grace_s, retries=retries, data=data, checkpoint=policy)
