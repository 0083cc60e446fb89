"""Batch scripts of every kind, and of the plans for trainers: checked by bash and shellcheck."""

import shutil
import subprocess
from itertools import product

import pytest

from launcher import plan_file
from launcher.agent.job import parse
from launcher.planning.pin import pinned_plan
from tests.unit.rendering.conftest import ROOT

BASH = shutil.which("bash")
OWN_PLANS = [ROOT / "examples" / name / "plan.yaml" for name in ("lora", "recipes/fsdp")]
ARN = "arn:aws:{}:us-east-2:123456789012:{}"
EVERYTHING = {
    "secrets": {"A": ARN.format("secretsmanager", "secret:a-AbCdEf"), "B": ARN.format("ssm", "parameter/b")},
    "retries": 2,
    "time_limit_h": 1.5,
    "image": "team/trainer:1",
    "container": "docker",
    "setup": ["source ~/env/bin/activate"],
}
VARIANTS = [
    {"target": {"instance_type": type_, "region": region, "nodes": nodes, "os": system}, "run": run}
    for (type_, region), nodes, (system, run) in product(
        [("p5.48xlarge", "us-east-2"), ("trn2.48xlarge", "us-east-2"), ("trn1.32xlarge", "us-west-2")],
        [1, 2],
        [("ubuntu2404", {}), ("rhel8", EVERYTHING)],
    )
]


def complaints(bundle, folder, shellcheck):
    """What bash and shellcheck have to say about a bundle's batch script; "" when they are content."""
    path = folder / "job.sbatch"
    path.write_text(bundle.file("job.sbatch").text, encoding="utf-8")
    parsed = subprocess.run([BASH, "-n", path], capture_output=True, text=True, check=False)
    return parsed.stderr + shellcheck(path)


@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(map(str, variant["target"].values())))
def test_every_variant_of_the_batch_script_is_well_formed(variant, bundle_of, plan_of, tmp_path, shellcheck):
    bundle = bundle_of(plan_of(**variant))
    assert complaints(bundle, tmp_path, shellcheck) == ""
    script = bundle.file("job.sbatch").text
    assert ("docker rm --force" in script) is ("image" in variant["run"])
    assert ("srun" in script, "PET_RDZV_ID" in script) == (True, True)
    assert "{{" not in script
    assert "{%" not in script


@pytest.mark.parametrize("path", OWN_PLANS, ids=lambda path: path.parent.name)
def test_plan_beside_an_example_trainer_renders_a_valid_job(path, catalog, bundle_of, tmp_path, shellcheck):
    plan = pinned_plan(plan_file.load(path), catalog)
    bundle = bundle_of(plan)
    assert complaints(bundle, tmp_path, shellcheck) == ""
    job = parse(bundle.file("job.json").text)
    assert "train.py" in job.command
    assert (path.parent / plan.request.run.workdir / "train.py").is_file()
    assert job.checkpoint.mode == {"fsdp": "dcp", "lora": "agent"}[path.parent.name]
