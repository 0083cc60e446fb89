"""Which files a plan has, and that they are the ones people reviewed."""

import json

import pytest
import yaml

from launcher.model.errors import ImpossibleError


class TestFiles:
    def test_a_training_plan(self, bundle_of, plan_of):
        bundle = bundle_of(plan_of())
        assert [each.path for each in bundle.files] == ["cluster.yaml", "job.sbatch", "job.json"]
        assert [each.path for each in bundle.files if each.executable] == ["job.sbatch"]
        assert bundle.digest == plan_of().digest

    def test_nodes_that_lack_something_bring_their_script(self, bundle_of, plan_of):
        bundle = bundle_of(plan_of(target={"instance_type": "trn2.48xlarge"}))
        assert [each.path for each in bundle.files] == ["cluster.yaml", "node.sh", "job.sbatch", "job.json"]

    def test_a_cluster_alone_has_no_job(self, bundle_of, plan_of):
        bundle = bundle_of(plan_of(workload={"train": None}))
        assert [each.path for each in bundle.files] == ["cluster.yaml"]

    def test_a_cluster_that_exists_is_not_configured_again(self, bundle_of, plan_of):
        bundle = bundle_of(plan_of(target={"cluster": "shared"}))
        assert [each.path for each in bundle.files] == ["job.sbatch", "job.json"]
        assert "s3://slipway-shared-checkpoints/jobs/small" in bundle.file("job.json").text

    def test_every_reason_is_given_at_once(self, bundle_of, plan_of):
        plan = plan_of(purchase={"option": "capacity-block"}, run={"image": "team/trainer:1"})
        with pytest.raises(ImpossibleError) as refusal:
            bundle_of(plan)
        assert [each.code for each in refusal.value.findings] == ["block-without-id", "no-container"]


def test_every_file_of_every_plan_can_be_read(bundle):
    assert yaml.safe_load(bundle.file("cluster.yaml").text)["Image"]["Os"]
    assert json.loads(bundle.file("job.json").text)["schema"] == "slipway.job/1"
    assert all(each.text.endswith("\n") and "\r" not in each.text for each in bundle.files)


@pytest.mark.parametrize("path", ["cluster.yaml", "job.sbatch", "job.json"])
def test_golden(golden, plan, bundle, path):
    golden(f"rendering/{plan.name}/{path}", bundle.file(path).text)
