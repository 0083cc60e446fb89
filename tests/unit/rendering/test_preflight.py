"""The preflight: a batch script for every instance type, and its collective, on this machine's processors."""

import os
import subprocess
import sys

import pytest

from launcher.catalog.assets import asset
from launcher.catalog.load import load
from launcher.rendering.slurm_job import COLLECTIVE
from tests.checks import some

TORCH_NEURON, XLA = (load().accelerators[chip].training_stack.python_packages for chip in ("Trainium2", "Trainium1"))
SCRIPTS = {"preflight.sbatch", "environment.sh"}


def test_preflight_scripts_pass_shellcheck(bundle, shellcheck, tmp_path):
    for file in some(bundle.files):
        if file.path in SCRIPTS:
            path = tmp_path / file.path
            path.write_text(file.text)
            assert shellcheck(path) == ""


class TestScript:
    def test_preflight_uses_every_chip_of_every_node(self, bundle_of, plan_of):
        text = bundle_of(plan_of()).file("preflight.sbatch").text
        assert "#SBATCH --nodes=2\n" in text
        assert "--nproc-per-node=8" in text

    @pytest.mark.parametrize(
        "name, region, workers", [("trn1.32xlarge", "us-west-2", 32), ("trn2.48xlarge", "us-east-2", 64)]
    )
    def test_preflight_on_neuron_counts_logical_cores(self, bundle_of, plan_of, name, region, workers):
        text = bundle_of(plan_of(target={"instance_type": name, "region": region})).file("preflight.sbatch").text
        assert f'--nworkers "$((nodes * {workers}))"' in text

    @pytest.mark.parametrize("nodes, minimum", [(1, 0), (2, 100)])
    def test_preflight_of_one_node_sets_no_minimum_bandwidth(self, bundle_of, plan_of, nodes, minimum):
        text = bundle_of(plan_of(target={"nodes": nodes})).file("preflight.sbatch").text
        assert f"SLIPWAY_PREFLIGHT_GB_S:-{minimum}" in text

    def test_preflight_counts_efa_interfaces_as_the_job_does(self, bundle_of, plan_of):
        bundle = bundle_of(plan_of())
        function = asset("templates/slurm/check_efa.sh").read_text().rstrip()
        for path in ("preflight.sbatch", "job.sbatch"):
            assert function in bundle.file(path).text
            assert "check 32 " in bundle.file(path).text

    @pytest.mark.parametrize("path", ["preflight.sbatch", "job.sbatch"])
    def test_rendezvous_uses_the_node_address_known_to_slurm(self, bundle_of, plan_of, path):
        text = bundle_of(plan_of()).file(path).text
        assert "NodeAddr" in text
        assert "${hosts[0]}:" not in text

    def test_preflight_runs_the_setup_of_the_plan_first(self, bundle_of, plan_of):
        text = bundle_of(plan_of(run={"setup": ["source venv/bin/activate"]})).file("preflight.sbatch").text
        assert text.index("source venv/bin/activate") < text.index("torchrun --nnodes")


NCCOM = """#!/bin/sh
echo '       size(B)    count(elems)    type    time(us)    algbw(GB/s)    busbw(GB/s)'
echo '       1048576          262144    fp32        1328           0.74           1.45'
echo '    1073741824       268435456    fp32       41806          23.92          47.09'
echo 'Avg bus bandwidth:      9.3924GB/s'
echo "$NEURON_RT_ROOT_COMM_ID $*" >called
"""
"""Neuron's benchmark as its documentation shows its output."""
SCONTROL = """#!/bin/sh
case "$*" in
"show hostnames "*) printf 'training-dy-1\\ntraining-dy-2\\n' ;;
"show node --oneliner training-dy-"[12]) echo "NodeName=$4 Arch=x86_64 NodeAddr=127.0.0.${4##*-} State=ALLOCATED" ;;
*) exit 1 ;;
esac
"""
"""Slurm's answers for two nodes whose names no DNS knows."""
PROGRAMS = {
    "nccom-test": NCCOM,
    "scontrol": SCONTROL,
    "srun": "#!/bin/sh\nexit 0\n",
}


class TestNeuronRun:
    @pytest.fixture
    def run(self, bundle_of, plan_of, tmp_path):
        """The script on programs of the same names, with a minimum bandwidth."""

        def start(minimum):
            target = {"instance_type": "trn1.32xlarge", "region": "us-west-2"}
            script = tmp_path / "preflight.sbatch"
            script.write_text(bundle_of(plan_of(target=target)).file("preflight.sbatch").text)
            for name, text in PROGRAMS.items():
                program = tmp_path / "bin" / name
                program.parent.mkdir(exist_ok=True)
                program.write_text(text)
                program.chmod(0o755)
            environ = {
                "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
                "SLURM_SUBMIT_DIR": str(tmp_path),
                "SLURM_JOB_NODELIST": "nodes-[1-2]",
                "SLIPWAY_PREFLIGHT_GB_S": str(minimum),
            }
            return subprocess.run(["bash", script], env=environ, capture_output=True, text=True, check=False)

        return start

    def test_preflight_verdict_uses_the_bandwidth_of_the_largest_size(self, run, tmp_path):
        answer = run(47)
        assert answer.returncode == 0, answer.stderr
        assert "47.09 GB/s at the largest size, at least 47 wanted" in answer.stdout
        assert run(48).returncode == 1
        called = (tmp_path / "called").read_text()
        assert called.startswith("127.0.0.1:62182 --nworkers 64 --nnodes 2 ")
        assert called.endswith("allr --hosts 127.0.0.1 127.0.0.2\n")

    def test_preflight_without_figures_fails(self, run, tmp_path, monkeypatch):
        monkeypatch.setitem(PROGRAMS, "nccom-test", "#!/bin/sh\necho '1 errors found - test failed'\n")
        answer = run(0)
        assert answer.returncode == 1
        assert "nccom-test gave no figures" in answer.stdout


class TestEnvironment:
    def test_trn2_environment_is_torchneuron_and_trn1_is_xla_with_pinned_packages(self, bundle_of, plan_of):
        trn2 = bundle_of(plan_of(target={"instance_type": "trn2.48xlarge"})).file("environment.sh").text
        trn1 = plan_of(target={"instance_type": "trn1.32xlarge", "region": "us-west-2"})
        trn1 = bundle_of(trn1).file("environment.sh").text
        assert all(package in trn2 for package in TORCH_NEURON)
        assert all(package in trn1 for package in XLA)
        assert all("==" in package for package in (*TORCH_NEURON, *XLA))
        assert "Neuron 2.33: public beta" in trn2
        assert "pinned to Neuron 2.28" in trn1

    def test_nvidia_plan_renders_no_environment_script(self, bundle_of, plan_of):
        assert "environment.sh" not in [file.path for file in bundle_of(plan_of()).files]


@pytest.mark.torch
class TestCollective:
    @pytest.fixture
    def run(self, tmp_path):
        """The collective of two processes, or of one without torchrun, with a minimum bandwidth."""

        def start(minimum, launcher=(), **variables):
            command = [sys.executable, *launcher, asset(COLLECTIVE), "--backend", "gloo", "--largest-mib", "1"]
            command += ["--minimum-gb-s", str(minimum)]
            environment = {**os.environ, **variables}
            return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

        return start

    def test_preflight_with_correct_sum_and_sufficient_speed_passes(self, run):
        answer = run(0, ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"))
        assert answer.returncode == 0, answer.stderr
        assert "preflight: 2 ranks" in answer.stdout

    def test_preflight_below_the_wanted_speed_fails(self, run):
        answer = run(1e9, RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
        assert answer.returncode == 1
        assert "at least 1e+09 wanted" in answer.stdout
