"""Notices for all nodes: one file for the job, with one notice of each source.

Several nodes may replace the file at the same instant, and the last one wins. So a node that has published a notice
checks that a notice of its source is still there, and publishes it again if not.
"""

from collections.abc import Mapping
from typing import Any

from launcher.agent import safe_json
from launcher.agent.node.notice import REBALANCE, SOURCES, SPOT, Notice


def parse_shared_notices(text: str) -> dict[str, dict[str, Any]]:
    """The notices by their sources.

    Raises:
        ValueError: It is no such file. An empty one, as it is before anything happens, has no notices.
    """
    document = safe_json.loads(text) if text.strip() else {}
    if not isinstance(document, dict) or not all(isinstance(fields, dict) for fields in document.values()):
        raise ValueError(f"got {text[:200]!r}; news are notices by their sources")
    return {source: fields for source, fields in document.items() if source in SOURCES}


def with_notice(notices: Mapping[str, dict[str, Any]], notice: Notice) -> dict[str, dict[str, Any]] | None:
    """The news with one more notice; None: there is one of its source already that says no less.

    Of advice the newest counts, of spot notices the one whose node goes first, else the first that was told.
    """
    earlier = notices.get(notice.source)
    if earlier is not None and notice.source != REBALANCE:
        at = earlier.get("at")
        sooner = notice.source == SPOT and notice.at is not None and isinstance(at, str) and notice.at < at
        if not sooner:
            return None
    return {**notices, notice.source: safe_json.loads(notice.to_json())}
