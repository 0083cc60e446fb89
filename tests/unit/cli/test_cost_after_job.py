"""What stays billed after the job has one wording, on the quote's two pages (the report's: test_report_document)."""

import re

from launcher.answers.quote import page
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.plans import NOW

PLAN = """
slipway: 1
name: job
workload: {train: {model: llama-3.1-8b, tokens_b: 2}}
target: {kind: parallelcluster, region: us-east-1, instance_type: p5.48xlarge, nodes: 1}
purchase: {option: on-demand}
"""


def test_quote_and_its_explanation_say_what_stays_billed_in_the_same_words(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN, encoding="utf-8")
    offers = price(path, NOW, PriceOptions())
    quoted = offers.quote(1)
    sentence = r"after the idle stop \$0\.\d\d/h until slipway down job"
    texts = [
        " ".join(" ".join(page(quoted, 1, 200, offers, explained=explained)).split()) for explained in (False, True)
    ]
    shown = [re.search(rf"While nodes run (\$[\d.]+/h);? ({sentence})", text) for text in texts]
    assert shown[0] is not None
    assert shown[1] is not None
    assert shown[0].groups() == shown[1].groups()
