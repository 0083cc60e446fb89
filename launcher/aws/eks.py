"""EKS clusters: the address of their API, and an access token."""

import base64
from dataclasses import dataclass
from typing import Any

from botocore.signers import RequestSigner

from launcher.aws.calls import items, unless_absent
from launcher.aws.session import Session, translate_errors

PREFIX, HEADER = "k8s-aws-v1.", "x-k8s-aws-id"
_SIGNED_FOR_S = 60
"""Lifetime of the signature; EKS itself accepts the token for fifteen minutes (aws-iam-authenticator, README)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EksControlPlane:
    """A cluster as EKS describes it.

    `authority` is its certificate in base64; `private`: only its own network reaches the API.
    """

    name: str
    version: str
    status: str
    endpoint: str
    authority: str
    private: bool


def describe(session: Session, name: str) -> EksControlPlane | None:
    """A cluster; None if no cluster has that name."""
    subject, absent = f"describe EKS cluster {name}", {"ResourceNotFoundException"}
    answer = unless_absent(session.client("eks").describe_cluster, subject, absent, name=name)
    if answer is None:
        return None
    cluster: dict[str, Any] = answer["cluster"]
    return EksControlPlane(
        name=name,
        version=str(cluster.get("version", "")),
        status=str(cluster.get("status", "")),
        endpoint=str(cluster.get("endpoint", "")),
        authority=str(cluster.get("certificateAuthority", {}).get("data", "")),
        private=not cluster.get("resourcesVpcConfig", {}).get("endpointPublicAccess", False),
    )


def names(session: Session) -> tuple[str, ...]:
    """The names of the existing clusters."""
    return tuple(map(str, items(session.client("eks").list_clusters, "list EKS clusters", "clusters")))


def granted_roles(session: Session, cluster: str, namespace: str, account: str) -> tuple[str, ...]:
    """The ids of the associations by which Pod Identity grants roles to the pods of a service account."""
    listed = items(
        session.client("eks").list_pod_identity_associations,
        f"list the roles that EKS cluster {cluster} grants to pods",
        "associations",
        clusterName=cluster,
        namespace=namespace,
        serviceAccount=account,
    )
    return tuple(str(association["associationId"]) for association in listed)


def grant(session: Session, cluster: str, namespace: str, account: str, role_arn: str) -> None:
    """Let Pod Identity grant a role to the pods of a service account, with session tags, which are on by default.

    Raises:
        AwsError: an association already exists, or the call failed.
    """
    with translate_errors(f"grant {role_arn} to pods of {namespace}/{account} in EKS cluster {cluster}"):
        session.client("eks").create_pod_identity_association(
            clusterName=cluster, namespace=namespace, serviceAccount=account, roleArn=role_arn
        )


def revoke(session: Session, cluster: str, association: str) -> None:
    """Delete an association; ignore a missing one."""
    call = session.client("eks").delete_pod_identity_association
    subject, absent = f"revoke a role of pods in EKS cluster {cluster}", {"ResourceNotFoundException"}
    unless_absent(call, subject, absent, clusterName=cluster, associationId=association)


def addon_version(session: Session, cluster: str, name: str) -> tuple[str, str]:
    """The state and the version of an add-on."""
    with translate_errors(f"describe add-on {name} of EKS cluster {cluster}"):
        addon = session.client("eks").describe_addon(clusterName=cluster, addonName=name)["addon"]
    return str(addon["status"]), str(addon.get("addonVersion", ""))


def access_policies(session: Session, cluster: str, principal_arn: str) -> tuple[str, ...]:
    """The permissions of a role's or user's access entry, by the names of EKS's policies.

    Raises:
        AwsError: the access entry does not exist, or the call failed.
    """
    policies = items(
        session.client("eks").list_associated_access_policies,
        f"read the access entry of {principal_arn}",
        "associatedAccessPolicies",
        clusterName=cluster,
        principalArn=principal_arn,
    )
    return tuple(str(policy["policyArn"]).rpartition("/")[2] for policy in policies)


def assume_role(session: Session, role_arn: str) -> Session:
    """The session with the credentials of a role, for an hour.

    Raises:
        AwsError: these credentials may not assume the role.
    """
    with translate_errors(f"assume {role_arn}"):
        credentials = session.client("sts").assume_role(RoleArn=role_arn, RoleSessionName="slipway-job")["Credentials"]
    variables = {
        "AWS_ACCESS_KEY_ID": credentials["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": credentials["SecretAccessKey"],
        "AWS_SESSION_TOKEN": credentials["SessionToken"],
    }
    return Session(environment={**session.environment, **variables}, region=session.region)


def token(session: Session, cluster: str) -> str:
    """An access token of these credentials for a cluster: a signed GetCallerIdentity request that names the cluster.

    Slipway sends no request: EKS itself makes the call, and thus identifies the signer.
    """
    with translate_errors(f"sign in to EKS cluster {cluster}"):
        client = session.client("sts")
        signer = RequestSigner(
            client.meta.service_model.service_id,
            session.region,
            "sts",
            "v4",
            client._request_signer._credentials,  # noqa: SLF001 - as the AWS CLI does (customizations/eks/get_token.py)
            client.meta.events,
        )
        address = client.meta.endpoint_url.rstrip("/")
        url = signer.generate_presigned_url(
            {
                "method": "GET",
                "url": f"{address}/?Action=GetCallerIdentity&Version=2011-06-15",
                "body": {},
                "headers": {HEADER: cluster},
                "context": {},
            },
            region_name=session.region,
            expires_in=_SIGNED_FOR_S,
            operation_name="",
        )
    return PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
