"""All problems of a plan at once: wrong values and names that the catalog does not know, in one refusal."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher.model.errors import SlipwayError, UnreadableInputError
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.portfolio import portfolio
from launcher.workflow.quote.price import price

NOW = datetime(2026, 11, 29, tzinfo=UTC)
TRAINING = """
slipway: 1
name: My Job
workload: {train: {model: llama-3.1-8c, tokens_b: one}}
target: {kind: any, region: us-esat-1, instance_type: p5.48xlrge, az_id: usx-az1}
network: {nat: gatway}
"""
SERVING = """
slipway: 1
name: chat
workload: {serve: {model: llama-3.1-8c, requests_per_s: one}}
target: {region: us-esat-1, instance_type: inf2.xlrge}
"""


def _refusal_of(tmp_path: Path, text: str) -> SlipwayError:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with pytest.raises(SlipwayError) as refusal:
        price(path, NOW, PriceOptions())
    return refusal.value


def _paths(refusal: SlipwayError) -> set[str]:
    return {finding.path for finding in refusal.findings}


def test_training_plan_with_wrong_values_and_unknown_names_is_refused_with_all(tmp_path: Path) -> None:
    refusal = _refusal_of(tmp_path, TRAINING)
    assert refusal.exit_code == UnreadableInputError.exit_code
    wrong = {"name", "workload.train.tokens_b", "network.nat"}
    names = {"target.region", "target.instance_type", "target.az_id", "workload.train.model"}
    assert _paths(refusal) == wrong | names
    assert str(len(wrong | names)) in refusal.message
    assert all(finding.line is not None for finding in refusal.findings)


def test_serving_plan_with_wrong_values_and_unknown_names_is_refused_with_all(tmp_path: Path) -> None:
    names = {"target.region", "target.instance_type", "workload.serve.model"}
    assert _paths(_refusal_of(tmp_path, SERVING)) == {"workload.serve.requests_per_s"} | names


def test_refused_plan_without_its_wrong_value_has_no_finding_that_rests_on_the_default(tmp_path: Path) -> None:
    """Without its hours the job would have no amount of work, which the file does not say."""
    text = "slipway: 1\nname: a\nworkload: {train: {hours: two}}\ntarget: {instance_type: p5.48xlarge, nodes: 1}\n"
    assert _paths(_refusal_of(tmp_path, text)) == {"workload.train.hours"}


def test_file_of_something_else_has_no_unknown_name_of_its_values_in_the_refusal(tmp_path: Path) -> None:
    refusal = _refusal_of(tmp_path, "password: x\ntarget: {region: hunter2}\n")
    assert "hunter2" not in " ".join(finding.message for finding in refusal.findings)


def test_portfolio_of_a_refused_plan_names_its_unknown_names_too(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(TRAINING)
    with pytest.raises(UnreadableInputError) as refusal:
        portfolio([path], NOW, PriceOptions())
    assert {"network.nat", "target.region"} <= _paths(refusal.value)
