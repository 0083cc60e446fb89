"""A job's command compared with the nodes that the plan pays for."""

from dataclasses import replace
from decimal import Decimal

import pytest

from launcher.catalog.training import load_training
from launcher.model.enums import Level, Method, Stack
from launcher.model.money import Range
from launcher.planning.idle_chips import idle_findings, working
from launcher.planning.job_command import JobCommand, programs_of
from launcher.planning.launchers import CandidateNodes
from launcher.planning.work import Estimator
from tests import plans
from tests.measured_runs import measurement

FOUR = CandidateNodes(count=4, chips=8, workers=8, noun="GPU", usd_per_hour=Decimal(220))
ALL = "--num_processes 32 train.py"
ONE = CandidateNodes(count=1, chips=8, workers=8, noun="GPU", usd_per_hour=Decimal(55))
NEURON = CandidateNodes(count=1, chips=16, workers=32, noun="NeuronCore", usd_per_hour=None)
SMALL = CandidateNodes(count=1, chips=1, workers=1, noun="GPU", usd_per_hour=Decimal(1))


def messages(line, nodes, env=None, **command):
    """The messages on a command that bash runs."""
    programs = programs_of(("bash", "-eo", "pipefail", "-c", line))
    return [finding.message for finding in idle_findings(JobCommand(programs=programs, **command), env or {}, nodes)]


@pytest.mark.parametrize(
    "line, nodes, expected",
    [
        ("torchrun --standalone train.py", FOUR, "the 4 nodes train 4 separate copies, $165 an hour"),
        ("torchrun --nnodes=2 train.py", FOUR, "--nnodes=2 uses 2 of 4 nodes: 2 idle, $110 an hour"),
        ("torchrun --nnodes 1:2 train.py", FOUR, "--nnodes=1:2 uses 2 of 4 nodes"),
        ("python -m torch.distributed.run --nnodes=1 train.py", FOUR, "the 4 nodes train 4 separate copies"),
        ("torchrun --nproc_per_node=4 train.py", FOUR, "for 8 GPUs of each node: 4 idle, $110 an hour"),
        ("torchrun --nproc-per-node 1 train.py", ONE, "--nproc-per-node=1 starts 1 process for 8 GPUs"),
        ("cd src && exec torchrun --nproc_per_node=6 a.py | tee l", ONE, "2 idle, $14 an hour"),
        ("tune run --nproc_per_node 4 lora_finetune_distributed --config a", ONE, "4 idle"),
        ("accelerate launch train.py", FOUR, "accelerate launch without --num_machines joins no other node"),
        (
            "accelerate launch --num_processes 4 train.py",
            ONE,
            "4 starts 4 processes for 8 GPUs: 4 idle",
        ),
        ("accelerate launch --num_machines 4 --num-processes=8 t.py", FOUR, "for 32 GPUs: 24 idle, $165 an hour"),
        ("python -m accelerate.commands.launch --num_machines 2 t.py", FOUR, "--num_machines 2 uses 2 of 4 nodes"),
        ("deepspeed train.py --deepspeed", FOUR, "deepspeed without --hostfile joins no other node"),
        ("deepspeed --num_gpus 2 train.py", ONE, "--num_gpus 2 starts 2 processes for 8 GPUs of each node: 6 idle"),
        ("deepspeed --hostfile h --num_nodes 3 t.py", FOUR, "--num_nodes 3 uses 3 of 4 nodes: 1 idle, $55 an hour"),
        ("mpirun -np 4 python train.py", ONE, "-np 4 starts 4 processes for 8 GPUs of each node"),
        ("mpirun --hostfile h -np 8 python train.py", FOUR, "for 32 GPUs: 24 idle"),
        ("composer --nproc 4 train.py", ONE, "--nproc 4 starts 4 processes"),
        ("axolotl train config.yaml", FOUR, "axolotl train joins no other node"),
        ("axolotl train c.yaml -- --num_machines 2", FOUR, "--num_machines 2 uses 2 of 4 nodes"),
        ("composer train.py", FOUR, "composer without --world_size joins no other node"),
        ("python train.py", ONE, "7 of 8 GPUs are idle, $48 an hour"),
        ("python3 -u -m trainer.main", FOUR, "are idle and the 4 nodes train 4 separate copies, $213 an hour"),
        ("python train.py", NEURON, "31 of 32 NeuronCores are idle"),
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun train.py", ONE, "shows the trainer 2 of 8 chips of each node: 6 idle, $41"),
        ("NEURON_RT_VISIBLE_CORES=0-15 torchrun train.py", NEURON, "16 of 32 NeuronCores of each node: 16 idle"),
        (
            "timeout -s TERM 9h torchrun --standalone train.py",
            FOUR,
            "the 4 nodes train 4 separate copies, $165 an hour",
        ),
        ("nsys profile -o out torchrun --nproc_per_node=4 train.py", ONE, "for 8 GPUs of each node: 4 idle"),
        ("nice -n 5 numactl -N 0 python train.py", ONE, "7 of 8 GPUs are idle"),
        ("conda run -n env python -m trainer.main", ONE, "7 of 8 GPUs are idle"),
        ("env CUDA_VISIBLE_DEVICES=0 torchrun train.py", ONE, "shows the trainer 1 of 8 chips of each node"),
        ("export CUDA_VISIBLE_DEVICES=0,1; torchrun train.py", ONE, "shows the trainer 2 of 8 chips of each node"),
        ("torchrun --nproc_per_node=16 train.py", ONE, "starts 16 processes on a node with 8 GPUs"),
        ("PET_NNODES=1 torchrun train.py", FOUR, "PET_NNODES=1 joins no other node"),
        ("export PET_NPROC_PER_NODE=2; torchrun train.py", ONE, "PET_NPROC_PER_NODE=2 starts 2 processes"),
        ("N=4\ntorchrun --nproc_per_node $N train.py", ONE, "--nproc_per_node=4 starts 4 processes"),
        ("A=(\n  --standalone  # here\n  --max-restarts 0\n)\ntorchrun ${A[@]} train.py", FOUR, "4 separate copies"),
        ('A="--nnodes 2 --nproc_per_node ${G:-8}"; torchrun $A train.py', FOUR, "--nnodes=2 uses 2 of 4 nodes"),
        ("cat >h <<EOF\n--nnodes\nEOF\ntorchrun --standalone train.py", FOUR, "4 separate copies"),
        ("apptainer exec --nv a.sif torchrun --nproc_per_node 4 train.py", ONE, "--nproc_per_node=4 starts 4"),
        ("accelerate launch --gpu_ids 0,1 train.py", ONE, "--gpu_ids 0,1 starts 2 processes for 8 GPUs of each node"),
        ("accelerate launch --cpu train.py", ONE, "--cpu uses none of 8 GPUs"),
        ("accelerate launch --num_processes 16 train.py", ONE, "starts 16 processes on 1 node with 8 GPUs"),
        ("deepspeed --include localhost:0,1 train.py", ONE, "--include localhost:0,1 starts 2 processes"),
        ("deepspeed --exclude=localhost:7 train.py", ONE, "starts 7 processes for 8 GPUs of each node: 1 idle"),
        ("mpirun -np 8 python train.py", FOUR, "mpirun without hosts joins no other node"),
        ("mpirun -mca btl tcp --map-by ppr:4:node --hostfile h python t.py", FOUR, "ppr:4:node starts 4 processes"),
        ("mpiexec.hydra -n 4 python train.py", ONE, "-n 4 starts 4 processes"),
        ("horovodrun -np 4 python train.py", ONE, "-np 4 starts 4 processes for 8 GPUs"),
        ("horovodrun -np 16 -H a:8,b:8 python train.py", FOUR, "-np 16 starts 16 processes for 32 GPUs"),
        ("colossalai run --nproc_per_node 4 train.py", ONE, "--nproc_per_node 4 starts 4 processes"),
        ("fabric run --devices 8 --num-nodes 2 train.py", FOUR, "--num-nodes 2 uses 2 of 4 nodes"),
        ("lightning run model train.py", ONE, "lightning run without --devices starts 1 process for 8 GPUs"),
        ("FORCE_TORCHRUN=1 NNODES=1 llamafactory-cli train a.yaml", FOUR, "NNODES=1 joins no other node"),
        ("tune run full_finetune_single_device --config a", ONE, "full_finetune_single_device starts 1 process"),
        ("srun -n 8 python train.py", FOUR, "srun -n 8 starts a job step from each of the 4 nodes"),
        ("srun --ntasks-per-node=4 python train.py", ONE, "--ntasks-per-node=4 starts 4 processes for 8 GPUs"),
        ("NEURON_RT_NUM_CORES=2 python train.py", NEURON, "31 of 32 NeuronCores are idle"),
        ("NEURON_RT_NUM_CORES=2 torchrun train.py", NEURON, "gives 32 processes 64 NeuronCores, and a node has 32"),
        ("NEURON_RT_VISIBLE_CORES=0-7 torchrun --nproc_per_node 8 t.py", NEURON, "--nproc_per_node=8 starts 8"),
        ("torchrun --nnodes=8 train.py", FOUR, "--nnodes=8 waits for 8 nodes, and the plan has 4: it never begins"),
        (
            f"accelerate launch --num_machines 4 --machine_rank 0 {ALL}",
            FOUR,
            "--machine_rank 0 gives each of the 4 nodes",
        ),
        ("lightning run --devices 8 --num-nodes 4 --node-rank 1 train.py", FOUR, "--node-rank 1 gives each of the 4"),
        (
            "composer --world_size 32 --node_rank 0 train.py",
            FOUR,
            "--node_rank 0 gives each of the 4 nodes the same rank",
        ),
        ("NNODES=4 NODE_RANK=0 llamafactory-cli train a.yaml", FOUR, "NODE_RANK=0 gives each of the 4 nodes the same"),
        ("torchrun --node_rank 0 train.py", FOUR, "--node_rank=0 gives each of the 4 nodes the same rank"),
        ("PET_NODE_RANK=0 torchrun --rdzv-backend static train.py", FOUR, "PET_NODE_RANK=0 gives each of the 4 nodes"),
    ],
)
def test_command_leaving_chips_idle_is_named(line, nodes, expected):
    found = messages(line, nodes)
    assert len(found) == 1, found
    assert expected in found[0]


@pytest.mark.parametrize(
    "line, nodes, expected",
    [
        ('if [ "$D" = 1 ]; then N=1; else N=8; fi\ntorchrun --nproc_per_node=$N a.py', ONE, ["gives N 1 or 8"]),
        ("X=\n[ $A ] && X=--standalone\ntorchrun $X a.py", FOUR, ["run.command gives X nothing or --standalone"]),
        (
            "case $1 in\n a) G=2 ;;\n *) G=4 ;;\nesac\ntorchrun --nproc-per-node ${G} a.py",
            ONE,
            ["=2 starts", "=4 starts"],
        ),
        ("N=8\nN=auto\ntorchrun --nproc_per_node=$N a.py", ONE, []),
        ("N=4\n[ $A ] && N=$(nvidia-smi -L | wc -l)\ntorchrun --nproc_per_node=$N a.py", ONE, []),
        (
            "A=(--max-restarts 0)\nif [ $B ]; then\n  A+=(--standalone)\nfi\ntorchrun ${A[@]} a.py",
            FOUR,
            ["run.command gives A --max-restarts 0 or --max-restarts 0 --standalone"],
        ),
    ],
)
def test_variable_with_several_values_gives_a_finding_that_depends_on_a_condition(line, nodes, expected):
    found = messages(line, nodes)
    assert all("it depends on a condition: run.command gives" in message for message in found)
    assert [text in message for text, message in zip(expected, found, strict=True)] == [True] * len(expected)


@pytest.mark.parametrize(
    "line, nodes",
    [
        ("torchrun train.py", FOUR),
        ("torchrun --nnodes=$SLIPWAY_NODES --nproc-per-node=${SLIPWAY_WORKERS_PER_NODE} train.py", FOUR),
        ("torchrun --nnodes=1:4 --nproc_per_node=gpu train.py", FOUR),
        ("torchrun --standalone --nproc_per_node=8 train.py", ONE),
        ("torchrun --nproc_per_node=$N train.py", ONE),
        ("torchrun train.py --nproc_per_node=4 --standalone", FOUR),
        ("accelerate launch --num_machines $SLIPWAY_NODES --num_processes $((SLIPWAY_NODES * 8)) train.py", FOUR),
        ("accelerate launch --config_file a.yaml train.py", FOUR),
        (f"accelerate launch --num_machines 4 --machine_rank $SLIPWAY_NODE_RANK {ALL}", FOUR),
        ("accelerate launch --machine_rank 0 --num_machines 1 --num_processes 8 train.py", ONE),
        ("torchrun --node_rank $SLIPWAY_NODE_RANK train.py", FOUR),
        ("torchrun --node_rank 0 --rdzv-backend c10d train.py", FOUR),
        ('deepspeed --hostfile "/tmp/hosts-$SLIPWAY_NODE_RANK" --no_ssh --node_rank 1 train.py', FOUR),
        ('mpirun -n "$SLIPWAY_WORKERS_PER_NODE" bash -c "python train.py"', FOUR),
        ("composer --nproc $SLIPWAY_WORKERS_PER_NODE --world_size $((SLIPWAY_NODES * 8)) train.py", FOUR),
        ("python prepare.py && torchrun train.py", FOUR),
        ("python -m http.server & torchrun train.py", FOUR),
        ("python -m pip install x", ONE),
        ("python -c 'print(1)'", ONE),
        ("timeout 9h ./monitor & torchrun train.py", FOUR),
        ("export CUDA_VISIBLE_DEVICES=0 && unset CUDA_VISIBLE_DEVICES; torchrun train.py", ONE),
        ("python train.py", SMALL),
        ("./run", FOUR),
        ("torchrun -m trainer.main --nproc_per_node 2", FOUR),
        ("torchrun --no-python ./run --standalone", FOUR),
        ("torchrun --nnodes ${SLURM_NNODES:-1} train.py", FOUR),
        ("if a; then N=8; else N=auto; fi; torchrun --nproc_per_node $N train.py", ONE),
        ("torchrun --nproc_per_node $PET_NPROC_PER_NODE --nnodes $PET_NNODES train.py", FOUR),
        ("accelerate launch --multi_gpu --mixed_precision bf16 train.py --num_processes 2", ONE),
        ("mpirun -np 32 --hostfile h python train.py", FOUR),
        ("horovodrun -np 8 python train.py", ONE),
        ("colossalai run --nproc_per_node 8 --hostfile h train.py", FOUR),
        ("fabric run --devices=8 --num-nodes=$SLIPWAY_NODES train.py", FOUR),
        ("NNODES=$SLIPWAY_NODES llamafactory-cli train a.yaml", FOUR),
        ("srun -N1 -n1 torchrun train.py", ONE),
        ("NEURON_RT_NUM_CORES=1 torchrun train.py", NEURON),
        ("axolotl train a.yaml --launcher torchrun", FOUR),
        ("CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 torchrun train.py", ONE),
        ("CUDA_VISIBLE_DEVICES=$MINE torchrun train.py", ONE),
    ],
)
def test_command_using_all_chips_or_unreadable_gives_no_message(line, nodes):
    assert messages(line, nodes) == []


@pytest.mark.parametrize(
    "line, name, text, expected",
    [
        (
            "accelerate launch --config_file a.yaml t.py",
            "a.yaml",
            "num_machines: 1",
            "num_machines: 1 in a.yaml joins no",
        ),
        ("accelerate launch --config_file=a.yaml t.py", "a.yaml", "{num_machines: 4, num_processes: 8}", "24 idle"),
        ("deepspeed --hostfile h t.py", "h", "a slots=8\nb slots=8 # old\n", "--hostfile h uses 2 of 4 nodes"),
    ],
)
def test_file_of_launcher_is_compared(line, name, text, expected):
    (program,) = programs_of(line.split())
    command = JobCommand(programs=(replace(program, files=((name, text),)),))
    (finding,) = idle_findings(command, {}, FOUR)
    assert expected in finding.message


def test_variable_of_plan_is_read_as_option_and_has_its_path():
    programs = programs_of(["torchrun", "train.py"])
    (finding,) = idle_findings(JobCommand(programs=programs), {"PET_NNODES": "1"}, FOUR)
    assert (finding.path, "4 separate copies" in finding.message) == ("run.env.PET_NNODES", True)


def test_number_of_spawned_processes_is_compared():
    (message,) = messages("python train.py", NEURON, all_chips=True, spawned=1)
    assert "nprocs=1 of python train.py starts 1 process for 32 NeuronCores" in message


def test_variable_hiding_chips_has_path():
    programs = programs_of(["torchrun", "train.py"])
    (finding,) = idle_findings(JobCommand(programs=programs), {"CUDA_VISIBLE_DEVICES": "0"}, ONE)
    assert (finding.path, "7 idle, $48 an hour" in finding.message) == ("run.env.CUDA_VISIBLE_DEVICES", True)


def test_trainer_using_all_chips_warned_only_of_separate_copies():
    assert messages("python train.py", ONE, all_chips=True) == []
    (message,) = messages("python train.py", FOUR, all_chips=True)
    assert "unless it starts others, the 4 nodes train 4 separate copies, $165 an hour" in message
    assert messages("python train.py", FOUR, all_chips=True, all_nodes=True) == []


def test_unknown_workers_per_node_give_no_message():
    unknown = CandidateNodes(count=2, chips=8, workers=0, noun="NeuronCore", usd_per_hour=None)
    assert messages("torchrun --standalone train.py", unknown) == []


def finding_of(nodes, packages, **command):
    """The only finding on `python train.py` with a trainer that imports packages."""
    programs = programs_of(("python", "train.py"))
    (finding,) = idle_findings(JobCommand(programs=programs, packages=frozenset(packages), **command), {}, nodes)
    return finding


@pytest.mark.parametrize(
    "nodes, expected",
    [
        (ONE, "all 8 GPUs are idle, $55 an hour, until run.command starts a trainer that uses GPUs"),
        (FOUR, "all 32 GPUs are idle, $220 an hour, until run.command starts a trainer that uses GPUs"),
        (SMALL, "the GPU is idle, $1 an hour, until run.command starts a trainer that uses GPUs"),
        (NEURON, "all 32 NeuronCores are idle, until run.command starts a trainer that uses NeuronCores"),
    ],
)
def test_trainer_without_accelerator_package_is_noted_without_a_launcher(nodes, expected):
    finding = finding_of(nodes, {"numpy", "scipy"})
    assert finding.message == f"python train.py imports only numpy, scipy: {expected}"
    assert (finding.level, "torchrun" in finding.hint) == (Level.INFO, False)


@pytest.mark.parametrize(
    "packages, hint",
    [
        ({"numpy", "torch"}, "torchrun train.py; or a 1-GPU type"),
        ((), "torchrun train.py; or a 1-GPU type"),
        ({"numpy", "cupy"}, "torchrun train.py, if it trains with PyTorch; or a 1-GPU type"),
    ],
)
def test_torchrun_is_the_fix_of_a_trainer_that_may_use_pytorch(packages, hint):
    finding = finding_of(ONE, packages)
    assert (finding.level, finding.hint) == (Level.WARNING, hint)


def test_no_type_has_one_neuron_core_so_none_is_advised():
    assert finding_of(NEURON, {"torch"}).hint == "torchrun train.py"


def test_trainer_of_cpu_packages_that_starts_processes_has_no_finding():
    command = JobCommand(programs=programs_of(("python", "a.py")), packages=frozenset(["numpy"]), all_chips=True)
    assert list(idle_findings(command, {}, ONE)) == []


@pytest.mark.parametrize(
    "line, nodes, expected",
    [
        ("N=1\nN=4\ntorchrun --nproc_per_node=$N a.py", ONE, ["--nproc_per_node=4 starts 4"]),
        ("N=1\nN=8\ntorchrun --nproc_per_node=$N a.py", ONE, []),
        ("N=$(nvidia-smi -L | wc -l)\nN=4\ntorchrun --nproc_per_node=$N a.py", ONE, ["=4 starts 4 processes"]),
        ("C=torchrun\nC+=' --standalone'\nC+=' a.py'\n$C", FOUR, ["--standalone joins no other node"]),
        ("A=()\nA+=(--standalone)\nA+=(a.py)\ntorchrun ${A[@]}", FOUR, ["--standalone joins no other node"]),
        ("C='torchrun --standalone a.py'\necho $C\neval $C", FOUR, ["--standalone joins no other node"]),
        (
            'eval "N=4; torchrun --nproc_per_node=$((2 + 2)) a.py"\ntorchrun --nproc_per_node=$N a.py',
            ONE,
            ["=4 starts"],
        ),
        ("X='eval $X'\neval $X\ntorchrun a.py", FOUR, []),
        ("(N=1; CUDA_VISIBLE_DEVICES=0; export CUDA_VISIBLE_DEVICES; python b.py)\ntorchrun a.py", ONE, []),
        ("N=8\n(N=1)\ntorchrun --nproc_per_node=$N a.py", ONE, []),
        ("for N in 1 2 4; do\n  torchrun --nproc_per_node=$N a.py\ndone", ONE, []),
        ("N=1\nread -r N <n.txt\ntorchrun --nproc_per_node=$N a.py", ONE, []),
        ("torchrun a.py\npython setup.py build_ext", ONE, []),
    ],
)
def test_value_is_the_one_that_the_shell_has_at_the_launcher(line, nodes, expected):
    found = messages(line, nodes)
    assert [text in message for text, message in zip(expected, found, strict=True)] == [True] * len(expected)
    assert not any("condition" in message for message in found)


@pytest.mark.parametrize(
    "line, notes",
    [
        ("if [ $A ]; then torchrun a.py; else torchrun --standalone a.py; fi", [True]),
        ("case $A in\n  b) torchrun --standalone a.py ;;\n  *) torchrun a.py ;;\nesac", [True]),
        ("if [ $A ]; then\n  torchrun a.py\nelif [ $B ]; then\n  torchrun --standalone a.py\nfi", [True]),
        ('one() { torchrun --standalone a.py; }\nall() { torchrun a.py; }\n"$A"', [True]),
        ("if [ $A ]; then B=1; fi\ntorchrun --standalone a.py", [False]),
        ("if ! torchrun --standalone a.py; then exit 3; fi", [False]),
        ("cd src && torchrun --standalone a.py || exit 1", [False]),
        ("echo if then; torchrun --standalone a.py", [False]),
        # A script that asks for the number of nodes has a branch for each number.
        ("if [ $SLURM_NNODES -gt 1 ]; then torchrun a.py; else torchrun --standalone a.py; fi", []),
        ("case $SLURM_JOB_NUM_NODES in\n 1) torchrun --standalone a.py ;;\n *) torchrun a.py;;\nesac", []),
        ("N=$SLURM_NNODES\nif [ $WORLD_SIZE = 1 ]; then A=--standalone; else A=; fi\ntorchrun $A a.py", []),
    ],
)
def test_launcher_in_a_branch_gives_a_finding_that_depends_on_a_condition(line, notes):
    found = messages(line, FOUR)
    assert [message.endswith("it depends on a condition in run.command") for message in found] == notes


@pytest.mark.parametrize(
    "line, nodes, command, expected",
    [
        ("torchrun --nproc-per-node=1 train.py", ONE, {}, (1, 1)),
        ("torchrun --nproc-per-node=1 prepare.py && torchrun --nproc-per-node=4 train.py", ONE, {}, (1, 4)),
        ("torchrun --standalone train.py", FOUR, {}, (1, 8)),
        ("accelerate launch --num_machines 4 --num-processes=8 t.py", FOUR, {}, (4, 2)),
        ("python train.py", ONE, {"packages": frozenset({"torch"})}, (1, 1)),
        ("python train.py", FOUR, {"packages": frozenset({"torch"})}, (1, 1)),
        ("python train.py", FOUR, {"packages": frozenset({"torch"}), "all_nodes": True}, (4, 1)),
        ("python train.py", NEURON, {"all_chips": True, "spawned": 2}, (1, 2)),
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun train.py", ONE, {}, (1, 2)),
        ("python train.py", ONE, {}, None),
        ("python train.py", FOUR, {"packages": frozenset({"torch", "ray"}), "all_chips": True}, None),
        ("python train.py", ONE, {"packages": frozenset({"numpy"})}, None),
        ("torchrun train.py", FOUR, {}, None),
        ("torchrun --nproc-per-node=$N train.py", ONE, {}, None),
        ("if a; then torchrun --nproc-per-node=1 train.py; else torchrun train.py; fi", ONE, {}, None),
        ("accelerate launch --cpu train.py", ONE, {}, None),
    ],
)
def test_working_processes_are_counted_where_command_tells(line, nodes, command, expected):
    programs = programs_of(("bash", "-eo", "pipefail", "-c", line))
    assert working(JobCommand(programs=programs, **command), {}, nodes) == expected


def work_of(catalog, facts, command, instance_type="g5.48xlarge"):
    """The work of 8B LoRA on one node with a command."""
    train = {"model": "llama-3.1-8b", "method": "lora", "tokens_b": 0.1, "sequence_length": 1024}
    train["stack"] = "huggingface"
    request = plans.request_of({"slipway": 1, "name": "idle", "workload": {"train": train}})
    programs = programs_of(command.split())
    command = JobCommand(programs=programs, packages=frozenset({"torch"}))
    return Estimator(request=request, catalog=catalog, facts=facts, job_command=command).work(instance_type, 1)


def test_hours_count_the_chips_that_the_command_uses(catalog):
    facts = load_training()
    every = work_of(catalog, facts, "torchrun train.py")
    one = work_of(catalog, facts, "torchrun --nproc-per-node=1 train.py")
    assert (every.counted_chips, one.counted_chips) == (None, "the hours count 1 chip of 8")
    assert one.hours.mid / every.hours.mid == pytest.approx(8.0, rel=0.25)
    assert work_of(catalog, facts, "python train.py").hours == one.hours
    of_trainium = work_of(catalog, facts, "torchrun --nproc-per-node=1 train.py", "trn1.32xlarge")
    assert of_trainium.counted_chips == "the hours count 0.5 chips of 16"


def test_own_runs_replace_the_counted_chips(catalog):
    facts = load_training()
    name = {"model": "llama-3.1-8b", "method": Method.LORA, "stack": Stack.HUGGINGFACE, "params_b": 8.03}
    run = measurement(
        **name,
        active_params_b=8.03,
        accelerator="A10G",
        instance_type="g5.48xlarge",
        accelerators=8,
        nodes=1,
        tokens_per_s=Range(low=590.0, mid=600.0, high=610.0),
    )
    measured = work_of(catalog, replace(facts, measured=(run,)), "torchrun --nproc-per-node=1 train.py")
    assert measured.counted_chips == ""
    assert measured.training.tokens_per_s.mid < 2_000
