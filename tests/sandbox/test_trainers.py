"""Real frameworks and the recipes: interrupted, failing on the same nodes, to the weights of an undisturbed run."""

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
HOLD, CRASH, SAVED_BEFORE = 12, 25, 10
"""Steps: it fails a moment after it has saved twice, and the first of the two has to be stored."""
PLAN = {
    "slipway": 1,
    "name": "trainer",
    "workload": {"train": {"model": {"params_b": 0.0002}, "method": "pretrain", "hours": 0.5}},
    "purchase": {"option": "spot"},
}
QUIET = {"HF_HUB_OFFLINE": "1", "AXOLOTL_DO_NOT_TRACK": "1"}
SMALL = " --max_steps 60 --save_steps 10 --use_cpu --report_to none"
SHORT = " 60 10"


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A framework of docs/trainers.md, started as its section says, or as the plan of its recipe does.

    `instead` is what is replaced in its command, and by what, `more` are words behind it; `environment` is its own;
    `nodes` and `torchrun` say where torchrun starts it; `hub`: it takes what a hub has; `caught`: it catches the
    notice's signal; `marked`: one of two checkpoints that a failure follows at once is known to be finished.
    """

    section: str
    recipe: str = ""
    instead: tuple[str, str] = ("", "")
    more: str = ""
    environment: str = "trainers"
    torchrun: bool = False
    hub: bool = False
    caught: bool = False
    marked: bool = True
    nodes: tuple[int, ...] = (1, 2)

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
        command = re.sub(r"(torchrun|python) (?=-m|train|pretrain)", starter, self.plan["run"]["command"])
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
    "lora": Stack(
        section="Hugging Face Trainer",
        recipe="huggingface-lora",
        more=f"{SMALL} --model model --data sft/train.jsonl",
        hub=True,
        caught=True,
        nodes=(1,),
    ),
    "trl-sft": Stack(section="TRL", more=SMALL, hub=True),
    "trl-dpo": Stack(
        section="TRL",
        recipe="trl-dpo",
        more=f"{SMALL} --model_name_or_path model --dataset_name dpo --bf16 false --learning_rate 0.001",
        hub=True,
        nodes=(1,),
    ),
    "accelerate": Stack(section="accelerate", instead=("train.py", "accelerate_loop.py"), marked=False),
    "deepspeed": Stack(
        section="DeepSpeed", recipe="deepspeed", more=SHORT, environment="trainers-deepspeed", torchrun=True
    ),
    "dcp": Stack(
        section="torchtitan",
        recipe="torchtitan",
        more=" --training.steps 60 --checkpoint.interval 10",
        torchrun=True,
    ),
    "megatron": Stack(
        section="Megatron-LM",
        recipe="megatron",
        more=" --train-iters 60 --save-interval 10",
        torchrun=True,
        caught=True,
    ),
    "axolotl": Stack(section="axolotl", environment="trainers-axolotl", hub=True, nodes=(1,)),
    "llamafactory": Stack(section="LLaMA-Factory", environment="trainers-llamafactory", hub=True, nodes=(1,)),
}
QUICK = ("hf-jit-1", "lightning-1")
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
def work(tmp_path, stack):
    """The scripts, and what the frameworks' own programs would have from a hub."""
    work = shutil.copytree(SCRIPTS, tmp_path / "work")
    if stack.recipe:
        shutil.copytree(RECIPES / stack.recipe, work, dirs_exist_ok=True)
    if stack.hub:
        subprocess.run([stack.python, "prepare.py"], cwd=work, check=True, capture_output=True)
    return work


def alone(stack, nodes, folder, work):
    """The same command without Slipway, a process for each node."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for rank in range(nodes):
        own = {"SLIPWAY_CHECKPOINT_DIR": str(folder / f"alone{rank}"), "SLIPWAY_NODES": str(nodes)}
        own |= {"PET_NNODES": str(nodes), "PET_NODE_RANK": str(rank), "PET_MASTER_ADDR": "127.0.0.1"}
        own |= {"SLIPWAY_NODE_RANK": str(rank), "SLIPWAY_MASTER_ADDR": "", "SLIPWAY_MASTER_PORT": ""}
        own |= {"PET_MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", **QUIET}
        (folder / f"alone{rank}").mkdir()
        words = ["bash", "-c", stack.words(nodes)]
        started.append(
            subprocess.Popen(
                words, cwd=work, env=os.environ | own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    return started


def trained(text):
    """The digests of weights in a log."""
    return {line.split()[1] for line in text.splitlines() if line.startswith("trained ")}


@pytest.mark.trainers
@pytest.mark.parametrize("stack, nodes", CASES)
def test_it_ends_as_if_nothing_had_been(stack, nodes, tmp_path, work, monkeypatch, slipway):  # noqa: PLR0917
    processes = alone(stack, nodes, tmp_path, work)
    own = {"PACE_HOLD": str(HOLD), "PACE_CRASH": str(CRASH), "OMP_NUM_THREADS": "1", **QUIET}
    run = {"command": stack.words(nodes), "workdir": str(work), "retries": 1, "env": own, "setup": []}
    checkpoint = {"interval": 60, "keep": 3, "grace_seconds": 60 if stack.caught else 5}
    changes = {"target": {"nodes": nodes}, "checkpoint": checkpoint, "run": run}
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
    assert SAVED_BEFORE <= second["resumed_from_step"] <= third["resumed_from_step"] < third["last_step"] == 60
    assert not stack.marked or second["resumed_from_step"] < third["resumed_from_step"]
    assert f"checkpoint-layout layout={stack.layout}" in logs[0]
    assert ("signal-not-handled" in logs[0]) != stack.caught
    for said in ("checkpoints-not-recognised", "checkpoint-removed"):
        assert said not in "".join(logs)
    assert "output-missing" not in logs[2]
    assert trained(logs[2]) == trained(undisturbed) != set()
