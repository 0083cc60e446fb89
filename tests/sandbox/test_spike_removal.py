"""What a spike made goes when it is over; what was there before it, and what cannot go, is said with its price."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from launcher.catalog.load import load
from launcher.records import run_folder
from launcher.workflow.run.spike import remove_made
from tests.sandbox.test_down import REGION, account  # noqa: F401 - the fixture

pytestmark = pytest.mark.xdist_group("sandbox-down")
PLAN = {
    "slipway": 1,
    "workload": {"train": {"model": {"params_b": 1.0}, "hours": 0.5}},
    "target": {"kind": "parallelcluster", "region": REGION, "instance_type": "p5.48xlarge", "nodes": 1},
    "purchase": {"option": "on-demand"},
}


@pytest.fixture
def remove(account, tmp_path):  # noqa: F811
    def run(name, *, begun, **changes):
        folder = run_folder.create(name, datetime.now(UTC), tmp_path)
        (folder.path / "plan.json").write_text(json.dumps(PLAN | {"name": name} | changes))
        told = []
        left = remove_made([folder], begun, load(), account.sandbox.process_environment({}), told.append)
        return left, told

    return run


def before():
    return datetime.now(UTC) - timedelta(minutes=1)


def test_its_stacks_and_its_checkpoints_go(account, remove):  # noqa: F811
    bucket = account.cluster("job-spike-p5", objects=2)
    account.cluster("job")
    left, told = remove("job-spike-p5", begun=before())
    assert left == ()
    assert account.stacks("-job-spike-p5-") == set()
    assert bucket not in account.buckets()
    assert len(account.stacks("-job-")) == 3
    assert any("removed what the spike created" in line for line in told)


def test_a_cluster_that_was_there_is_left_and_priced(account, remove):  # noqa: F811
    account.cluster("old-spike-p5")
    (why, summary, *_), _ = remove("old-spike-p5", begun=datetime.now(UTC) + timedelta(minutes=1))
    assert len(account.stacks("-old-spike-p5-")) == 3
    assert why == "old-spike-p5 was not removed: it existed before the spike started"
    assert "an hour" in summary
    assert f"slipway down old-spike-p5 --region {REGION} removes them" in summary


def test_one_that_made_nothing_or_went_elsewhere_says_nothing(account, remove):  # noqa: F811
    assert remove("never-spike-p5", begun=before()) == ((), [])
    account.cluster("team")
    target = PLAN["target"] | {"cluster": "team"}
    assert remove("mine-spike-p5", begun=before(), target=target) == ((), [])
    assert len(account.stacks("-team-")) == 3
