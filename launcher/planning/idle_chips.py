"""Chips that a job's command leaves without work: its launcher's options, compared with the nodes of a plan.

Slipway starts the command once on each node, and gives torchrun the nodes and workers in PET_* variables. A word that
only the shell knows says nothing, and nothing is concluded from it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

from launcher.model.finding import Finding, warning
from launcher.model.record import record
from launcher.planning.job_command import Program

DEVICES = ("CUDA_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES")
CODE, TOO_MANY = WASTE = ("chips-idle", "more-than-paid")
"""The codes of findings on chips without work, and on processes without chips."""
_PYTHON = ("python", "python3", "pypy3")
_TORCHRUN = ("torch.distributed.run", "torch.distributed.launch")
_MODULES = {
    **dict.fromkeys(_TORCHRUN, "torchrun"),
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "composer.cli.launcher": "composer",
}
"""Launchers that Python runs as modules."""
_NO_LIMIT = frozenset({"auto", "gpu", "cpu", "xpu"})
_FIXES = {
    "torchrun": "leave --nnodes and --standalone out: Slipway sets both for torchrun",
    "tune": "leave --nnodes and --standalone out: Slipway sets both for torchrun",
    "accelerate": (
        "--num_machines $SLIPWAY_NODES --machine_rank $SLIPWAY_NODE_RANK --main_process_ip $SLIPWAY_MASTER_ADDR"
        " --main_process_port $SLIPWAY_MASTER_PORT --num_processes $((SLIPWAY_NODES * SLIPWAY_WORKERS_PER_NODE))"
    ),
    "deepspeed": "torchrun starts the same trainer on all nodes without options; docs/trainers.md has deepspeed's own",
    "composer": "--world_size $((SLIPWAY_NODES * SLIPWAY_WORKERS_PER_NODE)) --node_rank $SLIPWAY_NODE_RANK",
}
"""How each launcher uses all nodes (docs/trainers.md)."""


@record
class Nodes:
    """The nodes of a candidate: their number, chips and training processes each, dollars an hour for all, or None.

    `noun` is what a process of training uses: a GPU or a NeuronCore.
    """

    count: int
    chips: int
    workers: int
    noun: str
    usd_per_hour: Decimal | None


@record
class JobCommand:
    """The programs of a job's command, and what a trainer that Python runs without a launcher uses by itself.

    `all_chips`: it starts processes of its own, or one process uses all chips of a node. `all_nodes`: it joins the
    other nodes by itself.
    """

    programs: tuple[Program, ...] = ()
    all_chips: bool = False
    all_nodes: bool = False


@record
class _Use:
    """What a launcher starts; None is what its words do not tell.

    `per_node` and `total` count processes. `joined` is the number of nodes that train together.
    """

    program: Program
    launcher: str = ""
    joined: int | None = None
    per_node: int | None = None
    total: int | None = None
    options: Mapping[str, str] | None = None
    """The option that states each of these, as it is written."""


def idle_findings(command: JobCommand, variables: Mapping[str, str], nodes: Nodes) -> Iterator[Finding]:
    """A warning for each launcher that uses fewer chips than the plan pays for, or asks for more than there are.

    `variables` are the plan's, `run.env`.
    """
    if nodes.workers == 0:
        return
    uses = [use for program in command.programs if (use := _use(program, nodes)) is not None]
    for use in uses:
        yield from _compared(use, nodes)
    alone = [program for program in command.programs if runs_a_script(program)][-1:]
    if not uses and alone:
        yield from _single(alone[0], command, nodes)
    for program in [use.program for use in uses] or alone:
        yield from _hidden(program, variables, nodes)


def _use(program: Program, nodes: Nodes) -> _Use | None:
    name, words = program.name, list(program.words)
    if name.startswith(_PYTHON) and "-m" in words[:-1]:
        module = words[words.index("-m") + 1]
        name, words = _MODULES.get(module, ""), words[words.index("-m") + 1 :]
    read = _READERS.get(name)
    use = None if read is None else read(program, words, nodes)
    return None if use is None else replace(use, launcher=name)


def _torchrun(program: Program, words: list[str], nodes: Nodes) -> _Use:
    options = _options(words, ("nnodes", "nproc-per-node", "nproc_per_node", "standalone"), flags=("standalone",))
    joined: int | None = nodes.count
    written: dict[str, str] = {}
    if "standalone" in options:
        joined, written["joined"] = 1, "--standalone"
    elif "nnodes" in options:
        most = options["nnodes"].rpartition(":")[2]
        joined, written["joined"] = _number(most, nodes), f"--nnodes={options['nnodes']}"
    per_node = None
    for name in ("nproc-per-node", "nproc_per_node"):
        if name in options and options[name] not in _NO_LIMIT:
            per_node, written["per_node"] = _number(options[name], nodes), f"--{name}={options[name]}"
    return _Use(program=program, joined=joined, per_node=per_node, options=written)


def _accelerate(program: Program, words: list[str], nodes: Nodes) -> _Use | None:
    if words[0] == "accelerate" and "launch" not in words:
        return None
    names = ("num_machines", "num-machines", "num_processes", "num-processes", "config_file", "config-file")
    options = _options(words, names)
    if options.keys() & {"config_file", "config-file"}:
        machines = options.get("num_machines", options.get("num-machines"))
        joined = None if machines is None else _number(machines, nodes)
    else:
        joined = _number(options.get("num_machines", options.get("num-machines", "1")), nodes)
    written, total = {"joined": "accelerate launch without --num_machines"}, None
    for name, value in options.items():
        if name.replace("-", "_") == "num_machines":
            written["joined"] = f"--{name} {value}"
        if name.replace("-", "_") == "num_processes":
            total, written["total"] = _number(value, nodes), f"--{name} {value}"
    return _Use(program=program, joined=joined, total=total, options=written)


def _deepspeed(program: Program, words: list[str], nodes: Nodes) -> _Use:
    names = ("hostfile", "H", "include", "i", "num_nodes", "num_gpus", "no_ssh", "force_multi")
    options = _options(words, names, flags=("no_ssh", "force_multi"))
    joined: int | None = 1
    if options.keys() & {"hostfile", "H", "include", "i"}:
        joined = None
    written = {"joined": "deepspeed without --hostfile"}
    if "num_nodes" in options and joined is None:
        joined, written["joined"] = _number(options["num_nodes"], nodes), f"--num_nodes {options['num_nodes']}"
    per_node = None
    if "num_gpus" in options:
        per_node, written["per_node"] = _number(options["num_gpus"], nodes), f"--num_gpus {options['num_gpus']}"
    return _Use(program=program, joined=joined, per_node=per_node, options=written)


def _mpirun(program: Program, words: list[str], nodes: Nodes) -> _Use:
    names = ("np", "n", "c", "host", "H", "hostfile", "machinefile", "x", "mca", "map-by", "bind-to", "N", "npernode")
    options = _options(words, names, dashes=("--", "-"))
    count = next((name for name in ("np", "n", "c") if name in options), None)
    if count is None:
        return _Use(program=program)
    number, written = _number(options[count], nodes), f"-{count} {options[count]}"
    if options.keys() & {"host", "H", "hostfile", "machinefile"}:
        return _Use(program=program, total=number, options={"total": written})
    # Each node runs its own mpirun; its workers find the others' through MASTER_ADDR.
    return _Use(program=program, per_node=number, options={"per_node": written})


def _composer(program: Program, words: list[str], nodes: Nodes) -> _Use:
    options = _options(words, ("nproc", "n", "world_size"), dashes=("--", "-"))
    joined: int | None = 1
    written = {"joined": "composer without --world_size"}
    total = None
    if "world_size" in options:
        joined = None
        total, written["total"] = _number(options["world_size"], nodes), f"--world_size {options['world_size']}"
    per_node = None
    for name in ("nproc", "n"):
        if name in options:
            per_node, written["per_node"] = _number(options[name], nodes), f"--{name} {options[name]}"
    return _Use(program=program, joined=joined, per_node=per_node, total=total, options=written)


_READERS: Mapping[str, Callable[[Program, list[str], Nodes], _Use | None]] = {
    "torchrun": _torchrun,
    "tune": _torchrun,
    "accelerate": _accelerate,
    "deepspeed": _deepspeed,
    "mpirun": _mpirun,
    "mpiexec": _mpirun,
    "composer": _composer,
}
"""Launchers of docs/trainers.md. torchtune's `tune run` takes torchrun's options."""


def _options(
    words: Sequence[str], names: Sequence[str], *, flags: Sequence[str] = (), dashes: Sequence[str] = ("--",)
) -> dict[str, str]:
    """The values of a launcher's own options: those before the trainer's script."""
    options: dict[str, str] = {}
    at = 1
    while at < len(words):
        word = words[at]
        if word.endswith(".py") or word == "--":
            break
        name, equals, value = word.lstrip("-").partition("=")
        dash = word[: len(word) - len(word.lstrip("-"))]
        if name in names and (dash in dashes or len(name) == 1):
            if name in flags or equals:
                options[name] = value
            elif at + 1 < len(words):
                at += 1
                options[name] = words[at]
        at += 1
    return options


def _number(text: str, nodes: Nodes) -> int | None:
    """A number of an option, with Slipway's variables filled in; None if only the shell knows it."""
    known = {"SLIPWAY_NODES": nodes.count, "SLIPWAY_WORKERS_PER_NODE": nodes.workers}
    name = text.removeprefix("$").strip("{}")
    if text.startswith("$") and name in known:
        return known[name]
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else None  # noqa: PLR2004 - no more chips


def _compared(use: _Use, nodes: Nodes) -> Iterator[Finding]:
    """Findings on one launcher: nodes that do not join, processes that are too few or too many."""
    options, where, launcher = use.options or {}, use.program.where, use.launcher
    joined, per_node = use.joined, use.per_node
    if joined is not None and joined < nodes.count:
        idle = nodes.count - joined
        option = options["joined"]
        message = f"{option} uses {joined} of {nodes.count} nodes: {idle} idle"
        if joined == 1:
            message = f"{option} joins no other node: the {nodes.count} nodes train {nodes.count} separate copies"
        message += _dollars(nodes, idle, nodes.count)
        yield warning(CODE, where, message, _FIXES.get(launcher, _FIXES["torchrun"]))
    elif joined is not None and joined > nodes.count:
        message = f"{options['joined']} waits for {joined} nodes, and the plan has {nodes.count}: it never begins"
        yield warning(TOO_MANY, where, message, f"target.nodes: {joined}, or leave the option out")
    total = nodes.count * nodes.workers
    if use.total is not None and use.total < total and (joined is None or joined == nodes.count):
        yield _fewer(where, options["total"], use.total, total, place="", nodes=nodes)
    if per_node is not None and per_node < nodes.workers:
        yield _fewer(where, options["per_node"], per_node, nodes.workers, place=" of each node", nodes=nodes)
    elif per_node is not None and per_node > nodes.workers:
        message = (
            f"{options['per_node']} starts {per_node} processes on a node with {nodes.workers} {nodes.noun}s: the rest"
            " find no device"
        )
        yield warning(TOO_MANY, where, message, f"at most {nodes.workers}, or leave the option out")


def _fewer(where: str, option: str, used: int, of: int, *, place: str, nodes: Nodes) -> Finding:
    idle = of - used
    message = f"{option} starts {used} process{'es' if used > 1 else ''} for {of} {nodes.noun}s{place}: {idle} idle"
    name = option.replace("=", " ").partition(" ")[0]
    return warning(CODE, where, message + _dollars(nodes, idle, of), f"{name} {of}, or leave the option out")


def _dollars(nodes: Nodes, idle: int, of: int) -> str:
    return "" if nodes.usd_per_hour is None else f", ${nodes.usd_per_hour * idle / of:,.0f} an hour"


def runs_a_script(program: Program) -> bool:
    """Whether Python runs a script or a module of the user's."""
    if not program.name.startswith(_PYTHON):
        return False
    words = program.words[1:]
    if "-c" in words or "-" in words:
        return False
    module = next((after for before, after in pairwise(words) if before == "-m"), None)
    if module is not None:
        return module not in _MODULES and module.partition(".")[0] not in {"http", "pip", "venv", "json", "compileall"}
    return any(word.endswith(".py") for word in words)


def _single(program: Program, command: JobCommand, nodes: Nodes) -> Iterator[Finding]:
    """A finding on a trainer without a launcher, of which each node runs one process."""
    chips, whole = not command.all_chips and nodes.workers > 1, not command.all_nodes and nodes.count > 1
    if not chips and not whole:
        return
    total = nodes.count * nodes.workers
    used = (1 if whole else nodes.count) * (1 if chips else nodes.workers)
    effects = [f"{nodes.workers - 1} of {nodes.workers} {nodes.noun}s are idle"] if chips else []
    effects += [f"the {nodes.count} nodes train {nodes.count} separate copies"] if whole else []
    message = f"{program.text} is 1 process a node: unless it starts others, {' and '.join(effects)}"
    fix = f"torchrun {' '.join(program.words[1:])}"
    yield warning(CODE, program.where, message + _dollars(nodes, total - used, total), fix)


def _hidden(program: Program, variables: Mapping[str, str], nodes: Nodes) -> Iterator[Finding]:
    """Chips that a variable hides from the trainer."""
    for name in DEVICES:
        own = name in program.variables
        value = program.variables.get(name, variables.get(name))
        count = None if value is None else _listed(value)
        every = nodes.chips if name == DEVICES[0] else nodes.workers
        if count is None or count >= every or (name == DEVICES[0]) is (nodes.noun == "NeuronCore"):
            continue
        noun = "chip" if name == DEVICES[0] else nodes.noun
        path = program.where if own else f"run.env.{name}"
        message = f"{name}={value} shows the trainer {count} of {every} {noun}s of each node"
        message += f": {every - count} idle{_dollars(nodes, every - count, every)}"
        yield warning(CODE, path, message, f"leave {name} out")


def _listed(value: str) -> int | None:
    """The number of devices in a list such as `0,2` or `0-3`; None if it is no such list.

    >>> _listed("0"), _listed("0-3,8"), _listed("GPU-8932f937,GPU-1"), _listed("$X"), _listed("")
    (1, 5, 2, None, None)
    """
    count = 0
    for part in value.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and last.isdecimal():
            count += max(0, int(last) - int(first) + 1)
        elif part.strip() and "$" not in part:
            count += 1
        else:
            return None
    return count
