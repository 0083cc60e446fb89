"""What the templates of a HyperPod cluster with EKS are written over: one frozen type each."""

from dataclasses import dataclass

from launcher.rendering.contexts import Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupContext:
    """An instance group whose machines are nodes of the EKS cluster.

    Without `least` instances the cluster is not made; None where it may wait for all of them. `health_checks` run
    before its nodes take jobs. `interface_type` is the kind of its EFA interfaces, None for the service's own choice.
    """

    name: str
    instance_type: str
    count: int
    least: int | None
    health_checks: tuple[str, ...]
    training_plan_arn: str | None
    spot: bool
    interface_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperPodEksContext:
    """A request that makes a HyperPod cluster for an EKS cluster (templates/hyperpod/eks.yaml.j2).

    `lifecycle_uri` is a folder in S3 that holds the script, `entry_point` its name. Ids and ARNs may be CDK tokens.
    """

    cluster_name: str
    eks_arn: str
    groups: tuple[PodGroupContext, ...]
    ami: str | None
    role_arn: str
    subnet_id: str
    security_group_ids: tuple[str, ...]
    lifecycle_uri: str
    entry_point: str
    volume_key_arn: str | None
    tags: tuple[Tag, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeScriptContext:
    """What HyperPod runs on every node that it makes (templates/hyperpod/on_create_eks.sh.j2)."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartContext:
    """The values that HyperPod's chart is installed with (templates/hyperpod/chart-values.yaml.j2).

    `instance_type` is the jobs' nodes as Kubernetes labels them; `nvidia`, `neuron` and `efa` say which device plugins
    they need. `commit` is the chart's.
    """

    commit: str
    region: str
    instance_type: str
    nvidia: bool
    neuron: bool
    efa: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityContext:
    """A priority of jobs: its name, and how much it weighs, 0 to 100."""

    name: str
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernanceContext:
    """Task governance of a HyperPod cluster (templates/hyperpod/governance.yaml.j2).

    One team has all `count` instances of the jobs' type; `name` is that of the policy and of the quota.
    """

    name: str
    team: str
    instance_type: str
    count: int
    priorities: tuple[PriorityContext, ...]
    tags: tuple[Tag, ...]
