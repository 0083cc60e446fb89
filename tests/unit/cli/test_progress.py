"""Progress of long operations: drawn in a terminal and removed at the end, quiet in a pipe."""

import io
import re
import threading
import time

import pytest

from launcher.cli import live, output
from launcher.cli.console import EVERY_S, JobLine, StepPrinter
from launcher.cli.live import SCREEN
from launcher.model.stages import StageNotifier, StagePart, stage
from launcher.workflow.run.follow import Progress
from tests.screen import rows
from tests.waiting import until


class Terminal(io.StringIO):
    """Standard error as a terminal whose rows can be looked at."""

    def isatty(self):
        return True

    def rows(self):
        return [row for row in rows(self.getvalue()) if row]


@pytest.fixture(autouse=True)
def fixed_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "12")
    monkeypatch.delenv("SLIPWAY_VERBOSE", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)


def standard_error(monkeypatch, stream):
    """Standard error replaced, which pytest's own capture undoes where a fixture does it."""
    monkeypatch.setattr("sys.stderr", stream)
    return stream


def moment(attempt, step, saved=None, loss=None):
    return Progress(attempt=attempt, step=step, steps=900, loss=loss, saved_step=saved, elapsed_s=0)


def without_clocks(rows):
    return [re.sub(r"\d+:\d\d", "0:00", row) for row in rows]


def test_terminal_shows_progress_and_keeps_only_log_lines(monkeypatch):
    terminal = standard_error(monkeypatch, Terminal())
    notify = StepPrinter().notify
    assert isinstance(notify, StageNotifier)
    with stage(notify, "stack a: 4 resources") as deploying:
        deploying.now(
            "1 of 4",
            share=0.25,
            parts=(StagePart(description="Network/Nat  AWS::EC2::NatGateway", begun=time.monotonic()),),
        )
        notify("something else")
        *story, sum_line, part = without_clocks(terminal.rows())
        assert story == ["  [ 0:00] stack a: 4 resources", "  [ 0:00] something else"]
        assert sum_line == "     0:00 ▰▰▰▰▰▱▱▱▱▱▱▱▱▱▱▱▱▱▱▱ 1 of 4"
        assert part.endswith(":00 Network/Nat  AWS::EC2::NatGateway")
        deploying.detail("left out, as it was shown")
    assert without_clocks(terminal.rows()) == story


def test_clock_advances_without_events(monkeypatch):
    terminal = standard_error(monkeypatch, Terminal())
    with stage(output.talking(), "reading"):
        before = terminal.getvalue()
        while "0:01" not in terminal.getvalue().removeprefix(before):
            time.sleep(0.01)


def test_progress_lines_fit_screen(monkeypatch):
    terminal = standard_error(monkeypatch, Terminal())
    with stage(output.talking(), "deploying") as deploying:
        deploying.now(
            "x" * 200, parts=tuple(StagePart(description=f"r{number}", begun=time.monotonic()) for number in range(50))
        )
        rows = terminal.rows()
    assert len(rows) < 12
    assert max(map(len, rows)) < 60


def test_progress_pauses_during_question(monkeypatch):
    terminal = standard_error(monkeypatch, Terminal())
    with stage(output.talking(), "deploying") as deploying:
        with SCREEN.aside():
            shown = terminal.getvalue()
            other = threading.Thread(target=deploying.now, args=("more",))
            other.start()
            other.join(0.05)
            assert terminal.getvalue() == shown
            assert "0:00" not in terminal.rows()[-1]
        other.join()
        assert "more" in terminal.rows()[-1]


def test_no_color_omits_colour_codes_and_keeps_text(monkeypatch):
    terminal = standard_error(monkeypatch, Terminal())
    with stage(output.talking(), "deploying") as deploying:
        deploying.now("some")
        assert "\033[2m" in terminal.getvalue()
        monkeypatch.setenv("NO_COLOR", "1")
        before = len(terminal.getvalue())
        deploying.now("other")
        assert re.findall(r"\033\[[\d;]*m", terminal.getvalue()[before:]) == []
        assert "other" in terminal.rows()[-1]


@pytest.mark.parametrize("verbose, details", [("", []), ("1", ["over"])])
def test_pipe_gets_one_line_per_stage(monkeypatch, verbose, details):
    pipe = standard_error(monkeypatch, io.StringIO())
    monkeypatch.setenv("SLIPWAY_VERBOSE", verbose)
    with stage(output.talking(), "reading prices") as reading:
        reading.now("1 of 4", share=0.25)
        reading.detail("over")
    assert pipe.getvalue().splitlines() == ["reading prices", *details]


def test_pipe_gets_heartbeat_lines_during_long_stage(monkeypatch):
    pipe = standard_error(monkeypatch, io.StringIO())
    monkeypatch.setattr(live, "HEARTBEATS_S", (0.01,))
    with stage(output.talking(), "deploying") as deploying:
        deploying.now(
            "3 of 4",
            parts=(StagePart(description="ParallelCluster/Cluster  Custom::PclusterCluster", begun=time.monotonic()),),
        )
        while "still running after 0:00: ParallelCluster/Cluster; 3 of 4" not in pipe.getvalue():
            time.sleep(0.005)
    assert "Custom::" not in pipe.getvalue()


def test_pipe_gets_heartbeats_less_and_less_often_and_none_beside_other_lines(monkeypatch):
    pipe = standard_error(monkeypatch, io.StringIO())
    monkeypatch.setattr(live, "HEARTBEATS_S", (0.05, 0.1, 60.0))
    notify = output.talking()
    with stage(notify, "synthesising"):
        until(lambda: pipe.getvalue().count("still running") == 2)
        time.sleep(0.1)
    assert pipe.getvalue().count("still running after 0:00: synthesising") == 2
    monkeypatch.setattr(live, "HEARTBEATS_S", (0.2, 0.01))
    with stage(notify, "reading"):
        for number in range(30):
            notify(f"line {number}")
            time.sleep(0.01)
    assert "reading" in pipe.getvalue()
    assert pipe.getvalue().count("still running") == 2


def test_pipe_gets_first_heartbeat_of_later_stage_as_early_as_of_first(monkeypatch):
    pipe = standard_error(monkeypatch, io.StringIO())
    monkeypatch.setattr(live, "HEARTBEATS_S", (0.05, 60.0))
    with stage(output.talking(), "launching"):
        until(lambda: pipe.getvalue().count("still running") == 1)
        for title in ("deploying", "waiting for nodes"):
            with stage(output.talking(), title):
                until(lambda title=title: re.search(rf"still running after \S+: {title}", pipe.getvalue()), seconds=30)
    assert pipe.getvalue().count("still running") == 3


def test_line_listener_gets_every_line():
    messages = []
    with stage(messages.append, "reading") as reading:
        reading.now("nothing of this")
        reading.detail("one")
    with stage(messages.append):
        messages.append("two")
    assert messages == ["reading", "one", "two"]


class TestJob:
    def test_terminal_redraws_job_line_and_keeps_last(self, monkeypatch):
        terminal = standard_error(monkeypatch, Terminal())
        with StepPrinter() as person:
            person.progress(moment(1, 20, loss=3.5))
            person.progress(moment(1, 40, saved=30))
            assert terminal.rows() == ["          attempt 1  step 40 of 900  saved at step 30"]
            person.notify("attempt 1 interrupted")
            person.progress(moment(1, 60))
        assert [row[10:] for row in terminal.rows()] == [
            "attempt 1  step 40 of 900  saved at step 30",
            "attempt 1 interrupted",
            "attempt 1  step 60 of 900",
        ]

    def test_pipe_gets_job_line_at_interval_and_before_messages(self, monkeypatch):
        pipe = standard_error(monkeypatch, io.StringIO())
        messages, seconds = [], iter([0.0, 0.0, EVERY_S - 1, EVERY_S, EVERY_S, EVERY_S + 1, EVERY_S + 2]).__next__
        job = JobLine(messages.append, seconds)
        for step in (10, 20, 30):
            job.show(moment(1, step))
        assert messages == ["attempt 1  step 10 of 900", "attempt 1  step 30 of 900"]
        job.show(moment(1, 40))
        job.flush()
        job.flush()
        assert messages[2:] == ["attempt 1  step 40 of 900"]
        assert pipe.getvalue() == ""

    def test_new_attempt_does_not_show_step_of_previous_attempt(self, monkeypatch):
        standard_error(monkeypatch, io.StringIO())
        messages = []
        job = JobLine(messages.append, iter(range(0, 1000, 20)).__next__)
        for state in (moment(1, 80, saved=60, loss=2.5), moment(2, 80, saved=94, loss=2.5), moment(2, 100, saved=94)):
            job.show(state)
        assert messages == [
            "attempt 1  step 80 of 900  loss 2.500  saved at step 60",
            "attempt 2  saved at step 94",
            "attempt 2  step 100 of 900  saved at step 94",
        ]

    def test_new_attempt_does_not_repeat_last_save_of_previous_attempt(self, monkeypatch):
        standard_error(monkeypatch, io.StringIO())
        messages = []
        job = JobLine(messages.append, iter(range(0, 1000, 20)).__next__)
        for state in (moment(1, 100, saved=114), moment(2, 100, saved=114), moment(2, 120, saved=114)):
            job.show(state)
        assert messages == [
            "attempt 1  step 100 of 900  saved at step 114",
            "attempt 2  step 120 of 900  saved at step 114",
        ]

    def test_pipe_gets_new_saved_step_at_unchanged_meter_step(self, monkeypatch):
        standard_error(monkeypatch, io.StringIO())
        messages, seconds = [], iter([0.0, 0.0, 1.0, 2.0, 3.0, 4.0]).__next__
        job = JobLine(messages.append, seconds)
        job.show(moment(1, 20, saved=20))
        job.show(moment(1, 100, saved=100))
        job.forget()  # as the meter does before its line, which has the step alone
        job.flush()
        assert messages[1:] == ["attempt 1  step 100 of 900  saved at step 100"]
        job.show(moment(1, 110, saved=100))
        job.forget()
        job.flush()
        assert len(messages) == 2
