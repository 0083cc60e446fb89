"""The rules of a template, which CloudFormation evaluates before it makes or changes anything; moto passes them over.

Functions and conditions are those of the CloudFormation User Guide, "Rules section syntax" and "Rule-specific intrinsic
functions" (read 2026-11-23). The words of the refusal were not seen in an account.
"""

from collections.abc import Mapping
from typing import Any


def broken_rules(template: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[str]:
    """What the assertions say that do not hold.

    Args:
        template: as a mapping.
        parameters: the values of its parameters, by name.

    Raises:
        ValueError: a rule uses what rules may not.

    >>> never = {"Fn::Equals": ["a", "b"]}
    >>> broken_rules({"Rules": {"No": {"Assertions": [{"Assert": never, "AssertDescription": "name it"}]}}}, {})
    ['Rule No: name it']
    >>> listed = {"Fn::Not": [{"Fn::Contains": [["1", "2"], {"Ref": "V"}]}]}
    >>> broken_rules({"Rules": {"V": {"Assertions": [{"Assert": listed}]}}}, {"V": "3"})
    []
    """
    return [
        f"Rule {name}: {each.get('AssertDescription', 'an assertion does not hold')}"
        for name, rule in template.get("Rules", {}).items()
        if "RuleCondition" not in rule or _holds(rule["RuleCondition"], parameters)
        for each in rule["Assertions"]
        if not _holds(each["Assert"], parameters)
    ]


def _holds(condition: Any, parameters: Mapping[str, Any]) -> bool:
    ((function, given),) = condition.items()
    values = [_value(each, parameters) for each in given]
    if function == "Fn::Equals":
        return bool(values[0] == values[1])
    if function == "Fn::Contains":
        return values[1] in values[0]
    if function == "Fn::Not":
        return not values[0]
    if function in ("Fn::And", "Fn::Or"):
        return all(values) if function == "Fn::And" else any(values)
    raise ValueError(f"a rule cannot use {function} here")


def _value(given: Any, parameters: Mapping[str, Any]) -> Any:
    if isinstance(given, Mapping):
        return str(parameters[given["Ref"]]) if "Ref" in given else _holds(given, parameters)
    return given
