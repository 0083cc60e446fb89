"""What the guardrails of a HyperPod cluster with EKS have of their own: who tells the guard what its pods do."""

from dataclasses import dataclass

from constructs import Construct

from infra.parts import hyperpod_guard
from infra.parts.eks_guard import count_pods
from infra.parts.guard_function import Rights
from infra.parts.guardrails import Guardrails
from launcher.model.plan import Plan


@dataclass(frozen=True, slots=True)
class HyperPodEksGuard:
    """HyperPod's, with a function in the cluster's network that counts pods, by its ARN."""

    asks: str

    def rights(self, plan: Plan, scope: Construct) -> Rights:
        """What the guard may do: delete workers, and call that function."""
        base = hyperpod_guard.rights(plan, scope)
        call, variables = count_pods(self.asks, plan)
        return Rights(look=base.look, stop=(*base.stop, call), variables=variables)

    def announce(self, plan: Plan, guardrails: Guardrails) -> None:
        """What HyperPod says of its instances, whatever schedules their jobs."""
        hyperpod_guard.announce(plan, guardrails)
