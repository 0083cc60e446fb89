"""Jobs on Kubernetes: names that their files, their submission and the checks of a cluster share."""

import re
from typing import NamedTuple

from launcher.model.enums import Operator

SERVICE_ACCOUNT = "slipway-jobs"
"""Of jobs on clusters that Slipway has not made: its administrator grants it a role, once for all of them."""
ACCOUNT_TAG = "kubernetes-service-account"
"""The session tag by which EKS Pod Identity says whose pods get a role (EKS user guide, pod-id-abac). On a
cluster of Slipway's own a job's account is called as its plan, and so is the folder that the role writes to."""
ACCOUNT_KEY = f"aws:PrincipalTag/{ACCOUNT_TAG}"
"""The same as IAM's condition key, and in `${}` as a variable of a policy."""
EVERYBODYS = "default"
"""The service account of every pod that names none."""
EFA = "vpc.amazonaws.com/efa"
"""An EFA interface, as its device plugin shows it: a pod that asks for none has none, and speaks TCP."""
HUGE_PAGES = "hugepages-2Mi"
PLAN_LABEL, JOB_LABEL, RUN_ANNOTATION = "slipway/plan", "slipway/job", "slipway/run"
"""On a job and on its pods: the plan's name, the job's name, and the key of its submission."""


_TEAM_QUEUE = re.compile(r"(hyperpod-ns-(.+))-localqueue")
"""HyperPod's task governance makes one for each team, in the team's namespace (SageMaker developer guide)."""


class TeamQueue(NamedTuple):
    """A queue of HyperPod's task governance: the team that has it, and the namespace that goes with it."""

    team: str
    namespace: str
    name: str


def team_queue(queue: str | None) -> TeamQueue | None:
    """What a queue of task governance says of itself by its name; None for every other.

    >>> team_queue("hyperpod-ns-research-localqueue")
    TeamQueue(team='research', namespace='hyperpod-ns-research', name='hyperpod-ns-research-localqueue')
    """
    match = _TEAM_QUEUE.fullmatch(queue or "")
    return None if match is None else TeamQueue(team=match[2], namespace=match[1], name=match[0])


class JobKind(NamedTuple):
    """The object that a job is."""

    kind: str
    group: str
    version: str
    plural: str

    @property
    def path(self) -> str:
        """Where the API has them, with `{namespace}` to be filled in."""
        return f"/apis/{self.group}/{self.version}/namespaces/{{namespace}}/{self.plural}"


JOB_KINDS = {
    Operator.JOB: JobKind("Job", "batch", "v1", "jobs"),
    Operator.PYTORCHJOB: JobKind("PyTorchJob", "kubeflow.org", "v1", "pytorchjobs"),
    Operator.HYPERPOD_PYTORCHJOB: JobKind("HyperPodPyTorchJob", "sagemaker.amazonaws.com", "v1", "hyperpodpytorchjobs"),
}
"""By the operator that runs it; a Job is Kubernetes' own."""
