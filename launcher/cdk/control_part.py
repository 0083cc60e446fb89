"""The first part of a cluster's stack, deployed before its nodes, to check that the cluster's API answers."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.cdk.commands import Assembly

CONTROL = frozenset(("AWS::EKS::Cluster", "AWS::EKS::AccessEntry"))
_SUBSTITUTED = re.compile(r"\$\{([A-Za-z0-9]+)")


def control_part(assembly: Assembly, folder: Path) -> Assembly:
    """An assembly with the control plane but without nodes, in a new folder.

    Of a stack with an EKS cluster, only the cluster, its access entries and the resources that these refer to remain;
    other stacks stay complete. The template's name is its own hash: the CDK CLI uploads no file twice under one name.

    Raises:
        ImpossibleError: the assembly was changed after its synthesis.
    """
    copy = assembly.copy_to(folder)
    for path in copy.templates.values():
        old = path.read_bytes()
        if not any(
            resource["Type"] == "AWS::EKS::Cluster" for resource in safe_json.loads(old).get("Resources", {}).values()
        ):
            continue
        new = json.dumps(_without_nodes(safe_json.loads(old)), indent=1).encode()
        path.write_bytes(new)
        before, after = (hashlib.sha256(template).hexdigest() for template in (old, new))
        for other in (folder / "manifest.json", *folder.glob("*.assets.json")):
            other.write_text(other.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    return Assembly.read(folder)


def _without_nodes(template: dict[str, Any]) -> dict[str, Any]:
    """The control plane's resources of a template, with the outputs that refer only to them."""
    resources = template["Resources"]
    reached: set[str] = set()
    level = {name for name, resource in resources.items() if resource["Type"] in CONTROL}
    while level:
        reached |= level
        level = {ref for name in level for ref in _references(resources[name])} & resources.keys() - reached
    outputs = template.get("Outputs", {}).items()
    return {
        **template,
        "Resources": {name: resource for name, resource in resources.items() if name in reached},
        "Outputs": {
            name: output for name, output in outputs if not set(_references(output)) & resources.keys() - reached
        },
    }


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _references(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("Ref", "DependsOn", "Fn::GetAtt"):
                yield from (str(name).partition(".")[0] for name in ([item] if isinstance(item, str) else item))
            elif key == "Fn::Sub":
                yield from _SUBSTITUTED.findall(item if isinstance(item, str) else item[0])
            else:
                yield from _references(item)
