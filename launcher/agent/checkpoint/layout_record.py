"""The layout of a run's checkpoints, stored before the first checkpoint so that a later attempt uses the same one."""

import json

from launcher.agent import safe_json
from launcher.agent.store.objects import Store

RECORD_KEY = "layout.json"
SCHEMA = "slipway.layout/1"


def write_layout(store: Store, *, run: str, key: str) -> None:
    """Store the key of the layout (`Layout.key`)."""
    store.write_text(RECORD_KEY, json.dumps({"schema": SCHEMA, "run": run, "layout": key}) + "\n")


def read_layout(store: Store, *, run: str) -> str:
    """The key that an earlier attempt of the run stored; empty if none did."""
    stored = store.find_text(RECORD_KEY)
    try:
        document = safe_json.loads(stored.text) if stored is not None else {}
        return str(document["layout"]) if (document["schema"], document["run"]) == (SCHEMA, run) else ""
    except (ValueError, TypeError, KeyError):
        return ""
