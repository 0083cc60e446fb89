"""Notices for all nodes: one file for the job, with one notice per source.

Several nodes may replace the file at the same instant, and the last one wins. So a node that has published a notice
checks that a notice of its source still exists, and publishes it again if not.
"""

from collections.abc import Mapping
from typing import Any

from launcher.agent import safe_json
from launcher.agent.node.notice import REBALANCE, SOURCES, SPOT, Notice


def parse_shared_notices(text: str) -> dict[str, dict[str, Any]]:
    """The notices by source.

    Raises:
        ValueError: the text is not such a file. An empty file, as at the start, has no notices.
    """
    document = safe_json.loads(text) if text.strip() else {}
    if not isinstance(document, dict) or not all(isinstance(fields, dict) for fields in document.values()):
        raise ValueError(f"got {text[:200]!r}; news are notices by their sources")
    return {source: fields for source, fields in document.items() if source in SOURCES}


def with_notice(notices: Mapping[str, dict[str, Any]], notice: Notice) -> dict[str, dict[str, Any]] | None:
    """The notices with one more added; None if the existing notice of its source has at least the same information.

    For recommendations the newest counts, for spot notices the one whose node ends first, otherwise the first one.
    """
    earlier = notices.get(notice.source)
    if earlier is not None and notice.source != REBALANCE:
        at = earlier.get("at")
        sooner = notice.source == SPOT and notice.at is not None and isinstance(at, str) and notice.at < at
        if not sooner:
            return None
    return {**notices, notice.source: safe_json.loads(notice.to_json())}
