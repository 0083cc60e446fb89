"""Bad input on the command line: the documented exit code, a message with the fix, and never a traceback."""

import json
import re
from pathlib import Path

import pytest

from launcher.cli import output
from launcher.model.errors import UnreadableInputError

GOOD = """
slipway: 1
name: x
workload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}
target: {instance_type: p5.48xlarge, nodes: 1, region: us-east-1}
purchase: {option: on-demand}
"""
ON_EC2 = GOOD.replace("target: {", "target: {kind: parallelcluster, ")


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


CASES = [
    ("slipway: [1\n", 2, "not valid YAML"),
    (GOOD + "regoin: us-east-1\n", 2, "regoin"),
    (GOOD.replace("slipway: 1", "slipway: 2"), 2, "slipway (line 2, column 1): must be 1, got 2"),
    (GOOD.replace("nodes: 1", "nodes: many"), 2, "target.nodes"),
    (GOOD.replace("on-demand", "on-demmand"), 2, "did you mean on-demand?"),
    (GOOD.replace("llama-3.1-8b", "lama-3.1-8b"), 5, "did you mean llama-3.1-8b?"),
    (GOOD.replace("p5.48xlarge", "p5.48xlage"), 5, "did you mean p5.48xlarge?"),
    (GOOD.replace("p5.48xlarge", "p3.16xlarge"), 5, "slipway prices show lists the types"),
    (GOOD.replace("p5.48xlarge", "p5"), 5, "types of p5: p5.48xlarge"),
    (GOOD.replace("p5.48xlarge", "A100"), 5, "types with A100: p4d.24xlarge"),
    (GOOD.replace("us-east-1", "us-east-9"), 5, "us-east-9"),
    (GOOD.replace("p5.48xlarge", "trn2.48xlarge"), 5, "not offered in us-east-1"),
    (GOOD.replace("tokens_b: 2.0", "tokens_b: 2.0, hours: 3"), 5, "keep one"),
    (GOOD.replace("tokens_b: 2.0", "runs: 3"), 5, "neither tokens_b nor hours"),
    (GOOD.replace("on-demand", "spot") + "checkpoint: {mode: none}\n", 5, "spot with checkpoint.mode none"),
    (GOOD.replace("region: us-east-1", "region: us-east-1, az_id: use2-az1"), 5, "lies in us-east-2"),
    (
        GOOD.replace("option: on-demand", "option: spot, reservation: {id: cr-01234567}"),
        5,
        "spot instances cannot use a reservation",
    ),
    (
        GOOD.replace("nodes: 1", "nodes: 3").replace("on-demand", "capacity-block"),
        5,
        "1, 2, 4, 8, 16, 32, 64 instances, got 3",
    ),
    (GOOD.replace("llama-3.1-8b", "llama-3.1-405b"), 5, "GiB on each chip"),
]


@pytest.mark.parametrize("command", ["plan", "quote"])
@pytest.mark.parametrize("text,code,words", CASES)
def test_invalid_plans_refused_with_exit_code_and_fix(*, text, code, words, command, empty_folder, slipway):
    (empty_folder / "plan.yaml").write_text(text)
    result = slipway(command, "plan.yaml")
    assert result.code == code
    assert words in result.err
    assert "Traceback" not in result.err
    assert result.out == ""


def test_refusal_with_json_flag_is_error_document(empty_folder, slipway):
    (empty_folder / "plan.yaml").write_text(GOOD + "regoin: us-east-1\n")
    ended = slipway("plan", "plan.yaml", "--json")
    assert ended.code == 2
    document = json.loads(ended.out)
    assert document["schema"] == "slipway.error/1"
    assert document["exit_code"] == 2
    assert [finding["path"] for finding in document["findings"]] == ["regoin"]


@pytest.mark.parametrize(
    "problem,code,message",
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (
            RuntimeError("half an answer"),
            1,
            r"internal error: RuntimeError: half an answer \(in launcher\.aws\.session, line \d+\)",
        ),
    ],
    ids=["interrupted", "internal"],
)
def test_internal_failure_with_json_flag_prints_one_error_document(problem, code, message, slipway, monkeypatch):
    def ends(**_more):
        raise problem

    monkeypatch.setattr("launcher.aws.session.boto3.Session", ends)
    ended = slipway("doctor", "--region", "us-east-2", "--json")
    document = json.loads(ended.out)
    assert (ended.code, ended.err) == (code, "")
    assert (document["schema"], document["exit_code"]) == ("slipway.error/1", code)
    assert re.fullmatch(message, document["message"])


def test_failure_after_printed_document_goes_to_standard_error(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["slipway", "doctor", "--json"])
    output.WRITTEN.clear()
    output.document({"schema": "slipway.doctor/1"})
    output.refusal(UnreadableInputError("too late"))
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"schema": "slipway.doctor/1"}
    assert "error: too late" in printed.err


def test_json_flag_after_two_dashes_belongs_to_remote_command(slipway):
    ended = slipway("exec", "nobody", "--", "train", "--json")
    assert (ended.code, ended.out) == (2, "")
    assert "no run of nobody" in ended.err


@pytest.mark.parametrize(
    "words,message,hint",
    [
        (["plan"], "Missing argument 'FILE'", "slipway plan --help"),
        (["plan", "plan.yaml", "--bogus"], "No such option: --bogus", "slipway plan --help"),
        (["quote", "plan.yaml", "--max-usd", "much"], "dollars such as 120", "slipway quote --help"),
        (["prices", "diff", "2026-01-01", "soon"], "2026-07-20, got 'soon'", "slipway prices diff --help"),
        (["plam", "plan.yaml"], "No such command 'plam'", "slipway --help"),
    ],
)
def test_unknown_or_missing_arguments_end_with_2_and_honour_json_flag(words, message, hint, empty_folder, slipway):
    (empty_folder / "plan.yaml").write_text(GOOD)
    ended = slipway(*words)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    ended = slipway(*words, "--json")
    document = json.loads(ended.out)
    assert (ended.code, ended.err) == (2, "")
    assert (document["schema"], document["exit_code"], document["hint"]) == ("slipway.error/1", 2, hint)
    assert message in document["message"]


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "plan.yaml"],
        ["quote", "plan.yaml"],
        ["compare", "plan.yaml"],
        ["portfolio", "plan.yaml"],
        ["prices", "show", "p5.48xlarge"],
        ["ledger"],
        ["accuracy"],
        ["runs"],
        ["init", "new.yaml"],
    ],
)
def test_next_command_hint_goes_to_standard_error(words, empty_folder, slipway):
    (empty_folder / "plan.yaml").write_text(GOOD)
    ended = slipway(*words)
    assert ended.code == 0
    assert "next: slipway" in ended.err
    assert "next: slipway" not in ended.out
    assert not ended.out.endswith("\n\n")


def test_portfolio_reports_problems_of_every_file_at_once(empty_folder, slipway):
    (empty_folder / "binary.yaml").write_bytes(b"\xff\x00")
    (empty_folder / "twice.yaml").write_text("slipway: 1\nname: a\nname: b\n")
    (empty_folder / "far.yaml").write_text(GOOD.replace("slipway: 1", "slipway: 1\nrun: {command: []}"))
    ended = slipway("portfolio", "binary.yaml", "twice.yaml", "far.yaml")
    assert ended.code == 2
    for message in ("binary.yaml: it is not UTF-8", "twice.yaml is not valid YAML", "at least one word, got []"):
        assert message in ended.err


def test_html_to_folder_refused(empty_folder, slipway):
    (empty_folder / "plan.yaml").write_text(GOOD)
    for folder in (".", "/"):
        ended = slipway("plan", "plan.yaml", "--html", folder)
        assert (ended.code, f"cannot write {folder}: it is a folder" in ended.err) == (5, True)


def test_dry_run_of_a_launch_with_json_prints_the_document_of_a_deployment(empty_folder, slipway):
    (empty_folder / "train.py").write_text("")
    (empty_folder / "plan.yaml").write_text(ON_EC2.replace("nodes: 1", "nodes: 1, ssh_host: gpu1"))
    ended = slipway("launch", "plan.yaml", "--dry-run", "--json")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert (document["schema"], document["deployed"], document["stacks"]) == ("slipway.deploy/1", False, {})
    assert slipway("launch", "plan.yaml", "--dry-run").out == ""


def test_saved_plan_that_a_launch_would_refuse_names_no_launch(empty_folder, slipway):
    (empty_folder / "train.py").write_text("")
    budget = GOOD.replace("region: us-east-1", "region: us-east-1, ssh_host: gpu1, kind: parallelcluster")
    for limit, refused in ((1, True), (1_000_000, False)):
        (empty_folder / "plan.yaml").write_text(f"{budget}budget: {{max_usd: {limit}}}\n")
        ended = slipway("plan", "plan.yaml", "-o", "saved.json")
        assert ended.code == 0, ended.err
        assert ("a launch is refused, exit 3" in ended.err, "next: slipway launch" in ended.err) == (
            refused,
            not refused,
        )


@pytest.mark.parametrize("words", [["init"], ["status"], ["estimate"], ["render", "plan.yaml", "-o"]])
def test_too_long_file_name_refused_as_input(words, empty_folder, slipway):
    (empty_folder / "plan.yaml").write_text(ON_EC2)
    ended = slipway(*words, "x" * 300)
    assert (ended.code, "xx: File name too long" in ended.err.replace("\n  ", "")) == (2, True)


def test_unreadable_home_refused_with_the_variables_to_set(empty_folder, slipway, monkeypatch):
    (empty_folder / "plan.yaml").write_text(GOOD)
    monkeypatch.setenv("XDG_CACHE_HOME", f"/{'x' * 300}")
    ended = slipway("plan", "plan.yaml")
    assert (ended.code, "internal error" in ended.err, "XDG_* set where" in ended.err) == (2, False, True)


@pytest.mark.parametrize("command", ["plan", "quote", "compare", "ledger"])
def test_html_and_json_written_together(command, empty_folder, slipway):
    (empty_folder / "plan.yaml").write_text(GOOD)
    ended = slipway(command, *([] if command == "ledger" else ["plan.yaml"]), "--html", "page.html", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["schema"] == f"slipway.{command}/1"
    assert (empty_folder / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    "words,message",
    [
        (["plan", "plan.yaml", "--explain", "1", "--json"], "--explain does not work with --json or --sweep"),
        (
            ["plan", "plan.yaml", "--explain", "1", "--sweep", "nodes=1,2"],
            "--explain does not work with --json or --sweep",
        ),
        (["ledger", "--json", "--csv"], "exclude each other"),
        (["ledger", "--by", "week"], "'--by': 'week' is not one of 'name'"),
        (["policies", "--account", "123456789012", "--region", "mars", "-o", "out"], "no region 'mars'"),
    ],
)
def test_conflicting_or_invalid_arguments_refused_without_files(words, message, empty_folder, slipway):
    (empty_folder / "plan.yaml").write_text(GOOD)
    ended = slipway(*words)
    assert ended.code == 2
    assert message in ended.err + ended.out
    assert sorted(path.name for path in empty_folder.iterdir()) == ["plan.yaml"]


@pytest.mark.parametrize(
    "text,words,code,message",
    [
        (GOOD, ["launch", "plan.yaml", "--sandbox", "--max-usd", "1"], 3, "--max-usd $1.00"),
        (GOOD + "budget: {max_usd: 5}\n", ["launch", "plan.yaml", "--sandbox", "--yes"], 3, "raise budget.max_usd"),
        (GOOD + "budget: {max_usd_per_hour: 5}\n", ["deploy", "plan.yaml", "--yes"], 3, "an hour"),
        (
            GOOD.replace("p5.48xlarge", "trn2.48xlarge").replace("us-east-1", "us-east-2"),
            ["launch", "plan.yaml", "--sandbox", "--yes"],
            4,
            "unpriced",
        ),
        (ON_EC2.replace("on-demand", "spot"), ["deploy", "plan.yaml", "--yes"], 4, "days old"),
        (GOOD, ["deploy", "plan.yaml", "--yes", "--max-price-age", "0"], 4, "at most 0 are allowed"),
        (GOOD, ["launch", "plan.yaml", "--sandbox"], 2, "no terminal"),
        (ON_EC2.replace("on-demand", "spot"), ["launch", "plan.yaml", "--yes"], 4, "days old"),
        (GOOD, ["launch", "plan.yaml"], 2, "no terminal"),
        (GOOD, ["launch", "plan.yaml", "--yes", "--interrupt-after", "1"], 2, "add --sandbox"),
        (GOOD, ["status", "x"], 2, "no run of x"),
        (GOOD, ["cancel", "x", "--yes"], 2, "no run of x"),
        (GOOD, ["logs", "x", "-f"], 2, "no run of x"),
        (GOOD, ["quote", "plan.yaml", "--pick", "99"], 2, "no candidate has this rank"),
        (GOOD, ["quote", "plan.yaml", "--pick", "abcdef"], 2, "no candidate has this rank or digest"),
        (GOOD, ["quote", "absent.yaml"], 2, "No such file"),
        (GOOD, ["report", "x"], 2, "no run of x"),
        (GOOD, ["plan", "plan.yaml", "--no-such-flag"], 2, "No such option"),
    ],
)
def test_launch_without_allowed_quote_creates_no_run(*, text, words, code, message, empty_folder, slipway):
    (empty_folder / "plan.yaml").write_text(text)
    (empty_folder / "train.py").touch()
    ended = slipway(*words)
    assert ended.code == code
    assert message in ended.err
    assert not (empty_folder / ".slipway").exists()


def test_plan_and_quote_over_budget_show_refusal_and_end_with_0(empty_folder, slipway):
    (empty_folder / "plan.yaml").write_text(GOOD + "budget: {max_usd: 5}\n")
    for command in ("plan", "quote"):
        ended = slipway(command, "plan.yaml")
        assert ended.code == 0
        assert "budget.max_usd $5.00" in ended.out
    ended = slipway("quote", "plan.yaml", "--json")
    assert ended.code == 0
    gate = json.loads(ended.out)["gate"]
    assert (gate["verdict"], gate["exit_code"]) == ("refuse", 3)


def test_init_writes_priceable_plan_and_never_overwrites(empty_folder, slipway):
    assert slipway("init", "mine.yaml", "--name", "mine").code == 0
    ended = slipway("plan", "mine.yaml", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["name"] == "mine"
    before = (empty_folder / "mine.yaml").read_text()
    assert slipway("init", "mine.yaml").code == 5
    assert (empty_folder / "mine.yaml").read_text() == before


def test_render_writes_files_and_refuses_file_as_folder(empty_folder, slipway):
    (empty_folder / "plan.yaml").write_text(ON_EC2)
    assert slipway("render", "plan.yaml", "-o", "out").code == 0
    assert {path.name for path in (empty_folder / "out").iterdir()} >= {"cluster.yaml", "job.sbatch", "job.json"}
    (empty_folder / "blocked").write_text("a file")
    assert slipway("render", "plan.yaml", "-o", "blocked").code == 5


def test_govcloud_priced_only_when_plan_names_region(empty_folder, slipway):
    def regions(text):
        (empty_folder / "plan.yaml").write_text(text)
        candidates = json.loads(slipway("plan", "plan.yaml", "--all", "--json").out)["candidates"]
        return {candidate["region"] for candidate in candidates}

    anywhere = regions(GOOD.replace(", region: us-east-1", ""))
    assert "us-east-1" in anywhere
    assert not [region for region in anywhere if region.startswith("us-gov-")]
    assert regions(GOOD.replace("us-east-1", "us-gov-west-1")) == {"us-gov-west-1"}
