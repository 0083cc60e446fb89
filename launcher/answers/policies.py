"""Files of policies and the commands that create them: `slipway policies`, slipway.policies/1."""

from pathlib import Path
from typing import Literal

from launcher.model.administrator import ADMINISTRATOR
from launcher.model.request import DEFAULT_QUALIFIER
from launcher.records.codec import Json, as_json
from launcher.records.document import json_object
from launcher.rendering.policies import MAX_CHARACTERS, RenderedPolicy, create_command
from launcher.workflow.deploy.policies import AccountPolicies


def policies_lines(policies: AccountPolicies, folder: Path) -> list[str]:
    """The files with their descriptions, then the commands."""
    width = max(len(policy.file) for policy in policies.every)
    lines = [
        f"  policies for {policies.account.id} in {folder}; IAM takes {MAX_CHARACTERS:,} characters each",
        "",
    ]
    lines += [f"  {policy.file:<{width}}  {policy.characters:>5,}  {policy.description}" for policy in policies.every]
    return [*lines, "", f"  commands, {ADMINISTRATOR}:", "", *commands(policies, folder)]


def commands(policies: AccountPolicies, folder: Path) -> list[str]:
    """The commands, in order."""
    attach = [
        f"aws iam attach-role-policy --role-name {name} --policy-arn {policies.account.policy_arn(policy.name)}"
        for name, policy in policies.roles.items()
    ]
    create = [
        create_command(policies.account.policy_arn(policy.name), str(folder / policy.file))
        for policy in _created_policies(policies)
    ]
    return [*create, *attach, policies.bootstrap]


def _created_policies(policies: AccountPolicies) -> list[RenderedPolicy]:
    creates_boundary = policies.account.boundary_arn in (None, policies.account.policy_arn("boundary"))
    return [policy for policy in policies.every if policy is not policies.boundary or creates_boundary]


def policies_next(policies: AccountPolicies) -> list[str]:
    """The steps that the user needs in addition to the commands."""
    arns = [f"    {policies.account.policy_arn(policy.name)}" for policy in policies.person]
    person = [
        "",
        "  attach to the user who runs slipway:",
        *arns,
        "  a policy that exists gets the new text (IAM keeps 5 versions): buckets,",
        "  secrets and roles that only another plan names leave it. --bucket,",
        "  --data-bucket, --secret and --hyperpod name those of others; --export",
        "  names the billing export that report --billed reads",
        *_bootstrap_lines(policies.account.qualifier),
    ]
    named = policies.account.boundary_arn
    if named is not None:
        return [*person, f"  plans name the boundary: security.permissions_boundary_arn: {named}"]
    arn = policies.account.policy_arn("boundary")
    return [
        *person,
        "  advice: without a permissions boundary a deployer can make a role that may do anything. With it not:",
        f"  run this again with --boundary {arn}",
        f"  and put security: {{permissions_boundary_arn: {arn}}} into every plan",
    ]


def _bootstrap_lines(qualifier: str) -> list[str]:
    """The effects of the bootstrap command."""
    if qualifier == DEFAULT_QUALIFIER:
        return [
            f"  warning: qualifier {qualifier} is the CDK's: CloudFormation keeps what other apps have there.",
            "  That is AdministratorAccess by default. Without --qualifier, Slipway gets a bootstrap of its own",
        ]
    return [
        f"  plans name this bootstrap: security: {{qualifier: {qualifier}}}",
        "  the command keeps the policies that this bootstrap has, such as those of other kinds of targets",
    ]


def _policy_owner(policies: AccountPolicies, policy: RenderedPolicy) -> str:
    if policy in policies.person:
        return "person"
    if policy in policies.roles.values():
        return "role"
    return "boundary" if policy is policies.boundary else "cloudformation"


@json_object
class PolicyFile:
    """A policy: its ARN, its file, who gets it, and what it allows."""

    name: str
    arn: str
    file: str
    characters: int
    for_: str
    holds: str


@json_object
class PoliciesDocument:
    """The policies of an account: `boundary_arn` is the one in use; `commands` are in the order of execution."""

    schema: Literal["slipway.policies/1"] = "slipway.policies/1"
    account: str
    boundary_arn: str | None
    policies: tuple[PolicyFile, ...]
    commands: tuple[str, ...]


def document(policies: AccountPolicies, folder: Path) -> Json:
    """slipway.policies/1."""
    files = tuple(
        PolicyFile(
            name=policy.file.removesuffix(".json"),
            arn=policies.account.policy_arn(policy.name),
            file=str(folder / policy.file),
            characters=policy.characters,
            for_=_policy_owner(policies, policy),
            holds=policy.description,
        )
        for policy in policies.every
    )
    return as_json(
        PoliciesDocument(
            account=policies.account.id,
            boundary_arn=policies.account.boundary_arn,
            policies=files,
            commands=tuple(commands(policies, folder)),
        )
    )
