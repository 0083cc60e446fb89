"""The checkpoints of a store that a user took out of the running: `withdrawn.json` in their store. Both sides read it.

`slipway launch --from-step N` names there the manifests of all checkpoints that were saved after step N. They stay in
the store with their objects. No attempt resumes from them, and a checkpoint of the same step that is saved later has a
manifest of its own.
"""

import json
from collections.abc import Iterable
from typing import Any

from launcher.agent import safe_json
from launcher.agent.checkpoint_keys import step_of_key
from launcher.agent.errors import ManifestError
from launcher.agent.shape import read

WITHDRAWN_KEY = "withdrawn.json"
SCHEMA = "slipway.withdrawn/1"


def withdrawn_text(manifests: Iterable[str]) -> str:
    """The text of `withdrawn.json` for the keys of manifests."""
    return json.dumps({"schema": SCHEMA, "manifests": sorted(set(manifests))}, indent=1) + "\n"


def withdrawn_manifests(text: str) -> frozenset[str]:
    """The keys of the withdrawn manifests.

    Raises:
        ManifestError: the text is unusable. Without it an attempt could resume from a checkpoint that a user rejected.
    """
    try:
        record = read(dict[str, Any], safe_json.loads(text))
        manifests = read(tuple[str, ...], record.get("manifests"), "manifests")
    except (ValueError, TypeError) as error:
        raise ManifestError(f"{WITHDRAWN_KEY} is unusable: {error}") from error
    if record.get("schema") != SCHEMA or any(step_of_key(key) is None for key in manifests):
        raise ManifestError(f"{WITHDRAWN_KEY} is unusable: it is not of schema {SCHEMA}")
    return frozenset(manifests)
