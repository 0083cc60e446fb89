"""Who may do what: everything but what is taken away, for whoever asks in advance as for whoever tries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.sandbox.kubernetes.kinds import Kind
from launcher.sandbox.kubernetes.statuses import RefusedError

REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_OF_ONE = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
_OF_ALL = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


@dataclass(slots=True)
class Rights:
    """What callers may not do: verb and plural, in every namespace."""

    denied: set[tuple[str, str]] = field(default_factory=set)

    def refuse_unless_allowed(self, method: str, kind: Kind, namespace: str, name: str | None) -> None:
        """Go on with a request that is allowed.

        Raises:
            RefusedError: it is not.
        """
        verb = _OF_ALL.get(method, "get") if name is None else _OF_ONE.get(method, "get")
        self.refuse(verb, kind.plural, kind.group, namespace)

    def refuse(self, verb: str, plural: str, group: str, namespace: str) -> None:
        """The same by verb and resource, which may be a part of one: `pods/exec`.

        Raises:
            RefusedError: it is not allowed.
        """
        if (verb, plural) in self.denied:
            where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
            text = f'cannot {verb} resource "{plural}" in API group "{group}"{where}'
            raise RefusedError("Forbidden", f"{plural} is forbidden: User {text}")

    def review(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a SelfSubjectAccessReview.

        Raises:
            RefusedError: it asks for nothing.
        """
        wanted = asked.get("spec", {}).get("resourceAttributes")
        if wanted is None:
            text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            raise RefusedError("Invalid", text)
        allowed = (wanted.get("verb"), wanted.get("resource")) not in self.denied
        return {**asked, "status": {"allowed": allowed}}
