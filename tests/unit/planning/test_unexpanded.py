"""Values that only a shell would expand, in keys that no shell reads."""

import json

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
        '{outputs: ["${SLIPWAY_CHECKPOINT_DIR}/final", "out/*.json", a~/b]}',
        "{command: 'python train.py --out $HOME/x'}",
        '{command: [python, train.py, "--dir=${SLIPWAY_CHECKPOINT_DIR}", "s/$/x/"]}',
        '{setup: ["export PATH=/opt/bin:$PATH"]}',
    ],
)
def test_expanded_or_plain_value_accepted(run):
    assert findings(run) == []


@pytest.mark.parametrize("word", ["$HOME/data", "--nodes=$SLIPWAY_NODES", "~/x", "${TMPDIR}"])
def test_unexpanded_word_of_command_list_is_warning(word):
    (finding,) = findings(f'{{command: [python, train.py, "{word}"]}}')
    assert (finding.level, finding.path) == (Level.WARNING, "run.command[2]")
