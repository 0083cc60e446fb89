"""The account of a deployment: of AWS, or emulated on this computer. Both answer the same questions."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.emulation import endpoint_gaps
from launcher.model.plan import Plan
from launcher.records.run_folder import SANDBOX_LOG, RunFolder, write_whole
from launcher.records.submission import SANDBOX, HeadNode
from launcher.submit.shell import Shell
from launcher.targets.clusters import cluster_of
from launcher.workflow.cluster import kubernetes_cluster
from launcher.workflow.cluster.reach import connect
from launcher.workflow.cluster.readback.reading import StackVerification
from launcher.workflow.deploy.context import DeployContext, Deployed
from launcher.workflow.deploy.in_sandbox import left_out

if TYPE_CHECKING:
    from launcher.emulation import Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account of AWS, and the context of a deployment into it."""

    context: DeployContext

    @staticmethod
    def aws(context: DeployContext) -> "Account":
        """The account of the environment's credentials."""
        return Account(context=context)

    @staticmethod
    def emulated(context: DeployContext, emulator: "Sandbox", prerequisites: tuple[str, ...]) -> "Account":
        """An emulated one, with the resources that were created in advance because the plan names them."""
        return _Emulated(context=context, emulator=emulator, prerequisites=prerequisites)

    @property
    def losses(self) -> "Sandbox | None":
        """What takes nodes away and calls the guard on request; AWS does both by itself."""
        return None

    @property
    def is_simulated(self) -> bool:
        """Whether nothing is billed."""
        return False

    @property
    def stays(self) -> bool:
        """Whether what is deployed stays when the command ends."""
        return True

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of calls to it."""
        return self.context.environment

    def shell(self, head_node: HeadNode, here: Mapping[str, str], *, key: str, store: Objects) -> Shell:
        """The shell of a head node; `here` is the environment of this computer."""
        return connect(head_node, here, key=key, store=store)

    def head_node(self, plan: Plan, deployed: Deployed, session: Session) -> HeadNode:
        """The head node of a deployed cluster."""
        return cluster_of(plan).head_node(plan, deployed.training, session)

    def entry(self, head_node: HeadNode) -> HeadNode:
        """The head node of an existing cluster, as jobs reach it."""
        return head_node

    def pause(self, seconds: float) -> None:
        """Wait until a change of the account has taken effect."""
        time.sleep(seconds)

    def scheduler(self, cluster: str) -> str | None:
        """The program that schedules a cluster's jobs, if it is not the target's."""
        del cluster
        return None

    def not_emulated(self, checked: StackVerification | None, *, endpoint: bool = False) -> tuple[str, ...]:
        """Resources that were not created or not read back, each with the reason."""
        del checked, endpoint
        return ()

    def keep_logs(self, folder: RunFolder) -> None:
        """Write the requests and errors of an emulated account into the run folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Emulated(Account):
    """An account in a sandbox."""

    emulator: "Sandbox"
    prerequisites: tuple[str, ...]

    @property
    def losses(self) -> "Sandbox | None":
        return self.emulator

    @property
    def is_simulated(self) -> bool:
        return True

    @property
    def stays(self) -> bool:
        return self.emulator.record is not None

    def shell(self, head_node: HeadNode, here: Mapping[str, str], *, key: str, store: Objects) -> Shell:
        del key, store
        return self.emulator.head_node(str(head_node.host), here)

    def head_node(self, plan: Plan, deployed: Deployed, session: Session) -> HeadNode:
        del session
        role = deployed.training.get(kubernetes_cluster.ROLE)
        node = HeadNode(via=SANDBOX, host=deployed.cluster_name, region=plan.place.region, role=role)
        return self.entry(node)

    def entry(self, head_node: HeadNode) -> HeadNode:
        record = self.emulator.record
        return replace(head_node, via=SANDBOX, instance=None if record is None else record.mark)

    def pause(self, seconds: float) -> None:
        del seconds

    def scheduler(self, cluster: str) -> str | None:
        return self.emulator.scheduler_name(cluster)

    def not_emulated(self, checked: StackVerification | None, *, endpoint: bool = False) -> tuple[str, ...]:
        gaps = endpoint_gaps() if endpoint else ()
        return (*left_out(self.emulator, checked, self.prerequisites), *gaps)

    def keep_logs(self, folder: RunFolder) -> None:
        lines = [json.dumps(asdict(request), default=str) for request in self.emulator.s3_requests()]
        write_whole(folder.logs / "s3-requests.jsonl", "".join(f"{line}\n" for line in lines))
        if faults := self.emulator.server_log():
            write_whole(folder.path / SANDBOX_LOG, faults)
