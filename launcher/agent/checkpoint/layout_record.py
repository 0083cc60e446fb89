"""The layout of a run's checkpoints, stored before the first checkpoint so that a later attempt uses the same one.

With it, the links of the trainer's own that led to the newest checkpoint (`latest`): a restore writes them again.
"""

import json
from collections.abc import Iterable

from launcher.agent import safe_json
from launcher.agent.manifest import is_below
from launcher.agent.store.objects import Store

RECORD_KEY = "layout.json"
SCHEMA = "slipway.layout/1"


def write_layout(store: Store, *, run: str, key: str, links: Iterable[str] = ()) -> None:
    """Store the key of the layout (`Layout.key`), and the links to the newest checkpoint, if there are any."""
    document = {"schema": SCHEMA, "run": run, "layout": key, "links": [*links]}
    store.write_text(RECORD_KEY, json.dumps(document) + "\n")


def read_links(store: Store) -> tuple[str, ...]:
    """The links that led to the newest checkpoint, below the checkpoint folder."""
    stored = store.find_text(RECORD_KEY)
    try:
        document = safe_json.loads(stored.text) if stored is not None else {}
        links = document["links"] if document["schema"] == SCHEMA else ()
        return tuple(link for link in links if isinstance(link, str) and is_below(link))
    except (ValueError, TypeError, KeyError):
        return ()


def read_layout(store: Store, *, run: str) -> str:
    """The key that an earlier attempt of the run stored; empty if none did."""
    stored = store.find_text(RECORD_KEY)
    try:
        document = safe_json.loads(stored.text) if stored is not None else {}
        return str(document["layout"]) if (document["schema"], document["run"]) == (SCHEMA, run) else ""
    except (ValueError, TypeError, KeyError):
        return ""
