"""Chips that a job's command leaves without work: its launcher's options, compared with the nodes of a plan.

Slipway starts the command once on each node, and gives torchrun the nodes and workers in PET_* variables. A word that
only the shell knows says nothing, and nothing is concluded from it.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from launcher.model.finding import Finding, info, warning
from launcher.model.units import number_of
from launcher.planning.job_command import CODE, TOO_MANY, JobCommand, Program, runs_a_script, with_value
from launcher.planning.launchers import CandidateNodes, LauncherUse, Stated, device_count, launcher_use

DEVICES = ("CUDA_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES")
CORES = "NEURON_RT_NUM_CORES"
"""NeuronCores of each process (Neuron documentation, runtime configuration)."""
_FIXES = {
    "accelerate": (
        "--num_machines $SLIPWAY_NODES --machine_rank $SLIPWAY_NODE_RANK --main_process_ip $SLIPWAY_MASTER_ADDR"
        " --main_process_port $SLIPWAY_MASTER_PORT --num_processes $((SLIPWAY_NODES * SLIPWAY_WORKERS_PER_NODE))"
    ),
    "deepspeed": "torchrun starts the same trainer on all nodes without options; docs/trainers.md has deepspeed's own",
    "composer": "--world_size $((SLIPWAY_NODES * SLIPWAY_WORKERS_PER_NODE)) --node_rank $SLIPWAY_NODE_RANK",
    "fabric": (
        "--num-nodes $SLIPWAY_NODES --node-rank $SLIPWAY_NODE_RANK --main-address $SLIPWAY_MASTER_ADDR"
        " --main-port $SLIPWAY_MASTER_PORT --devices $SLIPWAY_WORKERS_PER_NODE"
    ),
    "llamafactory-cli": "NNODES=$SLIPWAY_NODES NODE_RANK=$SLIPWAY_NODE_RANK MASTER_ADDR=$SLIPWAY_MASTER_ADDR before it",
    "mpirun": "give each worker its rank among all nodes, as docs/trainers.md shows for mpirun",
    "axolotl": "torchrun -m axolotl.cli.train and the same file",
    "colossalai": "torchrun starts the same trainer on all nodes without options",
    "horovodrun": "torchrun starts a PyTorch trainer on all nodes without options",
}
"""How each launcher uses all nodes (docs/trainers.md)."""
_WITHOUT_CHIPS = frozenset(
    [
        *("boto3", "botocore", "matplotlib", "numpy", "pandas", "requests", "s3fs", "scipy", "sklearn", "statsmodels"),
        *("tqdm", "yaml"),
    ]
)
"""Packages that use no accelerator by themselves."""
_MOST_CHOICES = 4
_LIKE = {"lightning": "fabric", "mpiexec": "mpirun", "mpiexec.hydra": "mpirun"}
_DEFAULT_FIX = "leave --nnodes, --node-rank and --standalone out: Slipway sets them for torchrun"


def idle_findings(command: JobCommand, variables: Mapping[str, str], nodes: CandidateNodes) -> Iterator[Finding]:
    """A finding for each launcher that uses fewer chips than the plan pays for, or asks for more than there are.

    `variables` are the plan's, `run.env`.
    """
    if nodes.workers == 0:
        return
    certain = list(_findings(command, variables, nodes))
    yield from certain
    messages = {finding.message for finding in certain}
    for (where, name), values in _choices(command).items():
        for value in values[:_MOST_CHOICES]:
            programs = tuple(with_value(program, name, value) for program in command.programs)
            for finding in _findings(replace(command, programs=programs), variables, nodes):
                if finding.message not in messages:
                    messages.add(finding.message)
                    every = " or ".join(each or "nothing" for each in values)
                    note = f"; it depends on a condition: {where} gives {name} {every}"
                    yield replace(finding, message=finding.message + note)


def working(command: JobCommand, variables: Mapping[str, str], nodes: CandidateNodes) -> tuple[int, int] | None:
    """The nodes that train together and the processes of each; None if all chips work, or if the command does not tell.

    Of several launchers the one with the most processes counts. A trainer without a launcher counts if all its files
    were read, and none starts processes. `variables` are the plan's, `run.env`.
    """
    if nodes.workers == 0 or any(program.choices for program in command.programs):
        return None
    uses = [use for program in command.programs if (use := launcher_use(program, variables, nodes)) is not None]
    if any(use.program.in_branch or use.program.srun for use in uses):
        return None
    counts = [_processes(use, variables, nodes) for use in uses] or list(_own_processes(command, variables, nodes))
    together, each = max(counts, key=math.prod, default=(nodes.count, nodes.workers))
    idle = 0 < together * each < nodes.count * nodes.workers
    return (together, each) if idle else None


def _processes(use: LauncherUse, variables: Mapping[str, str], nodes: CandidateNodes) -> tuple[int, int]:
    """The nodes that a launcher joins and the processes of each; all of them where its words tell no number."""
    joined = None if use.joined is None else use.joined.number
    together = nodes.count if joined is None else min(joined, nodes.count)
    each = nodes.workers
    if use.total is not None and use.total.number is not None:
        each = min(each, -(-use.total.number // max(together, 1)))
    if use.per_node is not None and use.per_node.number is not None:
        each = min(each, use.per_node.number)
    return together, min(each, _visible(use.program, variables, nodes))


def _own_processes(
    command: JobCommand, variables: Mapping[str, str], nodes: CandidateNodes
) -> Iterator[tuple[int, int]]:
    """The nodes and processes of a trainer without a launcher; nothing if they are unknown."""
    alone = [program for program in command.programs if runs_a_script(program)][-1:]
    if not alone or alone[0].srun or alone[0].in_branch:
        return
    read = bool(command.packages) and not command.packages <= _WITHOUT_CHIPS
    each = command.spawned or (1 if read and not command.all_chips else nodes.workers)
    together = 1 if read and not command.all_nodes and not command.all_chips else nodes.count
    yield together, min(each, _visible(alone[0], variables, nodes))


def _visible(program: Program, variables: Mapping[str, str], nodes: CandidateNodes) -> int:
    """The chips or NeuronCores of a node that a program may use."""
    name = DEVICES[nodes.noun == "NeuronCore"]
    count = device_count(program.variables.get(name, variables.get(name, "")))
    return nodes.workers if count is None else min(count, nodes.workers)


def _choices(command: JobCommand) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """The values of each variable with several, by the text that sets it and its name."""
    return {(program.where, name): values for program in command.programs for name, values in program.choices}


def _findings(command: JobCommand, variables: Mapping[str, str], nodes: CandidateNodes) -> Iterator[Finding]:
    """The findings on the programs of a command as they are."""
    uses = [use for program in command.programs if (use := launcher_use(program, variables, nodes)) is not None]
    found = [(use, [*_compare(use, nodes), *_same_ranks(use, nodes)]) for use in uses]
    for use, findings in found:
        for finding in findings:
            in_all = all(finding.message in {other.message for other in others} for _, others in found)
            note = "" if in_all or not use.program.in_branch else f"; it depends on a condition in {use.program.where}"
            if in_all or not use.program.for_its_nodes:
                yield replace(finding, message=finding.message + note)
    for program in command.programs:
        yield from _steps(program, nodes)
    alone = [program for program in command.programs if runs_a_script(program)][-1:]
    if not uses and alone and not alone[0].srun:
        yield from _single(alone[0], command, nodes)
    for use in uses:
        yield from _hidden_chips(use.program, variables, nodes, use.per_node.number if use.per_node else nodes.workers)
    for program in [] if uses else alone:
        yield from _hidden_chips(program, variables, nodes, None if command.all_chips else 1)


def _compare(use: LauncherUse, nodes: CandidateNodes) -> Iterator[Finding]:
    """Findings on one launcher: nodes that do not join, processes that are too few or too many."""
    where, joined, per_node, total = use.program.where, use.joined, use.per_node, use.total
    together = None if joined is None else joined.number
    if joined is not None and together is not None and together < nodes.count:
        idle = nodes.count - together
        message = f"{joined.text} uses {together} of {nodes.count} nodes: {idle} idle"
        if together == 1:
            message = f"{joined.text} joins no other node: the {nodes.count} nodes train {nodes.count} separate copies"
        message += _dollars(nodes, idle, nodes.count)
        fix = _FIXES.get(_LIKE.get(use.launcher, use.launcher), _DEFAULT_FIX)
        yield warning(CODE, joined.where or where, message, fix)
    elif joined is not None and together is not None and together > nodes.count:
        message = f"{joined.text} waits for {together} nodes, and the plan has {nodes.count}: it never begins"
        yield warning(TOO_MANY, joined.where or where, message, f"target.nodes: {together}, or leave the option out")
    every = nodes.count * nodes.workers
    if total is not None and total.number is not None and (together is None or together == nodes.count):
        if total.number < every:
            yield _fewer(where, total, every, place="", nodes=nodes)
        elif total.number > every:
            yield _more(where, total, every, place=number_of(nodes.count, "node"), nodes=nodes)
    if per_node is not None and per_node.number is not None:
        if per_node.number < nodes.workers:
            yield _fewer(where, per_node, nodes.workers, place=" of each node", nodes=nodes)
        elif per_node.number > nodes.workers:
            yield _more(where, per_node, nodes.workers, place="a node", nodes=nodes)


def _same_ranks(use: LauncherUse, nodes: CandidateNodes) -> Iterator[Finding]:
    """A finding on a rank that is a plain number on several nodes that train together."""
    alone = nodes.count == 1 or (use.joined is not None and use.joined.number == 1)
    if use.rank is not None and use.rank.number is not None and not alone:
        message = f"{use.rank.text} gives each of the {nodes.count} nodes the same rank: they wait for each other"
        fix = _FIXES.get(_LIKE.get(use.launcher, use.launcher), _DEFAULT_FIX)
        yield warning(TOO_MANY, use.rank.where or use.program.where, message, fix)


def _steps(program: Program, nodes: CandidateNodes) -> Iterator[Finding]:
    """Findings on `srun` inside the command, which Slipway starts on every node already."""
    if not program.srun:
        return
    text, number = " ".join(program.srun), re.compile(r"(?:-n|--ntasks|--ntasks-per-node)[= ]?(\d+)(?:\s|$)")
    if nodes.count > 1 and not re.search(r"(?:^|\s)(?:-w|--nodelist)\b", text):
        message = (
            f"{text} starts a job step from each of the {nodes.count} nodes: the command runs on every node already"
        )
        message += ", and the steps train separate copies or wait for each other"
        message += _dollars(nodes, nodes.count - 1, nodes.count)
        yield warning(CODE, program.where, message, "leave srun out")
    elif nodes.count == 1 and runs_a_script(program) and (match := number.search(text)) is not None:
        stated = Stated(number=int(match[1]), text=match[0].strip())
        if stated.number is not None and stated.number < nodes.workers:
            yield _fewer(program.where, stated, nodes.workers, place=" of each node", nodes=nodes)


def _fewer(where: str, stated: Stated, of: int, *, place: str, nodes: CandidateNodes) -> Finding:
    used = stated.number or 0
    idle = of - used
    starts = f"starts {used} process{'es' if used > 1 else ''} for {of}" if used else f"uses none of {of}"
    message = f"{stated.text} {starts} {nodes.noun}s{place}: {idle} idle"
    name, _, value = stated.text.replace("=", " ").partition(" ")
    fix = f"{name} {of}, or leave the option out" if value.isdecimal() else f"use all {of} {nodes.noun}s{place}"
    if used and nodes.noun == "GPU":
        fix += f"; or a type with {number_of(used, nodes.noun)}"
    return warning(CODE, stated.where or where, message + _dollars(nodes, idle, of), fix)


def _more(where: str, stated: Stated, most: int, *, place: str, nodes: CandidateNodes) -> Finding:
    message = f"{stated.text} starts {stated.number} processes on {place} with {most} {nodes.noun}s: the rest"
    message += " find no device"
    return warning(TOO_MANY, stated.where or where, message, f"at most {most}, or leave the option out")


def _dollars(nodes: CandidateNodes, idle: int, of: int) -> str:
    return "" if nodes.usd_per_hour is None else f", ${nodes.usd_per_hour * idle / of:,.0f} an hour"


def _single(program: Program, command: JobCommand, nodes: CandidateNodes) -> Iterator[Finding]:
    """A finding on a trainer without a launcher, of which each node runs one process."""
    if command.spawned is not None and command.spawned < nodes.workers:
        stated = Stated(number=command.spawned, text=f"nprocs={command.spawned} of {program.text}")
        yield _fewer(program.where, stated, nodes.workers, place=" of each node", nodes=nodes)
    if command.packages and command.packages <= _WITHOUT_CHIPS and not command.all_chips:
        total = nodes.count * nodes.workers
        every = f"all {total} {nodes.noun}s are" if total > 1 else f"the {nodes.noun} is"
        message = f"{program.text} imports only {', '.join(sorted(command.packages))}"
        message += f": {every} idle{_dollars(nodes, total, total)}, until {program.where} starts a trainer that"
        message += f" uses {nodes.noun}s"
        # No warning: nothing is wrong with the command, and no launcher would give the chips work.
        yield info(CODE, program.where, message, "or choose target.instance_type by its CPUs")
        return
    chips, whole = not command.all_chips and nodes.workers > 1, not command.all_nodes and nodes.count > 1
    if not chips and not whole:
        return
    total = nodes.count * nodes.workers
    used = (1 if whole else nodes.count) * (1 if chips else nodes.workers)
    effects = [f"{nodes.workers - 1} of {nodes.workers} {nodes.noun}s are idle"] if chips else []
    effects += [f"the {nodes.count} nodes train {nodes.count} separate copies"] if whole else []
    message = f"{program.text} is 1 process a node: unless it starts others, {' and '.join(effects)}"
    fix = f"torchrun {' '.join(program.words[1:])}"
    if command.packages and "torch" not in command.packages:
        fix += ", if it trains with PyTorch"
    if chips and nodes.noun == "GPU":
        fix += "; or a 1-GPU type"
    yield warning(CODE, program.where, message + _dollars(nodes, total - used, total), fix)


def _hidden_chips(
    program: Program, variables: Mapping[str, str], nodes: CandidateNodes, processes: int | None
) -> Iterator[Finding]:
    """Chips that a variable hides from the trainer; `processes` are those of its launcher on each node, if known."""
    for name in DEVICES:
        own = name in program.variables
        value = program.variables.get(name, variables.get(name))
        count = None if value is None else device_count(value)
        every = nodes.chips if name == DEVICES[0] else nodes.workers
        if count is None or count >= every or (name == DEVICES[0]) is (nodes.noun == "NeuronCore"):
            continue
        if count == processes:
            continue  # its launcher has said so
        noun = "chip" if name == DEVICES[0] else nodes.noun
        path = program.where if own else f"run.env.{name}"
        message = f"{name}={value} shows the trainer {count} of {every} {noun}s of each node"
        message += f": {every - count} idle{_dollars(nodes, every - count, every)}"
        yield warning(CODE, path, message, f"leave {name} out")
    cores = program.variables.get(CORES, variables.get(CORES, ""))
    if nodes.noun != "NeuronCore" or not cores.isdecimal():
        return
    path = program.where if CORES in program.variables else f"run.env.{CORES}"
    used = int(cores) * (processes or 1)
    if used < nodes.workers and (processes is None or (processes > 1 and int(cores) > 1)):
        message = f"{CORES}={cores} gives the trainer {used} of {nodes.workers} {nodes.noun}s of each node"
        message += f": {nodes.workers - used} idle{_dollars(nodes, nodes.workers - used, nodes.workers)}"
        yield warning(CODE, path, message, f"leave {CORES} out")
    elif used > nodes.workers and processes is not None:
        message = f"{CORES}={cores} gives {processes} processes {used} {nodes.noun}s, and a node has {nodes.workers}"
        yield warning(TOO_MANY, path, message, f"leave {CORES} out, or start {nodes.workers // int(cores)} processes")
