import json
import shutil

import pytest

from launcher.agent.node.progress import Metrics, Watchdog
from tests.attack.disks import fill, mounted


def line(**values):
    return json.dumps(values) + "\n"


@pytest.fixture
def metrics_path(tmp_path):
    return tmp_path / "metrics.jsonl"


class TestMetrics:
    def test_only_lines_after_the_start_are_read(self, metrics_path):
        metrics_path.write_text(line(step=1))
        metrics = Metrics(metrics_path)
        assert metrics.reported_before
        with metrics_path.open("a") as file:
            file.write(line(step=2) + line(step=3))
        assert metrics.new_lines() == [{"step": 2}, {"step": 3}]
        assert metrics.new_lines() == []

    def test_incomplete_line_waits_for_the_end(self, metrics_path):
        metrics = Metrics(metrics_path)
        whole = line(step=7, loss=1.5)
        metrics_path.write_text(whole[:9])
        assert metrics.new_lines() == []
        metrics_path.write_text(whole)
        assert metrics.new_lines() == [{"step": 7, "loss": 1.5}]

    def test_line_without_an_object_is_skipped_and_counted(self, metrics_path):
        metrics = Metrics(metrics_path)
        metrics_path.write_bytes(b"rubbish\n[1]\n\xff\xfe\n" + line(step=1).encode())
        assert (metrics.new_lines(), metrics.invalid) == ([{"step": 1}], 3)

    @pytest.mark.parametrize(
        "odd,left",
        [
            ('{"step": 5, "loss": NaN}', {"step": 5}),
            ('{"step": 5, "checkpoint_seconds": -Infinity}', {"step": 5}),
            ('{"step": 5, "checkpoint_seconds": 1%s}' % ("0" * 400), {"step": 5}),
            ('{"step": 1e400}', None),
            ('{"step": 1%s}' % ("0" * 5000), None),
            ('{"step": "five", "loss": 2}', {"loss": 2}),
            ('{"step": true}', None),
            ('{"step": -1}', None),
            ('{"step": [5]}', None),
            ("[" * 100_000, None),
            ('{"a":' * 100_000, None),
            ("7", None),
            ("NaN", None),
            ("null", None),
        ],
        ids=range(14),
    )
    def test_invalid_figures_are_dropped_and_the_lines_counted(self, metrics_path, odd, left):
        metrics = Metrics(metrics_path)
        metrics_path.write_text(f"{odd}\n{line(step=6)}")
        assert metrics.new_lines() == ([left] if left else []) + [{"step": 6}]
        assert metrics.invalid == 1
        Watchdog(hung_s=60, armed=False, now=0).steps([left] if left else [], now=1)
        assert Metrics(metrics_path).reported_before

    def test_other_keys_of_the_trainer_are_not_counted_as_invalid(self, metrics_path):
        metrics = Metrics(metrics_path)
        metrics_path.write_text(line(step=2.0, note="warm-up", lr=1e-4, loss=None))
        assert (metrics.new_lines(), metrics.invalid) == ([{"step": 2}], 0)

    def test_line_without_an_end_is_dropped_at_the_limit(self, metrics_path):
        metrics = Metrics(metrics_path)
        with metrics_path.open("ab") as file:
            for _ in range(4):
                file.write(b"x" * (1 << 20))
                file.flush()
                assert metrics.new_lines() == []
        assert len(metrics._rest) <= 1 << 20

    def test_truncated_file_is_read_from_the_beginning(self, metrics_path):
        metrics_path.write_text(line(step=1) * 10)
        metrics = Metrics(metrics_path)
        metrics_path.write_text(line(step=2))
        assert metrics.new_lines() == [{"step": 2}]

    def test_file_without_steps_has_not_reported(self, metrics_path):
        metrics_path.write_text(line(loss=1.0) + line(step="one"))
        assert not Metrics(metrics_path).reported_before
        assert not Metrics(metrics_path.with_name("none")).reported_before

    def test_agent_lines_are_added_between_trainer_lines(self, metrics_path):
        metrics_path.write_text(line(step=1))
        assert Metrics(metrics_path).append(checkpoint_step=1, upload_seconds=0.5)
        assert metrics_path.read_text().splitlines()[1] == '{"checkpoint_step": 1, "upload_seconds": 0.5}'
        assert not Metrics(metrics_path / "no" / "folder").append(checkpoint_step=1)


class TestFullDisk:
    """The metrics are on a disk that the trainer, or another job, fills to 0 bytes."""

    @pytest.fixture
    def disk(self, tmp_path):
        with mounted(tmp_path / "disk", 1 << 20) as place:
            yield place

    def test_lines_fit_on_a_disk_that_was_filled_after_the_start(self, disk):
        metrics = Metrics(disk / "metrics.jsonl")
        metrics.prepare()
        fill(disk / "data")
        assert shutil.disk_usage(disk).free == 0
        with metrics.path.open("a") as file:
            for step in range(1, 101):
                file.write(line(step=step, loss=1.0, tokens=step * 1000))
        assert metrics.append(checkpoint_step=100, upload_seconds=0.5)
        assert [figures.get("step") for figures in metrics.new_lines()] == [*range(1, 101), None]

    def test_room_grows_with_the_file(self, disk):
        metrics = Metrics(disk / "metrics.jsonl")
        for start in range(0, 3000, 1000):
            metrics.keep_room()
            with metrics.path.open("a") as file:
                file.writelines(line(step=step, loss=1.0) for step in range(start, start + 1000))
        metrics.keep_room()
        fill(disk / "data")
        with metrics.path.open("a") as file:
            file.writelines(line(step=step, loss=1.0) for step in range(3000, 3100))
        assert len(metrics.path.read_text().splitlines()) == 3100

    def test_line_cut_by_a_full_disk_costs_no_other_line(self, disk):
        metrics = Metrics(disk / "metrics.jsonl")
        metrics.path.write_text(line(step=1))
        fill(disk / "data")
        while metrics.append(step=2, loss=0.5):
            pass
        (disk / "data").unlink()
        assert metrics.append(step=3)
        before = metrics.path.read_bytes()
        assert before.splitlines()[-1] == b'{"step": 3}'
        metrics.path.write_bytes(before + b'{"step": 4, "lo')
        again = Metrics(metrics.path)
        again.prepare()
        with metrics.path.open("a") as file:
            file.write(line(step=5))
        assert list(again.new_lines()) == [{"step": 5}]


class TestWatchdog:
    def test_watchdog_counts_from_the_last_step(self):
        watchdog = Watchdog(hung_s=60, armed=False, now=0)
        watchdog.steps([{"step": 1}], 100)
        assert not watchdog.hangs(159)
        assert watchdog.hangs(160)
        watchdog.steps([{"step": 2}], 160)
        assert not watchdog.hangs(219)
        assert watchdog.last_step == 2

    def test_repeated_step_is_no_progress(self):
        watchdog = Watchdog(hung_s=60, armed=False, now=0)
        watchdog.steps([{"step": 1}], 0)
        watchdog.steps([{"step": 1}, {"loss": 2.0}, {"step": "2"}], 59)
        assert watchdog.hangs(60)

    def test_lower_step_is_progress(self):
        watchdog = Watchdog(hung_s=60, armed=True, now=0)
        watchdog.steps([{"step": 100}], 0)
        watchdog.steps([{"step": 90}], 50)
        assert not watchdog.hangs(109)

    def test_a_checkpoint_is_progress_and_does_not_begin_the_count(self):
        quiet = Watchdog(hung_s=60, armed=False, now=0)
        quiet.checkpoint(10)
        assert not quiet.hangs(1e9)
        armed = Watchdog(hung_s=60, armed=True, now=0)
        armed.checkpoint(50)
        assert not armed.hangs(109)
        assert armed.hangs(110)

    def test_watchdog_without_a_limit_never_hangs(self):
        assert not Watchdog(hung_s=None, armed=True, now=0).hangs(1e9)
