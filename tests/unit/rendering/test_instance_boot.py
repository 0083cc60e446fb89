"""The script that starts a job on a plain instance: what it does when the job cannot be started."""

import json
import os
import subprocess
from dataclasses import replace

import pytest

from launcher.planning.pin import pinned_plan
from launcher.rendering.names import symbolic_names
from launcher.targets.ec2.files import user_data
from tests import plans
from tests.infra.guard_modules import guard_module

LEFT = "complete-lifecycle-action"
REPLACED, STOPPED = ["terminate-instance-in-auto-scaling-group", LEFT], ["set-desired-capacity", LEFT]
CURL = """#!/bin/bash
case "${@: -1}" in
    */api/token) echo token ;;
    */instance-id) echo "$INSTANCE" ;;
    *) echo unfit-1 ;;
esac
"""
AWS = """#!/bin/bash
echo "$*" >>"$CALLS"
if [[ "$*" == *--recursive* ]]; then
    mkdir -p "${@: -1}"
    printf '%s\\n' 'print("no driver for this chip")' 'raise SystemExit(3)' >"${@: -1}/instance.py"
elif [[ "$1 $2" == "s3 cp" ]]; then
    mkdir -p "$BUCKET/$(dirname "${5#s3://}")" && cp "$4" "$BUCKET/${5#s3://}"
elif [[ "$1 $2" == "logs create-log-stream" ]]; then
    [[ -z "${STREAM_EXISTS:-}" ]]
elif [[ "$1 $2" == "s3 ls" ]]; then
    ls "$BUCKET/${3#s3://}"
fi
"""


@pytest.fixture
def boot(tmp_path, catalog):
    """Boots an instance by its id; returns its calls of EC2 Auto Scaling and the messages to the guard by then."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("curl", CURL), ("aws", AWS)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    data = {
        "slipway": 1,
        "name": "unfit",
        "workload": {"train": {"hours": 1}},
        "target": {"kind": "ec2", "region": "us-east-2", "instance_type": "g5.xlarge", "nodes": 1},
        "purchase": {"option": "on-demand"},
        "run": {"command": ["true"]},
    }
    plan = pinned_plan(plans.request_of(data), catalog)
    names = replace(symbolic_names(plan), store_uri="s3://store", message_uri="s3://store/guard/messages")
    script = tmp_path / "user-data"
    script.write_text(user_data(plan, names))

    def run(instance, code=3, **variables):
        root, calls, bucket = tmp_path / instance, tmp_path / f"{instance}.calls", tmp_path / "s3"
        environment = {"SLIPWAY_ROOT": str(root), "CALLS": str(calls), "BUCKET": str(bucket), "INSTANCE": instance}
        environment |= {"PATH": f"{programs}:{os.environ['PATH']}", **variables}
        done = subprocess.run(["bash", script], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        scaling = [line.split()[1] for line in calls.read_text().splitlines() if line.startswith("autoscaling")]
        return scaling, [path.read_text() for path in bucket.rglob("start-failed-*.json")]

    return run


def test_third_failed_start_stops_group_and_notifies_with_last_lines(boot):
    assert boot("i-1") == (REPLACED, [])
    assert boot("i-2") == (REPLACED, [])
    scaling, (message,) = boot("i-3")
    assert scaling == STOPPED
    assert json.loads(message)["schema"] == "slipway.message/1"
    with guard_module("job_messages") as messages:
        event, words = messages.parse_message(message)
        assert event in messages.SUBJECTS
    assert words.startswith("job unfit-1, attempt 1: 3 instances could not start it")
    assert "no driver for this chip" in words
    assert "exit code 3" in words


@pytest.mark.parametrize("shipped", [False, True])
def test_last_lines_of_failed_start_reach_log_group_unless_instance_program_copied_them(boot, tmp_path, shipped):
    boot("i-1", **({"STREAM_EXISTS": "1"} if shipped else {}))
    calls = (tmp_path / "i-1.calls").read_text()
    stream = "--log-group-name slipway-unfit-instances --log-stream-name unfit-1/i-1"
    assert f"logs create-log-stream {stream}\n" in calls
    put = [line for line in calls.splitlines() if line.startswith(f"logs put-log-events {stream} --log-events ")]
    texts = [event["message"] for line in put for event in json.loads(line.partition(" --log-events ")[2])]
    assert ("no driver for this chip" in texts) is not shipped


@pytest.mark.parametrize("disk", ["full", "of links to nowhere"])
def test_start_without_room_for_its_log_ends_instance_and_reports_last_lines(boot, tmp_path, disk):
    full = tmp_path / "full"
    full.mkdir()
    (full / "boot.log").symlink_to("/dev/full" if disk == "full" else tmp_path / "none" / "boot.log")
    scaling, _ = boot("i-1", SLIPWAY_ROOT=str(full), TMPDIR=str(tmp_path / "none"))
    assert scaling == REPLACED
    (end,) = (tmp_path / "s3").rglob("i-1.txt")
    assert "no driver for this chip" in end.read_text()


def test_image_without_python_reports_its_last_lines_to_log_group_and_guard(boot, tmp_path):
    (tmp_path / "bin/python3").write_text("#!/bin/bash\necho 'bash: \"python3\": \\ command not found' >&2\nexit 127\n")
    (tmp_path / "bin/python3").chmod(0o755)
    for instance in ("i-1", "i-2"):
        assert boot(instance, 127) == (REPLACED, [])
    scaling, (message,) = boot("i-3", 127)
    assert scaling == STOPPED
    assert 'bash: "python3": \\ command not found | slipway: ' in json.loads(message)["reason"]
    (put,) = [line for line in (tmp_path / "i-3.calls").read_text().splitlines() if line.startswith("logs put-log")]
    texts = [event["message"] for event in json.loads(put.partition(" --log-events ")[2])]
    assert texts[0] == "slipway: instance i-3 of job unfit-1"
    assert texts[1] == 'bash: "python3": \\ command not found'


def test_failed_start_ends_wait_of_lifecycle_hook_when_group_has_begun_to_terminate(boot, tmp_path):
    refuses_once = '[[ "$2" != complete-lifecycle-action || -e "$CALLS.left" ]] || { touch "$CALLS.left"; exit 254; }'
    (tmp_path / "bin/aws").write_text(f"{AWS}{refuses_once}\n")
    (tmp_path / "bin/sleep").write_text("#!/bin/bash\n")
    (tmp_path / "bin/sleep").chmod(0o755)
    assert boot("i-1") == ([*REPLACED, LEFT], [])
    (ends, _) = [line for line in (tmp_path / "i-1.calls").read_text().splitlines() if LEFT in line]
    assert "--lifecycle-hook-name save --instance-id i-1 --lifecycle-action-result CONTINUE" in ends


def test_instance_without_its_store_stops_group_and_leaves_last_lines_in_log_group(boot, tmp_path):
    unreachable = AWS.replace(
        'echo "$*" >>"$CALLS"', 'echo "$*" >>"$CALLS"\n[[ "$1" != s3 ]] || { echo "no route" >&2; exit 1; }'
    )
    (tmp_path / "bin/aws").write_text(unreachable)
    assert boot("i-1", 1) == (STOPPED, [])
    calls = (tmp_path / "i-1.calls").read_text().splitlines()
    (put,) = [line for line in calls if line.startswith("logs put-log-events")]
    texts = [event["message"] for event in json.loads(put.partition(" --log-events ")[2])]
    assert texts[1] == "no route"
