"""Defaults of a plan in layers: which file wins, where a value is from, and what is refused."""

import json
import os
from pathlib import Path

import pytest

from launcher import plan_file
from launcher.model.document import PlanBase
from launcher.model.errors import ImpossibleError, SlipwayError, UnreadableInputError
from launcher.workflow.quote.commands import refresh_command
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.documents import read_document
from tests.plans import NOW

PLAN = "slipway: 1\nname: job\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2}}\n"
UNDER_HOME = ".config/slipway/defaults.yaml"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without files of defaults, and a project folder in it that is the current one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("SLIPWAY_ORGANISATION_DEFAULTS", raising=False)
    (tmp_path / "project" / "jobs").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "jobs")
    Path("plan.yaml").write_text(PLAN, encoding="utf-8")
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def resolve(*settings: str) -> plan_file.ResolvedPlan:
    return plan_file.resolve(Path("plan.yaml"), settings)


class TestOrder:
    def test_each_layer_overrides_the_layers_below(self, home, monkeypatch):
        monkeypatch.setenv(
            "SLIPWAY_ORGANISATION_DEFAULTS",
            str(write(home / "org.yaml", "target: {region: us-east-1, nodes: 1, os: alinux2023}\ntags: {owner: org}")),
        )
        write(home / ".config/slipway/defaults.yaml", "target: {region: us-east-2, nodes: 2}\ntags: {user: anna}")
        write(home / "project/slipway.toml", "[target]\nregion = 'us-west-2'\nnodes = 3\n[tags]\nteam = 'nlp'")
        write(home / "project/jobs/base.yaml", "target: {nodes: 4}")
        Path("plan.yaml").write_text(f"{PLAN}extends: base.yaml\n", encoding="utf-8")
        got = resolve("target.instance_type=p5.48xlarge")
        target = got.request.target
        assert (target.region, target.nodes.minimum, target.os.value) == (("us-west-2",), 4, "alinux2023")
        assert target.instance_type == ("p5.48xlarge",)
        assert got.request.tags == {"owner": "org", "user": "anna", "team": "nlp"}
        assert got.sources["target.region"].startswith("project file ")
        assert got.sources["target.os"].startswith("organisation file ")
        assert got.sources["target.nodes"] == "extends base.yaml"
        assert got.sources["target.instance_type"] == "--set"
        assert got.sources["workload.train.model"] == "plan"

    def test_refused_value_of_the_merged_layers_names_its_file(self, home, monkeypatch):
        organisation = write(home / "org.yaml", "guardrails: {ttl_h: 24}\ntags: {team: null}\n")
        monkeypatch.setenv("SLIPWAY_ORGANISATION_DEFAULTS", str(organisation))
        with pytest.raises(SlipwayError) as raised:
            resolve("target.nodes=2")
        (finding,) = raised.value.findings
        assert finding.path == "tags.team"
        assert finding.message.endswith(f"got null; the value is from organisation file {organisation}, line 2")
        assert resolve("tags.team=nlp").request.tags == {"team": "nlp"}

    def test_defaults_overridden_by_the_plan_have_no_effect(self, home):
        before = PlanBase(plan_file.load(Path("plan.yaml")))._parts
        write(home / "project/.slipway/defaults.yaml", "workload: {train: {tokens_b: 99, model: llama-3.2-1b}}")
        assert PlanBase(plan_file.load(Path("plan.yaml")))._parts == before

    def test_digest_is_computed_from_the_resolved_plan(self, home):
        whole = plan_file.loads(f"{PLAN}target: {{region: us-east-1}}\n")
        write(home / "project/slipway.toml", "[target]\nregion = 'us-east-1'")
        assert plan_file.load(Path("plan.yaml")) == whole

    def test_plan_of_a_run_folder_takes_no_defaults(self, home):
        from launcher.model.document import document

        written = plan_file.loads(PLAN)
        Path("plan.json").write_text(json.dumps(document(written)), encoding="utf-8")
        write(home / "project/slipway.toml", "[tags]\nteam = 'nlp'\n[run.env]\nA = '1'")
        assert plan_file.load(Path("plan.json")) == written

    def test_serving_plan_replaces_the_training_job_of_the_defaults(self, home):
        write(home / "project/slipway.toml", "[workload.train]\nmodel = 'llama-3.1-8b'\ntokens_b = 3")
        Path("plan.yaml").write_text(
            "slipway: 1\nname: s\nworkload: {serve: {model: llama-3.1-8b}}\n", encoding="utf-8"
        )
        assert resolve().request.workload.train is None

    def test_hours_of_the_command_line_replace_the_tokens_of_the_plan(self, home):
        train = resolve("hours=3").request.workload.train
        assert (train.hours, train.tokens_b) == (3, None)

    def test_two_amounts_in_one_file_are_both_kept_for_the_check(self, home):
        Path("plan.yaml").write_text(PLAN.replace("tokens_b: 2", "tokens_b: 2, hours: 3"), encoding="utf-8")
        train = resolve().request.workload.train
        assert (train.hours, train.tokens_b) == (3, 2)

    def test_workdir_of_a_base_file_is_relative_to_the_base_file(self, home):
        write(home / "project/common/base.yaml", "run: {workdir: src}")
        Path("plan.yaml").write_text(f"{PLAN}extends: ../common/base.yaml\n", encoding="utf-8")
        assert resolve().request.run.workdir == "../common/src"

    def test_empty_section_of_the_plan_keeps_the_defaults(self, home):
        write(home / "project/slipway.toml", "[target]\nregion = 'us-east-1'")
        Path("plan.yaml").write_text(f"{PLAN}target:\n", encoding="utf-8")
        assert resolve().request.target.region == ("us-east-1",)

    @pytest.mark.parametrize(
        "base,plan,settings,read",
        [
            ("tags: {a: x, b: y}", "tags: {a: null}", (), lambda request: request.tags == {"b": "y"}),
            ("run: {env: {A: x, B: y}}", "", ("run.env.B=null",), lambda request: request.run.env == {"A": "x"}),
            (
                "guardrails: {ttl_h: 8}",
                "guardrails: {ttl_h: null}",
                (),
                lambda request: request.guardrails.ttl_h is None,
            ),
        ],
    )
    def test_null_removes_a_value_of_the_layers_below(self, home, base, plan, settings, read):
        write(Path("base.yaml"), base)
        Path("plan.yaml").write_text(f"{PLAN}extends: base.yaml\n{plan}\n", encoding="utf-8")
        assert read(resolve(*settings).request)

    def test_null_of_a_middle_layer_removes_and_of_no_value_is_refused(self, home):
        write(home / "project/slipway.toml", "[tags]\na = 'x'\nb = 'y'")
        write(Path("base.yaml"), "tags: {a: null, c: null}")
        Path("plan.yaml").write_text(f"{PLAN}extends: base.yaml\n", encoding="utf-8")
        with pytest.raises(UnreadableInputError) as caught:
            resolve()
        assert [(finding.path, finding.hint) for finding in caught.value.findings] == [
            ("tags.c", "null removes a value of a layer below, and none gives c")
        ]


class TestValues:
    @pytest.mark.parametrize(
        "setting,read",
        [
            ("run.env.VERSION=0123", lambda request: request.run.env == {"VERSION": "0123"}),
            ("tags.a.b=yes", lambda request: request.tags == {"a.b": "yes"}),
            (
                "target.instance_type=[p5.48xlarge, p4d.24xlarge]",
                lambda request: len(request.target.instance_type) == 2,
            ),
            ("target.nodes={min: 2, max: 4}", lambda request: request.target.nodes.maximum == 4),
            ("target.region=any", lambda request: request.target.region is None),
            ("budget.max_usd=120.50", lambda request: str(request.budget.max_usd) == "120.50"),
            (
                "run.command=python train.py --lr 1e-3",
                lambda request: "python train.py --lr 1e-3" in request.run.command,
            ),
            ("purchase.reservation={id: cr-0123456789abcdef0}", lambda request: request.purchase.reservation.id),
            ("run.env.A=", lambda request: request.run.env == {"A": ""}),
            ("env.A={x: y}", lambda request: request.run.env == {"A": "{x: y}"}),
            ("run.command={ date; python t.py; }", lambda request: "{ date; python t.py; }" in request.run.command),
            ("storage.login_pool=true", lambda request: request.storage.login_pool is True),
        ],
    )
    def test_setting_is_read_with_the_type_of_the_key(self, home, setting, read):
        assert read(resolve(setting).request)

    @pytest.mark.parametrize(
        "setting,words",
        [
            ("target.nodez=2", "did you mean target.nodes"),
            ("target.nodes=two", 'must be any, a number, or {min, max}, got "two"'),
            ("target.nodes=0", "target.nodes"),
            ("nodes", "--set takes KEY=VALUE"),
            ("model=x", "workload.train.model or workload.serve.model"),
            ("target={nodes: 2}", "a group of keys is set key by key"),
            ("workload.train.model.params_b=7", "--set 'workload.train.model={params_b: VALUE}'"),
            ("extends=base.yaml", "write extends in the plan file"),
            ("type=p5.48xlarge", "did you mean --type?"),
            ("budget.max_usd=", "--set budget.max_usd=null removes the value"),
            ("target.region=us-east-1,us-west-2", "must be one value or a list"),
            ("purchase.option=spot, on-demand", "must be one value or a list"),
        ],
    )
    def test_wrong_setting_is_refused_with_the_key(self, home, setting, words):
        with pytest.raises(SlipwayError) as caught:
            resolve(setting)
        text = " ".join([str(caught.value), getattr(caught.value, "hint", "") or ""])
        text += " ".join(f"{finding.path} {finding.message}" for finding in getattr(caught.value, "findings", ()))
        assert words in text

    @pytest.mark.parametrize(
        "settings,expected",
        [
            (("run.env={A: x}", "run.env.B=y"), {"A": "x", "B": "y"}),
            (("run.env.B=y", "run.env={A: x}"), {"A": "x", "B": "y"}),
            (("run.env.B=y", "run.env={B: z}"), {"B": "z"}),
        ],
    )
    def test_settings_of_a_mapping_and_of_its_keys_are_joined(self, home, settings, expected):
        assert resolve(*settings).request.run.env == expected

    @pytest.mark.parametrize(
        "settings",
        [
            ("target.typ=g5.xlarge", "run.retries=many"),
            ("target.nodes=some", "spotted"),
        ],
    )
    def test_wrong_settings_and_wrong_lines_of_the_file_are_refused_together(self, home, settings):
        write(Path("plan.yaml"), PLAN + "target: {regon: us-east-1}\nnetwork: {nat: gatewy}\n")
        with pytest.raises(UnreadableInputError) as refused:
            resolve(*settings)
        texts = [f"{finding.path}: {finding.message}" for finding in refused.value.findings]
        assert refused.value.message == "plan.yaml with --set has 4 problems"
        for word in (*(text.partition("=")[0] for text in settings), "target.regon", "network.nat"):
            assert sum(word in text for text in texts) == 1

    def test_wrong_setting_alone_is_one_problem_of_the_settings(self, home):
        write(Path("plan.yaml"), PLAN + "target: {nodes: 1}\n")
        with pytest.raises(UnreadableInputError) as refused:
            resolve("target.nodes=some")
        assert refused.value.message == "--set has 1 problem"

    def test_wrong_setting_and_unknown_region_of_the_file_are_refused_together(self, home, slipway):
        write(Path("plan.yaml"), PLAN + "target: {region: us-esat-1}\n")
        code, _, err = slipway("plan", "plan.yaml", "--set", "run.retrys=2")
        assert code == 2
        assert "run.retrys" in err
        assert "us-esat-1" in err

    def test_settings_out_of_range_alone_are_impossible_and_not_unreadable(self, home):
        with pytest.raises(ImpossibleError) as refused:
            resolve("target.nodes=0", "run.retries=-5")
        assert [finding.path for finding in refused.value.findings] == ["target.nodes", "run.retries"]

    def test_setting_below_a_plain_value_is_refused(self, home):
        with pytest.raises(UnreadableInputError) as refused:
            resolve("run.env=A", "run.env.B=y")
        assert any("run.env is set to A" in finding.message for finding in refused.value.findings)

    @pytest.mark.parametrize(
        "text,hint",
        [
            ("target: {region: '${REGION}'}", "add env: [REGION] to the file"),
            ("tags: {team: '${TEAM:-nlp}'}", "add env: {TEAM: nlp} to the file"),
            ("guardrails: {notify: ['${MAIL}']}", "add env: [MAIL] to the file"),
        ],
    )
    def test_variable_that_the_file_does_not_list_is_refused_with_the_line(self, home, text, hint):
        Path("plan.yaml").write_text(f"{PLAN}{text}\n", encoding="utf-8")
        with pytest.raises(UnreadableInputError) as caught:
            resolve()
        finding = caught.value.findings[0]
        assert (finding.code, finding.line) == ("variable-not-listed", 4)
        assert finding.hint.startswith(hint)

    def test_empty_variable_is_text_in_a_table_and_refused_elsewhere(self, home, monkeypatch):
        monkeypatch.setenv("EMPTY", "")
        Path("plan.yaml").write_text(f"{PLAN}env: [EMPTY]\nrun: {{env: {{A: '${{EMPTY}}'}}}}\n", encoding="utf-8")
        assert resolve().request.run.env == {"A": ""}
        Path("plan.yaml").write_text(f"{PLAN}env: [EMPTY]\ntarget: {{nodes: '${{EMPTY}}'}}\n", encoding="utf-8")
        with pytest.raises(UnreadableInputError, match=r"target\.nodes: the value is empty"):
            resolve()

    def test_only_listed_environment_variables_are_filled_in(self, home, monkeypatch):
        monkeypatch.setenv("TEAM", "nlp")
        monkeypatch.setenv("NODES", "3")
        Path("plan.yaml").write_text(
            f"{PLAN}env: {{TEAM: null, NODES: null, KIND: dev}}\ntags: {{team: '${{TEAM}}-${{KIND}}'}}\n"
            "target: {nodes: '${NODES}'}\nrun: {env: {A: '${HOME}'}}\n",
            encoding="utf-8",
        )
        request = resolve().request
        assert (request.tags, request.target.nodes.minimum, request.run.env) == (
            {"team": "nlp-dev"},
            3,
            {"A": "${HOME}"},
        )

    def test_listed_environment_variable_without_a_value_is_refused(self, home, monkeypatch):
        monkeypatch.delenv("TEAM", raising=False)
        Path("plan.yaml").write_text(f"{PLAN}env: [TEAM]\n", encoding="utf-8")
        with pytest.raises(UnreadableInputError, match="no variable TEAM"):
            resolve()


class TestRefusals:
    def test_unknown_key_of_a_layer_is_refused_with_file_and_line(self, home):
        path = write(home / "project/.slipway/defaults.yaml", "target:\n  regoin: us-east-1\n")
        with pytest.raises(UnreadableInputError, match=str(path)) as caught:
            resolve()
        assert (caught.value.findings[0].path, caught.value.findings[0].line) == ("target.regoin", 2)

    def test_circular_extends_is_refused(self, home):
        write(Path("a.yaml"), "extends: b.yaml")
        write(Path("b.yaml"), "extends: a.yaml")
        Path("plan.yaml").write_text(f"{PLAN}extends: a.yaml\n", encoding="utf-8")
        with pytest.raises(UnreadableInputError, match=r"plan\.yaml -> a\.yaml -> b\.yaml -> a\.yaml"):
            resolve()

    @pytest.mark.parametrize(
        "named,problem",
        [
            ("no.yaml", "does not exist"),
            ("folder", "is a folder"),
            ("x" * 300, "cannot be read (File name too long)"),
        ],
    )
    def test_extends_of_what_is_no_file_is_refused_with_the_line(self, home, named, problem):
        Path("folder").mkdir()
        write(Path("base.yaml"), f"target: {{region: us-east-1}}\nextends: {named}")
        Path("plan.yaml").write_text(f"{PLAN}extends: base.yaml\n", encoding="utf-8")
        with pytest.raises(UnreadableInputError, match=r"base\.yaml has 1 problem") as caught:
            resolve()
        finding = caught.value.findings[0]
        assert (finding.path, finding.line) == ("extends", 2)
        assert f"{named} {problem}" in finding.message

    def test_extends_of_a_circle_of_links_is_refused_as_a_missing_file(self, home):
        Path("base.yaml").symlink_to("other.yaml")
        Path("other.yaml").symlink_to("base.yaml")
        Path("plan.yaml").write_text(f"{PLAN}extends: base.yaml\n", encoding="utf-8")
        with pytest.raises(UnreadableInputError, match=r"plan\.yaml has 1 problem") as caught:
            resolve()
        assert "base.yaml does not exist" in caught.value.findings[0].message

    @pytest.mark.parametrize("named", ["\\ud800", "a\\udc41.yaml", "\\0"])
    def test_extends_of_what_no_file_can_be_named_is_refused(self, home, named):
        Path("plan.yaml").write_text(f'{PLAN}extends: "{named}"\n', encoding="utf-8")
        with pytest.raises(UnreadableInputError, match="extends must be the path of a file"):
            resolve()

    @pytest.mark.parametrize("named", ["https://example.com/base.yaml", "s3://bucket/base.yaml"])
    def test_extends_of_an_address_is_refused(self, home, named):
        Path("plan.yaml").write_text(f"{PLAN}extends: {named}\n", encoding="utf-8")
        with pytest.raises(UnreadableInputError, match="the path of a local file"):
            resolve()

    def test_wrong_value_of_a_toml_file_is_refused_with_the_line(self, home):
        write(home / "project/slipway.toml", "# ours\n[storage]\nlustre_gib = 'lots'\n[run.env]\n'1X' = 'a'\n")
        with pytest.raises(UnreadableInputError) as caught:
            resolve()
        assert [(finding.path, finding.line) for finding in caught.value.findings] == [
            ("storage.lustre_gib", 3),
            ("run.env.1X", 5),
        ]

    def test_two_project_files_in_a_folder_are_refused(self, home):
        write(home / "project/slipway.toml", "")
        write(home / "project/.slipway/defaults.yaml", "")
        with pytest.raises(UnreadableInputError, match="two files of defaults"):
            resolve()

    def test_missing_organisation_file_is_refused(self, home, monkeypatch):
        monkeypatch.setenv("SLIPWAY_ORGANISATION_DEFAULTS", str(home / "no.yaml"))
        with pytest.raises(UnreadableInputError, match="names no file"):
            resolve()

    @pytest.mark.parametrize("name", ["project/slipway.toml", "project/.slipway/defaults.yaml", UNDER_HOME])
    @pytest.mark.parametrize(
        "kind, reason",
        [
            ("/dev/zero", "it is a device"),
            ("folder", "it is a folder"),
            ("pipe", "it is a named pipe"),
            ("/no/such/file", "No such file"),
            ("{name}", "Too many levels of symbolic links"),
        ],
    )
    def test_defaults_that_are_no_regular_file_are_refused(self, home, name, kind, reason):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(kind.format(name=path.name))
        with pytest.raises(UnreadableInputError, match=f"cannot read the file of defaults {path}: {reason}"):
            resolve()

    def test_link_of_another_user_to_trusted_defaults_is_refused(self, home):
        if os.getuid() != 0:
            pytest.skip("only root can give a file away")
        path = home / "project/slipway.toml"
        path.symlink_to(write(home / "own.toml", ""))
        os.chown(path, 12345, -1, follow_symlinks=False)
        with pytest.raises(UnreadableInputError, match="belongs to another user \\(uid 12345\\)"):
            resolve()

    def test_defaults_owned_by_another_user_are_refused(self, home, monkeypatch):
        if os.getuid() != 0:
            pytest.skip("only root can give a file away")
        path = write(home / "project/slipway.toml", "[run]\ncommand = ['curl', 'x']")
        os.chown(path, 12345, -1)
        with pytest.raises(UnreadableInputError, match="belongs to another user"):
            resolve()


class TestCommands:
    def test_config_show_prints_each_value_with_the_origin(self, home, slipway):
        write(home / "project/slipway.toml", "[target]\nregion = 'us-east-1'\n[run.env]\nTOKEN = 'abc'")
        code, out, _ = slipway("config", "show", "plan.yaml", "--nodes", "2", "--json")
        document = read_document(out)
        origins = {row["key"]: (row["value"], row["origin"]) for row in document["settings"]}
        assert (code, document["schema"]) == (0, "slipway.config/1")
        assert origins["target.nodes"] == (2, "--set")
        assert origins["target.region"][1].startswith("project file")
        assert "abc" not in out
        assert "target.az_id" not in origins

    def test_config_show_has_whole_origins_in_80_columns(self, home, slipway, monkeypatch):
        write(home / "project/slipway.toml", "[target]\nregion = 'us-east-1'")
        monkeypatch.setenv("COLUMNS", "80")
        code, out, _ = slipway("config", "show", "plan.yaml", "--set", f"run.command={'python train.py ' * 8}")
        assert code == 0
        assert any(line.split() == ["target.region", "us-east-1", "project", "file"] for line in out.splitlines())
        (command,) = (line for line in out.splitlines() if line.lstrip().startswith("run.command"))
        assert command.endswith(" --set")
        assert len(command) <= 80

    def test_quote_shows_values_from_outside_the_plan_and_repeats_the_settings(self, home, slipway):
        write(home / "project/slipway.toml", "[target]\nregion = 'us-east-1'")
        code, out, err = slipway("quote", "plan.yaml", "--type", "p5.48xlarge", "--env", "A=1")
        assert code == 0
        assert "--set: target.instance_type p5.48xlarge" in out
        assert "project file" in out
        assert "--set target.instance_type=p5.48xlarge --set run.env.A=1" in err
        code, out, _ = slipway("quote", "plan.yaml", "--type", "p5.48xlarge", "--json")
        assumptions = {row["name"]: row for row in json.loads(out)["assumptions"]}
        assert assumptions["target.instance_type"]["source"] == "--set"

    @pytest.mark.usefixtures("home")
    @pytest.mark.parametrize(
        "file,text,options,words",
        [
            ("base.yaml", "target:\n  instance_type: p5.99xlarge\n", (), "extends base.yaml, line 2"),
            ("../slipway.toml", "[target]\nregion = 'us-esat-1'\n", (), "slipway.toml, line 2"),
            ("base.yaml", "", ("--type", "p5.99xlarge"), "the value is from --set"),
            (
                "base.yaml",
                "target: {queue: q}",
                ("--set", "target.kind=parallelcluster"),
                "write target.queue: null in the plan",
            ),
        ],
    )
    def test_impossible_value_of_a_layer_is_refused_with_its_origin(self, slipway, file, text, options, words):
        Path("base.yaml").write_text("", encoding="utf-8")
        Path(file).write_text(text, encoding="utf-8")
        Path("plan.yaml").write_text(f"{PLAN}extends: base.yaml\ntarget: {{os: ubuntu2404}}\n", encoding="utf-8")
        code, _, err = slipway("plan", "plan.yaml", *options)
        assert code == 5
        assert words in err.replace("\n", " ")

    def test_digest_of_a_setting_equals_the_digest_of_the_same_line_in_the_plan(self, home, slipway):
        _, out, _ = slipway("quote", "plan.yaml", "--type", "p5.48xlarge", "--nodes", "1", "--json")
        Path("plan.yaml").write_text(f"{PLAN}target: {{instance_type: p5.48xlarge, nodes: 1}}\n", encoding="utf-8")
        _, again, _ = slipway("quote", "plan.yaml", "--json")
        assert json.loads(out)["digest"] == json.loads(again)["digest"]

    def test_saved_plan_with_settings_is_refused(self, home, slipway):
        Path("saved.json").write_text(json.dumps({"schema": plan_file.SAVED, "plan": {}}), encoding="utf-8")
        code, _, err = slipway("quote", "saved.json", "--nodes", "2")
        assert code == 2
        assert "saved plan" in err

    @pytest.mark.parametrize("command", ["portfolio", "commit"])
    def test_setting_applies_to_every_plan_of_several(self, home, slipway, command):
        Path("other.yaml").write_text(PLAN.replace("name: job", "name: other"), encoding="utf-8")
        pinned = ["--set", "target.instance_type=p5.48xlarge", "--set", "purchase.option=on-demand"]
        pinned += ["--set", "target.region=us-east-1"]
        code, out, err = slipway(command, "plan.yaml", "other.yaml", *pinned, "--json")
        assert code == 0, err
        for name in ("job", "other"):
            Path(f"{name}.pinned.yaml").write_text(
                PLAN.replace("name: job", f"name: {name}")
                + "target: {instance_type: p5.48xlarge, region: us-east-1}\npurchase: {option: on-demand}\n",
                encoding="utf-8",
            )
        _, same, _ = slipway(command, "job.pinned.yaml", "other.pinned.yaml", "--json")
        written = [{**json.loads(text), "as_of": None} for text in (out, same)]
        plain = json.dumps(written[1]).replace("job.pinned.yaml", "plan.yaml").replace(".pinned.yaml", ".yaml")
        assert written[0] == json.loads(plain)

    @pytest.mark.parametrize("command", ["portfolio", "commit", "spike"])
    def test_setting_of_an_unknown_key_is_refused_with_the_name(self, home, slipway, command):
        code, _, err = slipway(
            command, "plan.yaml", "--set", "target.nods=2", *(["--yes"] if command == "spike" else [])
        )
        assert code == 2
        assert "nods" in err

    @pytest.mark.parametrize("words", [[], ["--all"]])
    def test_setting_of_prices_refresh_without_a_plan_is_refused(self, home, slipway, words):
        code, _, err = slipway("prices", "refresh", *words, "--set", "target.nodes=2")
        assert code == 2
        assert "--set needs a plan file" in err

    def test_price_refresh_hint_repeats_the_settings(self, home):
        options = PriceOptions(settings=("target.nodes=2",))
        priced = price(Path("plan.yaml"), NOW, options)
        assert refresh_command(priced) == "slipway prices refresh plan.yaml --set target.nodes=2"
