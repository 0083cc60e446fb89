"""Totals that rest on derived prices have the sign `~` on every screen."""

from launcher.answers import words
from launcher.answers.plan import page
from launcher.answers.quote import page as quote_page
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.plans import NOW


def test_derived_total_has_its_sign_in_every_table_and_sentence(tmp_path):
    """The spot price of SageMaker in us-east-1 is derived from EC2's."""
    path = tmp_path / "plan.yaml"
    text = """
slipway: 1
name: managed
workload: {train: {model: llama-3.1-8b, tokens_b: 2}}
target: {kind: sagemaker-training, region: us-east-1, instance_type: [ml.p5.48xlarge, ml.trn1.32xlarge], nodes: 1}
purchase: {option: spot}
"""
    path.write_text(text, encoding="utf-8")
    offers = price(path, NOW, PriceOptions())
    quoted, trainium = offers.quote(1), offers.quote(2)
    assert quoted.is_derived
    assert trainium.is_derived
    total = words.total(quoted)
    table = " ".join(" ".join(page(offers, 120, everything=True)).split())
    assert f"managed spot in us-east-1: {total} a run" in table
    assert f"1 × ml.trn1.32xlarge, managed spot: {words.total(trainium)} a run" in table
    assert f" {total.replace('$', '')} " in table
    assert f"Total to finish: {total} " in " ".join(quote_page(quoted, 1, 80, offers, explained=True))
