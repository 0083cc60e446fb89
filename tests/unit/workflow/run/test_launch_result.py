"""What a sandbox says of a job that succeeded and proved nothing."""

from dataclasses import replace

import pytest

from launcher.agent.checkpoint.recognition import pattern_fix
from launcher.model.errors import DeploymentFailedError
from launcher.model.report import EndedBy, RunStatus, StoredCheckpoints
from launcher.records.run_folder import RunFolder
from launcher.workflow.history.run_story import LaunchLog
from launcher.workflow.history.stored import stored_checkpoints
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from launcher.workflow.run.launch_options import LaunchOptions
from launcher.workflow.run.launch_result import check_result, refuse_unproven_run
from tests.plans import EXAMPLES, NOW
from tests.unit.records.reports import FINISHED, REPORT


def launched(tmp_path, **stored):
    """The error of a sandbox launch that succeeded before its interruption."""
    quoted = price(EXAMPLES / "tiny-gpt.yaml", NOW, PriceOptions()).quote(1)
    log = LaunchLog(folder=RunFolder(path=tmp_path), quoted=quoted, simulated=True, not_played="the job ended earlier")
    options = LaunchOptions(root=tmp_path, sandbox=True, dry_run=False, notify=lambda _: None, progress=lambda _: None)
    with pytest.raises(DeploymentFailedError, match="interruption proved nothing") as raised:
        refuse_unproven_run(log, replace(REPORT, simulated=True, **stored), options)
    return {finding.code: finding for finding in raised.value.findings}


@pytest.mark.parametrize("resumed,fix", [(100, "--fresh"), (0, "more steps")], ids=["resumed", "from step 0"])
def test_fix_of_uninterrupted_job_names_fresh_only_after_a_resume(tmp_path, resumed, fix):
    attempt = replace(FINISHED, resumed_from_step=resumed, last_step=None)
    findings = launched(tmp_path, attempts=(attempt,), stored=StoredCheckpoints(count=0))
    assert findings["not-interrupted"].message == "the interruption was not simulated: the job ended earlier"
    assert fix in findings["not-interrupted"].hint


@pytest.mark.parametrize("stored", [None, StoredCheckpoints(count=2)], ids=["mode none", "stored"])
def test_job_that_ended_before_its_interruption_has_no_fix_for_checkpoints(tmp_path, stored):
    findings = launched(tmp_path, stored=stored)
    assert findings.keys() == {"not-interrupted"}
    assert "--interrupt-after" in findings["not-interrupted"].hint
    assert "checkpoint" not in findings["not-interrupted"].hint


def test_unrecognised_checkpoints_have_the_pattern_as_their_fix(tmp_path):
    trouble = f"checkpoints-not-recognised: no file is recognised: a_5.npz{pattern_fix(['a_5.npz'])}"
    attempts = (replace(FINISHED, resumed_from_step=0),)
    findings = launched(tmp_path, attempts=attempts, stored=StoredCheckpoints(count=0, problems=(trouble,)))
    assert list(findings) == ["not-interrupted", "no-checkpoint", "checkpoints-not-recognised"]
    assert findings["no-checkpoint"].message == "the job stored no checkpoint: an interruption would lose all its work"
    unrecognised = findings["checkpoints-not-recognised"]
    assert unrecognised.message == "no file is recognised: a_5.npz"
    assert unrecognised.hint == "if these files are checkpoints, write checkpoint: {pattern: 'a_(\\d+)\\.npz'}"


@pytest.mark.parametrize("count,begins", [(3, "resumes from its newest checkpoint"), (0, "begins at step 0")])
def test_fix_of_a_job_at_its_time_limit_is_another_launch(tmp_path, count, begins):
    quoted = price(EXAMPLES / "tiny-gpt.yaml", NOW, PriceOptions()).quote(1)
    log = LaunchLog(folder=RunFolder(path=tmp_path), quoted=quoted, simulated=True)
    options = LaunchOptions(root=tmp_path, sandbox=True, dry_run=False, notify=lambda _: None, progress=lambda _: None)
    attempts = (FINISHED, replace(FINISHED, ended_by=EndedBy.TIME_LIMIT))
    stored = StoredCheckpoints(count=count)
    report = replace(REPORT, status=RunStatus.FAILED, attempts=attempts, stored=stored)
    with pytest.raises(DeploymentFailedError, match="the job was stopped at its time limit") as raised:
        check_result(log, report, options)
    assert raised.value.hint.startswith("raise run.time_limit_h and launch again: the job ")
    assert begins in raised.value.hint
    failed = replace(report, attempts=(replace(FINISHED, ended_by=EndedBy.TIME_LIMIT), FINISHED))
    with pytest.raises(DeploymentFailedError, match="the job failed"):
        check_result(log, failed, options)


def test_failure_beyond_the_exit_code_is_in_the_error_of_the_launch(tmp_path):
    quoted = price(EXAMPLES / "tiny-gpt.yaml", NOW, PriceOptions()).quote(1)
    log = LaunchLog(folder=RunFolder(path=tmp_path), quoted=quoted, simulated=True)
    options = LaunchOptions(root=tmp_path, sandbox=True, dry_run=False, notify=lambda _: None, progress=lambda _: None)
    reason = "the command completed, but run.outputs names what does not exist: out"
    events = [{"event": "checkpoint-uploaded"}, {"event": "failed", "ended_by": "failure", "reason": reason}]
    report = replace(REPORT, status=RunStatus.FAILED, attempts=(FINISHED,), stored=stored_checkpoints(events))
    with pytest.raises(DeploymentFailedError) as raised:
        check_result(log, report, options)
    assert raised.value.message == f"the job failed: {reason}"


def finish_without_checkpoint(tmp_path, option, *settings, sandbox):
    """The messages about a successful job that stored no checkpoint."""
    options = PriceOptions(settings=(f"purchase.option={option}", *settings))
    quoted = price(EXAMPLES / "tiny-gpt.yaml", NOW, options).quote(1)
    log = LaunchLog(folder=RunFolder(path=tmp_path), quoted=quoted, simulated=sandbox)
    messages = []
    launch = LaunchOptions(
        root=tmp_path, sandbox=sandbox, dry_run=False, notify=messages.append, progress=lambda _: None
    )
    attempt = replace(FINISHED, resumed_from_step=0)
    report = replace(REPORT, simulated=sandbox, attempts=(attempt,), stored=StoredCheckpoints(count=0))
    refuse_unproven_run(log, report, launch)
    return messages


@pytest.mark.parametrize("option,sandbox", [("on-demand", True), ("on-demand", False), ("spot", False)])
def test_success_without_a_checkpoint_is_warned_of_and_no_failure(tmp_path, option, sandbox):
    expected = "warning: the job stored no checkpoint: an interruption would lose all its work"
    assert finish_without_checkpoint(tmp_path, option, sandbox=sandbox) == [
        f"{expected} (save into the folder $SLIPWAY_CHECKPOINT_DIR, or set checkpoint.mode to none)"
    ]


@pytest.mark.parametrize(
    "settings,fix",
    [
        (["checkpoint.mode=dcp"], "write the shards of torch.distributed.checkpoint to $SLIPWAY_CHECKPOINT_URI"),
        (["checkpoint.mode=own", "checkpoint.uri=s3://team/run"], "save below checkpoint.uri"),
    ],
)
def test_fix_for_a_trainer_that_writes_its_own_checkpoints_names_their_place(tmp_path, settings, fix):
    (message,) = finish_without_checkpoint(tmp_path, "on-demand", *settings, sandbox=False)
    assert message.endswith(f" ({fix}, or set checkpoint.mode to agent or none)")


def test_rehearsal_of_a_spot_job_without_a_checkpoint_fails(tmp_path):
    with pytest.raises(DeploymentFailedError, match="it stored no checkpoint, on which the quote of spot rests"):
        finish_without_checkpoint(tmp_path, "spot", sandbox=True)
