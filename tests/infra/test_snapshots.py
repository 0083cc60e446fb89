"""Template snapshots of examples of each target, for review."""

import pytest

from tests.infra.conftest import FILES
from tests.infra.reading import PARTS

EXAMPLES = {
    "p5-spot": ("parallelcluster", "p5-spot", {}),
    "trn2-capacity-block": ("parallelcluster", "trn2-capacity-block", {}),
    "eks-p5-block": ("eks", "p5-capacity-block", {}),
    "hyperpod-p5-plan": ("hyperpod-slurm", "p5-training-plan", {}),
    "hyperpod-eks-p5en-spot": ("hyperpod-eks", "p5en-spot", {"usd_per_hour": "151.91"}),
    "pcs-p5en-block": ("pcs", "p5en-capacity-block", {}),
    "sagemaker-p5-spot": ("sagemaker-training", "p5-spot", {}),
    "ec2-p5-spot": ("ec2", "p5-spot", {}),
}
WITHOUT_NETWORK = {"sagemaker-p5-spot"}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_stack_template_equals_golden(golden_stack, synthesised, plan_at, name, part):
    kind, example, context = EXAMPLES[name]
    template = synthesised(plan_at(FILES[kind][example]), **context).template(part)
    if part == "network" and name in WITHOUT_NETWORK:
        assert template == {}
    else:
        golden_stack(name, part, template)
