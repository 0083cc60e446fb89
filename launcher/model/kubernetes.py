"""Jobs on Kubernetes: names shared by their files, their submission and the cluster checks."""

import re
from typing import NamedTuple

from launcher.model.enums import Operator

SERVICE_ACCOUNT = "slipway-jobs"
"""Service account of jobs on clusters that Slipway did not create: the administrator grants it a role for all jobs."""
ACCOUNT_TAG = "kubernetes-service-account"
"""The session tag with which EKS Pod Identity identifies the pods of a role (EKS user guide, pod-id-abac). On a
cluster that Slipway created, the service account has the plan's name, as has the folder that the role may write."""
ACCOUNT_KEY = f"aws:PrincipalTag/{ACCOUNT_TAG}"
"""The tag as IAM's condition key, and in `${}` as a policy variable."""
EVERYBODYS = "default"
"""The service account of every pod that names none."""
EFA = "vpc.amazonaws.com/efa"
"""An EFA interface, as its device plugin exposes it: a pod that requests none uses TCP."""
HUGE_PAGES = "hugepages-2Mi"
PLAN_LABEL, JOB_LABEL, RUN_ANNOTATION = "slipway/plan", "slipway/job", "slipway/run"
"""On a job and on its pods: the plan's name, the job's name, and the key of its submission."""


_TEAM_QUEUE = re.compile(r"(hyperpod-ns-(.+))-localqueue")
"""HyperPod's task governance creates one for each team, in the team's namespace (SageMaker developer guide)."""


class TeamQueue(NamedTuple):
    """A queue of HyperPod's task governance: its team, and the team's namespace."""

    team: str
    namespace: str
    name: str


def team_queue(queue: str | None) -> TeamQueue | None:
    """The team and namespace in a task governance queue's name; None for any other queue.

    >>> team_queue("hyperpod-ns-research-localqueue")
    TeamQueue(team='research', namespace='hyperpod-ns-research', name='hyperpod-ns-research-localqueue')
    """
    match = _TEAM_QUEUE.fullmatch(queue or "")
    return None if match is None else TeamQueue(team=match[2], namespace=match[1], name=match[0])


class JobKind(NamedTuple):
    """The Kubernetes resource kind of a job."""

    kind: str
    group: str
    version: str
    plural: str

    @property
    def path(self) -> str:
        """The API path of the jobs, with a `{namespace}` placeholder."""
        return f"/apis/{self.group}/{self.version}/namespaces/{{namespace}}/{self.plural}"


JOB_KINDS = {
    Operator.JOB: JobKind("Job", "batch", "v1", "jobs"),
    Operator.PYTORCHJOB: JobKind("PyTorchJob", "kubeflow.org", "v1", "pytorchjobs"),
    Operator.HYPERPOD_PYTORCHJOB: JobKind("HyperPodPyTorchJob", "sagemaker.amazonaws.com", "v1", "hyperpodpytorchjobs"),
}
"""By the operator that runs the job; a Job is a native Kubernetes resource."""
