"""Chips that nobody uses, measured on the node: by the driver's own answer, or by who has a device open."""

import os
import subprocess
import sys

import pytest

from launcher.agent import safe_json
from launcher.agent.events import EventLog
from launcher.agent.node.idle_chips import IdleChips, chips_in_use
from tests.waiting import until


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Give nvidia-smi an answer: a program that the test writes stands for it, since no GPU is here."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    def answer(text, code=0):
        program = tmp_path / "bin" / "nvidia-smi"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {code}\n")
        program.chmod(0o755)

    return answer


def test_gpu_without_a_context_is_idle(driver, tmp_path):
    driver("0, 71342\n1, 4\n2, 0\n3, 460")
    assert chips_in_use(tmp_path) == {0: True, 1: False, 2: False, 3: True}


@pytest.mark.parametrize("text, code", [("0, [N/A]", 0), ("Unable to determine the device handle", 9), ("0, 4", 9)])
def test_driver_without_an_answer_reports_no_chips(driver, tmp_path, text, code):
    driver(text, code)
    assert chips_in_use(tmp_path) == {}


def test_node_without_chips_reports_no_chips(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert chips_in_use(tmp_path) == {}


@pytest.fixture
def neuron(tmp_path):
    """Four device files, and a process that has those of a list open."""
    started = []
    for number in range(4):
        (tmp_path / f"neuron{number}").touch()

    def hold(*numbers):
        opened = "; ".join(f"f{number} = open({str(tmp_path / f'neuron{number}')!r})" for number in numbers)
        code = f"import sys; {opened}; print('open', flush=True); sys.stdin.read()"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen([sys.executable, "-c", code], **pipes)
        started.append(process)
        process.stdout.readline()

    yield hold
    for process in started:
        process.communicate()


def test_neuron_device_opened_by_a_process_is_in_use(neuron, tmp_path):
    assert chips_in_use(tmp_path) == {}, "another user's processes are not seen, and nothing is concluded"
    neuron(0, 2)
    assert chips_in_use(tmp_path) == {0: True, 1: False, 2: True, 3: False}


def events(log):
    return [safe_json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_idle_chips_are_reported_once_with_the_numbers(neuron, tmp_path):
    neuron(1)
    log = tmp_path / "events.jsonl"
    watch = IdleChips(EventLog(log), after_s=0.3, every_s=0.1, devices=tmp_path)
    watch.start()
    until(lambda: events(log))
    (event,) = events(log)
    assert (event["event"], event["chips"], event["of"]) == ("chips-idle", [0, 2, 3], 4)
    assert event["reason"].startswith("chips 0, 2, 3 of 4 were used by no process in the first")


@pytest.mark.parametrize("held", [(0, 1, 2, 3), ()])
def test_used_or_unknown_chips_are_not_reported(neuron, tmp_path, held):
    if held:
        neuron(*held)
    log = tmp_path / "events.jsonl"
    watch = IdleChips(EventLog(log), after_s=0.2, every_s=0.1, devices=tmp_path)
    watch.watch()
    assert events(log) == []


def test_command_with_an_early_end_reports_no_idle_chips(neuron, tmp_path):
    neuron(1)
    log = tmp_path / "events.jsonl"
    watch = IdleChips(EventLog(log), after_s=60, every_s=30, devices=tmp_path)
    watch.stop()
    watch.watch()
    assert events(log) == []
