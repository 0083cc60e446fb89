import json
from datetime import UTC, datetime

from launcher.sandbox.slurm.slurm_scheduler import SlurmScheduler


def record(event, restart, code="", *, job="7", time=1.5, nodes="p5-dy-x-1"):
    return json.dumps({"event": event, "time": time, "job": job, "restart": restart, "nodes": nodes, "code": code})


def scheduler(tmp_path, *records):
    (tmp_path / "attempts.jsonl").write_text("".join(f"{each}\n" for each in records))
    return SlurmScheduler(tmp_path / "slurm.conf", tmp_path / "attempts.jsonl", "mark")


class TestAttempts:
    def test_are_put_together_from_beginning_and_end(self, tmp_path):
        found = scheduler(
            tmp_path,
            record("start", 0),
            record("end", 0, "75:0", time=2.5),
            record("start", 0, job="8"),
            record("start", 1, time=3.5, nodes="p5-dy-x-[1-2]"),
        ).attempts("7")

        assert [(each.number, each.exit_code, each.nodes) for each in found] == [
            (1, 75, ("p5-dy-x-1",)),
            (2, None, ("p5-dy-x-1", "p5-dy-x-2")),
        ]
        assert found[0].started_at == datetime.fromtimestamp(1.5, UTC)
        assert found[0].ended_at == datetime.fromtimestamp(2.5, UTC)
        assert found[1].ended_at is None

    def test_an_attempt_whose_node_was_lost_has_no_exit_code(self, tmp_path):
        slurm = scheduler(tmp_path, record("start", 0))

        slurm.node_lost("p5-dy-x-1")
        with (tmp_path / "attempts.jsonl").open("a") as file:
            file.write(record("end", 0, "0:0") + "\n")

        (attempt,) = slurm.attempts("7")
        assert attempt.node_lost
        assert attempt.exit_code is None

    def test_one_that_ended_before_keeps_its_code(self, tmp_path):
        slurm = scheduler(tmp_path, record("start", 0), record("end", 0, "75:0"))

        slurm.node_lost("p5-dy-x-1")

        (attempt,) = slurm.attempts("7")
        assert (attempt.node_lost, attempt.exit_code) == (False, 75)

    def test_of_a_slurm_that_ran_nothing(self, tmp_path):
        assert SlurmScheduler(tmp_path / "c", tmp_path / "none", "mark").attempts("1") == ()
