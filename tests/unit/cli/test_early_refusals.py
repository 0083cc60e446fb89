"""What commands refuse before they do anything."""

import io
import json
import sys

import pytest

from launcher.model.errors import UnreadableInputError


def test_init_refuses_name_invalid_for_plan(slipway, tmp_path):
    code, _, err = slipway("init", str(tmp_path / "plan.yaml"), "--name", "My Job")
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert "1 to 40 of a-z, 0-9 and -" in err


def _options(command, words=()):
    """Every option of a command and of those below it, with the words that call it."""
    yield from ((words, parameter) for parameter in command.params if parameter.param_type_name == "option")
    for name, below in getattr(command, "commands", {}).items():
        yield from _options(below, (*words, name))


def test_every_command_refuses_a_mistyped_region():
    from typer.main import get_command

    from launcher.cli.app import app

    named = {words: option for words, option in _options(get_command(app)) if "--region" in option.opts}
    assert len(named) > 30
    for parameter in named.values():
        value = ["us-esat-1"] if parameter.multiple else "us-esat-1"
        with pytest.raises(Exception, match="did you mean us-east-1"):
            parameter.process_value(None, value)


@pytest.mark.parametrize(
    "words", [("status", "tiny"), ("cost",), ("doctor",), ("prices", "refresh"), ("checkpoints", "list", "tiny")]
)
def test_mistyped_region_is_refused_before_any_call(slipway, words):
    code, _, err = slipway(*words, "--region", "us-esat-1")
    assert (code, "did you mean us-east-1?" in err) == (2, True), err


@pytest.mark.parametrize("region", ["cn-north-1", "ap-southeast-6", "us-gov-west-1"])
def test_region_of_aws_outside_the_catalog_is_no_typing_error(region):
    from launcher.cli.option_values import region_name

    assert region_name(region) == region


def test_prices_as_of_future_date_refused(slipway):
    code, _, err = slipway("plan", "examples/p5-spot.yaml", "--prices-as-of", "2999-01-01")
    assert code == 2
    assert "after today" in err


def test_command_in_one_word_refused(slipway, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "slipway: 1\nname: a\nworkload: {train: {model: llama-3.1-8b, tokens_b: 1}}\n"
        "run: {command: ['python train.py']}\n",
        encoding="utf-8",
    )
    code, _, err = slipway("plan", str(plan))
    assert code == 5
    assert "write [python, train.py]" in err


def test_unknown_slipway_variable_in_command_list_refused(slipway, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "slipway: 1\nname: a\nworkload: {train: {model: llama-3.1-8b, tokens_b: 1}}\n"
        "run: {command: [python, train.py, '${SLIPWAY_RANK}', '${SLIPWAY_NODES}', '${HOME}']}\n",
        encoding="utf-8",
    )
    code, _, err = slipway("plan", str(plan))
    assert code == 5
    assert "this job has no variable SLIPWAY_RANK, got ${SLIPWAY_RANK} in a list" in err
    assert "bash fills in all variables if the command is a string" in err


@pytest.mark.long
@pytest.mark.parametrize("answer", ["n\n", pytest.param("\n", marks=pytest.mark.slow)])
def test_declined_question_ends_with_7_without_error(slipway, monkeypatch, tmp_path, answer, warm_launches):
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "slipway: 1\nname: a\nworkload: {train: {hours: 1}}\n"
        "target: {instance_type: p5.48xlarge, nodes: 1, region: us-east-1}\n"
        "purchase: {option: on-demand}\nrun: {workdir: .}\n",
        encoding="utf-8",
    )
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    stdin = io.StringIO(answer)
    stdin.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", stdin)
    got, _, err = slipway("launch", str(plan), "--sandbox")
    assert got == 7
    assert err.strip().endswith("nothing was done")
    assert "error" not in err
    assert not (tmp_path / ".slipway").exists()


def test_init_writes_schema_beside_plan_and_names_schema_in_first_line(slipway, tmp_path):
    code, _, err = slipway("init", str(tmp_path / "plan.yaml"))
    first = (tmp_path / "plan.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert (code, first) == (0, "# yaml-language-server: $schema=slipway-plan.schema.json")
    schema = tmp_path / "slipway-plan.schema.json"
    assert f"and {schema}, its schema for editors" in err
    assert json.loads(schema.read_text(encoding="utf-8")) == json.loads(slipway("schema")[1])
    assert json.loads(slipway("schema")[1])["$id"] == "urn:slipway:plan:1"


def test_init_keeps_existing_schema_file(slipway, tmp_path):
    schema = tmp_path / "slipway-plan.schema.json"
    schema.write_text("own", encoding="utf-8")
    assert slipway("init", str(tmp_path / "plan.yaml")).code == 0
    assert schema.read_text(encoding="utf-8") == "own"


@pytest.mark.parametrize(
    "line, place",
    [
        ("workload: {train: {model: llama-3.1-8b, tokens_b: 1, hours: 3}}", "workload.train.hours (line 3, column 54)"),
        ("target: {region: us-esat-1}", "target.region (line 3, column 10)"),
        ("target: {kind: eks, ssh_host: local}", "(line 3, column "),
        ('run: {env: {PATH: "/opt/bin:$PATH"}}', "run.env.PATH (line 3, column 13)"),
    ],
)
def test_error_about_several_keys_has_line_and_column(slipway, tmp_path, line, place):
    path = tmp_path / "plan.yaml"
    base = "" if line.startswith("workload") else "\nworkload: {train: {model: llama-3.1-8b, tokens_b: 1}}"
    path.write_text(f"slipway: 1\nname: a\n{line}{base}\n")
    ended = slipway("plan", str(path))
    assert ended.code == 5
    assert place in ended.err


def test_estimate_of_plan_file_names_plan(slipway, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text("slipway: 1\nname: a\n")
    code, _, err = slipway("estimate", str(plan))
    assert (code, f"slipway plan {plan}" in err) == (2, True), err
    (tmp_path / "other.yaml").write_text("name: a\n")
    code, _, err = slipway("estimate", str(tmp_path / "other.yaml"))
    assert (code, "has no Resources" in err, "names no region" in err) == (2, True, False), err


def test_init_over_existing_file_names_command_for_another(slipway, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text("mine\n")
    code, _, err = slipway("init", str(plan))
    assert (code, f"slipway init {tmp_path}/plan-2.yaml" in err, plan.read_text()) == (5, True, "mine\n"), err
    code, _, err = slipway("init", str(plan), "--from", str(tmp_path / "nosuch.sh"))
    assert (code, "cannot read" in err) == (2, True), err


def test_quote_states_the_refused_launch_once(slipway, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert slipway("init", "plan.yaml").code == 0
    _, out, _ = slipway("quote", "plan.yaml")
    (line,) = [line for line in out.splitlines() if line.strip().startswith("Launch ")]
    assert line.split()[:2] == ["Launch", "refused"]
    assert "a launch is refused" not in out


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "plan.yaml", "--html", "--json"),
        ("plan", "--html", "-v", "plan.yaml"),
        ("plan", "plan.yaml", "-o", "--pick", "x"),
        ("-v", "quote", "plan.yaml", "--pick", "--all"),
        ("prices", "refresh", "--from", "--json"),
    ],
)
def test_option_without_its_value_does_not_take_the_next_option(slipway, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = slipway(*words)
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert "needs a value, got the option -" in out + err


def test_value_that_begins_with_a_dash_is_attached(slipway, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yaml").write_text("slipway: 1\nname: job\n", encoding="utf-8")
    assert slipway("plan", "plan.yaml", "--html=-page.html").code == 0
    assert (tmp_path / "-page.html").is_file()
    assert slipway("checkpoints", "prune", "job", "--keep", "-1").err.count("not in the range") == 1
    assert "needs a value" not in slipway("exec", "job", "--", "ls", "--html", "--json").err


def test_every_option_with_a_value_refuses_another_option_as_its_value():
    from typer.main import get_command

    from launcher.cli.app import app
    from launcher.cli.missing_values import refuse_missing_values

    command = get_command(app)
    named = [
        (*words, name) for words, parameter in _options(command) if not parameter.is_flag for name in parameter.opts
    ]
    assert len(named) > 200
    for words in named:
        with pytest.raises(UnreadableInputError, match="needs a value"):
            refuse_missing_values(command, (*words, "--json"))
