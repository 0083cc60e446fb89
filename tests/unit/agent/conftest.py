"""Nodes whose agents exchange messages through files."""

import pytest

from launcher.agent.events import EventLog
from launcher.agent.node import peers as peers_module
from launcher.agent.node.peers import Peers, in_folder
from launcher.agent.node.placement import Placement


def place(part, parts=2, session="r1.a1.7.0"):
    return Placement(run="r1", attempt=1, part=part, parts=parts, node=f"vn{part}", session=session)


@pytest.fixture
def node_peers(tmp_path, monkeypatch):
    """Makes the peers of one node; `heard` has the notices that were added."""
    for name, seconds in {"_POLL_S": 0.02, "_LOST_POLL_S": 0.02, "_GATHER_S": 0.02, "BEAT_S": 0.05}.items():
        monkeypatch.setattr(peers_module, name, seconds)
    created = []

    def make(part, parts=2, *, opened=True):
        notices = []
        log = EventLog(tmp_path / f"events-{part}.jsonl")
        peers = Peers(in_folder(tmp_path, place(part, parts)), place(part, parts), log, on_notice=notices.append)
        peers.heard = notices  # type: ignore[attr-defined]
        if opened:
            peers.open()
        created.append(peers)
        return peers

    yield make
    for peers in created:
        peers.close()
