"""How a batch script starts its job: the EFA check, torchrun's rendezvous, and the environment."""

import os
import shutil
import subprocess

import pytest

BASH = shutil.which("bash")
SRUN = 'echo "$@" >>"$SLURM_SUBMIT_DIR/srun"; shift 3; exec "$@"'
SCONTROL = """
echo "$@" >>"$SLURM_SUBMIT_DIR/scontrol"
case "$2" in
    hostnames) printf '%s\\n' a1 a2 ;;
    node) echo "NodeName=$4 Arch=x86_64 NodeAddr=10.1.2.3 NodeHostName=$4 Version=24.05" ;;
esac
"""
SLEEP = "exec /bin/sleep 0.02"  # the script looks every half second whether the agent has ended
AGENT = 'env -0 >"$SLURM_SUBMIT_DIR/environment"'


@pytest.fixture
def start(tmp_path, bundle_of, plan_of):
    """Run the script of a plan, with stand-ins for Slurm and the agent."""
    job, programs, sysfs = (tmp_path / name for name in ("job", "bin", "sys"))
    for folder in (job, programs, sysfs):
        folder.mkdir()

    def run(*, target=None, nodes=1, programs_too=None, sandbox=False, checkpoint=None, **environment):
        plan = plan_of(target={"nodes": nodes, **(target or {})}, checkpoint=checkpoint or {})
        stand_ins = {"srun": SRUN, "scontrol": SCONTROL, "agent-python": AGENT, "sleep": SLEEP, **(programs_too or {})}
        for name, body in stand_ins.items():
            (programs / name).write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
            (programs / name).chmod(0o755)
        variables = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "SLURM_SUBMIT_DIR": str(job),
            "SLURM_JOB_ID": "1234",
            "SLURM_JOB_NUM_NODES": str(nodes),
            "SLURM_JOB_NODELIST": "a[1-2]",
            "SLIPWAY_PYTHON": "agent-python",
            "SLIPWAY_SYSFS": str(sysfs),
            **({"SLIPWAY_SANDBOX": "1"} if sandbox else {}),
            **environment,
        }
        (job / "environment").unlink(missing_ok=True)
        script = bundle_of(plan).file("job.sbatch").text
        answer = subprocess.run(
            [BASH, "-s"], input=script, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        entries = (job / "environment").read_text().split("\0") if (job / "environment").exists() else None
        answer.environment = entries and dict(entry.partition("=")[::2] for entry in entries if entry)  # type: ignore[attr-defined]
        return answer

    def devices(*drivers):
        """Give the machine InfiniBand devices of these drivers."""
        for number, driver in enumerate(drivers):
            device = sysfs / "class" / "infiniband" / f"rdmap{number}s0" / "device"
            device.mkdir(parents=True)
            (device / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")

    run.devices, run.job = devices, job  # type: ignore[attr-defined]
    return run


class TestEfa:
    """A p5.48xlarge shows 32 interfaces."""

    def test_no_efa_interface_stops_the_job_before_the_agent(self, start):
        answer = start(nodes=2)
        assert answer.returncode == 1
        assert "p5.48xlarge has 32 EFA interfaces, found 0; it stops here" in answer.stderr
        assert answer.environment is None

    def test_single_node_without_efa_interfaces_starts_the_agent(self, start):
        answer = start()
        assert (answer.returncode, "EFA interfaces" in answer.stdout) == (0, False)
        assert answer.environment

    def test_too_few_efa_interfaces_stop_the_job(self, start):
        start.devices(*["efa"] * 31)
        answer = start(nodes=2)
        assert (answer.returncode, answer.environment) == (1, None)
        assert "found 31" in answer.stderr

    def test_devices_of_another_driver_are_not_counted_as_efa(self, start):
        start.devices(*["efa"] * 31, "mlx5_core", "mlx5_core")
        assert "found 31" in start(nodes=2).stderr

    def test_all_efa_interfaces_present_starts_the_agent(self, start):
        start.devices(*["efa"] * 32, "mlx5_core")
        answer = start(nodes=2)
        assert answer.returncode == 0
        assert ": 32 EFA interfaces\n" in answer.stdout
        assert answer.environment

    def test_efa_interfaces_unknown_to_libfabric_stop_the_job(self, start):
        start.devices(*["efa"] * 32)
        check_arguments = '[[ "$*" == "--provider efa" ]] || exit 0; '
        answer = start(nodes=2, programs_too={"fi_info": check_arguments + "exit 61"})
        assert (answer.returncode, answer.environment) == (1, None)
        assert "libfabric offers none of its 32 EFA interfaces" in answer.stderr
        assert start(nodes=2, programs_too={"fi_info": check_arguments + "exit 0"}).returncode == 0

    def test_efa_check_runs_on_every_node(self, start):
        start.devices(*["efa"] * 32)
        assert start(nodes=2).returncode == 0
        check_step, run = (start.job / "srun").read_text().split("--nodes=2 ")[1:]
        assert "check_efa" in check_step
        assert run.rstrip().endswith("job.json")

    def test_type_without_efa_is_not_checked(self, start):
        answer = start(target={"instance_type": "trn1.2xlarge", "region": "us-west-2"})
        assert answer.returncode == 0, answer.stderr
        assert "EFA interfaces" not in answer.stdout


class TestMeeting:
    def test_one_node_rendezvous_is_localhost_with_a_free_port(self, start):
        environment = start(sandbox=True).environment
        assert (environment["PET_RDZV_ENDPOINT"], environment["PET_NNODES"]) == ("localhost:0", "1")
        assert environment["PET_RDZV_BACKEND"] == "c10d"
        assert not {"MASTER_ADDR", "MASTER_PORT"} & environment.keys()
        assert (environment["SLIPWAY_MASTER_ADDR"], environment["SLIPWAY_MASTER_PORT"]) == ("127.0.0.1", "22340")

    def test_several_nodes_rendezvous_at_the_slurm_address_of_the_first(self, start):
        environment = start(nodes=2, sandbox=True).environment
        assert (environment["MASTER_ADDR"], environment["MASTER_PORT"]) == ("10.1.2.3", "22340")
        assert (environment["PET_RDZV_ENDPOINT"], environment["PET_NNODES"]) == ("10.1.2.3:22340", "2")
        assert environment["PET_RDZV_BACKEND"] == "static"
        assert (environment["SLIPWAY_MASTER_ADDR"], environment["SLIPWAY_MASTER_PORT"]) == ("10.1.2.3", "22340")
        assert "show node --oneliner a1\n" in (start.job / "scontrol").read_text()

    @pytest.mark.parametrize(
        "gres, asked",
        [
            ("gpu:8", "gpu:8"),
            ("gpu:h100:8(S:0-1)", "gpu:h100:8"),
            ("gpu:a:2(S:0,1),gpu:b:2,mps:400,lustre:no_consume:4G", "gpu:a:2,gpu:b:2"),
            ("(null)", None),
            ("mps:400", None),
        ],
    )
    def test_job_steps_request_the_gres_counted_by_slurm(self, start, gres, asked):
        counted = SCONTROL.replace("Arch=x86_64", f"Arch=x86_64 Gres={gres}")
        srun = SRUN.replace("shift 3", "shift 3; case $1 in --gres=*) shift ;; esac")
        answer = start(nodes=2, sandbox=True, programs_too={"scontrol": counted, "srun": srun})
        assert answer.returncode == 0, answer.stderr
        *_, agent = (start.job / "srun").read_text().splitlines()
        assert "agent-python" in agent
        assert (f" --gres={asked} " in agent) == (asked is not None)
        assert ("--gres" in agent) == (asked is not None)

    def test_gres_refused_by_slurm_is_left_out_of_the_steps(self, start):
        counted = SCONTROL.replace("Arch=x86_64", "Arch=x86_64 Gres=gpu:8")
        srun = 'case "$*" in *--gres*) echo "srun: error: Invalid generic resource" >&2; exit 1 ;; esac; ' + SRUN
        answer = start(nodes=2, sandbox=True, programs_too={"scontrol": counted, "srun": srun})
        assert answer.returncode == 0, answer.stderr
        assert "--gres" not in (start.job / "srun").read_text()
        assert "Invalid generic resource" not in answer.stderr

    def test_rendezvous_node_without_slurm_address_is_resolved_by_name(self, start):
        nameless = SCONTROL.replace("NodeAddr=10.1.2.3", "NodeAddr=localhost")
        assert (
            start(nodes=2, sandbox=True, programs_too={"scontrol": nameless}).environment["MASTER_ADDR"] == "127.0.0.1"
        )

    def test_rendezvous_node_without_any_address_stops_the_job(self, start):
        nameless = SCONTROL.replace("NodeAddr=10.1.2.3", "NodeAddr=no-such-node.invalid")
        answer = start(nodes=2, sandbox=True, programs_too={"scontrol": nameless, "getent": "exit 2"})
        assert (answer.returncode, answer.environment) == (1, None)
        assert "a1, where the nodes are to meet, has no address" in answer.stderr

    def test_requeued_job_has_a_new_rendezvous_id_and_endpoint(self, start):
        lives = [start(nodes=2, sandbox=True, SLURM_RESTART_COUNT=str(count)).environment for count in (0, 1, 2)]
        assert [attempt["PET_RDZV_ID"] for attempt in lives] == ["1234.0", "1234.1", "1234.2"]
        assert len({attempt["PET_RDZV_ENDPOINT"] for attempt in lives}) == 3

    def test_torchrun_forwards_sigusr1_and_waits_for_the_grace_time(self, start):
        environment = start(sandbox=True, checkpoint={"grace_seconds": 45.5}).environment
        assert "SIGUSR1" in environment["PET_SIGNALS_TO_HANDLE"].split(",")
        assert (environment["PET_SHUTDOWN_TIMEOUT"], environment["PET_MAX_RESTARTS"]) == ("46", "0")

    @pytest.mark.parametrize(
        "type_, region, workers",
        [("p5.48xlarge", "us-east-2", 8), ("trn1.32xlarge", "us-west-2", 32), ("trn2.48xlarge", "us-east-2", 64)],
    )
    def test_workers_per_node_are_the_gpus_or_logical_cores(self, start, type_, region, workers):
        start.devices(*["efa"] * 32)
        target = {"instance_type": type_, "region": region}
        answer = start(target=target)
        assert answer.environment["PET_NPROC_PER_NODE"] == str(workers), answer.stderr
        assert answer.environment["SLIPWAY_WORKERS_PER_NODE"] == str(workers)
        here = start(target=target, sandbox=True).environment
        assert (here["PET_NPROC_PER_NODE"], here["SLIPWAY_WORKERS_PER_NODE"]) == ("1", "1")

    @pytest.mark.parametrize("nodes", [1, 2])
    def test_variables_of_another_job_do_not_reach_the_agent(self, start, nodes):
        others = {"MASTER_ADDR": "10.9.9.9", "MASTER_PORT": "5", "PET_NPROC_PER_NODE": "4", "PET_RDZV_ID": "mine"}
        others |= {"PET_NNODES": "9", "PET_STANDALONE": "1", "RANK": "3", "WORLD_SIZE": "16", "LOCAL_RANK": "3"}
        others |= {"TORCHELASTIC_RUN_ID": "x", "AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-1"}
        others |= {"SLIPWAY_JOB": "/other/job.json", "SLIPWAY_AGENT": "/other/agent"}
        environment = start(nodes=nodes, sandbox=True, **others).environment
        assert environment == start(nodes=nodes, sandbox=True).environment

    def test_neuron_root_communicator_is_an_ip_address(self, start):
        environment = start(nodes=2, sandbox=True, target={"instance_type": "trn2.48xlarge"}).environment
        assert environment["NEURON_RT_ROOT_COMM_ID"] == "10.1.2.3:62182"
        assert os.environ.get("NEURON_RT_ROOT_COMM_ID") is None
