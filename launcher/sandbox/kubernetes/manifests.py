"""Objects of any kind, created as a chart brings them: each where its kind stands in the API."""

from collections.abc import Mapping
from typing import Any

from launcher.sandbox.kubernetes.api import Api
from launcher.sandbox.kubernetes.statuses import RefusedError


def create(api: Api, document: Mapping[str, Any]) -> None:
    """Create an object in its own namespace.

    Raises:
        RefusedError: it is not taken, or nothing of its kind is served.
    """
    what = document.get("apiVersion"), document.get("kind")
    kind = next((each for each in api.kinds if what == (each.api_version, each.kind)), None)
    if kind is None:
        raise RefusedError("NotFound", f"no matches for {what[0]}, Kind={what[1]}")
    metadata = dict(document.get("metadata", {}))
    # Of what stands in no namespace the API server drops one that is named (apiserver, rest/meta.go).
    space = metadata.get("namespace", "default") if kind.namespaced else ""
    own = metadata if space else {name: value for name, value in metadata.items() if name != "namespace"}
    api.create(kind, space, {**document, "metadata": own})
