"""The IAM policies of a deployment for one account: CloudFormation's, the deployer's, and the boundary."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.catalog.permissions import Permissions, PolicyFacts, StatementFacts
from launcher.model.enums import TargetKind
from launcher.targets.registry import TARGETS

MAX_CHARACTERS = 6144
"""Limit of a managed policy, white space not counted (IAM user guide, IAM and STS quotas)."""
MAX_POLICIES = 10
"""Managed policies per role before a quota is raised (the same source)."""
PERSON, DOCTOR, STORE, BOUNDARY, HYPERPOD_JOBS = "person", "doctor", "store", "boundary", "hyperpod-jobs"
_TITLES = {
    "eks": "EKS",
    "hyperpod": "HyperPod",
    "parallelcluster": "ParallelCluster",
    "ec2": "EC2",
    "ec2-jobs": "EC2Jobs",
    "pcs": "PCS",
    "pcs-jobs": "PCSJobs",
    HYPERPOD_JOBS: "HyperPodJobs",
    "training-jobs": "TrainingJobs",
}
_OF_BUCKETS = {"buckets": "", "contents": "/*"}
"""The placeholders for the data buckets and for their objects."""
_EVERY = {"hyperpods": ("arn:{partition}:sagemaker:*:{account}:cluster/*",)}
"""The resources of a list that the account does not name."""
_LIST = re.compile(r"\{([a-z]+)\}")
TARGET_POLICIES = {kind: ("base", "guards", *target.policies) for kind, target in TARGETS.items() if target.deployed}
"""The policies that CloudFormation needs for the stacks of each target."""
_TOOLKIT_POLICIES = "CloudFormationExecutionPolicies"
"""The parameter of the CDK's bootstrap stack with the policies of CloudFormation's role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAccount:
    """The account of the policies."""

    id: str
    partition: str = "aws"
    # The CDK bootstrap's.
    qualifier: str
    # The permissions boundary that every role must have; None if the account has none.
    boundary_arn: str | None
    # Those to which file systems are linked.
    data_buckets: tuple[str, ...] = ()
    # ARNs by their placeholder in a policy's file: of roles that plans name, and of the resources that such roles must
    # reach.
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def resources(self, facts: StatementFacts) -> list[str]:
        """The resources of a statement as ARNs."""
        return self.filled_in(facts.resources)

    def filled_in(self, values: Iterable[str]) -> list[str]:
        """Resources or values of a condition: placeholders filled in, and each list replaced by its ARNs."""
        arns: list[str] = []
        for value in values:
            named = _LIST.fullmatch(value)
            if named is None:
                arns.append(_fill_in(value, self))
            elif named[1] in _OF_BUCKETS:
                arns += [f"arn:{self.partition}:s3:::{bucket}{_OF_BUCKETS[named[1]]}" for bucket in self.data_buckets]
            else:
                every = _EVERY.get(named[1], ())
                arns += self.lists.get(named[1], tuple(_fill_in(resource, self) for resource in every))
        return arns

    def policy_arn(self, name: str) -> str:
        """The ARN of one of Slipway's policies in the account."""
        return f"arn:{self.partition}:iam::{self.id}:policy/{policy_name(name)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPolicy:
    """One policy as the JSON that IAM accepts, a description of it, and its length as IAM counts it."""

    name: str
    description: str
    text: str

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{policy_name(self.name)}.json"

    @property
    def characters(self) -> int:
        """Its length, without white space."""
        return len("".join(self.text.split()))


def policy_name(name: str) -> str:
    """The name of a policy in an account.

    The name has another prefix than stacks' resources: CloudFormation must not be able to change its own policies.

    >>> policy_name("base")
    'SlipwayBase'
    """
    return f"Slipway{_TITLES.get(name) or ''.join(part.capitalize() for part in name.split('_'))}"


def execution_policies(targets: Iterable[TargetKind] | None = None) -> tuple[str, ...]:
    """The policies that CloudFormation needs for some targets, or for all."""
    policies = TARGET_POLICIES if targets is None else {target: TARGET_POLICIES[target] for target in targets}
    return tuple(dict.fromkeys(name for names in policies.values() for name in names))


def render_policy(permissions: Permissions, name: str, account: PolicyAccount) -> RenderedPolicy:
    """A policy rendered for an account.

    If the account has no boundary yet, the policy itself contains it.
    """
    statements = rendered_statements(permissions, name, account)
    return rendered_policy(name, permissions.policy(name).description, statements)


def rendered_statements(permissions: Permissions, name: str, account: PolicyAccount) -> list[dict[str, Any]]:
    """The statements of a policy for an account; those whose resources the account lacks fall away."""
    facts = permissions.policy(name)
    return [
        policy_statement(statement, actions, account, facts.name)
        for statement, actions in sorted_actions(permissions, facts)
        if account.resources(statement)
    ]


def rendered_policy(name: str, holds: str, statements: Iterable[Mapping[str, Any]]) -> RenderedPolicy:
    """A rendered policy from some statements."""
    document = {"Version": "2012-10-17", "Statement": list(statements)}
    return RenderedPolicy(name=name, description=holds, text=json.dumps(document, indent=2) + "\n")


def allowed_actions(
    permissions: Permissions, name: str, account: PolicyAccount
) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """The permissions of a policy: the actions of each statement, with the resources that the statement allows."""
    facts = permissions.policy(name)
    by_statement = (
        (tuple(actions), tuple(account.resources(statement)))
        for statement, actions in sorted_actions(permissions, facts)
        if not statement.denies
    )
    return tuple((actions, resources) for actions, resources in by_statement if resources)


def sorted_actions(permissions: Permissions, facts: PolicyFacts) -> list[tuple[StatementFacts, list[str]]]:
    """Every statement with its actions: each action of the types' handlers belongs to the first statement that matches.

    Raises:
        ValueError: no statement matches an action.
    """
    by_sid = {statement.sid: set(statement.unlisted_actions) for statement in facts.statements}
    for action in {action for resource_type in facts.types for action in permissions.actions(resource_type)}:
        taker = next((statement for statement in facts.statements if statement.matches(action)), None)
        if taker is None:
            message = f"no statement of policy {facts.name} takes {action}"
            raise ValueError(message)
        by_sid[taker.sid].add(action)
    return [(statement, sorted(by_sid[statement.sid])) for statement in facts.statements]


def policy_statement(facts: StatementFacts, actions: list[str], account: PolicyAccount, policy: str) -> dict[str, Any]:
    """One statement, with its placeholders filled in."""
    conditions: dict[str, dict[str, Any]] = {
        operator: {key: account.filled_in(values) for key, values in keys.items()}
        for operator, keys in facts.conditions.items()
    }
    boundary = account.boundary_arn or (account.policy_arn(BOUNDARY) if policy == BOUNDARY else None)
    if facts.bounded and boundary is not None:
        conditions.setdefault("StringEquals", {})["iam:PermissionsBoundary"] = boundary
    return {
        "Sid": facts.sid,
        "Effect": "Deny" if facts.denies else "Allow",
        "Action": actions,
        "Resource": account.resources(facts),
        **({"Condition": conditions} if conditions else {}),
    }


def _fill_in(text: str, account: PolicyAccount) -> str:
    return text.format(account=account.id, partition=account.partition, qualifier=account.qualifier)


def create_command(arn: str, file: str) -> str:
    """The shell line that creates a policy from a file, or gives an existing policy the file's text.

    Plans of other targets, a boundary or another release write other texts under the same name.

    >>> create_command("arn:aws:iam::123456789012:policy/A", "a.json")  # doctest: +NORMALIZE_WHITESPACE
    'if aws iam get-policy --policy-arn arn:aws:iam::123456789012:policy/A >/dev/null 2>&1;
     then aws iam create-policy-version --set-as-default --policy-arn arn:aws:iam::123456789012:policy/A
     --policy-document file://a.json; else aws iam create-policy --policy-name A --policy-document file://a.json; fi'
    """
    text = f"--policy-document {shlex.quote(f'file://{file}')}"
    return (
        f"if aws iam get-policy --policy-arn {arn} >/dev/null 2>&1;"
        f" then aws iam create-policy-version --set-as-default --policy-arn {arn} {text};"
        f" else aws iam create-policy --policy-name {arn.rpartition('/')[2]} {text}; fi"
    )


def bootstrap_command(account: PolicyAccount, region: str, arns: Iterable[str], *, qualified: bool) -> str:
    """The shell line that creates the CDK's bucket and roles, with CloudFormation limited to these policies.

    The CDK replaces the policies of an existing bootstrap, so the line reads them first and keeps them. It runs nothing
    if they cannot be read.

    Args:
        account: the account to bootstrap.
        region: the region to bootstrap.
        arns: the policies that CloudFormation gets in addition to those of an existing bootstrap.
        qualified: whether the account has its own qualifier, which needs its own stack name too.
    """
    toolkit = f"CDKToolkit-{account.qualifier}" if qualified else "CDKToolkit"
    query = f"Stacks[?StackName=='{toolkit}'].Parameters[] | [?ParameterKey=='{_TOOLKIT_POLICIES}'].ParameterValue"
    read = f'aws cloudformation describe-stacks --region {region} --query "{query}" --output text'
    union = f"printf '%s\\n' $kept {shlex.join(arns)} | tr , '\\n' | sort -u | paste -sd, -"
    more = f" --qualifier {account.qualifier} --toolkit-stack-name {toolkit}" if qualified else ""
    return (
        f"kept=$({read}) && slipway cdk -- bootstrap aws://{account.id}/{region}"
        f' --cloudformation-execution-policies "$({union})"{more}'
    )
