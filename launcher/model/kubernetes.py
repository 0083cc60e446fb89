"""Jobs on Kubernetes: the words that their files, their submission and the checks of a cluster share."""

from typing import NamedTuple

from launcher.model.enums import Operator

SERVICE_ACCOUNT = "slipway-jobs"
"""Whose pods EKS lends the role of the cluster's jobs."""
EFA = "vpc.amazonaws.com/efa"
"""An EFA interface, as its device plugin shows it: a pod that asks for none has none, and speaks TCP."""
HUGE_PAGES = "hugepages-2Mi"
PLAN_LABEL, JOB_LABEL, RUN_ANNOTATION = "slipway/plan", "slipway/job", "slipway/run"
"""On a job and on its pods: the plan's name, the job's name, and the key of its submission."""


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
