"""What a job's command starts, with the files of its folder."""

import time

import pytest

from launcher import plan_file
from launcher.workflow.quote.trainer_command import job_command
from launcher.workflow.quote.trainer_stack import MAX_FILES

PLAN = """
slipway: 1
name: a
workload: {train: {model: llama-3.1-8b, tokens_b: 1}}
run: {command: COMMAND}
"""


def read(tmp_path, command, **files):
    for name, text in files.items():
        (tmp_path / name.replace("__", ".")).write_text(text)
    return job_command(tmp_path / "plan.yaml", plan_file.loads(PLAN.replace("COMMAND", command)))


@pytest.mark.parametrize(
    "text, chips, nodes",
    [
        ("import torch", False, False),
        ("from transformers import Trainer", True, False),
        ("from trl import SFTTrainer", True, False),
        ("import lightning as L", True, True),
        ("import jax", True, False),
        ("model = torch.nn.DataParallel(model)", True, False),
        ("import torch.multiprocessing as mp", True, False),
        ("import subprocess", True, False),
        ("torch.distributed.init_process_group('nccl')", False, True),
        ("import helper", True, False),
    ],
)
def test_trainer_imports_tell_use_of_chips_and_nodes(tmp_path, text, chips, nodes):
    command = read(tmp_path, "python train.py", train__py=text, helper__py="import jax")
    assert (command.all_chips, command.all_nodes) == (chips, nodes)


@pytest.mark.parametrize(
    "text, packages",
    [
        ("import json\nimport numpy as np\nfrom helper import f", {"numpy", "scipy"}),
        ("from torch.nn import Linear\nimport numpy", {"torch", "numpy"}),
        ("import json", set()),
        ("import numpy, ctypes", set()),
        ("import numpy\nfrom . import net", set()),
        ("import numpy (", set()),
        ("import numpy, broken", set()),
        ("import numpy, outside", set()),
        ("import numpy, folder.part", {"numpy", "folder"}),
    ],
)
def test_packages_of_trainer_are_known_where_every_file_is_read(tmp_path, text, packages):
    (tmp_path / "outside.py").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    command = read(tmp_path, "python train.py", train__py=text, helper__py="import scipy.linalg", broken__py="import (")
    assert command.packages == packages


def test_packages_are_unknown_where_files_are_too_many(tmp_path):
    imports = ", ".join(f"part{number}" for number in range(MAX_FILES))
    parts = {f"part{number}__py": "" for number in range(MAX_FILES)}
    assert read(tmp_path, "python train.py", train__py=f"import numpy, {imports}", **parts).packages == set()
    assert read(tmp_path, "python train.py", train__py="import numpy, part0, part1").packages == {"numpy"}


@pytest.mark.parametrize("line", ["bash run.sh", "./run.sh", "'set -e; bash run.sh --x'"])
def test_commands_of_shell_script_are_read(tmp_path, line):
    command = read(tmp_path, line, run__sh="#!/bin/bash\nset -e\ntorchrun \\\n  --standalone train.py\n")
    assert ("torchrun", "--standalone", "train.py") in [program.words for program in command.programs]


def test_script_with_python_interpreter_is_read_as_trainer(tmp_path):
    command = read(tmp_path, "./train.py --lr 1", train__py="#!/usr/bin/env python\nimport jax")
    assert [program.words for program in command.programs] == [("python", "./train.py", "--lr", "1")]
    assert command.all_chips


def test_setup_variables_apply_to_command_and_scripts(tmp_path):
    run = "{setup: [export CUDA_VISIBLE_DEVICES=0], command: bash run.sh}"
    (tmp_path / "run.sh").write_text("torchrun train.py\n")
    request = plan_file.loads(PLAN.replace("{command: COMMAND}", run))
    (program,) = job_command(tmp_path / "plan.yaml", request).programs
    assert (program.name, program.variables) == ("torchrun", {"CUDA_VISIBLE_DEVICES": "0"})


@pytest.mark.parametrize(
    "line",
    [
        'HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)\nmkdir out\ncd src\nbash "$HERE/a.sh"\n',
        'cd "$(dirname "$0")"\nbash a.sh\n',
        'bash "$(dirname $(readlink -f $0))/a.sh"\n',
        'cd $(dirname $(dirname "$0"))\nbash s/a.sh\n',
        "(cd src && ls)\nbash s/a.sh\n",
        "cd src || exit 1\nbash ../s/a.sh\n",
    ],
)
def test_script_is_found_from_the_folder_where_the_shell_is(tmp_path, line):
    (tmp_path / "src").mkdir()
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "run.sh").write_text(line)
    (tmp_path / "s" / "a.sh").write_text(FOUR)
    assert FOUR.split() in [[*program.words] for program in read(tmp_path, "bash s/run.sh").programs]


def test_setup_folder_is_the_one_of_the_command(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.sh").write_text(FOUR)
    request = plan_file.loads(PLAN.replace("{command: COMMAND}", "{setup: [cd src], command: bash a.sh}"))
    assert FOUR.split() in [[*program.words] for program in job_command(tmp_path / "plan.yaml", request).programs]


def test_missing_script_leaves_command_unchanged(tmp_path):
    command = read(tmp_path, "python train.py")
    assert [program.words for program in command.programs] == [("python", "train.py")]
    assert not command.all_chips


FOUR = "torchrun --nproc_per_node 4 train.py"


@pytest.mark.parametrize(
    "run, files",
    [
        ("bash run.sh", {"run.sh": "source env.sh\ntorchrun --nproc_per_node $N train.py\n", "env.sh": "export N=4\n"}),
        ("bash run.sh", {"run.sh": "N=4 bash inner.sh\n", "inner.sh": FOUR}),
        (
            "./launch",
            {"launch": "#!/usr/bin/env bash\ncd sub\nsh ./go\n", "sub/go": FOUR},
        ),
        (
            "./launch",
            {"launch": '#!/bin/bash\ncd "$(dirname "$0")"\n. ./go', "go": FOUR},
        ),
    ],
)
def test_programs_behind_several_scripts_are_read(tmp_path, run, files):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    programs = [program.words for program in read(tmp_path, run).programs]
    assert ("torchrun", "--nproc_per_node", "4", "train.py") in programs


def test_variables_of_plan_and_files_of_folder_are_known(tmp_path):
    (tmp_path / "a.yaml").write_text("num_machines: 1\n")
    request = plan_file.loads(
        PLAN.replace("{command: COMMAND}", "{env: {F: a.yaml}, command: accelerate launch --config_file $F t.py}")
    )
    (program,) = job_command(tmp_path / "plan.yaml", request).programs
    assert (program.words[3], program.files) == ("a.yaml", (("a.yaml", "num_machines: 1\n"),))


def test_number_of_spawned_processes_is_read(tmp_path):
    assert read(tmp_path, "python train.py", train__py="xmp.spawn(train,\n  args=(1,), nprocs=1)\n").spawned == 1
    assert read(tmp_path, "python train.py", train__py="xmp.spawn(train, nprocs=None)\n").spawned is None


@pytest.mark.parametrize(
    "module", ["maxtext.trainers.pre_train.train", "verl.trainer.main_ppo", "levanter.main.train_lm"]
)
def test_module_that_drives_all_chips_is_known_by_its_package(tmp_path, module):
    command = read(tmp_path, f"python -m {module} a.yaml")
    assert (command.all_chips, command.all_nodes) == (True, True)


@pytest.mark.parametrize(
    "run, files",
    [
        (
            "[make, train]",
            {"Makefile": "all:\n\techo\ntrain: data\n\t@torchrun --nproc_per_node 4 train.py\ndata:\n\tls\n"},
        ),
        ("make -j go", {"Makefile": "all:\n\techo\ngo:\n\ttorchrun --nproc_per_node 4 train.py\n"}),
        ("make", {"makefile": "N ?= 4\nPY := train.py\nrun:\n\ttorchrun --nproc_per_node $(N) ${PY}\n"}),
        (
            "make -C sub -j 4 go N=4",
            {"sub/Makefile": "N = 8\ngo: t\nt:\n\ttorchrun \\\n\t  --nproc_per_node $(N) train.py\n"},
        ),
        (
            "make a",
            {"Makefile": "a:\n\t$(MAKE) -f b.mk b\n", "b.mk": "b:\n\tN=4; torchrun --nproc_per_node $$N train.py\n"},
        ),
        (
            "bash go.sh",
            {"go.sh": "make t\n", "Makefile": "t:\n\tbash t.sh\n", "t.sh": "torchrun --nproc_per_node 4 train.py"},
        ),
        (
            "make",
            {
                "Makefile": "include mk/t.mk Makefile\n",
                "mk/t.mk": "N = 4\nt:\n\ttorchrun --nproc_per_node $(N) train.py\n",
            },
        ),
        (
            "just t",
            {"justfile": "import 'x.just'\n", "x.just": "t:\n  torchrun --nproc_per_node 4 train.py\n"},
        ),
        (
            "just train",
            {"justfile": 'n := "4"\n\ntrain: prep\n    torchrun --nproc_per_node {{n}} train.py\nprep:\n    ls\n'},
        ),
        ("just --set n 4 train", {"justfile": "n := '8'\ntrain:\n  torchrun --nproc_per_node {{n}} train.py\n"}),
        ("just train 4", {"justfile": "train n:\n  torchrun --nproc_per_node {{n}} train.py\n"}),
        (
            "just train a",
            {"justfile": "train to n='4' *rest:\n  torchrun --nproc_per_node {{n}} train.py\n"},
        ),
        (
            "just train",
            {
                "justfile": "set dotenv-load\ntrain:\n  torchrun --nproc_per_node $N train.py\n",
                ".env": '# chips\nexport N="4"\n',
            },
        ),
        (
            "just -E a.env train",
            {"justfile": "train:\n  torchrun --nproc_per_node $N train.py\n", "a.env": "N=4 # all\n"},
        ),
        (
            "task train",
            {
                "Taskfile.yml": "dotenv: [.env]\ntasks:\n  train: 'torchrun --nproc_per_node $N train.py'\n",
                ".env": "N=4\r\n",
            },
        ),
        ("just", {"Justfile": "# first\ngo *args: t\n\nt:\n  @torchrun --nproc_per_node 4 train.py\n"}),
        (
            "task train",
            {
                "Taskfile.yml": "version: '3'\nvars: {N: 4}\ntasks:\n  train:\n    cmds: [task: t]\n"
                "  t: 'torchrun --nproc_per_node {{.N}} train.py'\n"
            },
        ),
    ],
)
def test_recipe_of_make_just_or_task_is_read(tmp_path, run, files):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    programs = [program.words for program in read(tmp_path, run).programs]
    assert ("torchrun", "--nproc_per_node", "4", "train.py") in programs


FUNCTION = 'run() {\n  local n=$1; shift\n  torchrun --nproc_per_node $n "$@"\n}\n'


@pytest.mark.parametrize(
    "command, files",
    [
        ("'run() { torchrun --nproc_per_node $1 train.py; }; run 4'", {}),
        ("bash run.sh", {"run.sh": f"{FUNCTION}run 4 train.py\n"}),
        ("bash run.sh", {"run.sh": "source lib.sh\nif true; then\n  run 4 train.py\nfi\n", "lib.sh": FUNCTION}),
        (
            "bash run.sh",
            {"run.sh": "function b {\n  a 8\n}\na() {\n  torchrun --nproc_per_node $1 train.py; }\na 4\n"},
        ),
        (
            "bash run.sh",
            {"run.sh": "main() {\n  go $1 train.py\n}\ngo() { torchrun --nproc_per_node $1 $2; }\nmain 4\n"},
        ),
        ("bash run.sh 4", {"run.sh": "torchrun --nproc_per_node ${1:-8} train.py\n"}),
        ("bash run.sh torchrun --nproc_per_node 4 train.py", {"run.sh": 'set -e\nexec "$@"\n'}),
        ("[bash, -c, 'torchrun --nproc_per_node $1 train.py', _, '4']", {}),
        ("bash -lc 'torchrun --nproc_per_node 4 train.py'", {}),
        ("bash run.sh", {"run.sh": "set -- 4\ntorchrun --nproc_per_node $1 train.py\n"}),
    ],
)
def test_argument_of_shell_function_or_script_is_read(tmp_path, command, files):
    programs = [program.words for program in read(tmp_path, command, **files).programs]
    assert ("torchrun", "--nproc_per_node", "4", "train.py") in programs


@pytest.mark.parametrize(
    "text",
    [
        # Arguments that only the run knows, and a function that nothing calls by its name.
        "run() { torchrun --nproc_per_node $1 train.py; }\nfor n in 4 8; do run $n; done\n",
        'run() { torchrun --nproc_per_node $1 train.py; }\nrun "$(nproc)"\n',
        'run() { torchrun --nproc_per_node $1 train.py; }\n"r""un" 4\n',
        "run() { run $1; }\nrun 4\ntorchrun --nproc_per_node $1 train.py\n",
    ],
)
def test_argument_that_only_the_shell_knows_stays_unknown(tmp_path, text):
    (tmp_path / "run.sh").write_text(text)
    words = {program.words for program in read(tmp_path, "'exec bash run.sh $OPTIONS'").programs}
    assert not {word for line in words for word in line if word in {"4", "8"} and line[0] == "torchrun"}


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"f{i}() {{ f{i + 1}; f{i + 1}; }}\n" for i in range(40)) + "f40() { torchrun a.py; }\nf0\n",
        "a() { a; b; }\nb() { b; a; }\na\n",
        "x() {\n" * 8000 + "x\n",
        "".join(f'f{i}() {{ f{i + 1} "$@" "$@"; }}\n' for i in range(40)) + "f0 x x\n",
        "A=x\n" + "A=$A$A\n" * 9000 + "torchrun $A a.py\n",
        "A=x\n" + "if a; then A+=$A; A+=b; fi\n" * 2000 + "torchrun $A a.py\n",
        "if a; then\n" * 5000,
        "cd a\n" * 4000,
        "".join(f"A{i}=1\n" for i in range(3000)) + "(b)\n" * 4000,
        "A='eval $A; eval $A'\neval $A\n",
        "echo " + "$(" * 9000 + ")" * 9000,
    ],
    ids=[
        *("calls", "recursion", "braces", "words", "values", "choices", "blocks", "folders", "subshells", "eval"),
        "substitutions",
    ],
)
def test_text_without_end_is_read_in_seconds(tmp_path, text):
    began = time.process_time()
    read(tmp_path, "bash run.sh", run__sh=text)
    assert time.process_time() - began < 8.0


@pytest.mark.parametrize(
    "command",
    [
        "uv run --env-file a.env torchrun train.py",
        "[uv, run, --env-file=a.env, torchrun, train.py]",
        "dotenv -f a.env run -- torchrun train.py",
        "'export $(grep -v ^# a.env | xargs) && torchrun train.py'",
        "'env $(cat a.env) torchrun train.py'",
        "'set -a; source a.env; set +a; torchrun train.py'",
        "'set -o allexport\n\n. ./a.env\n\ntorchrun train.py'",
        "docker run --gpus all --env-file a.env image torchrun train.py",
    ],
)
def test_variables_of_an_environment_file_reach_the_program(tmp_path, command):
    programs = read(tmp_path, command, a__env="# one chip\nCUDA_VISIBLE_DEVICES=0\nNAME='a b'\n").programs
    (program,) = [program for program in programs if program.name == "torchrun"]
    assert program.variables["CUDA_VISIBLE_DEVICES"] == "0"


@pytest.mark.parametrize(
    "command", ["'source a.env; torchrun train.py'", "'cat a.env; torchrun train.py'", "torchrun train.py"]
)
def test_variables_that_are_not_exported_do_not_reach_the_program(tmp_path, command):
    programs = read(tmp_path, command, a__env="CUDA_VISIBLE_DEVICES=0\n").programs
    assert not [program for program in programs if program.name == "torchrun" and program.variables]


@pytest.mark.parametrize(
    "text",
    [
        "ifdef A\nN = 4\nelse\nN = 8\nendif\nt:\n\ttorchrun --nproc_per_node $(N) a.py\n",
        "ifdef DEBUG\nN = 1\nendif\nN ?= 8\nt:\n\ttorchrun --nproc_per_node $(N) a.py\n",
        "N = 8\nifdef DEBUG\nN = 1\nendif\nt:\n\ttorchrun --nproc_per_node $(N) a.py\n",
        "N = $(shell nproc)\nt:\n\ttorchrun --nproc_per_node $(N) a.py\n",
        "t: t\n\ttorchrun --nproc_per_node $(words a b) a.py\n\tmake t\n",
    ],
)
def test_value_that_only_make_knows_stays_unknown(tmp_path, text):
    (tmp_path / "Makefile").write_text(text)
    (words,) = {program.words for program in read(tmp_path, "make t").programs if program.name == "torchrun"}
    assert words[2] == "$?"


def test_makefile_value_that_doubles_with_every_line_becomes_unknown(tmp_path):
    values = "".join(f"V{index} = $(V{index - 1})$(V{index - 1})\n" for index in range(1, 40))
    (tmp_path / "Makefile").write_text(f"V0 = train.py\n{values}t:\n\ttorchrun $(V1) $(V39)\n")
    (words,) = {program.words for program in read(tmp_path, "make t").programs if program.name == "torchrun"}
    assert words[1] == "train.pytrain.py"
    assert words[2].startswith("$?")
    assert len(words[2]) < 10_000


def test_chain_of_3000_make_targets_is_read_to_its_end(tmp_path):
    chain = "".join(f"t{index}: t{index + 1}\n" for index in range(3000))
    (tmp_path / "Makefile").write_text(f"{chain}t3000:\n\ttorchrun a.py\n")
    assert [program.name for program in read(tmp_path, "make t0").programs] == ["make", "torchrun"]


@pytest.mark.parametrize("line, run", [("include m{}.mk\n", "make -f m0.mk t"), ("source m{}.mk\n", "bash m0.mk")])
def test_files_that_read_others_many_times_are_inserted_at_most_40_times(tmp_path, line, run):
    for index in range(8):
        (tmp_path / f"m{index}.mk").write_text(line.format(index + 1) * 20)
    (tmp_path / "m8.mk").write_text("t:\n\ttorchrun a.py\n")
    started = [program.name for program in read(tmp_path, run).programs]
    assert started.count("torchrun") <= 40


def test_target_that_no_file_has_starts_nothing(tmp_path):
    (tmp_path / "Makefile").write_text("t:\n\ttorchrun a.py\n")
    assert [program.name for program in read(tmp_path, "make other").programs] == ["make"]
