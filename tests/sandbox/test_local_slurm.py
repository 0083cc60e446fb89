"""The launcher's own Slurm over a shell on which the local scheduler answers."""

import os

import pytest

from launcher.model.job import JobState, Submitted
from launcher.submit.jobs import SchedulerError
from launcher.submit.shell import LocalShell
from launcher.submit.slurm import Slurm
from tests.waiting import until


@pytest.fixture
def slurm(local_slurm, tmp_path):
    (tmp_path / "home").mkdir()
    environment = {**local_slurm.environment(os.environ["PATH"]), "HOME": str(tmp_path / "home")}
    return Slurm(shell=LocalShell(environment))


@pytest.fixture
def job_folder(tmp_path):
    def make(text, *options):
        place = tmp_path / "head"
        place.mkdir()
        lines = "".join(f"#SBATCH {option}\n" for option in ("--requeue", "--open-mode=append", *options))
        (place / "job.sbatch").write_text(f"#!/bin/bash\n{lines}{text}\n")
        return str(place)

    return make


def test_job_is_submitted_once_followed_and_read(slurm, job_folder):
    place = job_folder('echo "$SLURM_JOB_NAME in $SLURM_JOB_PARTITION"; [ -n "${SLURM_RESTART_COUNT-}" ] || exit 75')
    assert slurm.partition("p5-48xlarge", "p5.48xlarge") == "gpu"
    job = slurm.submit("team-1", place, "job.sbatch", partition="gpu")
    assert slurm.submit("team-1", place, "job.sbatch", partition="gpu") == job
    assert slurm.find("team-1", place) == job
    until(lambda: slurm.facts(job).state.final)
    facts = slurm.facts(job)
    assert (facts.state, facts.word, facts.restarts) == (JobState.COMPLETED, "COMPLETED", 1)
    assert (facts.attempt.number, facts.attempt.exit_code, facts.attempt.nodes) == (2, 0, ("gpu-dy-p5-1",))
    (printed,) = slurm.read(job, {f"slurm-{job.job}.out": 0}).values()
    assert printed.data == b"team-1 in gpu\n" * 2


def test_running_job_cancelled_only_without_pending_limit(slurm, job_folder):
    job = slurm.submit("team-2", job_folder("echo up; sleep 600"), "job.sbatch", partition="gpu")
    facts = until(lambda: (job_facts := slurm.facts(job)).state is JobState.RUNNING and job_facts)
    assert facts.nodes == ("gpu-dy-p5-1",)
    slurm.cancel(job, only_pending=True)
    assert slurm.facts(job).state is JobState.RUNNING
    slurm.cancel(job)
    until(lambda: slurm.facts(job).state is JobState.CANCELLED)


def test_waiting_or_refused_job_gives_reason(slurm, job_folder, tmp_path):
    (tmp_path / "all.sh").write_text("#!/bin/sh\n#SBATCH --nodes=2\nsleep 600\n")
    assert slurm.shell.run(f"cd {tmp_path} && sbatch --parsable all.sh").code == 0
    place = job_folder("true")
    with pytest.raises(SchedulerError, match=r"sbatch refuses the job: sbatch: error: .* available: 0"):
        slurm.submit("team-3", place, "job.sbatch", partition="cpu")
    job = slurm.submit("team-3", place, "job.sbatch", partition="gpu")
    assert (slurm.facts(job).state, slurm.facts(job).reason) == (JobState.PENDING, "Resources")


def test_unknown_job_is_not_found_and_cancel_is_no_error(slurm, job_folder):
    place = job_folder("true")
    assert slurm.find("team-4", place) is None
    assert slurm.facts(Submitted(job="99", key="team-4", folder=place)) is None
    slurm.cancel(Submitted(job="99", key="team-4", folder=place))


@pytest.mark.parametrize(
    "command, message",
    [
        ("squeue --long", "unrecognized option '--long'"),
        ("squeue", "prints only job ids"),
        ("sbatch --parsable", "sbatch needs exactly one batch script, got: none"),
        ("scontrol update partition=x", "cannot update partition"),
        ("scancel --user=ada 1", "unrecognized option '--user'"),
        ("sacct", "accounting storage is disabled"),
    ],
)
def test_unsupported_command_or_option_refused(slurm, command, message):
    answer = slurm.shell.run(f"cd /tmp && {command}")
    assert answer.code == 1
    assert message in answer.err


def test_command_without_scheduler_reports_no_controller(local_slurm, slurm):
    local_slurm.stop()
    answer = slurm.shell.run("squeue --noheader --format=%i")
    assert answer.code == 1
    assert "Unable to contact slurm controller" in answer.err
