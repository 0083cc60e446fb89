"""HyperPod with its data in FSx for Lustre in the sandbox, and training plans that do not fit."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from launcher.aws.session import Session
from launcher.model.errors import AwsError, ImpossibleError
from launcher.sandbox.cluster.training_plan import TrainingPlan
from launcher.workflow.cluster.training_plans import refuse_unless_training_plan_fits
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from tests.plans import EXAMPLES
from tests.sandbox.hyperpod_examples import down, example, remains
from tests.sandbox.world import World, assert_read_back

REGION = "us-east-2"
MACHINES = {
    "p5en-lustre": {"ml.m6i.xlarge": 1, "ml.p5en.48xlarge": 6},
    "trn2-on-demand": {"ml.m6i.large": 1, "ml.m6i.xlarge": 1, "ml.trn2.48xlarge": 4},
    "p5-training-plan": {"ml.m6i.xlarge": 1, "ml.p5.48xlarge": 2},
}
"""What `slipway down` says that runs; of the first, two workers have been deleted by then."""
NAMES = {"p5en-lustre": "p5en-pod", "trn2-on-demand": "trn2-pod", "p5-training-plan": "p5-plan"}
pytestmark = pytest.mark.xdist_group("hyperpod")


def test_example_list_is_complete():
    assert {path.stem for path in (EXAMPLES / "hyperpod").glob("*.yaml")} == set(NAMES)


@pytest.mark.parametrize(
    "name",
    [
        # In every run with more done to them: test_hyperpod_guard.py, test_hyperpod.py, and infra for all.
        pytest.param("p5en-lustre", marks=pytest.mark.slow),
        pytest.param("trn2-on-demand", marks=pytest.mark.slow),
        pytest.param("p5-training-plan", marks=pytest.mark.slow),
    ],
)
def test_example_deploys_is_verified_and_removed(name, sandbox, tmp_path):
    before = remains(sandbox)
    world = World(example(name, tmp_path), sandbox, tmp_path)
    assert_read_back(world)
    if name == "p5en-lustre":
        assert_what_is_changed_is_found(world)
    document = down(world.path, sandbox, tmp_path)
    assert {instance["instance_type"]: instance["count"] for instance in document["instances"]} == MACHINES[name]
    assert {resource["kind"] for resource in document["kept"]} == {"checkpoints"}
    remaining = remains(sandbox)
    assert set(remaining.pop("stacks")) - set(before["stacks"]) == {f"slipway-{NAMES[name]}-checkpoints"}
    assert set(map(len, remaining.values())) == {0}, remaining


def assert_what_is_changed_is_found(world):
    """The link to the training data as FSx has it, and a cluster that somebody has made smaller."""
    sagemaker = world.session.client("sagemaker")
    (link,) = world.session.client("fsx").describe_data_repository_associations()["Associations"]
    assert (link["DataRepositoryPath"], link["FileSystemPath"]) == ("s3://corpus-of-the-team/tokens", "/data")
    before = world.complaints()
    workers = sagemaker.list_cluster_nodes(ClusterName="slipway-p5en-pod", InstanceGroupNameContains="workers")
    node_ids = [summary["InstanceId"] for summary in workers["ClusterNodeSummaries"]][:2]
    sagemaker.batch_delete_cluster_nodes(ClusterName="slipway-p5en-pod", NodeIds=node_ids)
    complaints = world.complaints() - before
    assert complaints == {"group workers: planned ml.p5en.48xlarge 8 Compute, found ml.p5en.48xlarge 6 Compute"}


@pytest.fixture(scope="module")
def plan_in(sandbox, tmp_path_factory):
    """A plan whose training plan AWS knows as a test says, and the session that asks there."""
    now = datetime.now(UTC)
    path = example("p5-training-plan", tmp_path_factory.mktemp("bought"))
    _, quote = pick(price(path, now, PriceOptions(any_age=True)), None)
    session = Session(environment=sandbox.process_environment({}), region=REGION)

    def make(name, **changes):
        arn = f"arn:aws:sagemaker:{REGION}:123456789012:training-plan/{name}"
        known = {"arn": arn, "instance_type": "ml.p5.48xlarge", "count": 2, "zone_id": "use2-az1", "fee_usd": None}
        ahead = {"starts_at": now + timedelta(days=2), "ends_at": now + timedelta(days=9)}
        window = ahead | changes.pop("said", {})
        if changes.pop("bought", True):
            sandbox.create_prerequisites(training_plans=[TrainingPlan(**{**known, **window, **changes})])
        request = quote.plan.request
        training_plan = replace(request.purchase.training_plan, arn=arn, **window)
        named = replace(request.purchase, training_plan=training_plan)
        return replace(quote.plan, request=replace(request, purchase=named)), session

    return make


class TestTrainingPlan:
    """What only AWS can tell of one, asked before anything is deployed."""

    @pytest.mark.parametrize("name, starts_in", [("later", timedelta(days=2)), ("now", timedelta(days=-1))])
    def test_fitting_training_plan_accepted(self, plan_in, name, starts_in):
        plan, session = plan_in(name, said={"starts_at": datetime.now(UTC) + starts_in})
        refuse_unless_training_plan_fits(plan, session, datetime.now(UTC))
        assert session.client("sagemaker").describe_training_plan(TrainingPlanName=name)["TotalInstanceCount"] == 2

    @pytest.mark.parametrize(
        "name, changes, code",
        [
            ("small", {"count": 1}, "training-plan-count"),
            ("other", {"instance_type": "ml.p5en.48xlarge"}, "training-plan-type"),
            ("elsewhere", {"zone_id": "use2-az3"}, "training-plan-zone"),
            ("over", {"ends_at": datetime(2026, 11, 1, tzinfo=UTC)}, "training-plan-status"),
            ("shorter", {"ends_at": datetime.now(UTC) + timedelta(days=8)}, "training-plan-window"),
        ],
    )
    def test_unfit_training_plan_refused_with_fix(self, plan_in, name, changes, code):
        plan, session = plan_in(name, **changes)
        with pytest.raises(ImpossibleError, match=f"training-plan/{name} does not fit") as refusal:
            refuse_unless_training_plan_fits(plan, session, datetime.now(UTC))
        assert next(finding for finding in refusal.value.findings if finding.code == code).hint

    def test_unknown_training_plan_refused(self, plan_in):
        plan, session = plan_in("none", bought=False)
        with pytest.raises(AwsError, match="Could not find training plan 'none'"):
            refuse_unless_training_plan_fits(plan, session, datetime.now(UTC))
