"""Real frameworks and the recipes: interrupted runs end with the weights of an undisturbed run."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from launcher.workflow.run import disruption
from tests.plans import EXAMPLES, ROOT, laid_over
from tests.waiting import PATIENCE_S

PAGE = (ROOT / "docs" / "trainers.md").read_text(encoding="utf-8")
SECTIONS = {
    name: (plan, text) for name, plan, text in re.findall(r"^### (.+)\n\n((?:    .+\n)+)\n(.+)", PAGE, re.MULTILINE)
}
SCRIPTS = Path(__file__).parent / "trainers"
RECIPES = EXAMPLES / "recipes"
HOLD, CRASH = {1: 12, 2: 22}, 25
"""Steps, by the number of nodes: it fails a moment after it has saved twice, and the first of the two has to be stored.
On two nodes a second save proves that the second node writes nothing, before which nothing is stored."""
PLAN = {
    "slipway": 1,
    "name": "trainer",
    "workload": {"train": {"model": {"params_b": 0.0002}, "method": "pretrain", "hours": 0.5}},
    "purchase": {"option": "spot"},
}
SMALL = " --max_steps 60 --save_steps 10 --use_cpu --report_to none"
SHORT = " 60 10"
HUB = ("prepare.py",)
PLAIN = (("kind", "ec2"), ("instance_type", "g6e.8xlarge"))
"""Instances of one chip: on plain instances torchrun starts a rank for each chip."""
COMPILE = ("-c", "from deepspeed.comm.torch import build_shm_op; build_shm_op()")
"""A minute of compiling, for which the ranks would wait in every home of a sandbox anew."""


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A framework of docs/trainers.md, started as its section says, or as the plan of its recipe does.

    `instead` is what is replaced in its command, and by what, `more` are words behind it; `environment` is its own;
    `nodes` and `torchrun` say where torchrun starts it; `prepare`: what its Python runs first; `caught`: it catches the
    notice's signal; `marked`: one of two checkpoints that a failure follows at once is known to be finished; `saves`:
    its first and its last checkpoint; `target`: keys over those of its plan.
    """

    section: str
    recipe: str = ""
    instead: tuple[str, str] = ("", "")
    more: str = ""
    environment: str = "trainers"
    torchrun: bool = False
    prepare: tuple[str, ...] = ()
    caught: bool = False
    marked: bool = True
    saves: tuple[int, int] = (10, 60)
    nodes: tuple[int, ...] = (1, 2)
    target: tuple[tuple[str, str], ...] = ()

    @property
    def python(self):
        return ROOT / f".venv-{self.environment}" / "bin" / "python"

    @property
    def layout(self):
        return re.match("Layout `([a-z-]+)`", SECTIONS[self.section][1])[1]

    @property
    def plan(self):
        if self.recipe:
            return yaml.safe_load((RECIPES / self.recipe / "plan.yaml").read_text(encoding="utf-8"))
        target = {"kind": "parallelcluster", "region": "us-east-2", "instance_type": "p5.48xlarge"}
        return laid_over(PLAN | {"target": target}, yaml.safe_load(SECTIONS[self.section][0]))

    def words(self, nodes):
        """The command, paced, in the framework's environment."""
        starter = f"{self.python} {'-m torch.distributed.run ' if self.torchrun or nodes > 1 else ''}pace.py "
        command = re.sub(r"(torchrun|python) (?=-m|train|pretrain|full)", starter, self.plan["run"]["command"])
        return command.replace(*self.instead) + self.more


STACKS = {
    "hf-jit": Stack(
        section="Hugging Face Trainer",
        instead=("train.py", "hf_trainer.py"),
        more=f"{SMALL} --enable_jit_checkpoint true",
        caught=True,
    ),
    "lightning": Stack(section="Lightning", recipe="lightning", more=SHORT, caught=True),
    "hf": Stack(section="Hugging Face Trainer", instead=("train.py", "hf_trainer.py"), more=SMALL),
    "hf-ec2": Stack(
        section="Hugging Face Trainer", instead=("train.py", "hf_trainer.py"), more=SMALL, target=PLAIN, nodes=(1,)
    ),
    "lightning-ec2": Stack(section="Lightning", recipe="lightning", more=SHORT, caught=True, target=PLAIN, nodes=(2,)),
    "lora": Stack(
        section="Hugging Face Trainer",
        recipe="huggingface-lora",
        more=f"{SMALL} --model model --data sft/train.jsonl",
        prepare=HUB,
        caught=True,
        nodes=(1,),
    ),
    "trl-sft": Stack(section="TRL", more=SMALL, prepare=HUB),
    "trl-dpo": Stack(
        section="TRL",
        recipe="trl-dpo",
        more=f"{SMALL} --model_name_or_path model --dataset_name dpo --bf16 false --learning_rate 0.001",
        prepare=HUB,
    ),
    "accelerate": Stack(section="accelerate", instead=("train.py", "accelerate_loop.py"), marked=False),
    "deepspeed": Stack(
        section="DeepSpeed",
        recipe="deepspeed",
        more=SHORT,
        environment="trainers-deepspeed",
        prepare=COMPILE,
        torchrun=True,
    ),
    "dcp": Stack(
        section="torchtitan", recipe="torchtitan", more=" --training.steps 60 --checkpoint.interval 10", torchrun=True
    ),
    "megatron": Stack(
        section="Megatron-LM",
        recipe="megatron",
        more=" --train-iters 60 --save-interval 10",
        torchrun=True,
        caught=True,
    ),
    "axolotl": Stack(section="axolotl", environment="trainers-axolotl", prepare=HUB),
    "llamafactory": Stack(
        section="LLaMA-Factory",
        instead=("FORCE_TORCHRUN=1 ", ""),  # the torchrun that it would start is here above it
        environment="trainers-llamafactory",
        prepare=HUB,
        torchrun=True,
    ),
    "torchtune": Stack(
        section="torchtune",
        instead=("full_finetune_distributed.py", "full_finetune_single_device.py"),  # the other refuses CPUs
        environment="trainers-torchtune",
        prepare=("torchtune_parts.py",),
        marked=False,
        saves=(0, 5),
        nodes=(1,),
    ),
}
QUICK = ("hf-jit-1",)
CASES = [
    pytest.param(
        stack,
        nodes,
        id=f"{name}-{nodes}",
        marks=[pytest.mark.xdist_group(name), *([] if f"{name}-{nodes}" in QUICK else [pytest.mark.slow])],
    )
    for name, stack in STACKS.items()
    for nodes in stack.nodes
]


@pytest.fixture
def variables(tmp_path_factory):
    """What every command has: no network, one thread, and what torch compiles is kept for the session."""
    extensions = str(tmp_path_factory.getbasetemp() / "torch-extensions")
    quiet = {"HF_HUB_OFFLINE": "1", "AXOLOTL_DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1"}
    return quiet | {"TORCH_EXTENSIONS_DIR": extensions}


@pytest.fixture
def trainer_work(tmp_path, stack, variables):
    """The scripts, what the frameworks' own programs would have from a hub, and what they would compile."""
    work = shutil.copytree(SCRIPTS, tmp_path / "work")
    if stack.recipe:
        shutil.copytree(RECIPES / stack.recipe, work, dirs_exist_ok=True)
    if stack.prepare:
        command = [stack.python, *stack.prepare]
        subprocess.run(command, cwd=work, env=os.environ | variables, check=True, capture_output=True)
    return work


def alone(stack, nodes, folder, work, variables):
    """The same command without Slipway, a process for each node."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for rank in range(nodes):
        environment = {"SLIPWAY_CHECKPOINT_DIR": str(folder / f"alone{rank}"), "SLIPWAY_NODES": str(nodes)}
        environment |= {"PET_NNODES": str(nodes), "PET_NODE_RANK": str(rank), "PET_MASTER_ADDR": "127.0.0.1"}
        environment |= {"SLIPWAY_NODE_RANK": str(rank), "SLIPWAY_MASTER_ADDR": "", "SLIPWAY_MASTER_PORT": ""}
        environment |= {"PET_MASTER_PORT": str(port), **variables}
        (folder / f"alone{rank}").mkdir()
        command = ["bash", "-c", stack.words(nodes)]
        started.append(
            subprocess.Popen(
                command,
                cwd=work,
                env=os.environ | environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    return started


def train(text):
    """The digests of weights in a log."""
    return {line.split()[1] for line in text.splitlines() if line.startswith("trained ")}


@pytest.mark.trainers
@pytest.mark.parametrize("stack, nodes", CASES)
def test_framework_trainer_resumes_to_undisturbed_result(  # noqa: PLR0917
    stack, nodes, tmp_path, trainer_work, variables, monkeypatch, slipway
):
    processes = alone(stack, nodes, tmp_path, trainer_work, variables)
    environment = {"PACE_HOLD": str(HOLD[nodes]), "PACE_CRASH": str(CRASH), **variables}
    run = {"command": stack.words(nodes), "workdir": str(trainer_work), "retries": 1, "env": environment, "setup": []}
    checkpoint = {"interval": 60, "keep": 3, "grace_seconds": 60 if stack.caught else 5}
    changes = {"target": {"nodes": nodes, **dict(stack.target)}, "checkpoint": checkpoint, "run": run}
    (tmp_path / "plan.yaml").write_text(json.dumps(laid_over(stack.plan, changes)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(disruption, "WITHOUT_CHECKPOINT_S", PATIENCE_S)  # some take a minute to be imported
    ended = slipway("launch", "plan.yaml", "--sandbox", "--yes", "--interrupt-after", "0.1", "--json")
    undisturbed = "".join(process.communicate()[0] for process in processes)
    logs = [path.read_text() for path in sorted(tmp_path.glob(".slipway/**/logs/attempt-*.log"))]
    sys.stdout.write("\n".join([ended.err, *logs, undisturbed]))  # shown where it fails
    assert ended.code == 0
    first, second, third = json.loads(ended.out)["attempts"]
    ends = [attempt["ended_by"] for attempt in (first, second, third)]
    assert ends == ["spot-interruption", "failure", "completed"]
    saved = second["resumed_from_step"], third["resumed_from_step"], third["last_step"]
    assert stack.saves[0] <= saved[0] <= saved[1] < saved[2] == stack.saves[1]
    assert not stack.marked or saved[0] < saved[1]
    assert f"checkpoint-layout layout={stack.layout}" in logs[0]
    assert ("signal-not-handled" in logs[0]) != stack.caught
    for event in ("checkpoints-not-recognised", "checkpoint-removed"):
        assert event not in "".join(logs)
    assert "output-missing" not in logs[2]
    assert train(logs[2]) == train(undisturbed) != set()
