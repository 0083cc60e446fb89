"""CloudFormation's registry as cfn-lint carries it: resource types' schemas, with what their handlers may do."""

import json
from functools import cache
from pathlib import Path

import cfnlint


@cache
def schemas():
    """The schemas of us-east-1's resource types, by type."""
    folder = Path(cfnlint.__file__).parent / "data/schemas/resources"
    found = (json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json"))
    return {each["typeName"]: each for each in found}


def handlers(resource_type):
    """The handlers (create, delete, list, read, update) that need each action, as their first letters."""
    found = {}
    for name, handler in (schemas().get(resource_type, {}).get("handlers") or {}).items():
        for action in handler.get("permissions", ()):
            found.setdefault(action, set()).add(name[0])
    return {action: "".join(sorted(letters)) for action, letters in found.items()}
