"""`slipway approve`: only a person in a terminal approves, and an approval is for one quote, once, for a time."""

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from launcher.answers.approve import sentence
from launcher.cli import options
from launcher.cli.approved import answers
from launcher.mcp_server.commands import StartedCommands
from launcher.model.errors import ImpossibleError, OverBudgetError, UnreadableInputError
from launcher.records.approval import Action, claim, find_approval, new_id, open_approvals, revoke, write_approval
from launcher.workflow.quote.approval import (
    approval_of,
    duration,
    limit_options,
    quoted_for_approval,
    refuse_other_quote,
    removal_approval,
    usable,
)
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.terminal import terminal, until

PLAN = """
slipway: 1
name: small
workload: {train: {model: {params_b: 0.1}, method: full, hours: 1}}
target: {kind: parallelcluster, region: us-east-1, instance_type: g5.2xlarge, nodes: 1}
purchase: {option: on-demand}
checkpoint: {mode: none}
"""
STOPPED = PLAN + "budget: {stop_at_usd: 20}\n"
EXAMPLES = Path(__file__).parents[3] / "examples"
NOW = datetime.now(UTC).replace(microsecond=0)
LIMIT = PriceOptions(max_usd=Decimal(20))


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return dict(os.environ)


def write(folder, text=STOPPED):
    (folder / "plan.yaml").write_text(text)
    return folder / "plan.yaml"


def approve(path, state, *, action=Action.LAUNCH, how=LIMIT, sandbox=False, lasts=timedelta(hours=2)):
    picked = quoted_for_approval(path, NOW, how, selection=None, sandbox=sandbox)
    approval = approval_of(picked, action, how, file=path, sandbox=sandbox, now=NOW, lasts=lasts)
    write_approval(approval, state)
    return approval


def use_quota(approval, path, action=Action.LAUNCH, *, state, sandbox=False, now=NOW):
    return usable(approval.id, action, file=str(path), sandbox=sandbox, environment=state, now=now)


def test_approve_without_terminal_refused_with_any_flag(tmp_path, state):
    path = write(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "launcher", "approve", str(path), "--max-usd", "20"],
        input="small\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "only a person can approve: no terminal" in done.stderr
    assert open_approvals(state, NOW) == []


def test_approve_has_no_yes_or_confirm_flag(slipway):
    shown = slipway("approve", "--help").out
    assert "--yes" not in shown
    assert "--confirm" not in shown


@pytest.mark.long
@pytest.mark.parametrize("typed,kept", [("small", 1), ("y", 0)])
def test_approve_in_terminal_keeps_approval_only_after_plan_name_is_typed(tmp_path, state, typed, kept):
    path = write(tmp_path)
    command = [sys.executable, "-m", "launcher", "approve", str(path), "--max-usd", "20", "--for", "30m"]
    with terminal(command, state, tmp_path) as file:
        until(file, "approve this launch: ")
        os.write(file, f"{typed}\n".encode())
        until(file, "--approval" if kept else "nothing was done")
    known = open_approvals(state, datetime.now(UTC))
    assert len(known) == kept
    for approval in known:
        assert (approval.name, approval.max_usd, approval.stop_usd) == ("small", 20, 20)
        assert timedelta(minutes=25) < approval.expires_at - datetime.now(UTC) <= timedelta(minutes=30)
        (file,) = (tmp_path / "state" / "slipway" / "approvals").iterdir()
        assert file.stat().st_mode & 0o077 == 0


def test_approval_used_twice_refused(tmp_path, state):
    path = write(tmp_path)
    approval = approve(path, state)
    assert use_quota(approval, path, state=state) == approval
    claim(approval, state)
    with pytest.raises(ImpossibleError, match="is used or was taken back: each is for one action"):
        claim(approval, state)
    with pytest.raises(ImpossibleError, match="is used"):
        use_quota(approval, path, state=state)
    assert open_approvals(state, NOW) == []


def test_expired_approval_refused(tmp_path, state):
    path = write(tmp_path)
    approval = approve(path, state, lasts=timedelta(minutes=1))
    with pytest.raises(ImpossibleError, match="expired at"):
        use_quota(approval, path, state=state, now=NOW + timedelta(minutes=1))


def test_revoked_approval_refused(tmp_path, state):
    approval = approve(write(tmp_path), state)
    revoke(approval.id, state, NOW)
    with pytest.raises(ImpossibleError, match="was taken back"):
        find_approval(approval.id, state, NOW)


@pytest.mark.parametrize(
    "change,message",
    [
        ({"action": Action.DEPLOY}, "is for another action: launch, not deploy"),
        ({"sandbox": True}, "is for another place: AWS, not the sandbox"),
        ({"path": "other.yaml"}, "is for another plan: "),
    ],
)
def test_approval_for_another_action_place_or_plan_refused(tmp_path, state, change, message):
    path = write(tmp_path)
    approval = approve(path, state)
    with pytest.raises(ImpossibleError, match=message):
        use_quota(
            approval,
            change.get("path", path),
            change.get("action", Action.LAUNCH),
            state=state,
            sandbox=change.get("sandbox", False),
        )


@pytest.mark.parametrize("given", ["../../plan", "0" * 11, "A" * 12, ""])
def test_invalid_approval_id_refused(state, given):
    with pytest.raises(UnreadableInputError, match="12 hexadecimal digits"):
        find_approval(given, state, NOW)


def test_approval_file_edited_by_hand_refused(tmp_path, state):
    approval = approve(write(tmp_path), state)
    file = tmp_path / "state" / "slipway" / "approvals" / f"{approval.id}.json"
    file.write_text(file.read_text().replace('"max_usd": "20"', '"max_usd": 1e9'))
    with pytest.raises(UnreadableInputError, match="is no approval: max_usd must be"):
        find_approval(approval.id, state, NOW)


def test_approval_after_plan_change_refused_as_another_quote(tmp_path, state):
    path = write(tmp_path)
    approval = approve(path, state)
    changed = quoted_for_approval(
        write(tmp_path, STOPPED.replace("hours: 1", "hours: 2")), NOW, LIMIT, selection=None, sandbox=False
    )
    with pytest.raises(ImpossibleError, match=f"is for quote {approval.digest[:6]}"):
        refuse_other_quote(approval, changed.quoted.digest, changed.quoted.usd.high)


@pytest.mark.parametrize("change", [("hours: 1", "hours: 2"), ("g5.2xlarge", "g5.4xlarge"), ("nodes: 1", "nodes: 2")])
def test_launch_of_changed_plan_says_that_the_approval_is_for_another_quote(tmp_path, state, slipway, change):
    (tmp_path / "train.py").touch()
    path = write(tmp_path)
    approval = approve(path, state)
    write(tmp_path, STOPPED.replace(*change))
    ended = slipway("launch", str(path), "--approval", approval.id)
    assert ended.code == 5
    assert f"approval {approval.id} is for quote {approval.digest[:6]}, which the plan no longer has" in ended.err
    assert open_approvals(state, NOW) == [approval]


def test_approval_refused_when_quote_exceeds_approved_dollars(tmp_path, state):
    approval = approve(write(tmp_path), state)
    with pytest.raises(OverBudgetError, match=r"for \$20, and the job may cost \$20[.]01"):
        refuse_other_quote(approval, approval.digest, Decimal("20.01"))
    with pytest.raises(OverBudgetError, match="has no price"):
        refuse_other_quote(approval, approval.digest, None)


def test_approval_with_limit_below_high_estimate_refused(tmp_path, state):
    with pytest.raises(OverBudgetError):
        quoted_for_approval(write(tmp_path), NOW, PriceOptions(max_usd=Decimal(1)), selection=None, sandbox=False)


def test_approval_without_selection_is_of_the_candidate_that_a_launch_would_choose(tmp_path):
    text = "slipway: 1\nname: open\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}\n"
    path = write(tmp_path, text + "target: {kind: [ec2]}\nbudget: {stop_at_usd: 2000}\n")
    day, how = datetime(2026, 11, 20, 12, tzinfo=UTC), PriceOptions(max_usd=Decimal(2000))
    oldest = price(path, day, replace(how, max_price_age=3650)).quote(1)
    picked = quoted_for_approval(path, day, how, selection=None, sandbox=False)
    assert picked.quoted.digest == price(path, day, how).quote(1).digest != oldest.digest
    rehearsed = quoted_for_approval(path, day, how, selection=None, sandbox=True)
    assert rehearsed.quoted.digest == picked.quoted.digest
    with pytest.raises(OverBudgetError) as refused:
        quoted_for_approval(
            path, day, replace(how, max_usd=Decimal(100)), selection=picked.quoted.digest, sandbox=False
        )
    assert oldest.digest[:6] not in refused.value.hint


@pytest.mark.parametrize("text,got", [(PLAN, "is not set"), (STOPPED.replace("20}", "900}"), "is \\$900")])
def test_approval_on_aws_requires_equal_stop_at_usd(tmp_path, state, text, got):
    path = write(tmp_path, text)
    with pytest.raises(OverBudgetError, match=f"budget.stop_at_usd {got}") as refused:
        quoted_for_approval(path, NOW, LIMIT, selection=None, sandbox=False)
    assert "--set budget.stop_at_usd=20" in refused.value.hint
    with_setting = replace(LIMIT, settings=("budget.stop_at_usd=20",))
    assert approve(path, state, how=with_setting).stop_usd == 20


def test_approval_in_sandbox_requires_no_guard(tmp_path, state):
    assert approve(write(tmp_path, PLAN), state, sandbox=True).stop_usd is None


def test_approval_caps_max_usd_and_refuses_other_settings_or_candidate(tmp_path, state):
    path = write(tmp_path, PLAN)
    approval = approve(path, state, how=replace(LIMIT, settings=("budget.stop_at_usd=20",)))
    higher = limit_options(PriceOptions(max_usd=Decimal(900)), approval)
    assert (higher.max_usd, higher.settings) == (20, ("budget.stop_at_usd=20",))
    assert limit_options(PriceOptions(max_usd=Decimal(5)), approval).max_usd == 5
    other = replace(options.price_options(max_usd=None), settings=())
    with pytest.raises(ImpossibleError, match="for other settings"):
        answers(
            approval.id,
            Action.LAUNCH,
            path,
            replace(other, settings=("target.nodes=8",)),
            None,
            yes=False,
            sandbox=False,
        )
    with pytest.raises(ImpossibleError, match="another candidate"):
        answers(approval.id, Action.LAUNCH, path, other, "abcdef", yes=False, sandbox=False)


@pytest.mark.parametrize("region", [None, "us-east-1"], ids=["by the plan file", "by --region"])
def test_launch_in_another_region_than_the_approved_refused(tmp_path, state, region):
    path = write(tmp_path)
    approval = approve(path, state, how=replace(LIMIT, region=region))
    for asked in (None, region):
        given = answers(approval.id, Action.LAUNCH, path, replace(LIMIT, region=asked), None, yes=False, sandbox=False)
        assert given.price_options.region == region
    elsewhere = replace(LIMIT, region="us-west-2")
    with pytest.raises(ImpossibleError, match=r"is for region (us-east-1|of the plan file), not us-west-2"):
        answers(approval.id, Action.LAUNCH, path, elsewhere, None, yes=False, sandbox=False)
    assert [kept.id for kept in open_approvals(state, NOW)] == [approval.id]


def test_approval_refuses_second_job_and_stays_single_use(tmp_path, state):
    approval = approve(write(tmp_path), state)
    how = replace(options.price_options(), settings=())
    given = answers(approval.id, Action.LAUNCH, tmp_path / "plan.yaml", how, None, yes=False, sandbox=False)
    assert given.selection == approval.digest
    with pytest.raises(ImpossibleError, match="a job of small runs already"):
        given.second("launch a second job")
    given.console.approve("launch small")
    assert open_approvals(state, NOW) == []


@pytest.mark.parametrize("text", ["0h", "25h", "2", "2 h", "1d", "-1h", "1440m1", ""])
def test_approval_duration_invalid_or_over_24h_refused(text):
    with pytest.raises(UnreadableInputError, match="--for takes 1m to 24h, got"):
        duration(text)


def test_down_with_approval_refuses_checkpoints_flag(tmp_path, state, slipway):
    approval = removal_approval("small", region="us-east-1", sandbox=False, now=NOW, lasts=timedelta(hours=1))
    write_approval(approval, state)
    result = slipway("down", "small", "--approval", approval.id, "--checkpoints")
    assert result.code == 2
    assert "never covers --checkpoints" in result.err
    assert open_approvals(state, NOW) == [approval]


def test_removal_approval_refused_in_another_folder(tmp_path, state, slipway, monkeypatch):
    approval = removal_approval("small", region="us-east-1", sandbox=False, now=NOW, lasts=timedelta(hours=1))
    write_approval(approval, state)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    write(tmp_path / "elsewhere", STOPPED.replace("us-east-1", "us-west-2"))
    result = slipway("down", "plan.yaml", "--approval", approval.id)
    assert result.code == 2
    assert f"is for {tmp_path}, not {tmp_path / 'elsewhere'}" in " ".join(result.err.split())
    assert open_approvals(state, NOW) == [approval]


def test_approval_expiring_before_action_stays_unused(tmp_path, state, monkeypatch):
    path = write(tmp_path)
    approval = approve(path, state)
    given = answers(approval.id, Action.LAUNCH, path, LIMIT, None, yes=False, sandbox=False)
    monkeypatch.setattr(options, "now", lambda: NOW + timedelta(hours=3))
    with pytest.raises(ImpossibleError, match="expired at"):
        given.console.approve("launch small")


def test_approval_of_endpoint_on_aws_requires_stop_at_usd(tmp_path, state):
    text = (EXAMPLES / "serve/pinned/llama31-8b-g6e.yaml").read_text()
    how = PriceOptions(max_usd=Decimal(100_000), despite_verdict=True)
    with pytest.raises(OverBudgetError, match="stop_at_usd is not set: no guard"):
        quoted_for_approval(write(tmp_path, text), NOW, how, selection=None, sandbox=False)


def test_approval_of_failed_start_stays_open_and_refuses_concurrent_use(tmp_path, state):
    path = write(tmp_path)
    approval = approve(path, state)
    path.unlink()
    started = StartedCommands()
    started.start(approval, state)
    with pytest.raises(ImpossibleError, match="is in use"):
        started.start(approval, state)
    ended = started.wait(approval.id, state, 60)
    assert ended["exit_code"] not in (None, 0)
    assert open_approvals(state, NOW) == [approval]
    started.start(approval, state)
    assert started.wait(approval.id, state, 60)["exit_code"] == ended["exit_code"]


def test_approve_without_plan_lists_open_approvals_with_limits(tmp_path, state, slipway):
    approval = approve(write(tmp_path), state)
    assert slipway("approve", "--json").out
    listed = slipway("approve").out
    assert f"{approval.id}: launch small, quote {approval.digest[:6]}, on AWS, at most $20" in " ".join(listed.split())
    assert "; the guard stops it at $20" in sentence(approval)
    removal = removal_approval("small", region=None, sandbox=False, now=NOW, lasts=timedelta(hours=1))
    assert "down small, on AWS in the region of its newest run, once until" in sentence(removal)
    assert new_id() != new_id()
