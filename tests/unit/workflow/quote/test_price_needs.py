"""Price requests for a plan: only what it needs, or everything on request."""

from dataclasses import replace

import pytest

from launcher import plan_file
from launcher.model.enums import PurchaseOption, SavingsPlanKind, TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.plan import Place
from launcher.workflow.quote.price_needs import for_everything, for_place, for_plan, within
from tests.plans import EXAMPLES

P5 = "p5.48xlarge"


@pytest.fixture
def request_of(tmp_path):
    def read(target: str, purchase: str = "{}", storage: str = "{}"):
        path = tmp_path / "plan.yaml"
        path.write_text(f"slipway: 1\nname: x\ntarget: {target}\npurchase: {purchase}\nstorage: {storage}\n")
        return plan_file.load(path)

    return read


def as_tuples(questions):
    return {(question.kind, question.names, question.regions, question.count) for question in questions}


def test_pinned_spot_plan_requests_type_and_head_node_prices(request_of, catalog):
    request = request_of(f"{{instance_type: {P5}, region: us-east-2, nodes: 2}}", "{option: spot}")
    assert as_tuples(for_plan(request, catalog)) == {
        ("on-demand", ("m6i.large",), ("us-east-2",), 1),
        ("on-demand", ("m6i.xlarge",), ("us-east-2",), 1),
        ("on-demand", (P5,), ("us-east-2",), 1),
        ("spot", (P5,), ("us-east-2",), 1),
    }


def test_capacity_block_is_requested_in_planned_size(request_of, catalog):
    request = request_of("{instance_type: trn2.48xlarge, region: us-east-2, nodes: 4}", "{option: capacity-block}")
    assert ("capacity-block", ("trn2.48xlarge",), ("us-east-2",), 4) in as_tuples(for_plan(request, catalog))
    odd = request_of("{instance_type: trn2.48xlarge, region: us-east-2, nodes: 3}", "{option: capacity-block}")
    assert ("capacity-block", ("trn2.48xlarge",), ("us-east-2",), 1) in as_tuples(for_plan(odd, catalog))


def test_planned_zone_narrows_regions(request_of, catalog):
    request = request_of(f"{{instance_type: {P5}, az_id: use2-az1, nodes: 1}}", "{option: [spot, on-demand]}")
    assert {question.regions for question in for_plan(request, catalog)} == {("us-east-2",)}


def test_commitments_request_reserved_and_savings_rates(request_of, catalog):
    request = request_of(f"{{instance_type: {P5}, region: us-east-2, nodes: 1}}", "{option: savings-plan}")
    questions = for_plan(request, catalog)
    assert {question.names: question.reserved for question in questions if question.kind == "on-demand"} == {
        (P5,): True,
        ("m6i.large",): False,
        ("m6i.xlarge",): False,
    }
    assert ("savings-plan", (P5,), ("us-east-2",), 1) in as_tuples(questions)


def test_hyperpod_requests_sagemaker_and_training_plan_rates(request_of, catalog):
    request = request_of(f"{{kind: hyperpod-slurm, instance_type: {P5}, region: us-east-2, nodes: 2}}")
    questions = as_tuples(for_plan(request, catalog))
    assert ("sagemaker", (f"ml.{P5}",), ("us-east-2",), 1) in questions
    assert ("training-plan", (P5,), ("us-east-2",), 2) in questions
    assert ("savings-plan", (f"ml.{P5}",), ("us-east-2",), 1) in questions


def test_head_login_and_fallback_types_are_requested(request_of, catalog):
    request = request_of(
        f"{{instance_type: {P5}, fallback_types: [p5en.48xlarge], region: us-east-2, nodes: 40}}",
        "{option: on-demand}",
        "{login_nodes: 1}",
    )
    names = {question.names[0] for question in for_plan(request, catalog) if question.kind == "on-demand"}
    assert names == {P5, "p5en.48xlarge", "m6i.2xlarge", "m6i.large"}


def test_open_plan_requests_known_accelerators(request_of, catalog):
    questions = for_plan(request_of("{}"), catalog)
    types = {name for question in questions if question.kind == "spot" for name in question.names}
    assert {"trn1.32xlarge", P5} <= types
    assert all(catalog.instance_types[name].accelerator for name in types)
    assert ("capacity-block", (P5,), ("us-east-1",), 1) in as_tuples(questions)
    assert not any("u-p6e" in name for question in questions for name in question.names)


def test_unknown_names_are_reported_together(request_of, catalog):
    request = request_of("{instance_type: [p5.48xlrge, p9.48xlarge], region: us-eest-1}")
    with pytest.raises(ImpossibleError) as caught:
        for_plan(request, catalog)
    assert [finding.path for finding in caught.value.findings] == ["target.instance_type"] * 2 + ["target.region"]
    assert caught.value.findings[0].hint == f"did you mean {P5}?"


def test_single_candidate_requests_only_needed_prices(request_of):
    request = request_of("{}")
    place = Place(
        target=TargetKind.PARALLELCLUSTER,
        instance_type=P5,
        nodes=20,
        region="us-west-2",
        az_id="usw2-az1",
        option=PurchaseOption.SPOT,
    )
    assert as_tuples(for_place(place, request)) == {
        ("on-demand", ("m6i.2xlarge",), ("us-west-2",), 1),
        ("on-demand", (P5,), ("us-west-2",), 1),
        ("spot", (P5,), ("us-west-2",), 1),
    }
    block = replace(place, option=PurchaseOption.CAPACITY_BLOCK)
    assert ("capacity-block", (P5,), ("us-west-2",), 20) in as_tuples(for_place(block, request))
    plan = replace(place, option=PurchaseOption.SAVINGS_PLAN, plan_kind=SavingsPlanKind.SAGEMAKER, term_years=1)
    assert ("savings-plan", (f"ml.{P5}",), ("us-west-2",), 1) in as_tuples(for_place(plan, request))
    training = replace(place, target=TargetKind.HYPERPOD_SLURM, option=PurchaseOption.TRAINING_PLAN)
    questions = as_tuples(for_place(training, request))
    assert ("training-plan", (P5,), ("us-west-2",), 20) in questions
    assert ("sagemaker", (f"ml.{P5}",), ("us-west-2",), 1) in questions


def test_endpoint_requests_no_head_node_price(catalog):
    request = plan_file.load(EXAMPLES / "serve" / "pinned" / "embedding-inf2.yaml")
    place = Place(
        target=TargetKind.SAGEMAKER_ENDPOINT,
        region="us-west-2",
        az_id=None,
        instance_type="inf2.xlarge",
        nodes=1,
        option=PurchaseOption.ON_DEMAND,
    )
    for questions in (for_place(place, request), for_plan(request, catalog)):
        assert {name for question in questions for name in question.names} == {"inf2.xlarge", "ml.inf2.xlarge"}


def test_full_refresh_requests_every_kind_once(catalog):
    questions = for_everything(catalog)
    assert {question.kind for question in questions} == {
        *("on-demand", "spot", "capacity-block", "training-plan", "savings-plan", "sagemaker")
    }
    assert len({question.key for question in questions}) == len(questions)
    assert ("capacity-block", ("u-p6e-gb200x72",), ("us-east-1",), 1) in as_tuples(questions)


def test_questions_are_narrowed_to_regions(catalog):
    questions = within(for_everything(catalog), ("us-east-2",))
    assert {question.regions for question in questions} == {("us-east-2",)}
