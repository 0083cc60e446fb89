import csv
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

import launcher
from benchmarks.training_rows import read_rows
from launcher.model.document import document
from launcher.model.enums import Stack
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from launcher.workflow.quote.trainer_stack import MAX_BYTES, with_trainer
from tests.plans import request_of

DATA = Path(launcher.__file__).parent / "catalog" / "data" / "training"
NOW = datetime(2026, 11, 23, tzinfo=UTC)
PLAN = """
slipway: 1
name: told
workload: {train: {model: llama-3.1-8b, method: METHOD, tokens_b: 0.1}}
target: {kind: parallelcluster, region: us-east-1, instance_type: p4d.24xlarge, nodes: 1}
purchase: {option: on-demand}
run: {command: COMMAND}
"""


def priced(folder, command, files=(), method="full"):
    for name, text in dict(files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    path = folder / "plan.yaml"
    path.write_text(PLAN.replace("METHOD", method).replace("COMMAND", json.dumps(command)), encoding="utf-8")
    return price(path, NOW, PriceOptions())


@pytest.mark.parametrize("make", ["device", "pipe", "outside", "huge"])
@pytest.mark.parametrize("name", ["train.py", "loop.py"])
def test_irregular_trainer_file_is_ignored(tmp_path, make, name):
    (tmp_path / "work").mkdir()
    (tmp_path / "outside.py").write_text("import trl")
    (tmp_path / "work" / "train.py").write_text("import loop")
    path = tmp_path / "work" / name
    path.unlink(missing_ok=True)
    if make == "pipe":
        os.mkfifo(path)
    elif make == "huge":
        path.write_text("import trl\n" + "#" * MAX_BYTES)
    else:
        path.symlink_to("/dev/zero" if make == "device" else tmp_path / "outside.py")
    found = priced(tmp_path / "work", ["python", "train.py"])
    assert "stack-inferred" not in {finding.code for finding in found.findings}


@pytest.mark.parametrize(
    "command,files,stack",
    [
        (["python", "train.py"], {"train.py": "from trl import SFTTrainer"}, Stack.HUGGINGFACE),
        (["python", "train.py"], {"train.py": "from transformers import Trainer, AutoModel"}, Stack.HUGGINGFACE),
        (["torchrun", "train.py"], {"train.py": "import loop", "loop.py": "import peft"}, Stack.HUGGINGFACE),
        (["bash", "run.sh"], {"run.sh": "set -e\nexec axolotl train a.yaml"}, Stack.HUGGINGFACE),
        ("accelerate launch \\\n  train.py && true", {"train.py": ""}, Stack.HUGGINGFACE),
        (["python", "train.py"], {"train.py": "import unsloth"}, Stack.HUGGINGFACE),
        (["automodel", "finetune", "llm", "-c", "a.yaml"], {}, Stack.TUNED),
        (["ilab", "model", "train"], {}, Stack.HUGGINGFACE),
        (["torchrun", "-m", "torchtitan.train"], {}, Stack.FRAMEWORK),
        (["python", "t.py"], {"t.py": "from torch.distributed.fsdp import fully_shard"}, Stack.FRAMEWORK),
        (["python", "train.py"], {"train.py": "from megatron.core import parallel_state"}, Stack.TUNED),
        (["python", "train.py"], {"train.py": "from transformers import AutoTokenizer\nimport torch"}, None),
        (["python", "train.py"], {"train.py": "import trl ("}, None),
        (["python", "train.py"], {}, None),
    ],
)
def test_stack_is_inferred_from_command_and_imports(tmp_path, command, files, stack):
    priced_plan = priced(tmp_path, command, files)
    written = document(priced_plan.quote(1).plan.request)["workload"]["train"]["stack"]
    assert written == (stack.value if stack else "auto")
    messages = [finding.message for finding in priced_plan.findings if finding.code == "stack-inferred"]
    assert [message.startswith(f"auto is {stack} here") for message in messages] == ([True] if stack else [])


def test_named_stack_stays_and_digest_ignores_file_content_that_changes_no_dollars(tmp_path):
    first = priced(tmp_path, ["python", "train.py"], {"train.py": "from transformers import Trainer"}).digest(1)
    assert priced(tmp_path, ["python", "train.py"], {"train.py": "import trl  # another file"}).digest(1) == first
    one_chip = priced(tmp_path, ["python", "train.py"], {"train.py": "import peft  # no Trainer: one GPU of eight"})
    assert one_chip.digest(1) != first
    named = request_of({"slipway": 1, "name": "a", "workload": {"train": {"tokens_b": 1, "stack": "tuned"}}})
    assert with_trainer(tmp_path / "plan.yaml", named) == (named, ())


def test_key_narrowing_range_is_named(tmp_path):
    def finding_paths(files=()):
        return [finding.path for finding in priced(tmp_path, ["python", "train.py"], files, "lora").findings]

    assert "workload.train.stack" in finding_paths()
    assert finding_paths({"train.py": "import peft"}) == [
        "workload.train.stack"
    ]  # what it was told from, and no question


@pytest.mark.parametrize(
    "framework, package",
    [
        ("NeMo AutoModel", "nemo_automodel.recipes.llm.train_ft"),
        ("Megatron-Bridge", "megatron.bridge"),
        ("MS-SWIFT", "swift.llm"),
        ("Axolotl", "axolotl.cli.train"),
        ("SFTTrainer", "trl"),
        ("training_hub", "training_hub"),
        ("torchtitan", "torchtitan.train"),
        ("LitGPT", "litgpt"),
        ("torchtune", "torchtune"),
        ("XTuner", "xtuner"),
        ("Unsloth", "unsloth"),
    ],
)
def test_trainer_has_the_stack_of_its_published_rows(tmp_path, framework, package):
    """With another one, a user of the trainer gets the figures of another class of jobs."""
    with (DATA / "later_runs.csv").open(encoding="utf-8") as later, (DATA / "judged_runs.csv").open() as judged:
        fields = [row for file in (later, judged) for row in csv.DictReader(file) if framework in row["framework"]]
    names = {row["id"] for row in fields}
    rows = [row for name in ("later_runs.csv", "judged_runs.csv") for row in read_rows(DATA / name)]
    stacks = {row.shape.stack for row in rows if row.id in names}
    priced_plan = priced(tmp_path, ["python", "train.py"], {"train.py": f"import {package}"}, "lora")
    train = document(priced_plan.quote(1).plan.request)["workload"]["train"]
    assert stacks == {Stack(train["stack"])}
