"""How changed plans change their totals: of files, folders and git revisions, with reasons and a policy."""

import json
import subprocess
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from launcher.answers.diff import MARK, comment, page, safe
from launcher.model.errors import UnreadableInputError
from launcher.model.plan_diff import DiffPolicy, LineChange
from launcher.model.schema import json_schema
from launcher.workflow.quote.diff import diff
from launcher.workflow.quote.diff_policy import policy_of
from launcher.workflow.quote.options import PriceOptions

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[4]
TRAIN = """slipway: 1
name: job
workload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}
target: {kind: parallelcluster, instance_type: p5.48xlarge, nodes: 1, region: us-east-1}
purchase: {option: on-demand}
"""
SERVE = """slipway: 1
name: chat
workload: {serve: {model: llama-3.1-8b, input_tokens: 500, output_tokens: 200, requests_per_s: 2}}
target: {instance_type: g6e.xlarge, region: us-east-1}
purchase: {option: on-demand}
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository whose first commit has two plans, one of them in a folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "job.yaml").write_text(TRAIN, encoding="utf-8")
    (tmp_path / "chat.yaml").write_text(SERVE, encoding="utf-8")
    (tmp_path / "values.yaml").write_text("replicas: 3\n", encoding="utf-8")
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "plans"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True)
    return tmp_path


def with_change(old, new=None, folder=None, **old_prices):
    options = PriceOptions()
    return diff(
        old, new, NOW, options, old_options=PriceOptions(**old_prices), folder=folder or Path.cwd(), environment={}
    )


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_schema_of_plan_files_is_no_plan(repository):
    (repository / "slipway-plan.schema.json").write_text(json.dumps(json_schema(), indent=2), encoding="utf-8")
    assert with_change("main").looked_at == 2


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("chat.yaml", "absent.yaml", "and absent.yaml is not a file"),
        ("chat.yaml", None, "chat.yaml is a plan file, and NEW is missing"),
        ("chat.yaml", "jobs", "and jobs is not a file"),
        ("absent.yaml", "chat.yaml", "absent.yaml is not a plan file, a folder or a git revision"),
        ("main", "../outside.yaml", "is not below"),
    ],
)
def test_invalid_comparison_sides_refused(repository, old, new, message):
    (repository.parent / "outside.yaml").write_text(TRAIN, encoding="utf-8")
    with pytest.raises(UnreadableInputError, match=message):
        with_change(old, new)


def test_revision_compared_with_folder_names_changes(repository):
    edit(repository / "jobs" / "job.yaml", "tokens_b: 2.0", "tokens_b: 4.0")
    changes = with_change("main")
    (plan,) = changes.plans
    assert (changes.looked_at, plan.file, plan.unit) == (2, "jobs/job.yaml", "run")
    assert plan.new_usd > plan.old_usd * Decimal("1.8")
    assert plan.why[0] == "workload.train.tokens_b: 4, before 2"
    assert plan.why[1].startswith("quantity: ")
    assert plan.lines[0].name == "1 x p5.48xlarge on-demand"
    assert plan.lines[0].change is LineChange.QUANTITY
    assert changes.usd_change == plan.new_usd - plan.old_usd
    assert sum((line.new_usd or 0) - (line.old_usd or 0) for line in plan.lines) == changes.usd_change


def test_changed_choice_and_changed_price_are_distinguished(repository):
    edit(repository / "jobs" / "job.yaml", "p5.48xlarge", "p5en.48xlarge")
    (plan,) = with_change("main").plans
    assert any(
        reason.startswith("choice: 1 × p5en.48xlarge, on demand in us-east-1, before 1 × p5.48") for reason in plan.why
    )
    edit(repository / "jobs" / "job.yaml", "p5en.48xlarge", "p5.48xlarge")
    edit(repository / "jobs" / "job.yaml", "on-demand}", 'on-demand, price_overrides: {p5.48xlarge/on-demand: "50"}}')
    (plan,) = with_change("main").plans
    assert "price: $50.00 an hour, before $55.04" in plan.why
    assert plan.lines[0].change is LineChange.PRICE


def test_mapping_and_managed_spot_are_shown_as_in_plan_and_quote(repository):
    edit(repository / "jobs" / "job.yaml", "parallelcluster", "sagemaker-training")
    edit(repository / "jobs" / "job.yaml", "nodes: 1", "nodes: {min: 1, max: 2}")
    edit(repository / "jobs" / "job.yaml", "on-demand}", "spot}")
    (plan,) = with_change("main").plans
    assert 'target.nodes: {"min": 1, "max": 2}, before 1' in plan.why
    assert any(", managed spot in us-east-1, before " in reason for reason in plan.why)


BASE = TRAIN.replace("name: job\n", "")


def commit(folder):
    for arguments in (["add", "."], ["commit", "-q", "-m", "more"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder, check=True)


@pytest.mark.parametrize("below", [".", "jobs"])
def test_changed_base_changes_plans_that_extend_it_and_is_no_plan(repository, monkeypatch, below):
    (repository / "base.yaml").write_text(BASE, encoding="utf-8")
    (repository / "jobs" / "job.yaml").write_text("extends: ../base.yaml\nname: job\n", encoding="utf-8")
    commit(repository)
    monkeypatch.chdir(repository / below)
    assert with_change("HEAD").plans == ()
    edit(repository / "base.yaml", "tokens_b: 2.0", "tokens_b: 4.0")
    (plan,) = with_change("HEAD").plans
    assert plan.name == "job"
    assert plan.new_usd > plan.old_usd
    assert "workload.train.tokens_b: 4, before 2" in plan.why


def test_file_at_revision_has_the_base_of_that_revision(repository):
    (repository / "base.yaml").write_text(BASE, encoding="utf-8")
    (repository / "jobs" / "job.yaml").write_text("extends: ../base.yaml\nname: job\n", encoding="utf-8")
    commit(repository)
    edit(repository / "base.yaml", "us-east-1", "us-west-2")
    (plan,) = with_change("HEAD", "jobs/job.yaml").plans
    assert "target.region: us-west-2, before us-east-1" in plan.why


@pytest.mark.parametrize("file", ["slipway.toml", ".slipway/defaults.yaml"])
def test_changed_project_file_changes_the_plans_below_it(repository, file):
    text = "[purchase]\ndiscount_percent = 10\n" if file.endswith("toml") else "purchase: {discount_percent: 10}\n"
    (repository / file).parent.mkdir(exist_ok=True)
    (repository / file).write_text(text, encoding="utf-8")
    commit(repository)
    edit(repository / file, "10", "20")
    assert {plan.file for plan in with_change("HEAD").plans} == {"chat.yaml", "jobs/job.yaml"}
    assert all(plan.new_usd < plan.old_usd for plan in with_change("HEAD").plans)


def test_price_changes_appear_with_earlier_date(repository):
    assert with_change("main").plans == ()
    changes = with_change("main", prices_as_of=date(2025, 1, 1))
    assert all(not any("before" in why and why.startswith("workload") for why in plan.why) for plan in changes.plans)
    assert {plan.file for plan in changes.plans} == {"chat.yaml", "jobs/job.yaml"}


def test_added_and_removed_plans_are_listed(repository):
    (repository / "chat.yaml").rename(repository / "talk.yaml")
    plans = {plan.file: plan for plan in with_change("main").plans}
    assert plans["chat.yaml"].why == ("the plan was removed",)
    assert plans["talk.yaml"].why == ("the plan was added",)
    assert plans["chat.yaml"].old_usd == plans["talk.yaml"].new_usd
    assert with_change("main").usd_change == 0


def test_files_folders_and_file_at_revision_are_compared(repository):
    other = repository / "other"
    other.mkdir()
    (other / "job.yaml").write_text(TRAIN.replace("nodes: 1", "nodes: 2"), encoding="utf-8")
    by_file = with_change("jobs/job.yaml", "other/job.yaml")
    by_folder = with_change("jobs", "other")
    assert by_file.usd_change == by_folder.usd_change != 0
    edit(repository / "jobs" / "job.yaml", "nodes: 1", "nodes: 2")
    assert with_change("main", "jobs/job.yaml").usd_change == by_file.usd_change


def test_plan_becoming_infeasible_exceeds_every_policy(repository):
    edit(repository / "jobs" / "job.yaml", "llama-3.1-8b", "llama-3.1-405b")
    changes = with_change("main")
    assert changes.plans[0].new_usd is None
    assert changes.usd_change == 0
    for policy in (DiffPolicy(), DiffPolicy(max_increase_usd=Decimal(10_000))):
        assert policy.refusal(changes).startswith("jobs/job.yaml has no total: ")
    line = next(line for line in page(changes, None, 100) if "job.yaml" in line)
    assert "unknown" in line


def test_plan_that_never_had_a_total_exceeds_limits_alone(repository):
    (repository / "jobs" / "job.yaml").rename(repository / "jobs" / "first.yaml")
    edit(repository / "jobs" / "first.yaml", "llama-3.1-8b", "llama-3.1-405b")
    changes = with_change("main")
    assert DiffPolicy().refusal(changes) is None
    assert "jobs/first.yaml has no total: " in DiffPolicy(max_increase_usd=Decimal(10_000)).refusal(changes)


@pytest.mark.parametrize("old", ["nowhere", "--output=x", ""])
def test_invalid_old_side_refused(repository, old):
    with pytest.raises(UnreadableInputError, match="or a git revision"):
        with_change(old)


def test_unreadable_file_is_error_after_and_ignored_before(repository):
    edit(repository / "jobs" / "job.yaml", "workload:", "worklaod:")
    with pytest.raises(UnreadableInputError, match=r"jobs/job\.yaml"):
        with_change("main")
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "broken"], cwd=repository, check=True
    )
    (repository / "jobs" / "job.yaml").write_text(TRAIN, encoding="utf-8")
    assert with_change("HEAD").plans[0].why == ("the plan was added",)


@pytest.mark.parametrize("usd,percent,refused", [("1", None, True), (None, 1.0, True), ("99999", 500.0, False)])
def test_policy_refuses_beyond_dollars_or_percent(repository, usd, percent, refused):
    edit(repository / "jobs" / "job.yaml", "tokens_b: 2.0", "tokens_b: 3.0")
    limits = DiffPolicy(max_increase_usd=usd and Decimal(usd), max_increase_percent=percent)
    assert (limits.refusal(with_change("main")) is not None) is refused


def test_shipped_policy_is_readable_and_options_override(tmp_path):
    shipped = ROOT / "ci" / "cost-policy.yaml"
    assert policy_of(shipped, None, None) == DiffPolicy(max_increase_usd=Decimal(500), max_increase_percent=10.0)
    assert policy_of(shipped, Decimal(1), 2.0) == DiffPolicy(max_increase_usd=Decimal(1), max_increase_percent=2.0)
    for text in ("max_increase_usd: many\n", "max_increase: 3\n", "- 3\n", "max_increase_percent: true\n", "{"):
        (tmp_path / "p.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(UnreadableInputError):
            policy_of(tmp_path / "p.yaml", None, None)


def test_diff_page_and_comment_fit_and_agree(repository, golden):
    edit(repository / "jobs" / "job.yaml", "tokens_b: 2.0", "tokens_b: 4.0")
    edit(repository / "chat.yaml", "requests_per_s: 2", "requests_per_s: 9")
    changes = with_change("main")
    refusal = DiffPolicy(max_increase_percent=10.0).refusal(changes)
    for width in (80, 120):
        lines = page(changes, refusal, width)
        assert max(len(line) for line in lines) <= width
        golden(f"plan/diff-{width}.txt", "\n".join([*lines, ""]))
    golden("plan/diff-comment.md", "\n".join([*comment(changes, refusal), ""]))


def test_plan_names_make_no_markup_in_comment(repository):
    (repository / "a`|<img src=x>@all.yaml").write_text(SERVE, encoding="utf-8")
    lines = comment(with_change("main"), None)
    assert lines[0] == MARK
    body = "\n".join(lines[1:])
    assert "<img" not in body.replace("`a'\\|<img src=x>@all.yaml`", "")
    assert "@all" not in body.replace("`a'\\|<img src=x>@all.yaml`", "")


def test_plan_text_makes_no_links_or_references_in_comment():
    escaped = safe("see https://x.example www.x.example #12 org/repo#7 GH-1 @me")
    for live in ("://", "www.", "#1", "#7", "GH-1", "@me"):
        assert live not in escaped
    assert escaped.replace("\u200b", "") == "see https://x.example www.x.example #12 org/repo#7 GH-1 @me"


def test_diff_command_beyond_policy_ends_with_3(repository, slipway):
    edit(repository / "jobs" / "job.yaml", "tokens_b: 2.0", "tokens_b: 4.0")
    policies = ((), ("--max-increase-percent", "5"), ("--max-increase-usd", "x"))
    ended = [slipway("diff", "main", "--json", *policy) for policy in policies]
    assert [result.code for result in ended] == [0, 3, 2]
    document = json.loads(ended[0].out)
    assert document["schema"] == "slipway.diff/1"
    assert document["plans"][0]["old_usd"] is not None
    assert document["refusal"] is None
