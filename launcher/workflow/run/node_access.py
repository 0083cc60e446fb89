"""The cluster of a plan's newest run, also of a deployment without a job, and the access to its nodes."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from launcher import plan_file
from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.emulation import find_sandbox
from launcher.model.emulator import MARK
from launcher.model.errors import ImpossibleError
from launcher.model.plan import Plan
from launcher.planning.pin import pinned_plan
from launcher.records.run_folder import RunFolder
from launcher.records.submission import SANDBOX, HeadNode, Submission, read_submission
from launcher.rendering.kubernetes_job import namespace_of
from launcher.rendering.names import TRAINING_STACK
from launcher.submit.kubernetes.connection import Connection
from launcher.submit.shell import Shell
from launcher.targets.clusters import cluster_of
from launcher.targets.registry import target_of
from launcher.workflow.cluster import kubernetes_cluster
from launcher.workflow.cluster.cluster_access import ClusterAccess
from launcher.workflow.cluster.reach import connect, connection_to, gone_if_removed
from launcher.workflow.cluster.readback.training import COMPLETE
from launcher.workflow.cluster.run_environment import environment_of_run, sandbox_of


@contextmanager
def cluster_access(name: str, folder: RunFolder, environment: Mapping[str, str]) -> Iterator[ClusterAccess]:
    """The access to the cluster of a run, which need not have a job.

    Raises:
        ImpossibleError: the run has no cluster, or the cluster no longer exists.
        SchedulerEndedError: the sandbox of the run has ended, or the cluster is being removed.
    """
    submission = read_submission(folder)
    variables = environment_of_run(folder, environment)
    plan = plan_of(folder)
    session = Session(environment=variables, region=plan.place.region)
    outputs = _outputs(name, plan, session, submission)
    head_node = submission.head_node if submission is not None else _head_node(plan, outputs, session, environment)

    @contextmanager
    def shell() -> Iterator[Shell]:
        with closing(connect(head_node, environment, key="", store=None)) as opened:
            yield opened

    @contextmanager
    def api() -> Iterator[Connection]:
        with closing(connection_to(head_node, variables)) as opened:
            yield opened

    def node_addresses() -> Mapping[str, str]:
        if head_node.via != SANDBOX:
            return {}
        nodes = sandbox_of(head_node, environment).nodes(str(head_node.host))
        return {str(node.name): str(node.instance_id) for node in nodes}

    access = ClusterAccess(
        plan=plan,
        cluster=plan.cluster_name,
        head_node=head_node,
        outputs=outputs,
        session=session,
        shell=shell,
        api=api,
        placed=node_addresses,
    )
    if submission is None:
        yield access
        return
    with gone_if_removed(submission, environment):
        yield access


def plan_of(folder: RunFolder) -> Plan:
    """The pinned plan of a run.

    Raises:
        ImpossibleError: the run serves a model, or its plan leaves choices open.
    """
    request = plan_file.load(Path(folder.path / "plan.json"))
    if request.workload.train is None and request.workload.serve is not None:
        raise ImpossibleError(
            f"{request.name} is an endpoint: SageMaker runs its instances, and lists no nodes of it",
            hint=f"slipway endpoint test {request.name} shows whether it answers",
        )
    return pinned_plan(request, load())


def namespace(plan: Plan) -> str:
    """The namespace of a plan's jobs on Kubernetes; empty on another target."""
    return namespace_of(plan) if target_of(plan.place.target).pods else ""


def _outputs(name: str, plan: Plan, session: Session, submission: Submission | None) -> Mapping[str, str]:
    """The outputs of the cluster's stack; empty for a cluster that Slipway did not deploy.

    Raises:
        ImpossibleError: there is no such stack, and no job says where else its cluster is.
    """
    if submission is not None and submission.head_node.via in ("ssh", "local", "context"):
        return {}
    stack = stacks.find(session, f"slipway-{plan.cluster_name}-{TRAINING_STACK}")
    if stack is not None and stack.status in COMPLETE:
        return stack.outputs
    if submission is not None:
        return {}
    state = "does not exist" if stack is None else f"is {stack.status}"
    raise ImpossibleError(
        f"the cluster of {name} has no nodes: its stack slipway-{plan.cluster_name}-{TRAINING_STACK} {state}",
        hint=f"slipway status {name} shows what the run left; slipway deploy FILE makes the cluster",
    )


def _head_node(plan: Plan, outputs: Mapping[str, str], session: Session, environment: Mapping[str, str]) -> HeadNode:
    """What accepts the jobs of a cluster that was deployed and has no job of this run."""
    mark = None if session.environment is environment else session.environment.get(MARK)
    sandbox = None if mark is None else find_sandbox(environment, plan.place.region, mark=mark)
    if sandbox is not None and sandbox.record is not None:
        role = outputs.get(kubernetes_cluster.ROLE)
        host, region = outputs.get("ClusterName", plan.cluster_name), plan.place.region
        return HeadNode(via=SANDBOX, host=host, region=region, role=role, instance=sandbox.record.mark)
    return cluster_of(plan).head_node(plan, outputs, session)
