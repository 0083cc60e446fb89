"""Invalid documents from a seed, through every reader: a value or the reader's own error."""

import json
import random
from collections import Counter

import pytest
import yaml

from launcher import plan_file
from launcher.agent import job, manifest, metrics, safe_json
from launcher.agent.checkpoint import claim, tagging
from launcher.agent.errors import AgentError
from launcher.agent.node.notice import parse_notice, rebalance_notice, spot_notice
from launcher.agent.node.shared_notices import parse_shared_notices
from launcher.agent.store import stop_watch
from launcher.catalog import safe_yaml
from launcher.model.errors import SlipwayError
from launcher.model.values import describe
from tests import memory
from tests.attack.odd import changed, text_of
from tests.plans import NOW, ROOT

NOTICE = {"source": "spot", "detail": "stop", "at": "2026-11-20T12:02:00Z", "left_s": 20.0}
READERS = {
    "job": (job.parse, {"schema": job.SCHEMA, "run": "r", "name": "n", "command": ["x"], "checkpoint": {"keep": 3}}),
    "manifest": (manifest.parse, {"schema": manifest.SCHEMA, "run": "r", "files": [{"path": "a", "bytes": 1}]}),
    "metrics": (metrics.figures_in, {"step": 3, "loss": 2.5, "software": {"torch": "2"}}),
    "claim": (claim.parse_owner, {"schema": claim.SCHEMA, "run": "r", "attempt": 1, "node": "n", "token": "t"}),
    "sheet": (lambda text: tagging.parse(text, 0), {"schema": tagging.SCHEMA, "number": 1, "owner": "o", "keys": []}),
    "news": (parse_shared_notices, {"spot": NOTICE}),
    "notice": (lambda text: parse_notice(text, now=NOW), NOTICE),
    "spot": (lambda text: spot_notice(text, now=NOW), {"action": "stop", "time": "2026-11-20T12:02:00Z"}),
    "rebalance": (rebalance_notice, {"noticeTime": "2026-11-20T12:00:00Z"}),
    "stop": (stop_watch.stop_message, {"spent_usd": "481.20", "stop_at_usd": "500"}),
    "json": (safe_json.loads, {"a": [1]}),
    "yaml": (safe_yaml.loads, {"a": [1]}),
    "plan": (plan_file.loads, yaml.safe_load((ROOT / "examples" / "tiny-gpt.yaml").read_text())),
}
ALLOWED = (ValueError, AgentError, SlipwayError)


def nest(chance, text):
    """A text deep within lists, mappings, or aliases of aliases; closed or cut."""
    kind, levels = chance.randrange(4), chance.choice((90, 99, 101, 300, 3000, 100_000))
    if kind == 0:
        return "[" * levels + text + "]" * chance.choice((0, levels))
    if kind == 1:
        return '{"a":' * levels + text + "}" * chance.choice((0, levels))
    if kind == 2:
        return json.dumps(chance.choice(("9", "-9", "1e", "0.", "0x")) + "9" * levels).strip('"')
    lines = [f"a0: &a0 [{text}]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels % 20))]
    return "\n".join(lines)


@pytest.mark.parametrize("rounds", [100, pytest.param(20_000, marks=pytest.mark.slow)])
def test_random_document_is_read_or_refused_in_bounded_memory(seed, rounds):
    chance, outcomes, longest = random.Random(seed), Counter(), 0
    with memory.at_most(1 << 20):
        for _ in range(rounds):
            name = chance.choice(sorted(READERS))
            read, document = READERS[name]
            text = text_of(chance, changed(chance, document, chance.randint(0, 3))).decode(errors="replace")
            if chance.random() < 0.4:
                text = nest(chance, text)
            try:
                value = read(text)
            except ALLOWED as refusal:
                outcomes["refused"] += 1
                longest = max(longest, len(str(refusal)))
            else:
                assert len(describe(value)) <= 60
                outcomes["read"] += 1
    assert longest < 20_000
    assert min(outcomes["read"], outcomes["refused"]) > rounds / 20, outcomes
