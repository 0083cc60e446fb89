"""The plans of docs/trainers.md, rendered; those for launchers other than torchrun run with stand-in programs.

A stand-in prints the words that it was given; mpirun's starts its workers as Open MPI does, with the rank in their
environment.
"""

import json
import re
import sys
from textwrap import dedent

import pytest
import yaml

from launcher import plan_file
from launcher.catalog.load import load
from launcher.model.document import document
from launcher.model.enums import CheckpointLayout
from launcher.planning.pin import pinned_plan
from launcher.rendering.batch import JobSettings
from launcher.rendering.bundle import render
from launcher.rendering.names import symbolic_names
from tests.plans import ROOT

PAGE = (ROOT / "docs" / "trainers.md").read_text()
LINES = dict(re.findall(r"^\*\*(\w+)\*\*.*\n\n((?:    .*\n)+)", PAGE, re.MULTILINE))
FRAMEWORKS = PAGE[PAGE.index("## Your framework") : PAGE.index("## Signals at a notice")]
SECTIONS = re.findall(r"^### (.+)\n\n((?:    .+\n)+)\n(.+(?:\n.+)*)", FRAMEWORKS, re.MULTILINE)
JOBS = (ROOT / "tests" / "data" / "public_jobs.yaml").read_text().split("\n---\n")
PRINTS = f"#!{sys.executable}\nimport os, sys\nprint(os.path.basename(sys.argv[0]), *sys.argv[1:], flush=True)\n"
NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR")
PYTHON = f"#!{sys.executable}\nimport os\nprint(*map(os.environ.get, {NAMES}))\n"
MPIRUN = """#!/bin/bash
[[ "$1" == -n ]] && for ((rank = 0; rank < $2; rank++)); do OMPI_COMM_WORLD_LOCAL_RANK=$rank "${@:3}"; done
"""
MEETING = {"SLIPWAY_MASTER_ADDR": "10.1.2.3", "SLIPWAY_MASTER_PORT": "20070", "SLIPWAY_WORKERS_PER_NODE": "2"}
SECOND_OF_TWO = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_NODEID": "1"}

ACCELERATE = (
    "accelerate launch --num_machines 2 --machine_rank 1 --num_processes 4"
    " --main_process_ip 10.1.2.3 --main_process_port 20070 train.py"
)
GOT = {
    "accelerate": [ACCELERATE],
    "composer": ["composer --nproc 2 --world_size 4 --node_rank 1 --master_addr 10.1.2.3 --master_port 20070 train.py"],
    "deepspeed": [
        "deepspeed --hostfile /tmp/hosts-1 --no_ssh --node_rank 1 --master_addr 10.1.2.3 --master_port 20070 train.py"
    ],
    "mpirun": ["2 0 4 10.1.2.3", "3 1 4 10.1.2.3"],
    "ray": ["ray symmetric-run --address 10.1.2.3:20070 --min-nodes 2 -- python train.py"],
}


def rendered(run):
    """The command that the agent is given, of a plan with these lines; a plan that is written out says the same."""
    text = "slipway: 1\nname: x\nworkload: {train: {model: {params_b: 1}, hours: 1}}\n"
    text += "target: {region: us-east-2, instance_type: p5.48xlarge, nodes: 2}\npurchase: {option: on-demand}\n"
    return tuple(job_of(text + run)["command"])


def job_of(text):
    """What the agent is given for a plan."""
    request = plan_file.loads(text)
    assert plan_file.loads(json.dumps(document(request))) == request
    plan = pinned_plan(request, load())
    bundle = render(
        plan,
        instances=load().instance_types,
        names=symbolic_names(plan),
        job=JobSettings(run="r1", checkpoint_interval_s=None),
    )
    (job,) = [file for file in bundle.files if file.path == "job.json"]
    return json.loads(job.text)


@pytest.mark.parametrize("name, plan, text", SECTIONS, ids=[name for name, *_ in SECTIONS])
def test_every_framework_section_has_valid_plan_and_notice_behaviour(name, plan, text):
    plan = dedent(plan)
    keys = yaml.safe_load(plan)
    assert rendered(plan)[-1].strip() == keys["run"]["command"].strip()
    assert "At a notice: " in text.replace("\n", " ")
    (layout,) = re.findall(r"^Layout `([a-z-]+)`", text) or ["auto"]
    assert (layout == "auto") == (keys.get("checkpoint", {}).get("mode") == "own")
    CheckpointLayout(layout)


def test_every_layout_has_framework_section():
    named = {layout for *_, text in SECTIONS for layout in re.findall(r"^Layout `([a-z-]+)`", text)}
    assert named == set(CheckpointLayout) - {CheckpointLayout.AUTO, CheckpointLayout.SLIPWAY}


@pytest.mark.parametrize("text", JOBS, ids=range(1, len(JOBS) + 1))
def test_public_job_file_converts_to_plan(text):
    written_plan, job = yaml.safe_load(text), job_of(text)
    assert job["command"][-1].strip() == written_plan["run"]["command"].strip()
    assert [step["command"][-1] for step in job.get("before", ())] == [
        step["command"] for step in written_plan["run"].get("before", ())
    ]


def test_launcher_page_lists_every_tested_launcher():
    assert sorted(LINES) == sorted(GOT)


@pytest.mark.parametrize("launcher", sorted(GOT))
def test_launcher_command_gets_rank_and_rendezvous(node, launcher):
    programs = node.folder / "bin"
    programs.mkdir()
    script = {"mpirun": MPIRUN}.get(launcher, PRINTS)
    for name, text in {launcher: script, "python": PYTHON}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    run = "\n".join(line[4:] for line in LINES[launcher].splitlines())
    assert yaml.safe_load(run)["run"].keys() == {"command"}
    node.job(command=rendered(run), mode="none", uri=None)
    path = f"{programs}:{node.environment['PATH']}"
    assert node.run(PATH=path, **MEETING, **SECOND_OF_TWO) == 0, node.output()
    assert node.output() == GOT[launcher]


def test_setup_lines_and_shell_text_are_not_substituted(node):
    command = rendered(
        "run: {setup: ['own=1'], command: [sh, -c, 'echo \"$own ${SLIPWAY_NODES}\" $0', '${SLIPWAY_NODE_RANK}']}"
    )
    assert command[-2:] == ('echo "$own ${SLIPWAY_NODES}" $0', "${SLIPWAY_NODE_RANK}")
    node.job(command=("bash", "-c", 'export own=1; exec "$@"', "setup", *command[4:]), mode="none", uri=None)
    assert node.run(**MEETING, **SECOND_OF_TWO) == 0
    assert node.output() == ["1 2 1"]


def test_failing_program_ends_shell_command(node):
    node.job(command=rendered("run: {command: 'false | true; echo on'}"), mode="none", uri=None)
    assert node.run() == 1
    assert node.output() == []
