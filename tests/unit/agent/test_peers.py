"""The files through which the agents of one job communicate and agree."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from launcher.agent.checkpoint.agreement import agree
from launcher.agent.errors import AgentError, LostNodeError
from launcher.agent.events import ROUTINE, EventLog
from launcher.agent.node.notice import FAILURE, REBALANCE, SPOT, Notice
from tests.waiting import until


class TestNotices:
    def test_notice_reaches_every_other_node_once(self, node_peers):
        nodes = [node_peers(part, 3) for part in range(3)]
        nodes[1].publish(Notice(source=SPOT, detail="terminate", at="2000-01-01T00:00:00Z", left_s=90.0))
        until(lambda: nodes[0].heard and nodes[2].heard)
        time.sleep(0.1)
        for peers in (nodes[0], nodes[2]):
            (notice,) = peers.heard
            assert (notice.source, notice.detail, notice.node) == ("spot", "terminate", "vn1")
            assert notice.left_s == 90.0  # by this clock the node is gone, and it has just told: the clock is wrong
        assert nodes[1].heard == []

    def test_notices_of_different_sources_all_arrive(self, node_peers):
        first, second = node_peers(0), node_peers(1)
        second.publish(Notice(source=REBALANCE, detail="x"))
        second.publish(Notice(source=SPOT, detail="stop"))
        second.publish(Notice(source=FAILURE, detail="the command ended with 3", code=3))
        until(lambda: len(first.heard) == 3)
        assert {notice.source: notice.code for notice in first.heard} == {REBALANCE: None, SPOT: None, FAILURE: 3}

    def test_notice_of_another_node_is_not_forwarded(self, node_peers, tmp_path):
        node_peers(0).publish(Notice(source=SPOT, detail="stop", node="vn1"))
        assert (tmp_path / "peers" / "r1.a1.7.0" / "news.json").read_text() == ""

    def test_malformed_notices_are_reported_once_and_skipped(self, node_peers, tmp_path):
        first = node_peers(0)
        folder = tmp_path / "peers" / "r1.a1.7.0"
        for text in ("[]", '{"spot": 3}', '{"moon": {}}', '{"spot": {"source": "spot", "more": 1}}', "{"):
            (folder / "news.json").write_text(text)
            time.sleep(0.06)
        assert first.heard == []
        lines = (tmp_path / "events-0.jsonl").read_text().splitlines()
        assert [json.loads(line)["event"] for line in lines] == ["peers-error"]


class TestAlone:
    def test_single_node_writes_no_peer_files(self, node_peers, tmp_path):
        alone = node_peers(0, 1)
        alone.publish_state(sending=1)
        alone.publish(Notice(source=SPOT, detail="stop"))
        assert alone.lost_nodes() == {}
        assert not (tmp_path / "peers").exists()


class TestLost:
    def test_node_with_a_heartbeat_is_not_lost(self, node_peers):
        first, _ = node_peers(0), node_peers(1)
        assert first.lost_nodes(after_s=5.0) == {}

    def test_ended_node_is_not_lost(self, node_peers):
        first, second = node_peers(0), node_peers(1)
        second.close(exit_code=0)
        assert first.lost_nodes(after_s=5.0) == {}

    def test_silent_node_is_lost(self, node_peers, tmp_path):
        first = node_peers(0)
        (tmp_path / "peers" / "r1.a1.7.0" / "part-1.json").write_text('{"node": "p5-7", "beat": 3}')
        # On a busy machine a look may come before the time is over by its own clock.
        assert {1: "p5-7"} in (first.lost_nodes(after_s=0.2) for _ in range(20))

    def test_node_without_any_heartbeat_is_lost(self, node_peers):
        first = node_peers(0)
        assert {1: "number 1"} in (first.lost_nodes(after_s=0.2) for _ in range(20))


class TestMeetingVariables:
    @pytest.mark.parametrize(
        "addresses, announced",
        [
            ({"vn0": "10.0.0.7", "vn1": "10.0.0.10"}, ["10.0.0.7", "::ffff:10.0.0.10"]),
            ({"ip-10-0-0-8": "10.0.0.8"}, ["10.0.0.8", "::ffff:10.0.0.8"]),
            ({"vn1": "127.0.1.1", "ip-10-0-0-8": "10.0.0.8"}, ["10.0.0.8", "::ffff:10.0.0.8"]),
            ({"vn0": "127.70.9.2", "vn1": "127.70.1.2"}, ["127.70.9.2", "::ffff:127.70.1.2"]),
            ({"vn0": "127.0.1.1", "vn1": "127.0.1.1"}, [None, None]),
            ({}, [None, None]),
        ],
        ids=["node", "host", "debian-hosts-file", "sandbox-node", "loopback-only", "no-name"],
    )
    def test_torchrun_has_node_number_as_rank_and_network_address_that_sorts_first_for_first_node(
        self, node_peers, monkeypatch, addresses, announced
    ):
        def resolve(name):
            if name in addresses:
                return addresses[name]
            raise OSError

        monkeypatch.setattr(socket, "gethostname", lambda: "ip-10-0-0-8")
        monkeypatch.setattr(socket, "gethostbyname", resolve)
        variables = [node_peers(part, opened=False).meeting_variables for part in (0, 1)]
        assert [each["PET_NODE_RANK"] for each in variables] == ["0", "1"]
        assert [each.get("PET_LOCAL_ADDR") for each in variables] == announced
        assert None in announced or sorted(announced) == announced

    def test_single_node_has_no_rendezvous_variables(self, node_peers):
        assert node_peers(0, 1, opened=False).meeting_variables == {}


def test_first_node_removes_the_folders_of_earlier_attempts(node_peers, tmp_path):
    (tmp_path / "peers" / "r1.a0.7.0").mkdir(parents=True)
    node_peers(1)
    assert (tmp_path / "peers" / "r1.a0.7.0").exists()
    node_peers(0)
    assert [path.name for path in (tmp_path / "peers").iterdir()] == ["r1.a1.7.0"]


def test_unwritable_peer_folder_is_reported_once_without_a_failure(node_peers, tmp_path):
    (tmp_path / "peers").write_text("")
    first = node_peers(0)
    first.publish_state(sending=1)
    assert first.gather().reported == 0
    (line,) = (tmp_path / "events-0.jsonl").read_text().splitlines()
    assert json.loads(line)["event"] == "peers-error"


class TestAgreement:
    @staticmethod
    def settle(nodes, usable):
        """What every node ends up with, when it can use the steps of `usable[part]`."""
        used_steps = [[] for _ in nodes]

        def restore(part):
            def one(at_most):
                steps = [step for step in usable[part] if at_most is None or step <= at_most]
                used_steps[part].append(max(steps, default=None))
                return used_steps[part][-1]

            return one

        def run(part):
            agree(nodes[part], restore(part), over=lambda: False)
            return used_steps[part][-1]

        with ThreadPoolExecutor(len(nodes)) as pool:
            return [future.result() for future in [pool.submit(run, part) for part in range(len(nodes))]]

    def test_nodes_agree_on_the_newest_common_checkpoint(self, node_peers):
        assert self.settle([node_peers(part) for part in range(2)], [{1, 2}, {1, 2}]) == [2, 2]

    def test_a_beginning_is_agreed_upon_too(self, node_peers):
        assert self.settle([node_peers(part) for part in range(2)], [set(), set()]) == [None, None]

    @pytest.mark.long
    @pytest.mark.parametrize("usable", [[{1, 2}, {1}, {1, 2}], [{1}, {1, 2}, {1, 2}], [{1, 3}, {1, 2, 3}, {1, 2}]])
    def test_newest_checkpoint_usable_by_all_nodes_is_chosen(self, node_peers, usable):
        assert self.settle([node_peers(part, 3) for part in range(3)], usable) == [1, 1, 1]

    def test_checkpoint_missing_on_some_nodes_refuses_the_start(self, node_peers):
        first, second = node_peers(0), node_peers(1)
        second.publish_state(restored=-1)
        with pytest.raises(AgentError, match=r"some nodes found no usable checkpoint.*\[-1, 5\]"):
            agree(first, lambda _: 5, over=lambda: False)

    def test_single_node_agrees_without_a_query(self, node_peers):
        agree(node_peers(0, 1), lambda _: 5, over=lambda: pytest.fail("not asked"))

    def test_a_notice_ends_the_wait(self, node_peers):
        stop = threading.Event()
        threading.Timer(0.2, stop.set).start()
        agree(node_peers(0), lambda _: 5, over=stop.is_set)
        assert stop.is_set()

    def test_end_of_another_agent_ends_the_wait_with_the_same_code(self, node_peers):
        first, second = node_peers(0), node_peers(1)
        first.close(exit_code=78)
        with pytest.raises(AgentError) as caught:
            agree(second, lambda _: 5, over=lambda: False)
        assert caught.value.exit_code == 78

    def test_absent_node_is_lost(self, node_peers, monkeypatch):
        monkeypatch.setattr("launcher.agent.checkpoint.agreement._SILENCE_S", 0.1)
        with pytest.raises(LostNodeError, match="number 1 stopped responding"):
            agree(node_peers(0), lambda _: 5, over=lambda: False)


def test_routine_events_are_printed_by_the_first_node_only(tmp_path, capfd):
    log = EventLog(tmp_path / "events.jsonl", unprinted=ROUTINE, node="vn7")
    log.append("checkpoint-part-uploaded", step=1)
    log.append("upload-retry", step=1)
    assert [json.loads(line)["event"] for line in (tmp_path / "events.jsonl").read_text().splitlines()] == [
        "checkpoint-part-uploaded",
        "upload-retry",
    ]
    assert capfd.readouterr().err.splitlines() == ["[slipway] upload-retry step=1"]
