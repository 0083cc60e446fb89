import json

import pytest
import yaml

from launcher import plan_file
from launcher.catalog.safe_yaml import YamlError, documents, loads
from launcher.model.errors import SlipwayError
from launcher.model.values import ScalarReader, describe

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)


def bomb():
    """What the aliases of BOMB stand for, as PyYAML itself makes it."""
    value = ["x"] * 9
    for _ in range(11):
        value = [value] * 9
    return value


@pytest.mark.parametrize("text", ["a: [1, 2.5, yes, 2026-11-20]", "", "[&a {b: 1}, *a, *a]", '{"a": null}'])
def test_safe_yaml_reads_like_pyyaml(text):
    assert loads(text) == yaml.safe_load(text)
    assert documents(f"{text}\n---\nb: 1\n")[-1] == {"b": 1}


@pytest.mark.parametrize(
    "text",
    [
        *("[", "a: b: c", "\0", "a\n---\nb", "x: !!bool foo", 'x: !!int ""', "x: !!timestamp foo", "x: !!float foo"),
        *("x: 2026-02-30", "x: !!python/object:os.system {}", "&a [*a]", "&a {b: {c: *a}}", f"x: {'9' * 400}"),
        *("[" * 10**4, f"{'[' * 101}{']' * 101}", f"{'{a: ' * 300}1{'}' * 300}", "- " * 2000 + "a", BOMB),
    ],
    ids=range(18),
)
def test_invalid_yaml_is_yaml_error_and_refused_plan(text):
    with pytest.raises(YamlError) as refused:
        loads(text)
    assert len(str(refused.value)) < 200
    with pytest.raises(SlipwayError):
        plan_file.loads(f"slipway: 1\nname: x\ntags: {text}" if text[:1] == "[" else text)


def test_large_value_is_truncated_in_message():
    assert describe(bomb()).startswith("[[[[[[[[[[[[")
    assert len(describe(bomb())) == 60
    assert describe({"a": "b" * 10**6}).endswith("...")
    assert describe({"a": 1}) == json.dumps({"a": 1})
    reader = ScalarReader()
    reader.wrong("a", bomb(), "text")
    assert len(reader.findings[0].message) < 100


def test_unbounded_integer_is_finding():
    with pytest.raises(SlipwayError):
        plan_file.loads(f'{{"slipway": 1{"0" * 400}, "name": "x"}}')
    with pytest.raises(SlipwayError, match="1 problem"):
        plan_file.loads(f'{{"slipway": 1{"0" * 39}, "name": "x"}}')
