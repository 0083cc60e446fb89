"""The role that EKS grants to the pods of a cluster's jobs by Pod Identity."""

from collections.abc import Sequence

from aws_cdk import Aws
from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from constructs import Construct


def trusted_by_pods() -> iam.IPrincipal:
    """The principal that assumes a pod's role.

    EKS tags its sessions with the pod's location (EKS user guide, EKS Pod Identities).
    """
    return iam.SessionTagsPrincipal(
        iam.ServicePrincipal(
            "pods.eks.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
        )
    )


def pod_role(scope: Construct, id_: str, *, cluster: str, policy: iam.CfnManagedPolicy) -> iam.Role:
    """The role of a cluster's jobs."""
    role = iam.Role(scope, id_, assumed_by=trusted_by_pods(), description=f"Pods of jobs on {cluster}")
    role.add_managed_policy(iam.ManagedPolicy.from_managed_policy_arn(scope, f"{id_}Policy", policy.ref))
    return role


def grant(
    scope: Construct, *, cluster: eks.CfnCluster, role_arn: str, namespaces: Sequence[str], account: str
) -> list[eks.CfnPodIdentityAssociation]:
    """Grant a role to a service account in some namespaces; they need not exist yet."""
    return [
        grant_to(
            scope,
            f"PodAssociation{''.join(part.capitalize() for part in namespace.split('-'))}",
            cluster=cluster,
            role_arn=role_arn,
            namespace=namespace,
            account=account,
        )
        for namespace in namespaces
    ]


def grant_to(
    scope: Construct, id_: str, *, cluster: eks.CfnCluster, role_arn: str, namespace: str, account: str
) -> eks.CfnPodIdentityAssociation:
    """Grant a role to one service account."""
    return eks.CfnPodIdentityAssociation(
        scope,
        id_,
        cluster_name=cluster.ref,
        namespace=namespace,
        service_account=account,
        role_arn=role_arn,
    )
