"""An emulated AWS and Slurm on this computer, from `with Sandbox() as sandbox` to the end of the block.

    with Sandbox(region="us-east-1") as sandbox:
        run(["cdk", "deploy", ...], env=sandbox.process_environment(os.environ))
        slurm = Slurm(shell=sandbox.head_node("slipway-tiny-gpt", os.environ))
        job = slurm.submit(key, folder, "job.sbatch")
        sandbox.lose_node("slipway-tiny-gpt", slurm.facts(job).nodes[0])

The end of the block ends the sandbox with its processes, ports and folder, for any reason. If this process is killed,
they end too (launcher/sandbox/embedded.py).
"""

import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from launcher.aws import functions, stacks
from launcher.aws.session import Session
from launcher.model.emulator import MARK
from launcher.model.errors import AwsError, ImpossibleError
from launcher.sandbox import environment
from launcher.sandbox.aws import access_log
from launcher.sandbox.aws.access_log import S3Request
from launcher.sandbox.aws.ledger import Resource
from launcher.sandbox.cluster.existing import ExistingCluster
from launcher.sandbox.cluster.nodes import NodeState
from launcher.sandbox.cluster.training_plan import TrainingPlan
from launcher.sandbox.control import ControlClient, ControlError
from launcher.sandbox.embedded import EmbeddedServer
from launcher.sandbox.endpoint.model_server import Behaviour
from launcher.sandbox.guard_schedule import FOLDER_VARIABLE, GuardSchedule
from launcher.sandbox.keys import AccessKey
from launcher.sandbox.needs import refuse_unless_possible
from launcher.sandbox.running_sandbox import RunningSandbox
from launcher.sandbox.server import ACCESS_LOG, TEMPORARY
from launcher.sandbox.slurm import daemons
from launcher.submit.shell import LocalShell
from launcher.submit.slurm_output import state_of

NOTICE_S = 120.0
"""From the notice to the end of a spot instance (EC2 User Guide, "Spot Instance interruption notices", 2026-11-20)."""
_POLL_S = 0.05
_FUNCTION = "AWS::Lambda::Function"
_unwinding: list[str] = []
_before: dict[int, Any] = {}


def resources_of(ledger: Mapping[str, Any]) -> tuple[Resource, ...]:
    """The resources in the server's ledger."""
    return tuple(Resource(**{**entry, "ignored": tuple(entry["ignored"])}) for entry in ledger["resources"])


def not_emulated(
    ledger: Mapping[str, Any], clusters: Mapping[str, Sequence[str]], stacks: Collection[str] | None = None
) -> dict[str, str]:
    """The requested features that are not emulated, each with the reason, sorted by name.

    A feature is a resource type, a part of a type, a part of a cluster, or an API call. `stacks` None: all stacks,
    including the CDK's own.

    >>> entry = {"stack": "s", "logical_id": "A", "type": "AWS::XRay::Group", "physical_id": "s-A"}
    >>> entry |= {"model": "nothing", "reason": "moto has no model of this type", "ignored": []}
    >>> not_emulated({"resources": [entry], "actions": {}}, {})
    {'AWS::XRay::Group': 'moto has no model of this type'}
    """
    types = set()
    for resource in [resource for resource in resources_of(ledger) if stacks is None or resource.stack in stacks]:
        if resource.model == "nothing":
            types.add((resource.type, resource.reason))
        types.update((f"{resource.type}.{name}", "accepted but not evaluated") for name in resource.ignored)
    types.update((f"call to {action}", "the sandbox does not emulate this API") for action in ledger["actions"])
    for cluster, parts in clusters.items():
        types.update((f"cluster {cluster}: {part}", "checked but not created") for part in parts)
    return dict(sorted(types))


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSessions:
    """A user's sessions with an emulated instance, without the AWS CLI and its plug-in."""

    # The script that runs a command line on the instance.
    entry: Callable[[], str]

    def terminal(self, line: str) -> list[str]:
        """The program that runs a command line on the instance, on this terminal."""
        return ["bash", self.entry(), line]

    def forwarding(self, node: str, port: int, local_port: int) -> None:
        """None: the ports of an instance are this computer's."""
        del node, port, local_port


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A simulated spot interruption. `drained` says whether the job had left the node before the node was removed."""

    node: str
    noticed_at: datetime
    lost_at: datetime
    replaced_at: datetime
    drained: bool


class Sandbox:
    """An embedded AWS with the clusters that are deployed into it."""

    def __init__(self, *, region: str = "us-east-1", scheduler: str = "auto", port: int = 0) -> None:
        """Configure a sandbox; entering the block starts it.

        Args:
            region: the region of its environment; the other regions exist too.
            scheduler: "slurm", "local", or "auto": Slurm if it is installed.
            port: of the AWS endpoint, 0 for any free port.
        """
        refuse_unless_possible()
        self.region = region
        self._with_slurm = daemons.uses_private_slurm(scheduler)
        self._port = port
        self._mark = secrets.token_hex(8)
        self._server: EmbeddedServer | None = None
        self._control: ControlClient | None = None
        self._key: AccessKey | None = None
        self._folder = Path()
        self._unwinds = False
        self._record: RunningSandbox | None = None

    @classmethod
    def attach(cls, record: RunningSandbox, *, region: str) -> Self:
        """A persistent sandbox, ready for use; a block around it does not end it."""
        sandbox = cls(region=region, scheduler="local")
        sandbox._record, sandbox._mark, sandbox._folder = record, record.mark, Path(record.folder)
        sandbox._port, sandbox._control, sandbox._key = record.port, record.client, record.key
        return sandbox

    @property
    def record(self) -> RunningSandbox | None:
        """The record of a persistent sandbox; None if the sandbox ends with the block."""
        return self._record

    def __enter__(self) -> Self:
        if self._record is not None:
            return self
        self._end_on_signals()
        try:
            self._server = EmbeddedServer(mark=self._mark, port=self._port, with_slurm=self._with_slurm)
            self._port, self._control, self._key = self._server.wait()
            self._folder = self._server.folder
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        """The URL of its AWS, with a host name: moto looks for the templates of "localhost" in its own S3."""
        return f"http://localhost:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make a process use the sandbox as AWS.

        Raises:
            AwsError: the sandbox does not run.
        """
        if self._key is None:
            raise AwsError("the sandbox is not running")
        return environment.sandbox_environment(self.endpoint, self.region, self._key)

    def process_environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """A complete environment for a process that uses AWS: `base`, with the sandbox instead of AWS.

        The environment contains the sandbox's mark: if this process is killed, its child processes end with the
        sandbox, and its temporary files are removed.
        """
        variables = {MARK: self._mark, "TMPDIR": str(self._folder / TEMPORARY)}
        return {**environment.without_aws(base), **self.environment, **variables}

    def job_environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """A complete environment to submit a job with. The scheduler adds the node's own variables on the node."""
        machine = self.process_environment(environment.machine_environment(base))
        variables = {**machine, "SLIPWAY_SANDBOX": "1", "SLIPWAY_PYTHON": sys.executable}
        del variables["AWS_EC2_METADATA_DISABLED"]
        return variables | environment.rendezvous_port(secrets.randbits(32))

    def head_node(self, cluster: str, base: Mapping[str, str]) -> LocalShell:
        """A shell on the head node of a cluster: this computer, with a home folder that is removed with the sandbox."""
        self.cluster_facts(cluster)
        variables, home = self.job_environment(base), self._folder / "home" / cluster
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        scheduler_environment = self.call("scheduler", cluster=cluster, path=variables.get("PATH", "/usr/bin:/bin"))
        name = f"the head node of {cluster} in the sandbox"
        return LocalShell({**variables, **scheduler_environment, "HOME": str(home)}, name=name)

    def sessions(self, instance: str) -> "InstanceSessions":
        """A user's sessions with an instance of an Auto Scaling group."""
        return InstanceSessions(entry=lambda: str(self.call("entry", instance=instance)))

    def clusters(self) -> tuple[str, ...]:
        """The names of the running clusters."""
        return tuple(cluster["name"] for cluster in self.call("clusters"))

    def nodes(self, cluster: str) -> tuple[NodeState, ...]:
        """The current nodes of a cluster."""
        return tuple(NodeState(**node) for node in self.cluster_facts(cluster)["nodes"])

    def groups(self, cluster: str) -> tuple[Mapping[str, Any], ...]:
        """The maximum size of each queue of a Slurm cluster, also while its fleet is stopped."""
        return tuple(self.cluster_facts(cluster)["groups"])

    def scheduler_name(self, cluster: str) -> str:
        """The program that answers Slurm's commands on a cluster: "slurm" or "local"."""
        return str(self.cluster_facts(cluster)["scheduler"])

    def jobs(self, cluster: str) -> tuple[Mapping[str, Any], ...]:
        """The jobs that a cluster's scheduler knows: `id`, `name`, `state`; with the local one also `attempts`."""
        self.cluster_facts(cluster)
        return tuple(self.call("jobs", cluster=cluster))

    def running_jobs(self) -> tuple[str, ...]:
        """The waiting and running jobs as text, each with its cluster if it has one."""
        scheduled = tuple(
            f"{job['name']} on {cluster}"
            for cluster in self.clusters()
            for job in self.jobs(cluster)
            if not state_of(job["state"]).final
        )
        return (*scheduled, *self.call("jobs_without_scheduler"))

    def s3_requests(self) -> tuple[S3Request, ...]:
        """All requests to its S3 so far, oldest first."""
        return access_log.read(self._folder / ACCESS_LOG)

    def server_log(self) -> str:
        """The log of the server: its own errors, and calls that it does not emulate."""
        return (self._folder / environment.SERVER_LOG).read_text(encoding="utf-8", errors="replace")

    def stacks(self) -> tuple[Mapping[str, str], ...]:
        """The stacks that exist: `name`, `status` and `region` of each."""
        return tuple(self.call("stacks"))

    def resources(self) -> tuple[Resource, ...]:
        """All deployed resources, each with its emulation."""
        return resources_of(self.call("ledger"))

    def not_emulated(self, stacks: Collection[str] | None = None) -> dict[str, str]:
        """Deployed or requested features that are not emulated: types, parts of a type, parts of a cluster, calls.

        `stacks` None: all stacks, including the CDK's own CDKToolkit.
        """
        left_out = {cluster["name"]: cluster["left_out"] for cluster in self.call("clusters")}
        return not_emulated(self.call("ledger"), left_out, stacks)

    def create_prerequisites(
        self,
        *,
        vpc_id: str | None = None,
        zones: Mapping[str, str | None] | None = None,
        security_groups: Collection[str] = (),
        buckets: Collection[str] = (),
        training_plans: Collection[TrainingPlan] = (),
        cluster: ExistingCluster | None = None,
    ) -> tuple[str, ...]:
        """Create emulated resources that a plan names as existing; return the ids and names of the created ones.

        `zones` are zone ids by subnet id, None for any zone. An existing training plan or cluster is left unchanged.
        """
        documents = [plan.document() for plan in training_plans]
        named = {"vpc_id": vpc_id, "zones": dict(zones or {}), "buckets": list(buckets), "training_plans": documents}
        groups, existing = list(security_groups), None if cluster is None else cluster.document()
        return tuple(
            self.call("create_prerequisites", region=self.region, security_groups=groups, cluster=existing, **named)
        )

    def behave(self, behaviour: Behaviour) -> None:
        """Set the behaviour of the emulated runtime behind the sandbox's endpoints."""
        self.call("behave", **asdict(behaviour))

    def notify(self, cluster: str, node: str, *, in_seconds: float = NOTICE_S, action: str = "terminate") -> None:
        """Give a node notice of its interruption through its metadata service."""
        self.call("arm", cluster=cluster, node=node, action=action, in_seconds=in_seconds)

    def recommend_rebalance(self, cluster: str, node: str) -> None:
        """Recommend a rebalance to a node, through its metadata service."""
        self.call("recommend_rebalance", cluster=cluster, node=node)

    def lose_node(self, cluster: str, node: str, *, notice_s: float = NOTICE_S) -> Loss:
        """Interrupt a spot instance as EC2 does: notice, two minutes, end with its disk; then start a replacement.

        The instance ends when its job has left, or when the time is over, whichever is first.

        `notice_s` is the number of seconds between notice and end.
        """
        self.cluster_facts(cluster)
        noticed = datetime.now(UTC)
        self.notify(cluster, node, in_seconds=notice_s)
        drained = _wait(lambda: not self.call("busy", cluster=cluster, node=node), notice_s)
        self.call("lose_node", cluster=cluster, node=node, why="interruption")
        lost = datetime.now(UTC)
        self.replace_node(cluster, node)
        return Loss(node=node, noticed_at=noticed, lost_at=lost, replaced_at=datetime.now(UTC), drained=drained)

    def fail_node(self, cluster: str, node: str) -> None:
        """Simulate a hardware failure of a node: without notice, with its disk and all its processes."""
        self.call("lose_node", cluster=cluster, node=node, why="failure")

    def replace_node(self, cluster: str, node: str) -> None:
        """Start another instance in place of a lost node, as HyperPod's recovery does."""
        self.call("replace_node", cluster=cluster, node=node)

    def interrupt_job(self, name: str) -> None:
        """Remove the instances of a training job without notice, as managed spot does; other instances replace them."""
        self.call("interrupt_job", name=name)

    def limit_training(self, *, quotas: Mapping[str, int] | None = None, lacking: Collection[str] = ()) -> None:
        """Limit the instances of SageMaker types for training jobs, and remove the capacity of purchase options.

        `quotas` are maximum instances by `ml.` type; `lacking` are purchase options without capacity ("spot",
        "on-demand").
        """
        self.call("limit_training", quotas=dict(quotas or {}), lacking=list(lacking))

    def limit_instances(
        self,
        *,
        lacking: Collection[str] = (),
        free: Mapping[str, int] | None = None,
        spot_vcpus: int | None = None,
        vcpus: int | None = None,
        spot_usd: Mapping[str, str] | None = None,
    ) -> None:
        """Remove EC2's capacity for Auto Scaling groups: of types, or of a type in a zone ("g5.xlarge/use2-az1").

        `free` are the further instances that a type can have in a zone. `spot_vcpus` and `vcpus` are the account's
        quotas on spot and on demand; None: no limit. `spot_usd` are dollars an hour of types on spot, or of a type in a
        zone, in place of the catalog's.
        """
        limits = {"lacking": list(lacking), "free": dict(free or {}), "spot_usd": dict(spot_usd or {})}
        self.call("limit_instances", spot_vcpus=spot_vcpus, vcpus=vcpus, **limits)

    def answer(self, cluster: str, *, up: bool) -> None:
        """Stop or start the Kubernetes API of an EKS cluster; its nodes and pods continue to run."""
        self.cluster_facts(cluster)
        self.call("answer", cluster=cluster, up=up)

    def failed_boots(self) -> int:
        """The number of boots of nodes that have failed in this sandbox."""
        return int(self.call("failed_boots"))

    def guard_schedule(self, stack: str, module: str, base: Mapping[str, str]) -> GuardSchedule:
        """The guard of a stack, for calls on an accelerated clock."""
        guard_environment = {
            **self.process_environment(base),
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
        }
        session = Session(environment=guard_environment, region=self.region)
        names = [resource.physical_id for resource in stacks.resources(session, stack) if resource.type == _FUNCTION]
        environments = [functions.describe(session, name).environment for name in names]
        # Another function of the stack may install a chart; the guard is the one that knows the messages of jobs.
        (variables,) = (environment for environment in environments if FOLDER_VARIABLE in environment)
        return GuardSchedule(module=module, variables=variables, environment=guard_environment)

    def stop(self) -> None:
        """End everything of the sandbox, in any state; a second call does nothing. A persistent sandbox stays."""
        if self._record is not None:
            return
        self._control = None
        if self._server is not None:
            self._server.stop()
            self._server = None
        self._restore_signals()

    def cluster_facts(self, name: str) -> Mapping[str, Any]:
        """The facts about a cluster, as the server has them."""
        clusters: list[Mapping[str, Any]] = self.call("clusters")
        for cluster in clusters:
            if cluster["name"] == name:
                return cluster
        names = ", ".join(cluster["name"] for cluster in clusters) or "none"
        raise ImpossibleError(f"no cluster {name!r} in this sandbox, there are: {names}")

    def call(self, operation: str, **arguments: Any) -> Any:
        """The result of an operation of the server."""
        if self._control is None:
            raise AwsError("the sandbox is not running")
        try:
            return self._control.call(operation, **arguments)
        except ControlError as error:
            raise AwsError(f"sandbox: {error}") from error

    def _end_on_signals(self) -> None:
        """Make SIGTERM and SIGHUP unwind the block as Ctrl-C does; otherwise they would end this process without it.

        Only the main thread may set handlers. Of several sandboxes the first sets them, and the last restores them.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        self._unwinds = True
        if not _unwinding:
            _before.update({number: signal.signal(number, _unwind) for number in (signal.SIGTERM, signal.SIGHUP)})
        _unwinding.append(self._mark)

    def _restore_signals(self) -> None:
        if not self._unwinds or threading.current_thread() is not threading.main_thread():
            return
        self._unwinds = False
        _unwinding.remove(self._mark)
        if not _unwinding:
            for number, handler in _before.items():
                signal.signal(number, handler)
            _before.clear()


def _unwind(number: int, frame: FrameType | None) -> None:
    del frame
    sys.exit(128 + number)


def _wait(done: Callable[[], bool], seconds: float) -> bool:
    """Wait until `done` is true; False if the time is over first."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
