"""Objects of any kind, created as a chart brings them: each where its kind stands in the API."""

from collections.abc import Mapping
from typing import Any

from launcher.sandbox.kubernetes.api import Api
from launcher.sandbox.kubernetes.kinds import Kind
from launcher.sandbox.kubernetes.statuses import RefusedError


def create(api: Api, document: Mapping[str, Any]) -> None:
    """Create an object in its own namespace.

    Raises:
        RefusedError: it is not taken, or nothing of its kind is served.
    """
    kind, space, made = _placed(api, document)
    api.create(kind, space, made)


def put(api: Api, document: Mapping[str, Any]) -> None:
    """Create an object, or have one that is there be as it is here.

    Raises:
        RefusedError: it is not taken, or nothing of its kind is served.
    """
    kind, space, made = _placed(api, document)
    name = made["metadata"]["name"]
    if api.objects.find(kind, space, name) is None:
        api.create(kind, space, made)
    else:
        api.replace(kind, space, name, made)


def _placed(api: Api, document: Mapping[str, Any]) -> tuple[Kind, str, dict[str, Any]]:
    """An object with its kind and its namespace."""
    what = document.get("apiVersion"), document.get("kind")
    kind = next((each for each in api.kinds if what == (each.api_version, each.kind)), None)
    if kind is None:
        raise RefusedError("NotFound", f"no matches for {what[0]}, Kind={what[1]}")
    metadata = dict(document.get("metadata", {}))
    # Of what stands in no namespace the API server drops one that is named (apiserver, rest/meta.go).
    space = metadata.get("namespace", "default") if kind.namespaced else ""
    own = metadata if space else {name: value for name, value in metadata.items() if name != "namespace"}
    return kind, space, {**document, "metadata": own}
