"""The requests that a role's policies are written for: each action on its resource, in a context that allows it."""

import re

from tests.infra.iam import ACCOUNT, formats, listed
from tests.infra.role_policies import REGION

_OF_ALL = {"ResourceTag/slipway_cluster": "x", "ViaService": f"s3.{REGION}.amazonaws.com"}
"""Every resource of a plan that can have tags has this one; keys are used through services."""


def requests(documents):
    """Action, ARN and context of one request for each action and resource of the allowing statements."""
    for document in documents:
        for statement in listed(document["Statement"]):
            if statement["Effect"] != "Allow":
                continue
            context = {**_OF_ALL, **_context(statement.get("Condition", {}))}
            for action in listed(statement["Action"]):
                for resource in listed(statement["Resource"]):
                    for arn in _arns(action, resource):
                        yield action.replace("*", "X"), arn, context


def _context(conditions):
    return {
        key.partition(":")[2].replace(":", "_"): _value(operator, expected)
        for operator, keys in conditions.items()
        for key, expected in keys.items()
        if "Not" not in operator
    }


def _value(operator, expected):
    if operator == "Null":
        return "x"
    return re.sub(r"\*", "x", str(listed(expected)[0]))


def _arns(action, resource):
    """A concrete ARN for a pattern; for all resources one of each type that the action requires."""
    if resource != "*":
        return [re.sub(r"\*", "x", resource)]
    if "*" in action:
        return ["*"]
    return [_sample(form) for form in formats(action)] or ["*"]


def _sample(form):
    places = {"${Partition}": "aws", "${Region}": REGION, "${Account}": ACCOUNT}
    for place, value in places.items():
        form = form.replace(place, value)
    return re.sub(r"\$\{[^}]*\}", "slipway-x", form)
