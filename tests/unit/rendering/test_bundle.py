"""The files of a plan, compared with the reviewed ones."""

import json

import pytest
import yaml

from launcher.model.errors import ImpossibleError

ON_NODES = ["node.sh", "metrics.py"]
IMAGE = ["image.yaml", "image-component.yaml"]
GPU_PREFLIGHT = ["preflight.sbatch", "preflight.py"]


def paths(bundle):
    return [file.path for file in bundle.files]


class TestFiles:
    def test_training_plan_renders_cluster_preflight_and_job_files(self, bundle_of, plan_of):
        bundle = bundle_of(plan_of())
        assert paths(bundle) == ["cluster.yaml", *ON_NODES, *GPU_PREFLIGHT, "job.sbatch", "job.json"]
        assert {file.path for file in bundle.files if file.executable} == {"node.sh", "preflight.sbatch", "job.sbatch"}
        assert bundle.digest == plan_of().digest

    def test_type_lacking_packages_renders_image_and_environment_files(self, bundle_of, plan_of):
        bundle = bundle_of(plan_of(target={"instance_type": "trn2.48xlarge"}))
        before = ["environment.sh", "preflight.sbatch"]
        assert paths(bundle) == ["cluster.yaml", *ON_NODES, *IMAGE, *before, "job.sbatch", "job.json"]

    def test_cluster_without_workload_renders_no_job_files(self, bundle_of, plan_of):
        bundle = bundle_of(plan_of(workload={"train": None}))
        assert paths(bundle) == ["cluster.yaml", *ON_NODES, *GPU_PREFLIGHT]

    def test_existing_cluster_renders_no_cluster_configuration(self, bundle_of, plan_of):
        bundle = bundle_of(plan_of(target={"cluster": "shared"}))
        assert paths(bundle) == [*GPU_PREFLIGHT, "job.sbatch", "job.json"]
        assert "s3://slipway-shared-checkpoints/jobs/small" in bundle.file("job.json").text

    def test_plan_with_two_problems_is_refused_with_both(self, bundle_of, plan_of):
        plan = plan_of(purchase={"option": "capacity-block"}, run={"container": "docker"})
        with pytest.raises(ImpossibleError) as refusal:
            bundle_of(plan)
        assert [finding.code for finding in refusal.value.findings] == ["block-without-id", "no-image"]


def test_every_rendered_file_is_readable(bundle):
    assert yaml.safe_load(bundle.file("cluster.yaml").text)["Image"]["Os"]
    assert json.loads(bundle.file("job.json").text)["schema"] == "slipway.job/1"
    assert all(file.text.endswith("\n") and "\r" not in file.text for file in bundle.files)


AS_THEY_ARE = {"node.sh", "metrics.py", "preflight.py", "image-component.yaml"}
"""Files that are the same in every bundle, or hold one that is."""


NEARLY_ALIKE = {"job.sbatch", "preflight.sbatch"}
"""Files that differ in a few lines from plan to plan."""


def test_rendered_bundle_equals_golden_files(golden, plan, bundle):
    for file in bundle.files:
        if file.path not in AS_THEY_ARE:
            like = f"rendering/tiny-gpt/{file.path}" if file.path in NEARLY_ALIKE else None
            golden(f"rendering/{plan.name}/{file.path}", file.text.replace(plan.digest, "<digest>"), like)
