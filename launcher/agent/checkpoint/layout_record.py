"""The layout of a run's checkpoints, stored before the first checkpoint so that a later attempt uses the same one.

With it, the links of the trainer's own that led to the newest checkpoint (`latest`), and the files that held its path
(`last_checkpoint`): a restore writes them again.
"""

import json
from collections.abc import Iterable

from launcher.agent import safe_json
from launcher.agent.manifest import is_below
from launcher.agent.store.objects import Store

RECORD_KEY = "layout.json"
SCHEMA = "slipway.layout/1"


LINKS, PATHS = "links", "paths"


def write_layout(store: Store, *, run: str, key: str, links: Iterable[str] = (), paths: Iterable[str] = ()) -> None:
    """Store the key of the layout (`Layout.key`), and the links to the newest checkpoint and files with its path."""
    document = {"schema": SCHEMA, "run": run, "layout": key, LINKS: [*links], PATHS: [*paths]}
    store.write_text(RECORD_KEY, json.dumps(document) + "\n")


def read_pointers(store: Store, kind: str) -> tuple[str, ...]:
    """The links to the newest checkpoint, or the files with its path (`kind`), below the checkpoint folder."""
    stored = store.find_text(RECORD_KEY)
    try:
        document = safe_json.loads(stored.text) if stored is not None else {}
        names = document[kind] if document["schema"] == SCHEMA else ()
        return tuple(name for name in names if isinstance(name, str) and is_below(name))
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
