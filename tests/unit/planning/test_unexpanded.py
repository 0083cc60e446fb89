"""Values that only a shell would expand, in keys that no shell reads."""

import json
import subprocess

import pytest

from launcher import plan_file
from launcher.model.enums import Level
from launcher.planning.unexpanded import unexpanded_findings

PLAN = "slipway: 1\nname: a\nworkload: {train: {model: llama-3.1-8b, tokens_b: 1}}\nrun: {RUN}\n"


def findings(run):
    return list(unexpanded_findings(plan_file.loads(PLAN.replace("{RUN}", run))))


@pytest.mark.parametrize(
    "run, path",
    [
        ('{env: {PATH: "/opt/x/bin:$PATH"}}', "run.env.PATH"),
        ('{env: {PYTHONPATH: "${PWD}/src:${PYTHONPATH}"}}', "run.env.PYTHONPATH"),
        ("{env: {CACHE: ~/.cache}}", "run.env.CACHE"),
        ('{env: {LD: "/a:~/b"}}', "run.env.LD"),
        ('{env: {HOST: "$(hostname)"}}', "run.env.HOST"),
        ("{env: {D: '`date`'}}", "run.env.D"),
        ('{env: {OUT: "${SLIPWAY_CHECKPOINT_DIR}/x"}}', "run.env.OUT"),
        ("{outputs: [a, ~/results]}", "run.outputs[1]"),
        ('{outputs: ["$HOME/results/*.json"]}', "run.outputs[0]"),
        ('{outputs: [{path: "${USER}/x", optional: true}]}', "run.outputs[0]"),
        ('{data: [{uri: "s3://bucket/$USER", path: /data}]}', "run.data[0].uri"),
        ('{data: [{uri: s3://bucket/x, path: "/scratch/$USER"}]}', "run.data[0].path"),
        ("{env: {A: ~ubuntu/x}}", "run.env.A"),
        ('{env: {PATH: "%PATH%;x"}}', "run.env.PATH"),
        ("{outputs: [~bob/results]}", "run.outputs[0]"),
        ('{outputs: ["logs/%j.out"]}', "run.outputs[0]"),
        ("{outputs: [logs/%A_%a/x]}", "run.outputs[0]"),
        ('{data: [{uri: s3://bucket/x, path: "/scratch/%u"}]}', "run.data[0].path"),
        ('{volumes: [{claim: c, path: "/data/$USER"}]}', "run.volumes[0].path"),
        ("{workdir: $HOME/job}", "run.workdir"),
        ("{workdir: ~/job}", "run.workdir"),
        ('{image: "team/train:$TAG"}', "run.image"),
        ("{workdir: .}\ncheckpoint: {mode: own, uri: /fsx/$USER}", "checkpoint.uri"),
    ],
)
def test_unexpanded_variable_refused_at_path(run, path):
    (finding,) = findings(run)
    assert (finding.level, finding.path, finding.code) == (Level.ERROR, path, "not-expanded")


def test_unexpanded_variable_fix_is_setup_export_line():
    (finding,) = findings('{env: {PATH: "/opt/x/bin:$PATH"}}')
    assert """run.setup: ['export PATH="/opt/x/bin:$PATH"']""" in finding.hint
    plan_file.loads(PLAN.replace("{RUN}", """{setup: ['export PATH="/opt/x/bin:$PATH"']}"""))


@pytest.mark.parametrize(
    "value, line", [("~/x", 'export A="$HOME/x"'), ("/a:~/b", 'export A="/a:$HOME/b"'), ("~bob/x", "export A=~bob/x")]
)
def test_fix_of_home_folder_is_expanded_by_a_shell(value, line):
    (finding,) = findings(f"{{env: {{A: '{value}'}}}}")
    assert f"run.setup: ['{line}']" in finding.hint
    shell = subprocess.run(["bash", "-c", f'{line}; echo "$A"'], capture_output=True, text=True, check=True)
    assert "~" not in shell.stdout or "bob" in value


@pytest.mark.parametrize(
    "value", ["$HOME $(id) `id`", "Hello $NAME, it is `date`", "a $B\nc\n", "pa$$word", "~/x or ~/y", "x$lower/y"]
)
def test_possibly_literal_variable_text_is_warning(value):
    (finding,) = findings(f"{{env: {{A: {json.dumps(value)}}}}}")
    assert (finding.level, finding.path, finding.code) == (Level.WARNING, "run.env.A", "not-expanded")


@pytest.mark.parametrize(
    "run",
    [
        "{env: {A: '^foo$', B: 'cost $5', C: a~b, D: '~', E: 100%}}".replace("D: '~', ", ""),
        "{env: {A: $HOME}, plain_env: [A]}",
        '{outputs: ["${SLIPWAY_CHECKPOINT_DIR}/final", "out/*.json", a~/b, 50%]}',
        "{env: {F: '%(asctime)s', D: '%Y-%m-%d', S: '%h/x'}}",
        "{command: 'python train.py --out $HOME/x'}",
        '{command: [python, train.py, "--dir=${SLIPWAY_CHECKPOINT_DIR}", "s/$/x/"]}',
        '{setup: ["export PATH=/opt/bin:$PATH"]}',
    ],
)
def test_expanded_or_plain_value_accepted(run):
    assert findings(run) == []


@pytest.mark.parametrize(
    "word", ["$HOME/data", "--nodes=$SLIPWAY_NODES", "~/x", "${TMPDIR}", "--out=~/x", "~bob/x", "$(date)", "`id`"]
)
def test_unexpanded_word_of_command_list_is_warning(word):
    (finding,) = findings(f'{{command: [python, train.py, "{word}"]}}')
    assert (finding.level, finding.path) == (Level.WARNING, "run.command[2]")
