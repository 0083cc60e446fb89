"""A launch on an existing Slurm: priced, gated, shipped through S3, submitted over ssh, interrupted, finished."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.model.errors import DeclinedError, DeploymentFailedError, ImpossibleError
from launcher.model.report import RunStatus
from launcher.records.run_folder import latest
from tests.plans import EXAMPLES
from tests.sandbox.example_plans import PATIENT, SAVING, TRAINER_STEPS, TRAINER_WORDS
from tests.sandbox.submit.conftest import BUCKET, KEY, KEY_ID
from tests.waiting import until

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm-submit")]

SECRET = "hf_the-value-that-nobody-writes-down"
ARN = "arn:aws:secretsmanager:us-east-2:123456789012:secret:hf-AbCdEf"
AWS = f"""[ "$1 $2" = "secretsmanager get-secret-value" ] || exit 64
echo '"{SECRET}"'
"""
SAVER = """import os
from pathlib import Path
folder = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
if not os.environ["SLIPWAY_RESUME_DIR"]:
    (folder / "tmp").mkdir()
    (folder / "tmp" / "weights").write_text("1")
    (folder / "tmp").rename(folder / "step-1")
"""
COUNTER = """import os, time
from pathlib import Path
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
print("resumes from", Path(resume).name, flush=True)
for step in range(1 + int(resume.rpartition("-")[2] or 0), 1 + int(os.environ["STEPS"])):
    (folder / "tmp").mkdir()
    (folder / "tmp" / "weights").write_text(str(step))
    (folder / "tmp").rename(folder / f"step-{step}")
    time.sleep(1.5)
"""
SECRETIVE = "import hashlib, os; print('secret', hashlib.sha256(os.environ['HF_TOKEN'].encode()).hexdigest())\n"


def test_interrupted_job_resumes_with_undisturbed_weights(far):
    shutil.copytree(EXAMPLES / "tiny_gpt", far.work, dirs_exist_ok=True)
    (far.work / "patient.py").write_text(PATIENT)
    took_away = []

    def interrupt(now):
        # As Slurm does it for a node that is gone: back into the queue, with a checkpoint in S3.
        if now.saved_step and not took_away:
            took_away.append(next(job for _, job, state in far.head.jobs() if state == "RUNNING"))
            far.head.slurm.run("scontrol", "requeue", took_away[0])

    folder, report = far.launch(far.plan([sys.executable, "patient.py", *SAVING]), progress=interrupt)
    assert report.status is RunStatus.SUCCEEDED
    assert not report.simulated
    _, last = report.attempts
    assert (last.ended_by, last.exit_code, last.last_step) == ("completed", 0, TRAINER_STEPS)
    assert last.resumed_from_step > 0
    command = [sys.executable, "train.py", *TRAINER_WORDS]
    alone = subprocess.run(
        command, cwd=far.work, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True
    )
    expected = re.search(r"weights sha256 (\w+)", alone.stdout)[1]
    logs = "".join(path.read_text() for path in sorted(folder.logs.glob("attempt-*.log")))
    assert re.findall(r"weights sha256 (\w+)", logs)[-1] == expected
    assert logs.count("slipway: fetched s3://far-checkpoints/team/.work/") == 1
    (job,) = took_away
    (name,) = [job_name for job_name, number, _ in far.head.jobs() if number == job]
    assert [number for job_name, number, _ in far.head.jobs() if job_name == name] == [job]
    assert any(line.startswith(f"submitted: job {job} on gpu1 over ssh") for line in far.messages)
    submission = folder.read_json("submission.json")
    assert (submission["job"], submission["head_node"]["host"], submission["work"]["git"]) == (job, "gpu1", None)


def test_secret_is_never_written_to_files(far):
    far.head.shadow_program("aws", AWS)
    (far.work / "train.py").write_text(SECRETIVE)
    folder, report = far.launch(far.plan([sys.executable, "train.py"], {"HF_TOKEN": ARN}))
    assert report.status is RunStatus.SUCCEEDED
    assert hashlib.sha256(SECRET.encode()).hexdigest() in (folder.logs / "attempt-1.log").read_text()
    place = Path(folder.read_json("submission.json")["folder"])
    written = [
        path for root in (far.root, place) for path in root.rglob("*") if path.is_file() and not path.is_symlink()
    ]
    assert len(written) > 10
    for secret in (SECRET, KEY, KEY_ID):
        assert [path for path in written if secret.encode() in path.read_bytes()] == []
        assert [
            k for k in far.stored() if secret.encode() in far.s3.get_object(Bucket=BUCKET, Key=k)["Body"].read()
        ] == []


def test_failed_job_ends_with_6_and_report(far):
    (far.work / "train.py").write_text("print('no such data set', flush=True)\nraise SystemExit(3)\n")
    with pytest.raises(DeploymentFailedError, match="the job failed") as failed:
        far.launch(far.plan([sys.executable, "train.py"]))
    assert failed.value.exit_code == 6
    assert far.messages[-1] == "  no such data set"
    assert "last output of attempt 1:" in far.messages
    report = latest("far", far.root).read_json("report.json")
    assert (report["status"], report["attempts"][0]["exit_code"]) == ("failed", 3)


def test_equal_work_folder_is_uploaded_once(far):
    (far.work / "train.py").write_text(SAVER)
    path = far.plan([sys.executable, "train.py"])
    folder, _ = far.launch(path)
    assert not any(line.startswith("in the store") for line in far.messages)
    far.launch(path)
    (line,) = [line for line in far.messages if line.startswith("in the store")]
    run = folder.read_json("submission.json")["key"]
    assert line == f"in the store: step 1 of run {run}"
    assert f"  s3://{BUCKET}/team" in far.messages
    before = {key for key in far.stored() if key.startswith("team/step-")}
    anew, _ = far.launch(path, fresh=True)
    place = f".fresh/{anew.read_json('submission.json')['key']}"
    assert "  it stays; this job starts at step 0, and later launches continue from this job" in far.messages
    assert before == {key for key in far.stored() if key.startswith("team/step-")}
    assert any(key.startswith(f"team/{place}/step-1/") for key in far.stored())
    after, _ = far.launch(path)
    assert after.read_json("submission.json")["checkpoint_uri"] == f"s3://{BUCKET}/team/{place}"
    assert far.messages.count("  this job resumes from it; --fresh starts at step 0 and deletes nothing") == 2
    assert f"  s3://{BUCKET}/team/{place}" in far.messages
    shipped = [line for line in far.messages if line.startswith("run.workdir: ")]
    assert [line.rpartition(", ")[2] for line in shipped] == ["sent to S3", *["already in S3"] * 3]
    assert len([key for key in far.stored() if "/.work/" in key]) == 1


def test_from_step_resumes_there_and_keeps_later_steps(far):
    (far.work / "train.py").write_text(COUNTER)
    path = far.plan(["env", "STEPS=3", sys.executable, "train.py"])
    far.launch(path)
    before = {key for key in far.stored() if "/step-" in key}
    folder, _ = far.launch(far.plan(["env", "STEPS=2", sys.executable, "train.py"]), from_step=1)
    assert far.messages.count("this job resumes from step 1; out of the running, not deleted: 3, 2") == 2
    assert "resumes from step-1" in (folder.logs / "attempt-1.log").read_text()
    assert before <= {*far.stored()}
    with pytest.raises(ImpossibleError, match="no checkpoint of step 9"):
        far.launch(path, from_step=9)


def test_following_can_be_interrupted_and_job_continues(far):
    (far.work / "train.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")

    def stop(now):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        far.launch(far.plan([sys.executable, "train.py"]), progress=stop)
    folder = latest("far", far.root)
    assert folder.read_json("report.json")["status"] == "running"
    goes_on, *hints = far.messages[-3:]
    assert goes_on.startswith("the job continues, at $")
    assert goes_on.endswith(" an hour")
    assert hints == ["next: slipway attach far", "next: slipway cancel far"]
    job = folder.read_json("submission.json")["job"]
    assert [state for _, number, state in far.head.jobs() if number == job] == ["RUNNING"]
    until(lambda: "team/claim.json" in far.stored())

    def decline():
        raise DeclinedError("no")

    requests = []
    with pytest.raises(DeclinedError):
        far.launch(far.root / "plan.yaml", approve=decline, second=requests.append)
    assert requests == ["submit a second job of far beside it"]
    assert "writes to this checkpoint store now: until it ends, this job is refused" in far.messages[-2]
    assert far.messages[-1].startswith(f"warning: job {job} of this plan, run {folder.path.name}, is running")


def test_ssh_server_outage_during_job_is_tolerated(far):
    (far.work / "train.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(6)\n")
    cut = []

    def lose(now):
        if not cut:
            cut.append(now)
            for process in subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(far.sshd.daemon.pid)], capture_output=True, text=True, check=True
            ).stdout.split():
                os.kill(int(process), 9)

    folder, report = far.launch(far.plan([sys.executable, "train.py"]), progress=lose)
    assert cut
    assert report.status is RunStatus.SUCCEEDED
    assert (folder.logs / "attempt-1.log").is_file()


def test_ssh_launch_without_checkpoint_uri_refused(far):
    with pytest.raises(ImpossibleError, match=r"checkpoint\.uri: auto gives no S3 location"):
        far.launch(far.plan(["true"], uri="auto"))
