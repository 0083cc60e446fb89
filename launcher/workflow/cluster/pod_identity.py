"""Grants a cluster's role to the pods of another job: on Slipway's clusters each plan has its own service account.

The role's policy names the account by its session tag, so that what it may write is the folder of that plan alone
(infra/parts/eks_pods.py). The stack grants it to the cluster's own plan, the launcher to those of plans that join.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from launcher.aws import eks
from launcher.aws.calls import forbidden
from launcher.aws.session import Session
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.stages import Notify

EFFECTIVE_S = 15.0
"""Seconds until an association is effective (EKS API reference, CreatePodIdentityAssociation); a pod that is created
earlier never gets a role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodIdentity:
    """The pods' role of a cluster that Slipway made, and the role that may grant it there."""

    cluster: str
    pods_role: str
    access_role: str

    def by_hand(self, namespace: str, account: str) -> str:
        """The command that does the same."""
        return by_hand(self.cluster, namespace, account, self.pods_role)


def by_hand(cluster: str, namespace: str, account: str, role: str) -> str:
    """The command that grants a role to a service account's pods."""
    return (
        f"aws eks create-pod-identity-association --cluster-name {cluster} --namespace {namespace}"
        f" --service-account {account} --role-arn {role}"
    )


def grant(
    pod_identity: PodIdentity,
    namespace: str,
    account: str,
    session: Session,
    notify: Notify,
    *,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Grant the pods' role to a service account, and wait until pods get it; one that has it already is left alone.

    Raises:
        ImpossibleError: these credentials may not; the hint has the command for who may.
        AwsError: a call failed otherwise.
    """
    try:
        own = eks.assumed(session, pod_identity.access_role)
        if eks.granted_roles(own, pod_identity.cluster, namespace, account):
            return
        eks.grant(own, pod_identity.cluster, namespace, account, pod_identity.pods_role)
    except AwsError as problem:
        if not forbidden(problem):
            raise
        text = (
            f"the pods of {namespace}/{account} have no role, and these credentials may not grant it: {problem.message}"
        )
        hint = f"ask an administrator to run: {pod_identity.by_hand(namespace, account)}"
        raise ImpossibleError(text, hint=hint) from problem
    notify(f"granting the cluster's role to pods of {namespace}/{account}; EKS needs some seconds")
    wait(EFFECTIVE_S)


def revoke(pod_identity: PodIdentity, namespace: str, account: str, session: Session) -> bool:
    """Revoke a service account's role; whether it had one."""
    own = eks.assumed(session, pod_identity.access_role)
    grants = eks.granted_roles(own, pod_identity.cluster, namespace, account)
    for granted in grants:
        eks.revoke(own, pod_identity.cluster, granted)
    return bool(grants)
