"""Grants a cluster's role to the pods of another job: on Slipway's clusters each plan has its own service account.

The role's policy names the account by its session tag, so that pods may write only to the folder of their own plan
(infra/parts/eks_pods.py). The stack grants the role to the cluster's own plan, the launcher to plans that join.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from launcher.aws import eks
from launcher.aws.calls import forbidden
from launcher.aws.session import Session
from launcher.model.administrator import by_administrator
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.stages import Notify

EFFECTIVE_S = 15.0
"""Seconds until an association is effective (EKS API reference, CreatePodIdentityAssociation); a pod that is created
earlier never gets a role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodIdentity:
    """The pods' role of a cluster that Slipway deployed, and the role that may grant the pods' role."""

    cluster: str
    pods_role: str
    access_role: str

    def by_hand(self, namespace: str, account: str) -> str:
        """The command that grants the pods' role to a service account."""
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
    """Grant the pods' role to a service account and wait until pods get it; do nothing if the account has a role.

    Raises:
        ImpossibleError: these credentials may not grant it; the hint has the command for an administrator.
        AwsError: a call failed for another reason.
    """
    try:
        role_session = eks.assume_role(session, pod_identity.access_role)
        if eks.granted_roles(role_session, pod_identity.cluster, namespace, account):
            return
        eks.grant(role_session, pod_identity.cluster, namespace, account, pod_identity.pods_role)
    except AwsError as problem:
        if not forbidden(problem):
            raise
        text = (
            f"the pods of {namespace}/{account} have no role, and these credentials may not grant it: {problem.message}"
        )
        hint = by_administrator(pod_identity.by_hand(namespace, account))
        raise ImpossibleError(text, hint=hint) from problem
    notify(f"granting the cluster's role to pods of {namespace}/{account}; EKS needs some seconds")
    wait(EFFECTIVE_S)


def revoke(pod_identity: PodIdentity, namespace: str, account: str, session: Session) -> bool:
    """Revoke a service account's role, and return whether the account had one."""
    role_session = eks.assume_role(session, pod_identity.access_role)
    grants = eks.granted_roles(role_session, pod_identity.cluster, namespace, account)
    for granted in grants:
        eks.revoke(role_session, pod_identity.cluster, granted)
    return bool(grants)
