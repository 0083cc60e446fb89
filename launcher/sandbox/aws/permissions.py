"""Simulation of a principal's permissions, and EBS's default key, which moto lacks: `slipway doctor` asks for both.

Emulated, after IAM's user guide (policy evaluation logic, condition operators) and botocore 1.44.5 (iam/2010-05-08 and
ec2/2016-11-15 service-2.json): SimulatePrincipalPolicy for roles and users by their inline and managed policies and
their boundary, each action on each resource, with the condition keys that the request lacks in MissingContextValues,
or in ResourceSpecificResults where the request names resources; GetEbsDefaultKmsKeyId of a new account. The sandbox's
own credentials may do everything, as the sandbox refuses them no call. Not emulated: variables in policies, other
condition operators (the call fails), policies of organizations and of resources, groups of users.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.responses import EC2Response
from moto.iam.exceptions import NotFoundException
from moto.iam.responses import IamResponse

from launcher.agent import safe_json

OWN = ":user/moto"
"""The end of the ARN of the sandbox's own credentials (moto 5.2.5, sts/models.py)."""
EVERYTHING = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
PATTERNS = ("StringLike", "ArnEquals", "ArnLike")
PLAIN = (*PATTERNS, "StringEquals", "StringEqualsIgnoreCase", "Bool")

Context = Mapping[str, Sequence[str]]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _fits(value: str, pattern: str) -> bool:
    """Whether a value fits a pattern of IAM, in which * is any text and ? one character."""
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), value) is not None


def _names(statement: Mapping[str, Any], key: str, value: str) -> bool:
    if f"Not{key}" in statement:
        return not any(_fits(value, pattern) for pattern in _lower(key, statement[f"Not{key}"]))
    return any(_fits(value, pattern) for pattern in _lower(key, statement[key]))


def _lower(key: str, patterns: Any) -> list[str]:
    """Patterns of actions in lower case: IAM ignores the case of actions only."""
    return [pattern.lower() if key == "Action" else pattern for pattern in _as_list(patterns)]


def _tests(statement: Mapping[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    """Operator, key and values of every condition of a statement."""
    for operator, keys in statement.get("Condition", {}).items():
        for key, expected in keys.items():
            yield operator, key.lower(), [str(value) for value in _as_list(expected)]


def _holds(operator: str, given: Sequence[str] | None, expected: Sequence[str]) -> bool:
    """Whether one condition holds; without its key only negated operators, ForAllValues and IfExists hold."""
    name = operator.removesuffix("IfExists")
    if name == "Null":
        return any((given is None) == (value == "true") for value in expected)
    quantifier, _, name = name.rpartition(":")
    negated, plain = "Not" in name, name.replace("Not", "")
    if plain not in PLAIN:
        message = f"the simulation has no condition operator {operator}"
        raise NotImplementedError(message)
    if given is None:
        return negated or operator.endswith("IfExists") or quantifier == "ForAllValues"
    hits = []
    for value in given:
        if plain in PATTERNS:
            hit = any(_fits(value, pattern) for pattern in expected)
        else:
            exact = plain == "StringEquals"
            hit = value in expected if exact else value.lower() in {other.lower() for other in expected}
        hits.append(hit != negated)
    return any(hits) if quantifier == "ForAnyValue" else all(hits)


def decide(
    documents: Iterable[Mapping[str, Any]], action: str, resource: str, context: Context
) -> tuple[str, set[str]]:
    """IAM's decision by some policies, and the condition keys that the context lacks for it."""
    effects, missing = set(), set()
    for document in documents:
        for statement in _as_list(document["Statement"]):
            if not _names(statement, "Action", action.lower()) or not _names(statement, "Resource", resource):
                continue
            tests = list(_tests(statement))
            missing |= {key for operator, key, _ in tests if key not in context and not operator.startswith("Null")}
            if all(_holds(operator, context.get(key), expected) for operator, key, expected in tests):
                effects.add(statement["Effect"])
    decision = "explicitDeny" if "Deny" in effects else "allowed" if "Allow" in effects else "implicitDeny"
    return decision, missing


def _document(policy: Any) -> dict[str, Any]:
    """The default version of a managed policy."""
    (text,) = [version.document for version in policy.versions if version.version_id == policy.default_version_id]
    document: dict[str, Any] = safe_json.loads(text) if isinstance(text, str) else text
    return document


def _policies(backend: Any, arn: str) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The policies of a principal, and its boundary or None.

    Raises:
        NotFoundException: no role and no user has the ARN, as on AWS.
    """
    if arn.endswith(OWN):
        return [EVERYTHING], None
    principals = [*backend.roles.values(), *backend.users.values()]
    holder = next((principal for principal in principals if principal.arn == arn), None)
    if holder is None:
        message = f"The Principal {arn} cannot be found."
        raise NotFoundException(message)
    inline = holder.policies.values() if isinstance(holder.policies, dict) else holder.policies
    texts = [policy["policy_document"] if isinstance(policy, dict) else policy for policy in inline]
    texts += [
        policy.policy_document
        for policy in backend.inline_policies.values()
        if getattr(holder, "name", "") in (policy.role_names or ())
    ]
    documents = [safe_json.loads(text) if isinstance(text, str) else text for text in texts]
    documents += [_document(policy) for policy in holder.managed_policies.values()]
    limit = getattr(holder, "permissions_boundary_arn", None)
    return documents, _document(backend.managed_policies[limit]) if limit else None


def _results(response: Any) -> Iterator[dict[str, Any]]:
    def parameter(name: str) -> Any:
        return response._get_param(name)  # noqa: SLF001  the way moto's own responses read

    documents, limit = _policies(response.backend, parameter("PolicySourceArn"))
    context = {
        entry["ContextKeyName"].lower(): [str(value) for value in entry["ContextKeyValues"]]
        for entry in parameter("ContextEntries") or ()
    }
    named = parameter("ResourceArns") or ["*"]
    for action in parameter("ActionNames"):
        for resource in named:
            decision, missing = decide(documents, action, resource, context)
            result: dict[str, Any] = {"EvalActionName": action, "EvalResourceName": resource, "MatchedStatements": []}
            if limit is not None:
                within = decide([limit], action, resource, context)[0] == "allowed"
                decision = decision if within or decision != "allowed" else "implicitDeny"
                result["PermissionsBoundaryDecisionDetail"] = {"AllowedByPermissionsBoundary": within}
            keys = sorted(missing)
            specific = {"EvalResourceName": resource, "EvalResourceDecision": decision, "MissingContextValues": keys}
            yield result | {
                "EvalDecision": decision,
                "MissingContextValues": keys if resource == "*" else [],
                "ResourceSpecificResults": [] if resource == "*" else [specific],
            }


def simulate_principal_policy(response: Any) -> ActionResult:
    """Simulate the permissions of a role or user."""
    return ActionResult({"EvaluationResults": list(_results(response)), "IsTruncated": False})


def get_ebs_default_kms_key_id(_response: Any) -> ActionResult:
    """The key of new volumes: in an account that has set none, the one that AWS manages."""
    return ActionResult({"KmsKeyId": "alias/aws/ebs"})


def install() -> None:
    """Add the calls to moto's IAM and EC2."""
    for responses, call in ((IamResponse, simulate_principal_policy), (EC2Response, get_ebs_default_kms_key_id)):
        setattr(responses, call.__name__, call)
