"""Fixes that errors write out: each is put into the file, and the error must be gone."""

import random
import re

import pytest

from launcher import plan_file
from launcher.model.errors import SlipwayError

KEYS = (
    *("name: {}", "target: {{nodes: {}}}", "target: {{region: {}}}", "target: {{instance_type: {}}}"),
    *("target: {{kind: {}}}", "storage: {{lustre_gib: {}}}", "storage: {{access_log: {}}}", "budget: {{max_usd: {}}}"),
    *("guardrails: {{ttl_h: {}}}", "guardrails: {{idle_minutes: {}}}", "purchase: {{discount_percent: {}}}"),
    *("checkpoint: {{keep: {}}}", "checkpoint: {{grace_seconds: {}}}", "run: {{env: {{A: {}}}}}", "tags: {{a: {}}}"),
    *("run: {{command: [python, {}]}}", "run: {{outputs: [{}]}}", "run: {{setup: [{}]}}", "run: {{retries: {}}}"),
    *("run: {{setup: {}}}", "run: {{outputs: {}}}", "network: {{cidr: {}}}", "run: {{time_limit_h: {}}}"),
    *("workload: {{train: {{model: a, tokens_b: {}}}}}", "workload: {{train: {{model: {}, tokens_b: 1}}}}"),
)
VALUES = (
    *(
        "3.10",
        "012",
        "09",
        '"010"',
        "0x1F",
        "1_000",
        "12:30:45",
        "1e3",
        "NO",
        "on",
        "yes",
        "~",
        "2026-11-28",
        "2026-11-28T10:00:00Z",
    ),
    *('"2"', '"2.5"', "'yes'", "'off'", "10h", "10 hours", "30m", "5min", "5 %", "$500", '"$1,200.50"', "500 USD"),
    *("2B", "500M", "1.200,50", "'1,5'", "5k", "[]", "[1, 2]", "{}", "{a: 1}", '""', '"a b"', ".inf", "-3", "1e400"),
)
FIX = re.compile(r"write (.+?)(?:, without quotes)?")


def findings(text):
    try:
        plan_file.loads(text)
    except SlipwayError as refusal:
        return refusal.findings
    return ()


def write(line, value):
    name = "" if line.startswith("name") else "name: x\n"
    return f"slipway: 1\n{name}{line.format(value)}\n"


def digits(text):
    """The digits of a number, without leading zeros: a fix keeps them."""
    return re.sub(r"\D", "", text).lstrip("0")


def held_out(line, value):
    """How many fixes were tried, for one wrong value."""
    tried = 0
    for finding in findings(write(line, value)):
        assert len(finding.message) < 400
        match = FIX.fullmatch(finding.hint)
        if match is not None:
            after = findings(write(line, match[1]))
            assert finding.path not in {one.path for one in after if one.code == finding.code}, (line, value, match[1])
            kept = digits(match[1]) in {"", digits(value)}
            assert kept or "," in value, (line, value, match[1])  # a comma ends a value there
            tried += 1
    return tried


@pytest.mark.parametrize("line", KEYS)
def test_fix_of_any_wrong_value_is_accepted(line):
    for value in VALUES:
        held_out(line, value)


def test_most_wrong_scalars_of_yaml_get_a_fix():
    tried = sum(held_out(line, value) for line in KEYS for value in VALUES)
    assert tried > 150  # of some 400 refusals; the others mean several things, or nothing


@pytest.mark.slow
def test_fix_of_a_random_scalar_is_accepted(seed):
    chance = random.Random(seed)
    letters = "0123456789.,:_-+eExXoOhmsk%$ '\"~yYnN"
    for _ in range(5_000):
        value = "".join(chance.choice(letters) for _ in range(chance.randrange(1, 9)))
        held_out(chance.choice(KEYS), value)
