"""Aggregation up the tree includes every node in any order, and no node reads more than a few others."""

import json
import random

import pytest

from launcher.agent.node import gathering
from launcher.agent.node.gathering import Gathered, Listener
from launcher.agent.node.notice import FAILURE, REBALANCE, SPOT, Notice
from launcher.agent.node.shared_notices import with_notice

SILENT_S = 20.0


class Job:
    """The nodes of a job and their files, without the files; time passes by hand."""

    def __init__(self, parts):
        self.now = 0.0
        self.parts = parts
        self.states = [{"node": f"n{part}", "beat": 0} for part in range(parts)]
        self.listeners = [Listener(part, parts, now=0.0) for part in range(parts)]
        self.files = {}
        self.dead = set()
        self.reads = [0] * parts

    def round(self, most=32, seconds=2.5):
        """Every node gathers once and writes its state."""
        self.now += seconds
        for part in range(self.parts):
            if part in self.dead or self.states[part].get("ended"):
                continue
            peers = self.listeners[part].parts_to_read(most, self.now)
            self.reads[part] = len(peers)
            for peer in peers:
                self.listeners[part].update(peer, self.files.get(peer), self.now)
            self.states[part]["beat"] += 1
            self.write_state(part)

    def write_state(self, part):
        below = {}
        if gathering.children(part, self.parts):
            below["below"] = self.of(part).to_json()
        self.files[part] = json.loads(json.dumps(self.states[part] | below))

    def end(self, part, **facts):
        self.states[part] |= {"ended": True, **facts}
        self.write_state(part)

    def of(self, part):
        return self.listeners[part].gather(self.states[part], self.now, silent_after_s=SILENT_S)

    def rounds(self, number, **how):
        for _ in range(number):
            self.round(**how)
        return self.of(0)


@pytest.mark.parametrize("parts", [1, 2, 16, 17, 18, 300, 2048])
def test_every_node_is_below_the_first_once(parts):
    assert sorted(gathering.below(0, parts)) == list(range(parts))
    assert sorted(child for part in range(parts) for child in gathering.children(part, parts)) == list(range(1, parts))


@pytest.mark.parametrize("parts", [2, 17, 300])
def test_first_node_gathers_the_states_of_all_nodes(parts):
    job = Job(parts)
    for part in range(parts):
        job.states[part] |= {"restored": 7 if part % 2 else 9, "wrote": part % 3 == 0}
    inspection = job.rounds(gathering.depth(parts) + 2)
    assert (inspection.reported, inspection.lowest, inspection.highest) == (parts, 7, 9)
    for part in range(parts):
        wrote = part % 3 == 0
        assert (inspection.wrote >> part & 1, inspection.wrote_none >> part & 1) == (wrote, not wrote)
    assert inspection.silent == {}
    assert inspection.age_s <= 2.5 * 2 * gathering.depth(parts)


def test_node_without_a_state_is_not_counted_as_reported():
    job = Job(40)
    for part in range(39):
        job.states[part]["restored"] = 5
    assert job.rounds(4).reported == 39


class TestSilence:
    @pytest.mark.parametrize("part", [1, 20, 299])
    def test_silence_is_reported_by_name(self, part):
        job = Job(300)
        job.rounds(4)
        job.dead.add(part)
        inspection = job.rounds(12)
        assert part in inspection.silent
        assert inspection.silent[part] == f"n{part}"
        assert inspection.silent_s >= SILENT_S
        assert inspection.age_s >= inspection.silent_s

    def test_silence_of_many_names_a_few(self):
        job = Job(300)
        job.rounds(4)
        job.dead |= set(range(17, 300))
        assert len(job.rounds(12).silent) == 8

    def test_node_without_any_state_is_silent(self):
        job = Job(3)
        job.dead.add(2)
        assert job.rounds(9).silent == {2: "number 2"}


class TestEnd:
    def test_end_of_a_node_inside_the_tree_leaves_the_nodes_below_known(self):
        job = Job(40)
        job.rounds(3)
        job.end(1)
        job.states[17] |= {"wrote": False, "clean": True}
        inspection = job.rounds(3)
        assert inspection.clean >> 17 & 1
        assert inspection.silent == {}

    def test_end_of_all_in_any_order_is_known_in_the_end(self):
        job = Job(300)
        job.rounds(3)
        order = random.Random(1).sample(range(1, 300), 299)
        for begin in range(0, len(order), 25):
            for part in order[begin : begin + 25]:
                job.end(part, clean=True, wrote=False)
            job.round()
        inspection = job.rounds(20)
        assert inspection.clean == inspection.ended == (1 << 300) - 2
        assert inspection.silent == {}

    def test_end_of_most_nodes_adds_no_simultaneous_reads(self):
        job = Job(2048)
        job.rounds(1)
        for part in range(1, 257):
            job.end(part)
        inspection = job.rounds(4, most=32)
        assert max(job.reads) <= 32
        assert inspection.silent == {}  # those who are heard in turns are not taken for gone

    def test_end_before_the_command_start_is_reported_with_the_exit_code(self):
        job = Job(40)
        job.end(39, exit_code=78)
        assert job.rounds(3).stopped == ("n39", 78)


class TestText:
    def test_gathered_state_written_as_json_is_parsed_equal(self):
        inspection = Job(40).rounds(3)
        assert gathering.parse(json.loads(json.dumps(inspection.to_json()))) == inspection

    @pytest.mark.parametrize("text", ["3", "[]", "{}", '{"reported": [1]}', '{"reported": [1, 2, 3], "bits": ["x"]}'])
    def test_unreadable_gathered_state_is_empty(self, text):
        assert gathering.parse(json.loads(text)) == Gathered()


class TestNews:
    def test_first_notice_of_a_source_is_kept(self):
        first = with_notice({}, Notice(source=FAILURE, detail="3", node="a", code=3))
        assert with_notice(first, Notice(source=FAILURE, detail="1", node="b", code=1)) is None

    def test_earliest_spot_notice_wins(self):
        notices = with_notice({}, Notice(source=SPOT, detail="stop", at="2026-11-20T14:10:00Z", node="a"))
        assert with_notice(notices, Notice(source=SPOT, detail="stop", at="2026-11-20T14:11:00Z", node="b")) is None
        sooner = with_notice(notices, Notice(source=SPOT, detail="stop", at="2026-11-20T14:09:00Z", node="b"))
        assert sooner["spot"]["node"] == "b"

    def test_newest_advice_wins(self):
        advice = with_notice({}, Notice(source=REBALANCE, detail="1", node="a"))
        assert with_notice(advice, Notice(source=REBALANCE, detail="2", node="b"))["rebalance"]["detail"] == "2"


class TestLast:
    def test_last_step_is_the_lowest_of_ended_writing_nodes(self):
        job = Job(40)
        for part, (wrote, last) in {1: (True, 8), 20: (True, 10), 39: (False, -1)}.items():
            job.states[part] |= {"wrote": wrote, "last": last}
        job.states[3] |= {"wrote": True}
        assert job.rounds(4).last == 8


class TestAnswers:
    def test_answers_of_the_newest_question_count(self):
        job = Job(40)
        for part in range(1, 40):
            job.states[part]["answer"] = [7, part != 20]
        job.states[5]["answer"] = [6, False]
        job.states[6]["answer"] = "7"
        inspection = job.rounds(4)
        assert (inspection.question, inspection.denied) == (7, 1 << 20)
        assert inspection.confirmed == (1 << 40) - 2 - (1 << 5) - (1 << 6) - (1 << 20)
