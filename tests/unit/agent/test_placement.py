import io
import json
import os
import stat
import sys

import pytest

from launcher.agent import exits
from launcher.agent.errors import JobSpecError
from launcher.agent.events import EventLog, events_path
from launcher.agent.node.drain import drain_node
from launcher.agent.node.placement import placement
from launcher.agent.program import main
from launcher.agent.store.objects import client_options

BATCH = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "4", "SLURM_NODEID": "0", "SLURMD_NODENAME": "p5-1"}
STEP = BATCH | {"SLURM_STEP_ID": "2", "SLURM_STEP_NUM_NODES": "3", "SLURM_NODEID": "1"}


class TestPlacement:
    def test_placement_without_a_scheduler_is_a_single_node(self):
        place = placement("r", {})
        assert (place.attempt, place.part, place.parts, place.session) == (1, 0, 1, "r.a1")
        assert placement("r", {"SLIPWAY_ATTEMPT": "4"}).attempt == 4

    def test_batch_script_has_a_single_node(self):
        place = placement("r", BATCH)
        assert (place.attempt, place.part, place.parts, place.node) == (1, 0, 1, "p5-1")

    def test_requeued_job_is_the_next_attempt(self):
        assert placement("r", BATCH | {"SLURM_RESTART_COUNT": "2", "SLIPWAY_ATTEMPT": "9"}).attempt == 3

    def test_slurm_step_has_the_nodes_of_the_step(self):
        place = placement("r", STEP)
        assert (place.part, place.parts, place.session) == (1, 3, "r.a1.7.2")

    def test_invalid_number_is_refused(self):
        with pytest.raises(JobSpecError, match="SLURM_RESTART_COUNT: got 'x'"):
            placement("r", BATCH | {"SLURM_RESTART_COUNT": "x"})


class TestEvents:
    def test_events_are_json_lines_with_the_fields_of_the_log(self, tmp_path, capsys):
        log = EventLog(tmp_path / "new" / "events.jsonl", run="r", attempt=2)
        log.append("restored", step=120, seconds=0.5, at=None)
        log.append("failed", reason="a\nb")
        lines = [json.loads(line) for line in (tmp_path / "new" / "events.jsonl").read_text().splitlines()]
        assert [{**line, "time": None} for line in lines] == [
            {"time": None, "event": "restored", "run": "r", "attempt": 2, "step": 120, "seconds": 0.5, "at": None},
            {"time": None, "event": "failed", "run": "r", "attempt": 2, "reason": "a\nb"},
        ]
        assert lines[0]["time"].endswith("Z")
        assert capsys.readouterr().err.splitlines()[0] == "[slipway] restored step=120 seconds=0.5"

    def test_a_torn_line_is_ended(self, tmp_path):
        path = tmp_path / "events.jsonl"
        path.write_text('{"event": "one"}\n{"event": "tw')
        EventLog(path).append("three")
        lines = path.read_text().splitlines()
        assert lines[:2] == ['{"event": "one"}', '{"event": "tw']
        assert json.loads(lines[2])["event"] == "three"

    def test_lines_of_a_full_disk_follow_after_space_is_freed(self, tmp_path, monkeypatch):
        log, real = EventLog(tmp_path / "events.jsonl"), os.write
        with monkeypatch.context() as full:
            full.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:9]))
            log.append("one")
            log.append("two")
        log.append("three")
        lines = (tmp_path / "events.jsonl").read_text().splitlines()
        assert [len(line) for line in lines[:2]] == [9, 8]  # pieces, each ended
        assert [json.loads(line)["event"] for line in lines[2:]] == ["one", "two", "three"]

    def test_unwritable_log_is_reported_once(self, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        log = EventLog(tmp_path / "file" / "events.jsonl")
        log.append("one")
        log.append("two")
        assert capsys.readouterr().err.count("events cannot be written") == 1

    def test_a_line_is_printed_in_one_piece(self, tmp_path, monkeypatch):
        """The command prints into the same file; without a buffer, print() writes a line and its end apart."""
        writes = []

        class Writes(io.BytesIO):
            def write(self, data):
                writes.append(bytes(data))
                return super().write(data)

        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(Writes(), write_through=True))
        EventLog(tmp_path / "events.jsonl").append("restored", step=1)
        assert (
            main(["run", "--config", str(tmp_path / "none.json")]) != 0
        )  # the agents of a job print into one log, too
        monkeypatch.undo()
        assert writes[0] == b"[slipway] restored step=1\n"
        assert len(writes) == 2
        assert writes[1].startswith(b"slipway-agent: ")
        assert writes[1].endswith(b"\n")

    def test_every_node_has_a_separate_events_file(self, tmp_path):
        assert events_path(tmp_path / "events.jsonl", part=0) == tmp_path / "events.jsonl"
        assert events_path(tmp_path / "events.jsonl", part=3) == tmp_path / "events-part3.jsonl"


class TestDrain:
    @pytest.fixture
    def scontrol(self, tmp_path, monkeypatch):
        """A stand-in for Slurm's scontrol: records its calls, and fails on request."""
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setenv("SLURMD_NODENAME", "p5-1")

        def install(code=0):
            path = tmp_path / "scontrol"
            path.write_text(
                f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/called\necho "not permitted" >&2\nexit {code}\n'
            )
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

        return install

    def test_drain_node_calls_scontrol_with_the_reason(self, tmp_path, scontrol):
        scontrol()
        assert drain_node("slipway: spot terminate") is None
        called = (tmp_path / "called").read_text()
        assert called == "update|nodename=p5-1|state=drain|reason=slipway: spot terminate|"

    def test_failed_drain_reports_the_reason(self, scontrol, monkeypatch):
        scontrol(code=1)
        assert drain_node("x").startswith("not permitted")
        monkeypatch.setenv("PATH", "/nowhere")
        assert "scontrol" in drain_node("x")
        monkeypatch.delenv("SLURMD_NODENAME")
        assert drain_node("x") == "SLURMD_NODENAME is not set: not under Slurm"


class TestDrainAsRoot:
    """Where the job's user may not drain, and may become root: the default users of ParallelCluster's images."""

    @pytest.fixture
    def programs(self, tmp_path, monkeypatch):
        scontrol = tmp_path / "scontrol"
        scontrol.write_text(f'#!/bin/sh\n[ -n "$AS_ROOT" ] && printf "%s|" "$@" >{tmp_path}/called || exit 1\n')
        sudo = tmp_path / "sudo"
        sudo.write_text(f'#!/bin/sh\nprintf "%s " "$@" >{tmp_path}/asked\nshift\nAS_ROOT=1 exec "$@"\n')
        for path in (scontrol, sudo):
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setenv("SLURMD_NODENAME", "p5-1")
        monkeypatch.setattr("os.getuid", lambda: 1000)
        return tmp_path

    def test_denied_drain_is_repeated_as_root(self, programs, monkeypatch):
        monkeypatch.setenv("SLURM_CONF", "/opt/slurm/etc/slurm.conf")
        assert drain_node("x") is None
        assert (programs / "called").read_text() == "update|nodename=p5-1|state=drain|reason=x|"
        assert (programs / "asked").read_text().startswith("-n env SLURM_CONF=/opt/slurm/etc/slurm.conf ")

    def test_failed_drain_as_root_reports_both_errors(self, programs):
        (programs / "sudo").write_text('#!/bin/sh\necho "sudo: a password is required" >&2\nexit 1\n')
        assert "scontrol ended with 1; as root: sudo: a password is required" in drain_node("x")

    def test_denied_drain_without_sudo_reports_both_reasons(self, programs, monkeypatch):
        (programs / "sudo").unlink()
        monkeypatch.setenv("PATH", str(programs))
        (programs / "scontrol").write_text("#!/bin/sh\necho denied\nexit 1\n")
        assert drain_node("x") == "denied; sudo is not installed"


@pytest.mark.parametrize("returncode,code", [(0, 0), (1, 1), (85, 85), (255, 255), (75, 1), (-9, 137), (-15, 143)])
def test_a_commands_code_is_handed_on_and_is_never_taken_for_an_interruption(returncode, code):
    assert exits.exit_code_of(returncode) == code


@pytest.mark.parametrize(
    "endpoint,style",
    [
        ("http://localhost:5000", "path"),
        ("http://127.0.0.1:5000", "path"),
        ("http://[::1]:5000", "path"),
        ("https://s3.us-west-2.amazonaws.com", "auto"),
        ("", "auto"),
    ],
)
def test_bucket_is_in_the_path_for_endpoints_without_host_buckets(endpoint, style):
    assert client_options({"AWS_ENDPOINT_URL_S3": endpoint})["addressing_style"] == style
    assert client_options({"AWS_ENDPOINT_URL": endpoint})["addressing_style"] == style


def test_pod_number_comes_from_the_pod_variables():
    pod = {"SLIPWAY_POD": "train-1-x", "SLIPWAY_PART": "1", "SLIPWAY_PARTS": "4", "SLIPWAY_NODE": "ip-10-0-0-1"}
    placed = placement("r1", pod)
    assert (placed.node, placed.part, placed.parts, placed.attempt) == ("train-1-x", 1, 4, 1)
