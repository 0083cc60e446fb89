# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""Counts the pods that use a cluster's machines, or wait for them: the guard asks before it ends machines as idle.

The guard itself runs outside the cluster's network, where a private API does not answer; the function that installs
the chart runs inside, and is let in. Standard library alone.
"""

import base64
import json
import os
import ssl
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any

CHIPS = ("nvidia.com/", "aws.amazon.com/neuron")
"""What resources of chips begin with, whoever asks for them: also jobs that Slipway knows nothing of."""
JOB_LABEL = "slipway/job"
LIVING = "status.phase!=Succeeded,status.phase!=Failed"
PAGE = "500"
Ask = Callable[[str], Mapping[str, Any]]
"""Answers a path of the API."""


def working(ask: Ask) -> int:
    """How many pods that have not ended ask for chips, or are of Slipway's jobs."""
    return sum(1 for each in living(ask) if works(each))


def living(ask: Ask) -> Iterator[Mapping[str, Any]]:
    """Every pod of the cluster that has not ended, page by page."""
    query = {"fieldSelector": LIVING, "limit": PAGE}
    while True:
        page = ask(f"/api/v1/pods?{urllib.parse.urlencode(query)}")
        yield from page["items"]
        after = page.get("metadata", {}).get("continue")
        if not after:
            return
        query = {**query, "continue": after}


def works(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is there for its machine's chips."""
    if JOB_LABEL in (pod["metadata"].get("labels") or {}):
        return True
    spec = pod["spec"]
    for each in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        resources = each.get("resources", {})
        for asked in (resources.get("limits") or {}, resources.get("requests") or {}):
            if any(name.startswith(CHIPS) and str(count) != "0" for name, count in asked.items()):
                return True
    return False


def api(token: str) -> Ask:
    """The API of the cluster that the environment names, as whoever the token is of."""
    endpoint, authority = os.environ["CLUSTER_ENDPOINT"], base64.b64decode(os.environ["CLUSTER_AUTHORITY"]).decode()
    trusted = ssl.create_default_context(cadata=authority) if endpoint.startswith("https:") else None

    def ask(path: str) -> Mapping[str, Any]:
        request = urllib.request.Request(  # noqa: S310 - the cluster's own address
            endpoint + path, headers={"Authorization": f"Bearer {token}", "Accept": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=20, context=trusted) as answer:  # noqa: S310 - the same
            found: Mapping[str, Any] = json.load(answer)
        return found

    return ask
