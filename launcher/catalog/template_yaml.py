"""CloudFormation templates as YAML, with the short forms of its functions: `!Ref Name` is `{"Ref": "Name"}`."""

from typing import Any

import yaml

from launcher.catalog import safe_yaml

_PLAIN = ("Ref", "Condition")


class _Loader(yaml.SafeLoader):
    """Constructs the short forms as mappings."""


def _function(loader: yaml.SafeLoader, name: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = node.value
    return {name if name in _PLAIN else f"Fn::{name}": value}


_Loader.add_multi_constructor("!", _function)


def loads(text: str) -> Any:
    """The value of a template's text.

    Raises:
        YamlError: the text is no YAML, or exceeds the bounds.
    """
    return safe_yaml.parse_yaml(text, _Loader)[1]
