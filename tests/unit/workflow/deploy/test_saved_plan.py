"""A saved plan is executed as shown, or refused because something changed."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from launcher import plan_file
from launcher.model.errors import ImpossibleError, OverBudgetError, UnreadableInputError
from launcher.records.saved_plan import read_saved, write_saved
from launcher.workflow.deploy.saved_plan import quoted_as_saved, refuse_if_moved, save_plan, saved_plan_of
from launcher.workflow.quote.fresh import Picked
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price

NOW = datetime(2026, 11, 20, tzinfo=UTC)
PLAN = """
slipway: 1
name: kept
workload: {{train: {{model: {{params_b: 0.1}}, hours: 1}}}}
target: {{kind: parallelcluster, region: us-east-2, instance_type: p5.48xlarge{more}}}
purchase: {{option: on-demand, price_overrides: {{p5.48xlarge/on-demand: "{usd}"}}}}
"""
ELSEWHERE = ", nodes: 1, ssh_host: gpu1"
"""Its jobs go to a head node that is there: it has no stacks to synthesise."""


def write(folder, *, usd="50", more=ELSEWHERE):
    path = folder / "plan.yaml"
    path.write_text(PLAN.format(usd=usd, more=more))
    return path


def picked(path, **options) -> Picked:
    priced = price(path, NOW, PriceOptions(**options))
    return Picked(priced, *pick(priced, None))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "saved.json"
    save_plan(path, *picked(write(tmp_path)), os.environ)
    return path


def test_saved_plan_is_a_plan_file_of_one_candidate_with_the_dollars(saved, tmp_path):
    first = picked(tmp_path / "plan.yaml").quoted
    saved_plan = read_saved(saved)
    assert (saved_plan.name, saved_plan.digest, saved_plan.usd_high, saved_plan.stacks) == (
        "kept",
        first.digest,
        first.usd.high,
        {},
    )
    assert plan_file.load(saved).target.instance_type == ("p5.48xlarge",)
    assert picked(saved).quoted.digest == first.digest
    assert json.loads(saved.read_text())["quote"]["components"]
    assert saved.stat().st_mode & 0o777 == 0o600


def test_only_a_saved_plan_is_replaced(saved, tmp_path):
    plan = tmp_path / "plan.yaml"
    written = plan.read_text()
    with pytest.raises(ImpossibleError, match="exists and is not a saved plan"):
        save_plan(plan, *picked(plan), os.environ)
    assert plan.read_text() == written
    with pytest.raises(ImpossibleError, match="it is a folder"):
        save_plan(tmp_path, *picked(plan), os.environ)
    saved.write_text(saved.read_text().replace('"digest"', '"no_digest"', 1))
    save_plan(saved, *picked(plan), os.environ)
    assert read_saved(saved) is not None


def test_saved_plan_has_absolute_paths(saved, tmp_path):
    (tmp_path / "deep").mkdir()
    moved = saved.rename(tmp_path / "deep/saved.json")
    assert plan_file.load(moved).run.workdir == str(tmp_path)


def test_saved_plan_passes_up_to_its_total_and_is_refused_above(saved, tmp_path):
    saved_plan = read_saved(saved)
    for usd in ("50", "49"):
        refuse_if_moved(saved_plan, picked(write(tmp_path, usd=usd)), os.environ)
    with pytest.raises(
        OverBudgetError, match=r"the high estimate was \$[\d.,]+ when the plan was saved, 2026-11-20"
    ) as caught:
        refuse_if_moved(saved_plan, picked(write(tmp_path, usd="51")), os.environ)
    assert "slipway plan FILE -o SAVED" in caught.value.hint


def test_saved_plan_with_a_changed_digest_is_refused(saved):
    saved_plan = read_saved(saved)
    document = json.loads(saved.read_text())
    document["plan"]["target"]["nodes"] = 2
    saved.write_text(json.dumps(document))

    def quoted(digest):
        priced = price(saved, NOW, PriceOptions())
        return Picked(priced, *pick(priced, digest))

    with pytest.raises(ImpossibleError, match="its file has another digest"):
        quoted_as_saved(saved_plan, quoted, os.environ)


def test_plan_file_is_not_a_saved_plan_and_a_damaged_one_is_refused(saved, tmp_path):
    assert saved_plan_of(tmp_path / "plan.yaml", PriceOptions(), "1") is None
    assert saved_plan_of(tmp_path / "nothing", PriceOptions(), None) is None
    whole = json.loads(saved.read_text())
    for key, value in (("stacks", None), ("digest", 1), ("saved_at", "soon"), ("usd", {"high": "NaN"}), ("plan", [])):
        saved.write_text(json.dumps({**whole, key: value}))
        with pytest.raises(UnreadableInputError, match="is not a complete saved plan"):
            read_saved(saved)


@pytest.mark.parametrize("options,wanted", [({"region": "us-west-2"}, None), ({}, "1")])
def test_saved_plan_allows_no_further_choices(saved, options, wanted):
    with pytest.raises(UnreadableInputError, match="deployed unchanged"):
        saved_plan_of(saved, PriceOptions(**options), wanted)


def test_plan_without_a_price_is_not_saved(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(
        PLAN.format(usd="1", more=", nodes: 1").replace("p5.48xlarge", "trn2.48xlarge").partition(", price_")[0] + "}"
    )
    with pytest.raises(ImpossibleError, match="has no price"):
        save_plan(tmp_path / "saved.json", *picked(path), os.environ)
    assert not (tmp_path / "saved.json").exists()


def test_failed_write_leaves_the_saved_plan_unchanged(saved, tmp_path):
    picked_quote, saved_plan = picked(tmp_path / "plan.yaml"), read_saved(saved)
    before = saved.read_text()
    with pytest.raises(ImpossibleError, match="cannot write"):
        write_saved(tmp_path / "no/saved.json", saved_plan, picked_quote.quoted, {}, {})
    with pytest.raises(TypeError):
        write_saved(saved, saved_plan, picked_quote.quoted, {"a": object()}, {})
    assert saved.read_text() == before


def test_plan_command_saves_the_picked_candidate(tmp_path, monkeypatch, slipway):
    monkeypatch.chdir(tmp_path)
    text = PLAN.format(usd="50", more=ELSEWHERE).replace("hours: 1", "tokens_b: 0.1")
    (tmp_path / "plan.yaml").write_text(text.replace("p5.48xlarge,", "[p5.48xlarge, p4d.24xlarge],"))
    (tmp_path / "train.py").write_text("")
    rank = 2
    result = slipway("plan", "plan.yaml", "-o", "saved.json", "--pick", str(rank), "--json")
    assert result.code == 0, result
    candidates = json.loads(result.out)["candidates"]
    assert read_saved(Path("saved.json")).digest == candidates[rank - 1]["digest"]
    assert f"saved: candidate {rank}" in result.err
    assert "next: slipway launch saved.json" in result.err
    assert slipway("plan", "plan.yaml", "--pick", "1").code == 2


@pytest.mark.cdk
@pytest.mark.slow
def test_stacks_different_from_the_saved_plan_are_refused(tmp_path):
    picked_quote = picked(write(tmp_path, more=", nodes: 1"))
    saved_plan = save_plan(tmp_path / "saved.json", *picked_quote, os.environ)
    assert set(saved_plan.stacks) == {f"slipway-kept-{part}" for part in ("checkpoints", "network", "training")}
    assert read_saved(tmp_path / "saved.json") == saved_plan
    moved = {name: "0" * 64 if "network" in name else digest for name, digest in saved_plan.stacks.items()}
    with pytest.raises(ImpossibleError, match=r"saved: slipway-kept-network differ"):
        refuse_if_moved(replace(saved_plan, stacks=moved), picked_quote, os.environ)
    # The stacks are compared at the saved rate, not at today's: only the training stack has a rate.
    dearer = replace(saved_plan, amounts={"usd_per_hour": Decimal(60)})
    with pytest.raises(ImpossibleError, match=r"saved: slipway-kept-training differ"):
        refuse_if_moved(dearer, picked_quote, os.environ)
    assert saved_plan.amounts == {"usd_per_hour": Decimal(50)}
