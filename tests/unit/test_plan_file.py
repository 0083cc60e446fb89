"""The plan file: every key of the contract, every problem at once, each with its path."""

import json
import os
import shlex
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from launcher import plan_file
from launcher.model.document import document
from launcher.model.enums import PurchaseOption
from launcher.model.errors import ImpossibleError, SlipwayError, UnreadableInputError
from launcher.model.request import NodeRange
from launcher.model.schema import commented_file, json_schema

CONTRACT = """
slipway: 1
name: llama31-8b-sft
workload:
  train:
    model: llama-3.1-8b
    method: full
    tokens_b: 2.0
    sequence_length: 8192
    global_batch_tokens: null
    precision: bf16
    recompute: selective
    stack: framework
    throughput_tokens_per_s: null
    custom_kernels: none
    runs: 24
    runs_per_month: 1
    port_weeks: auto
    engineer_usd_per_week: 5000
    traits: []
    data: {uri: null, gib: 0, region: null}
target:
  kind: any
  region: any
  az_id: null
  instance_type: any
  nodes: any
  cluster: null
  fallback_types: []
  os: ubuntu2404
  ami: null
  placement_group: auto
  efa_layout: auto
  ssh_host: null
network: {vpc_id: null, subnet_ids: [], cidr: 10.0.0.0/16}
storage: {lustre_gib: 0, lustre_mb_s_per_tib: 250, head_node: auto, login_nodes: 0, kms_key_arn: null,
          access_log: false}
security: {permissions_boundary_arn: null, qualifier: null}
purchase:
  option: any
  plan_kind: any
  term_years: any
  payment: no-upfront
  owned: false
  reservation: null
  training_plan: null
  deadline_h: null
  wait_for_capacity_minutes: 30
  interruptions_per_node_hour: null
  price_overrides: {"p5.48xlarge/spot": "18.10", "ml.p5en.48xlarge/on-demand/us-west-2": "72.79"}
  discount_percent: 0
  credits: []
checkpoint: {uri: auto, mode: agent, interval: auto, keep: 3, grace_seconds: 90, max_mb_s: null}
budget: {max_usd: null, max_usd_per_hour: null}
guardrails: {ttl_h: null, idle_minutes: auto, hung_minutes: 30, notify: []}
run: {command: [python, train.py], workdir: ., image: null, container: auto, env: {}, secrets: {}, setup: [],
      retries: auto, time_limit_h: null}
tags: {}
"""


def problems(text: str) -> dict[str, str]:
    """The findings of a bad file, by path."""
    with pytest.raises(SlipwayError) as caught:
        plan_file.loads(text)
    return {finding.path: finding.message for finding in caught.value.findings}


def test_every_key_of_the_contract_is_read() -> None:
    request = plan_file.loads(CONTRACT)
    assert request.workload.train is not None
    assert request.workload.train.port_weeks is None
    assert request.purchase.price_overrides["p5.48xlarge/spot"] == Decimal("18.10")
    assert request.target.nodes is None


def test_plan_with_only_required_keys_has_the_defaults_of_the_contract() -> None:
    bare = document(plan_file.loads("slipway: 1\nname: x\n"))
    full = document(plan_file.loads(CONTRACT))
    for part in ("target", "network", "storage", "security", "checkpoint", "budget", "guardrails", "run"):
        assert bare[part] == full[part]


def test_request_document_reads_back_to_the_request() -> None:
    request = plan_file.loads(CONTRACT)
    assert plan_file.loads(json.dumps(document(request))) == request


@pytest.mark.parametrize(
    "line,path,hint",
    [
        ("extend: base.yaml", "extend", "did you mean extends?"),
        ("enf: [A]", "enf", "did you mean env?"),
        ("workload: {train: {model: {confg: a.json}, hours: 1}}", "workload.train.model.confg", "did you mean config?"),
        ("run: {zzzz: 1}", "run.zzzz", "slipway schema prints all keys"),
    ],
)
def test_unknown_key_has_the_nearest_key_or_where_all_keys_are(line: str, path: str, hint: str) -> None:
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(f"slipway: 1\nname: x\n{line}\n")
    assert hint in {finding.path: finding.hint for finding in caught.value.findings}[path]


def test_all_problems_of_a_plan_are_reported_with_path_and_nearest_name() -> None:
    text = """
slipway: 1
name: Bad_Name
regoin: x
workload: {train: {modle: llama-3.1-8b, tokens_b: many, method: fulll, sequence_length: 1.5}}
target: {nodes: {min: 4, max: 2}, instance_type: []}
budget: {max_usd: -3}
purchase: {option: [spot, sport]}
"""
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(text)
    findings = {finding.path: finding for finding in caught.value.findings}
    assert set(findings) == {
        "name",
        "regoin",
        "workload.train.modle",
        "workload.train.tokens_b",
        "workload.train.method",
        "workload.train.sequence_length",
        "target.nodes",
        "target.instance_type",
        "budget.max_usd",
        "purchase.option[1]",
    }
    assert findings["workload.train.modle"].hint == "did you mean model?"
    assert findings["workload.train.method"].hint == "did you mean full?"
    assert "pretrain, full, sft, lora, qlora" in findings["workload.train.method"].message


@pytest.mark.parametrize(
    "line, path",
    [
        ("workload: {train: {model: {params_b: 0}, tokens_b: 1}}", "workload.train.model.params_b"),
        ("workload: {train: {model: {params_b: -7}, tokens_b: 1}}", "workload.train.model.params_b"),
        ("workload: {train: {model: {params_b: 1e99}, tokens_b: 1}}", "workload.train.model.params_b"),
        ("workload: {train: {tokens_b: .inf}}", "workload.train.tokens_b"),
        ("workload: {train: {tokens_b: .nan}}", "workload.train.tokens_b"),
        ("budget: {max_usd: .nan}", "budget.max_usd"),
        ("target: {nodes: 0}", "target.nodes"),
        ("checkpoint: {keep: 0}", "checkpoint.keep"),
    ],
)
def test_numbers_out_of_range_are_impossible_and_not_unreadable(line: str, path: str) -> None:
    with pytest.raises(ImpossibleError) as caught:
        plan_file.loads(f"slipway: 1\nname: x\n{line}\n")
    assert [finding.path for finding in caught.value.findings] == [path]


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "nothing"),
        ("- a\n- b\n", "must be a mapping"),
        ("slipway: [1\n", "line 2"),
        ("slipway: 1\nname: x\nname: y\n", "is given twice"),
        ("? [a]\n: 1\n", "not valid YAML"),
        ("\x00", "not valid YAML"),
    ],
)
def test_text_other_than_a_plan_file_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(text)
    assert words in caught.value.message


def test_broken_json_is_refused_with_position_and_fix(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"slipway": 1,\n "name": "x"\n "model": {}}\n')
    with pytest.raises(UnreadableInputError, match=r"plan\.json is not valid JSON: line 3, column 2") as caught:
        plan_file.load(file)
    assert caught.value.hint == "correct that place; slipway init writes a plan file"


def test_missing_plan_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match="No such file"):
        plan_file.load(tmp_path / "absent.yaml")


def test_single_value_and_list_are_both_open_choices() -> None:
    request = plan_file.loads(
        "slipway: 1\nname: x\npurchase: {option: [spot, on-demand]}\ntarget: {region: us-east-2, nodes: 4}\n"
    )
    assert request.purchase.option == (PurchaseOption.SPOT, PurchaseOption.ON_DEMAND)
    assert request.target.region == ("us-east-2",)
    assert request.target.nodes == NodeRange(minimum=4, maximum=4)


def test_reservation_without_an_id_is_refused() -> None:
    assert set(problems("slipway: 1\nname: x\npurchase: {reservation: {count: 2}}\n")) == {"purchase.reservation.id"}


@pytest.mark.parametrize("host", ["-oProxyCommand=true", "a host", "", "`id`", "a;id", "$HOME", "a'b"])
def test_ssh_host_with_option_or_shell_characters_is_refused(host: str) -> None:
    assert set(problems(f"slipway: 1\nname: x\ntarget: {{ssh_host: {host!r}}}\n")) == {"target.ssh_host"}
    assert set(problems(f"slipway: 1\nname: x\ntarget: {{context: {host!r}}}\n")) == {"target.context"}


def test_names_of_ssh_hosts_and_contexts_are_kept() -> None:
    for host in ("head", "ec2-user@10.0.0.1", "fe80::1%eth0", "head-1.example.org"):
        assert plan_file.loads(f"slipway: 1\nname: x\ntarget: {{ssh_host: '{host}'}}\n").target.ssh_host == host
    for context in ("arn:aws:eks:us-east-2:123456789012:cluster/a-b", "me@a.us-east-2.eksctl.io", "team/gpus_2"):
        assert plan_file.loads(f"slipway: 1\nname: x\ntarget: {{context: '{context}'}}\n").target.context == context


def test_named_pipe_and_device_are_refused_and_a_shell_pipe_is_read(tmp_path: Path) -> None:
    fifo = tmp_path / "plan.yaml"
    os.mkfifo(fifo)
    for path, kind in ((fifo, "a named pipe"), (Path("/dev/zero"), "a device")):
        with pytest.raises(UnreadableInputError, match=f"{path}: it is {kind}; allowed: a regular file"):
            plan_file.load(path)
    reads, writes = os.pipe()
    os.write(writes, b"slipway: 1\nname: piped\n")
    os.close(writes)
    assert plan_file.load(Path(f"/dev/fd/{reads}")).name == "piped"
    os.close(reads)


def test_path_with_a_null_character_is_unreadable() -> None:
    with pytest.raises(UnreadableInputError, match="no file has a null character"):
        plan_file.load(Path("a\0b"))


def test_boolean_in_place_of_a_number_is_refused() -> None:
    assert set(problems("slipway: 1\nname: x\nstorage: {lustre_gib: true}\n")) == {"storage.lustre_gib"}


def test_starter_file_is_readable_and_names_every_key() -> None:
    text = commented_file("my-job")
    request = plan_file.loads(text)
    assert request.name == "my-job"
    for section, keys in document(request).items():
        assert f"{section}:" in text
        for key in keys if isinstance(keys, dict) else ():
            assert f"{key}:" in text


def test_json_schema_accepts_and_refuses_as_the_parser_does() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert list(validator.iter_errors(yaml.safe_load(CONTRACT))) == []
    for bad in (
        {"name": "x"},
        {"slipway": 1, "name": "x", "colour": 1},
        {"slipway": 1, "name": "X"},
        {"slipway": 1, "name": "x", "target": {"nodes": 0}},
        {"slipway": 1, "name": "x", "purchase": {"option": "sport"}},
        {"slipway": 1, "name": "x", "workload": {"train": {"tokens_b": -1}}},
    ):
        assert list(validator.iter_errors(bad)), bad
        with pytest.raises(SlipwayError):
            plan_file.loads(json.dumps(bad))


@pytest.mark.long
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=12,
    )
)
def test_random_document_gives_a_plan_or_a_clear_error(data: object) -> None:
    for text in (
        yaml.safe_dump(data),
        yaml.safe_dump({"slipway": 1, "name": "x", "target": data, "run": {"env": data}}),
    ):
        try:
            plan_file.loads(text)
        except SlipwayError as refusal:
            assert refusal.message  # noqa: PT017 - most documents are refused, some are plans


@pytest.mark.parametrize(
    "text,words",
    [
        ("target: &t {nodes: *t}", "line 3, column 9: an alias is inside the value it names"),
        ("run: {command: &c [*c]}", "line 3, column 16: an alias is inside the value it names"),
        ("target:\n  <<: {region: any}\n", "line 4, column 3: merge keys (<<) are not taken"),
    ],
)
def test_yaml_outside_the_plan_format_is_unreadable(text, words):
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(f"slipway: 1\nname: a\n{text}\n")
    assert words in caught.value.message


def test_yaml_alias_of_a_scalar_is_read():
    request = plan_file.loads(
        "slipway: 1\nname: a\nstorage: {kms_key_arn: &key 'arn:aws:kms:x'}\ntarget: {az_id: *key}\n"
    )
    assert request.target.az_id == request.storage.kms_key_arn


def test_finding_has_line_and_column():
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads("slipway: 1\nname: a\ntarget:\n  nodes: 2\n  regoin: x\ntags: 5\nrun: {env: {A: 1}}\n")
    positions = {finding.path: (finding.line, finding.column) for finding in caught.value.findings}
    assert positions["target.regoin"] == (5, 3)
    assert positions["run.env.A"] == (7, 13)


def test_exponential_yaml_aliases_are_refused():
    lines = ["x0: &x0 [a]", *(f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 10)}]" for i in range(1, 12))]
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads("slipway: 1\nname: a\n" + "\n".join(lines))
    assert "its aliases stand for more than 1,000,000 values" in caught.value.message


@pytest.mark.parametrize(
    "line,shown",
    [
        ("python train.py", "[python, train.py]"),
        ("python train.py --name 'a b' --lr 1e-4", "[python, train.py, --name, a b, --lr, 1e-4]"),
        (
            "train --steps 100 --on yes --of 'a, b' -- '#1'",
            '[train, --steps, "100", --on, "yes", --of, "a, b", --, "#1"]',
        ),
    ],
)
def test_command_line_runs_in_bash_and_a_list_runs_directly(line, shown):
    request = plan_file.loads(f"slipway: 1\nname: a\nrun:\n  command: {line}\n")
    assert request.run.command == ("bash", "-eo", "pipefail", "-c", line)
    assert f"[{plan_file.yaml_tokens(line)}]" == shown
    request = plan_file.loads(f"slipway: 1\nname: a\nrun: {{command: {shown}}}\n")
    assert request.run.command == tuple(shlex.split(line))


def test_tags_keep_the_written_case_and_characters():
    request = plan_file.loads("slipway: 1\nname: a\ntags: {CostCenter: ML-42, team/owner: a@b.c}\n")
    assert request.tags == {"CostCenter": "ML-42", "team/owner": "a@b.c"}


@pytest.mark.parametrize(
    "tags, path",
    [
        ({"aws:x": "y"}, "tags.aws:x"),
        ({"slipway:digest": "y"}, "tags.slipway:digest"),
        ({"owner": "y" * 257}, "tags.owner"),
        ({"k" * 129: "y"}, f"tags.{'k' * 20}..."),
        ({"owner": "a;b"}, "tags.owner"),
        ({f"k{number}": "y" for number in range(41)}, "tags"),
        (5, "tags"),
    ],
)
def test_tag_refused_by_aws_is_refused(tags, path):
    assert list(problems(yaml.safe_dump({"slipway": 1, "name": "a", "tags": tags}))) == [path]


def test_key_on_is_read_as_a_word():
    """YAML 1.1 reads a plain `on` as true."""
    steps = "  before: [{command: [a, b], on: all, hours: 0.5}]\n  after: [{command: a | b}]\n"
    run = plan_file.loads(f"slipway: 1\nname: a\nrun:\n{steps}").run
    (before,), (after,) = run.before, run.after
    assert (before.command, before.on, before.hours) == (("a", "b"), "all", 0.5)
    assert (after.command[-1], after.on, after.hours) == ("a | b", "first", None)


@pytest.mark.parametrize(
    "value",
    ["3.10", "012345", "12:30:45", "NO", "on", "1_000", "0x1F", "2026-11-28", "~", "2026-01-01T00:00:00Z"],
)
def test_fix_of_a_value_quotes_the_text_of_the_file(value: str) -> None:
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(f"slipway: 1\nname: x\nrun: {{env: {{V: {value}}}, command: [a, {value}]}}\n")
    for finding in caught.value.findings:
        assert f"got {value}" in finding.message
        removes = "null removes a value of a layer below, and none gives V" if finding.path == "run.env.V" else ""
        assert finding.hint == (removes if value == "~" else f'write "{value}"')
    assert plan_file.loads(f'slipway: 1\nname: x\nrun: {{env: {{V: "{value}"}}}}\n').run.env == {"V": value}


@pytest.mark.parametrize(
    "line, fix",
    [
        ('target: {nodes: "2"}', "write 2, without quotes"),
        ('checkpoint: {keep: "3"}', "write 3, without quotes"),
        ('storage: {lustre_gib: "1200"}', "write 1200, without quotes"),
        ("run: {setup: NO}", 'write ["NO"]'),
        ("run: {setup: ls}", 'write ["ls"]'),
        ("run: {outputs: [on]}", 'write "on"'),
        ("storage: {access_log: 'yes'}", "write true, without quotes"),
        ("storage: {access_log: 0}", "write false, without quotes"),
        ("guardrails: {ttl_h: 10 h}", "write 10"),
        ("guardrails: {idle_minutes: 5min}", "write 5"),
        ("purchase: {discount_percent: 12.5%}", "write 12.5"),
        ('budget: {max_usd: "$1,200.50"}', "write 1200.50"),
        ("budget: {max_usd: 500 USD}", "write 500"),
    ],
)
def test_fix_of_a_value_of_another_type_is_the_value(line: str, fix: str) -> None:
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(f"slipway: 1\nname: x\n{line}\n")
    assert caught.value.findings[0].hint == fix


BUCKET = "a bucket has 3 to 63 of a-z, 0-9, . and -, such as s3://my-bucket/prefix: aws s3 ls lists yours"


@pytest.mark.parametrize(
    "text, path, fix",
    [
        ("name: My.Job\nslipway: 1", "name", "write my-job"),
        ("name: x", "slipway", "add slipway: 1"),
        ("slipway: 1", "name", "add name: 1 to 40 of a-z, 0-9 and -"),
        ("slipway: 1\nname: x\nrun: {data: [{uri: 's3://ab/x', path: /d}]}", "run.data[0].uri", BUCKET),
        (
            "slipway: 1\nname: x\nrun: {data: [{uri: team-data/x, path: /d}]}",
            "run.data[0].uri",
            "write s3://team-data/x",
        ),
        (
            "slipway: 1\nname: x\nrun: {data: [{uri: 's3://team-data/x'}]}",
            "run.data[0].path",
            "add path: an absolute path",
        ),
        ("slipway: 1\nname: x\ncheckpoint: {uri: 's3://A_b/x'}", "checkpoint.uri", BUCKET),
        ("slipway: 1\nname: x\ntarget: {nodes: {min: 4, max: 2}}", "target.nodes", "write {min: 2, max: 4}"),
        (
            "slipway: 1\nname: x\npurchase: {credits: [{pool: a}]}",
            "purchase.credits[0].usd",
            "add usd: remaining dollars",
        ),
    ],
)
def test_wrong_name_uri_and_missing_key_have_their_fix(text: str, path: str, fix: str) -> None:
    with pytest.raises(SlipwayError) as caught:
        plan_file.loads(text)
    assert {finding.path: finding.hint for finding in caught.value.findings}[path] == fix


@pytest.mark.parametrize(
    "line",
    [
        "guardrails: {ttl_h: 30m}",
        "guardrails: {ttl_h: '1,5'}",
        "budget: {max_usd: 5k}",
        "budget: {max_usd: '1.200,50'}",
        "workload: {train: {model: a, tokens_b: 500M}}",
        "storage: {access_log: maybe}",
        "network: {vpc_id: 3.10}",
    ],
)
def test_value_of_unclear_meaning_gets_no_fix(line: str) -> None:
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(f"slipway: 1\nname: x\n{line}\n")
    assert caught.value.findings[0].hint == ""


@pytest.mark.parametrize(
    "line, path, got",
    [
        ("workload: {train: {model: a, method: NO, tokens_b: 1}}", "workload.train.method", "got NO"),
        ("target: {os: 22.10}", "target.os", "got 22.10"),
        ("run: {env: {3.10: x}}", "run.env.3.10", 'got "3.10"'),
        ("run: {env: {V: }}", "run.env.V", "got nothing"),
        ("x: &e {A: 3.10}\ntags: *e", "tags.A", "got 3.10"),
        ("run: {before: 3.10}", "run.before", 'write [{command: "3.10"}]'),
        ("run: {data: NO}", "run.data", 'each item: must be s3://bucket/prefix, got "NO"'),
        ("budget: {max_usd: 1,000}", "budget.000", "write 1000 for 1,000"),
    ],
)
def test_message_has_the_text_of_the_file(line, path, got):
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(f"slipway: 1\nname: x\n{line}\n")
    (finding,) = [finding for finding in caught.value.findings if finding.path == path]
    assert got in f"{finding.message} {finding.hint}"


def test_message_on_a_value_of_a_toml_file_has_its_text(tmp_path):
    (tmp_path / "slipway.toml").write_text("[tags]\nversion = 3.10 # of the team\n")
    (tmp_path / "plan.yaml").write_text("slipway: 1\nname: x\nextends: slipway.toml\n")
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.load(tmp_path / "plan.yaml")
    assert caught.value.findings[0].hint == 'write "3.10"'


def test_message_on_a_replaced_value_has_no_text_of_the_file(tmp_path):
    (tmp_path / "plan.yaml").write_text("slipway: 1\nname: x\ntarget: {os: 22.10}\n")
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.load(tmp_path / "plan.yaml", ("target.os=true",))
    assert "22.10" not in str(caught.value.findings)


@pytest.mark.parametrize("value", ["1e9", "-2.50e3", "-1.50", "-3"])
def test_number_out_of_range_is_shown_as_in_the_file(value):
    with pytest.raises(ImpossibleError) as caught:
        plan_file.loads(f"slipway: 1\nname: x\npurchase: {{discount_percent: {value}}}\nbudget: {{max_usd: -1.0}}\n")
    messages = {finding.path: finding.message for finding in caught.value.findings}
    assert messages["budget.max_usd"].endswith("got -1.0")
    assert messages["purchase.discount_percent"].endswith(f"got {value}")


@pytest.mark.parametrize(
    "line, got, fix",
    [
        ("target: {nodes: 017}", "got 017", "YAML reads 017 in base 8, as 15: write 15, or 17"),
        ("run: {time_limit_h: 12:30:45}", "got 12:30:45", "base 60, as 45045: write 45045"),
        ("budget: {max_usd: 12:30}", "got 12:30", "base 60, as 750: write 750"),
        ("checkpoint: {grace_seconds: 1:30}", "got 1:30", "base 60, as 90: write 90"),
    ],
)
def test_number_in_another_base_is_refused(line, got, fix):
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(f"slipway: 1\nname: x\n{line}\n")
    (finding,) = caught.value.findings
    assert got in finding.message
    assert fix in finding.hint


@pytest.mark.parametrize(
    "line, word",
    [
        ("network: {nat: nope}", "auto, gateway, instance, none"),
        ("network: {nat: Auto}", "auto, gateway"),
        ("run: {operator: kubeflow}", "auto, hyperpod-pytorchjob"),
        ("workload: {train: {model: a, stack: xyz, tokens_b: 1}}", "auto, tuned"),
        ("purchase: {option: cheap}", "any, on-demand"),
        ("purchase: {plan_kind: ec3}", "any, compute"),
    ],
)
def test_refused_word_lists_the_words_for_a_free_choice(line, word):
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(f"slipway: 1\nname: x\n{line}\n")
    assert f"must be one of {word}" in caught.value.findings[0].message


def test_date_that_does_not_exist_has_its_place():
    with pytest.raises(UnreadableInputError, match=r"line 3, column 17: 2026-13-01: month must be in 1\.\.12"):
        plan_file.loads("slipway: 1\nname: x\ntags: {expires: 2026-13-01}\n")


@pytest.mark.parametrize(
    "rest",
    [
        "target: {kind: sagemaker-training, instance_type: ml.g5.2xlarge, fallback_types: [ml.p5.48xlarge]}",
        "target: {kind: [hyperpod-slurm, hyperpod-eks], instance_type: ml.g5.2xlarge, fallback_types: [p5.48xlarge]}",
        "workload: {serve: {model: a}}\ntarget: {instance_type: ml.g5.2xlarge, fallback_types: [p5.48xlarge]}",
    ],
)
def test_sagemaker_name_of_a_type_is_accepted_for_sagemaker_targets(rest: str) -> None:
    target = plan_file.loads(f"slipway: 1\nname: x\n{rest}\n").target
    assert (target.instance_type, target.fallback_types) == (("g5.2xlarge",), ("p5.48xlarge",))


def test_sagemaker_name_of_a_type_is_refused_for_other_targets_with_both_names() -> None:
    from launcher.catalog.load import load
    from launcher.planning.checks import check

    for kind in ("eks", "[sagemaker-training, eks]", "any"):
        request = plan_file.loads(f"slipway: 1\nname: x\ntarget: {{kind: {kind}, instance_type: ml.p5.48xlarge}}\n")
        (finding,) = [finding for finding in check(request, load()) if finding.path == "target.instance_type"]
        assert finding.hint.startswith("write p5.48xlarge; SageMaker's name goes with target.kind sagemaker-training")


@pytest.mark.parametrize(
    "word, fix",
    [
        ("us-esat-1", "us-east-1?"),
        ("us-eats-2", "us-east-2?"),
        ("eu-wset-1", "eu-west-1?"),
        ("us-west1", "us-west-1?"),
        ("ap-norhteast-1", "ap-northeast-1?"),
        ("su-east-1", "us-east-1 or sa-east-1?"),
        ("us-est-1", "us-west-1 or us-east-1?"),
    ],
)
def test_region_with_swapped_letters_suggests_the_nearest_region(word: str, fix: str) -> None:
    from launcher.catalog.load import load
    from launcher.model.names import nearest_name

    assert nearest_name(word, sorted(load().regions)) == f"did you mean {fix}"
