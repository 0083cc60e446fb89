"""What the launchers of training jobs start, by their options, variables and files: nodes that join, and processes.

A word that only the shell knows says nothing, and nothing is concluded from it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from launcher.catalog import safe_yaml
from launcher.model.instance_type import InstanceType
from launcher.model.record import record
from launcher.planning.job_command import MODULES, PYTHON, STARTER, UNKNOWN, Program

_ALL = frozenset({"auto", "gpu", "cpu", "xpu", "all", "-1"})
"""Words for all devices of a node."""
_MPI_HOSTS = ("host", "hosts", "H", "hostfile", "machinefile", "machine-file", "f")


@record
class Stated:
    """A number that a launcher is given, None if only the shell knows it: as it is written, and its path in a plan."""

    number: int | None
    text: str
    where: str = ""


@record
class LauncherUse:
    """What a launcher starts; None is what its words do not tell."""

    program: Program
    launcher: str = ""
    # The number of nodes that train together.
    joined: Stated | None = None
    # Processes.
    per_node: Stated | None = None
    total: Stated | None = None
    # The number of the node among them, which is another one on each node.
    rank: Stated | None = None


@record
class CandidateNodes:
    """The nodes of a candidate: their number, chips and training processes each, dollars an hour for all, or None.

    `noun` is what a process of training uses: a GPU or a NeuronCore.
    """

    count: int
    chips: int
    workers: int
    noun: str
    usd_per_hour: Decimal | None


def nodes_of(facts: InstanceType, count: int, usd_per_hour: Decimal | None = None) -> CandidateNodes:
    """Some nodes of a type; `usd_per_hour` is for all of them."""
    return CandidateNodes(
        count=count,
        chips=facts.accelerators,
        workers=facts.training_workers,
        noun="NeuronCore" if facts.neuron else "GPU",
        usd_per_hour=usd_per_hour,
    )


@record
class _Call:
    """A launcher's own words, with the variables that it gets, and the nodes."""

    program: Program
    words: tuple[str, ...]
    environment: Mapping[str, str]
    nodes: CandidateNodes

    def options(self, *flags: str, double: str = "") -> dict[str, str]:
        """The options before the trainer's script, without dashes, `_` as `-`; see `_options`."""
        return dict(_options(self.words, frozenset(flags), double))

    def first_stated(self, options: Mapping[str, str], *names: str, form: str = "--{} {}") -> Stated | None:
        """The first of some options that is given."""
        for name in names:
            if name in options:
                shown = next((word for word in self.words if _plain(word) == name), f"--{name}")
                shown = shown.partition("=")[0].lstrip("-")
                return Stated(number=self.number(options[name]), text=form.format(shown, options[name]))
        return None

    def variable(self, name: str) -> Stated | None:
        """A number that a variable gives."""
        own = self.program.variables.get(name)
        value = self.environment.get(name) if own is None else own
        if value is None:
            return None
        where = "" if own is not None else f"run.env.{name}"
        return Stated(number=self.number(value), text=f"{name}={value}", where=where)

    def number(self, text: str) -> int | None:
        """A number, with Slipway's variables filled in; None if only the shell knows it."""
        known = {
            **dict.fromkeys(("SLIPWAY_NODES", "PET_NNODES"), self.nodes.count),
            **dict.fromkeys(("SLIPWAY_WORKERS_PER_NODE", "PET_NPROC_PER_NODE"), self.nodes.workers),
        }
        name = text.removeprefix("$").strip("{}").partition(":-")[0]
        if text.startswith("$") and name in known:
            return known[name]
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else None  # noqa: PLR2004 - no more chips

    def file(self, name: str | None) -> str | None:
        """The text of a file of the job's folder that an option names; None if it is not there."""
        return None if name is None else dict(self.program.files).get(name)


def launcher_use(program: Program, environment: Mapping[str, str], nodes: CandidateNodes) -> LauncherUse | None:
    """What a program starts, if it is a launcher; `environment` is the plan's, `run.env`."""
    name, words = program.name, program.words
    if name.startswith(PYTHON) and "-m" in words[:-1]:
        module = words[words.index("-m") + 1]
        name, words = MODULES.get(module, ""), words[words.index("-m") + 1 :]
    read = _READERS.get(name)
    use = None
    if read is not None:
        use = read(_Call(program=program, words=words, environment=environment, nodes=nodes))
    return None if use is None else replace(use, launcher=name)


def _plain(word: str) -> str:
    return word.partition("=")[0].lstrip("-").replace("_", "-")


def _options(words: Sequence[str], flags: frozenset[str], double: str) -> Iterator[tuple[str, str]]:
    """The options of a launcher before the script that it runs.

    An option takes the next word, except one of `flags`, or before another option or a program. `double` takes two.
    """
    at = 1
    while at < len(words):
        word, at = words[at], at + 1
        if word in {"launch", "run"} and at == 2:  # noqa: PLR2004 - the second word, a subcommand
            continue
        if word == "--" or not word.startswith("-"):
            return
        name, equals, value = word.partition("=")
        name = _plain(name)
        following = words[at] if at < len(words) else ""
        is_value = following[:1] != "-" or following == "-1"
        if (
            not equals
            and name not in flags
            and following
            and is_value
            and not STARTER.fullmatch(following.rpartition("/")[2])
        ):
            value, at = following, at + (2 if name == double else 1)
        yield name, value


def _torchrun(call: _Call) -> LauncherUse:
    options = call.options("standalone", "m", "module", "no-python", "run-path", "use-env")
    form = "--{}={}"
    nnodes = call.first_stated(options, "nnodes", form=form) or call.variable("PET_NNODES")
    if nnodes is not None:
        most = nnodes.text.rpartition("=")[2].rpartition(":")[2]
        nnodes = replace(nnodes, number=call.number(most))
    standalone = call.variable("PET_STANDALONE")
    if "standalone" in options:
        nnodes = Stated(number=1, text="--standalone")
    elif standalone is not None and standalone.number:
        nnodes = replace(standalone, number=1)
    per_node = call.first_stated(options, "nproc-per-node", form=form) or call.variable("PET_NPROC_PER_NODE")
    if per_node is not None and per_node.text.rpartition("=")[2] in _ALL:
        per_node = None
    backend = call.first_stated(options, "rdzv-backend", form=form) or call.variable("PET_RDZV_BACKEND")
    rank = call.first_stated(options, "node-rank", form=form) or call.variable("PET_NODE_RANK")
    if backend is not None and backend.text.rpartition("=")[2] != "static":
        rank = None  # such a rendezvous gives the ranks itself
    return LauncherUse(program=call.program, joined=nnodes, per_node=per_node, rank=rank)


def _tune(call: _Call) -> LauncherUse | None:
    if "run" not in call.words:
        return None
    alone = next((word for word in call.words if word.endswith("_single_device")), None)
    use = _torchrun(call)
    return use if alone is None else replace(use, per_node=Stated(number=1, text=alone))


def _accelerate(call: _Call) -> LauncherUse | None:
    if call.words[0].rpartition("/")[2] == "accelerate" and "launch" not in call.words:
        return None
    options = call.options("cpu", "multi-gpu", "m", "module", "no-python", "quiet", "debug", "use-fsdp")
    named = options.get("config-file")
    config = _mapping(call.file(named))
    joined = call.first_stated(options, "num-machines")
    if joined is None and named is None:
        joined = Stated(number=1, text="accelerate launch without --num_machines")
    elif joined is None and isinstance(machines := config.get("num_machines"), int):
        joined = Stated(number=machines, text=f"num_machines: {machines} in {named}")
    total = call.first_stated(options, "num-processes")
    if total is None and isinstance(processes := config.get("num_processes"), int):
        total = Stated(number=processes, text=f"num_processes: {processes} in {named}")
    devices = options.get("gpu-ids", str(config.get("gpu_ids", "all")))
    per_node = None if total is not None or devices in _ALL else call.first_stated(options, "gpu-ids")
    if per_node is not None:
        per_node = replace(per_node, number=device_count(devices))
    if "cpu" in options:
        per_node = Stated(number=0, text="--cpu")
    rank = call.first_stated(options, "machine-rank")
    if rank is None and isinstance(number := config.get("machine_rank"), int):
        rank = Stated(number=number, text=f"machine_rank: {number} in {named}")
    return LauncherUse(program=call.program, joined=joined, total=total, per_node=per_node, rank=rank)


def _deepspeed(call: _Call) -> LauncherUse:
    options = call.options("no-ssh", "force-multi", "no-python", "module", "no-local-rank", "bind-cores-to-rank")
    hostfile = options.get("hostfile", options.get("H"))
    joined: Stated | None = Stated(number=1, text="deepspeed without --hostfile")
    per_node = call.first_stated(options, "num-gpus")
    if hostfile is not None:
        joined, slots = None, _slots(call.file(hostfile))
        if slots:
            joined = Stated(number=len(slots), text=f"--hostfile {hostfile}")
            per_node = per_node or Stated(number=max(slots.values()), text=f"--hostfile {hostfile}")
        joined = call.first_stated(options, "num-nodes") or joined
    filters = {"include": options.get("include", options.get("i")), "exclude": options.get("exclude", options.get("e"))}
    for name, text in filters.items():
        hosts = [] if text is None or "$" in text else text.split("@")
        devices = {device_count(host.partition(":")[2]) for host in hosts if ":" in host}
        if len(devices) != 1 or (count := devices.pop()) is None:
            continue
        left = count if name == "include" else call.nodes.workers - count
        per_node = Stated(number=left, text=f"--{name} {text}")
        if hostfile is not None and name == "include":
            joined = Stated(number=len(hosts), text=f"--{name} {text}")
    return LauncherUse(program=call.program, joined=joined, per_node=per_node)


def _mpirun(call: _Call) -> LauncherUse:
    options = call.options(
        *("allow-run-as-root", "oversubscribe", "tag-output", "report-bindings", "q", "v", "display-map", "bynode"),
        double="mca",
    )
    hosts = [name for name in _MPI_HOSTS if name in options]
    each = call.first_stated(options, "N", "npernode", "ppn", "ntasks-per-node", form="-{} {}")
    pattern = re.fullmatch(r"ppr:(\d+):node.*", options.get("map-by", ""))
    if each is None and pattern is not None:
        each = Stated(number=int(pattern[1]), text=f"--map-by {options['map-by']}")
    count = call.first_stated(options, "np", "n", "c", form="-{} {}")
    if hosts:
        return LauncherUse(program=call.program, total=count, per_node=each)
    # Each node runs its own mpirun; its workers find the others' if words or variables give them their ranks.
    words = (*call.words, *call.program.variables, *call.environment)
    unresolved = any("$" in word or UNKNOWN in word or word in {"RANK", "MASTER_ADDR", "WORLD_SIZE"} for word in words)
    joined = None if unresolved else Stated(number=1, text=f"{call.program.name} without hosts")
    return LauncherUse(program=call.program, per_node=count or each, joined=joined)


def _horovodrun(call: _Call) -> LauncherUse:
    options = call.options("verbose", "disable-cache", "gloo", "mpi")
    count = call.first_stated(options, "np", "num-proc", form="-{} {}")
    if any(name in options for name in _MPI_HOSTS):
        return LauncherUse(program=call.program, total=count)
    return LauncherUse(
        program=call.program, per_node=count, joined=Stated(number=1, text="horovodrun without -H or --hostfile")
    )


def _colossalai(call: _Call) -> LauncherUse | None:
    if "run" not in call.words:
        return None
    options = call.options("m")
    joined = call.first_stated(options, "num-nodes")
    if joined is None and not {"host", "hostfile", "include"} & options.keys():
        joined = Stated(number=1, text="colossalai run without --hostfile")
    return LauncherUse(program=call.program, joined=joined, per_node=call.first_stated(options, "nproc-per-node"))


def _fabric(call: _Call) -> LauncherUse | None:
    if "run" not in call.words:
        return None
    words = tuple(word for word in call.words if word not in {"run", "model"})
    options = replace(call, words=words).options()
    joined = call.first_stated(options, "num-nodes")
    per_node = call.first_stated(options, "devices")
    if options.get("devices") in _ALL:
        per_node = None
    elif per_node is None:
        per_node = Stated(number=1, text=f"{call.program.name} run without --devices")
    elif per_node.number is None and "," in options["devices"]:
        per_node = replace(per_node, number=device_count(options["devices"]))
    joined = joined or Stated(number=1, text=f"{call.program.name} run without --num-nodes")
    rank = call.first_stated(options, "node-rank")
    return LauncherUse(program=call.program, joined=joined, per_node=per_node, rank=rank)


def _composer(call: _Call) -> LauncherUse:
    options = call.options("stdout", "v", "verbose")
    total = call.first_stated(options, "world-size")
    joined = None if total is not None else Stated(number=1, text="composer without --world_size")
    per_node, rank = call.first_stated(options, "nproc", "n"), call.first_stated(options, "node-rank")
    return LauncherUse(program=call.program, joined=joined, total=total, per_node=per_node, rank=rank)


def _llamafactory(call: _Call) -> LauncherUse | None:
    if "train" not in call.words or call.variable("USE_RAY") is not None:
        return None
    joined = call.variable("NNODES") or Stated(number=1, text="llamafactory-cli without NNODES")
    per_node, rank = call.variable("NPROC_PER_NODE"), call.variable("NODE_RANK")
    return LauncherUse(program=call.program, joined=joined, per_node=per_node, rank=rank)


def _axolotl(call: _Call) -> LauncherUse | None:
    """`axolotl train` starts accelerate, or its `--launcher`, with the words behind `--` (axolotl/cli/main.py)."""
    if "train" not in call.words:
        return None
    own, _, words = " ".join(call.words).partition(" -- ")
    options = {
        name: value
        for line in (own, f"axolotl {words}")
        for name, value in _options(("axolotl", *line.split()[3 if line is own else 1 :]), frozenset(), "")
    }
    launcher = options.get("launcher", "accelerate")
    if launcher != "accelerate" or "use-ray" in options:
        return None
    joined = call.first_stated(options, "num-machines") or Stated(number=1, text="axolotl train")
    return LauncherUse(program=call.program, joined=joined, total=call.first_stated(options, "num-processes"))


_READERS: Mapping[str, Callable[[_Call], LauncherUse | None]] = {
    "torchrun": _torchrun,
    "tune": _tune,
    "accelerate": _accelerate,
    "deepspeed": _deepspeed,
    "mpirun": _mpirun,
    "mpiexec": _mpirun,
    "mpiexec.hydra": _mpirun,
    "horovodrun": _horovodrun,
    "colossalai": _colossalai,
    "fabric": _fabric,
    "lightning": _fabric,
    "composer": _composer,
    "llamafactory-cli": _llamafactory,
    "axolotl": _axolotl,
}
"""Launchers of docs/trainers.md and others, by the options of their command lines: torch/distributed/run.py, accelerate
(commands/launch.py), DeepSpeed (launcher/runner.py), mpirun(1), horovodrun, colossalai run, fabric run (Lightning),
Composer (cli/launcher.py), and LLaMA-Factory's variables."""


def _mapping(text: str | None) -> Mapping[str, object]:
    """The keys of a YAML or JSON file; none if it is another file."""
    if text is None:
        return {}
    try:
        value = safe_yaml.loads(text)
    except safe_yaml.YamlError:
        return {}
    return value if isinstance(value, dict) else {}


def _slots(text: str | None) -> dict[str, int]:
    """The hosts of a host file with their slots."""
    lines = (line.partition("#")[0] for line in (text or "").splitlines())
    return {match[1]: int(match[2]) for line in lines if (match := re.match(r"\s*(\S+)\s+slots=(\d+)", line))}


def device_count(value: str) -> int | None:
    """The number of devices in a list such as `0,2` or `0-3`; None if it is no such list.

    >>> (
    ...     device_count("0"),
    ...     device_count("0-3,8"),
    ...     device_count("GPU-8932f937,GPU-1"),
    ...     device_count("$X"),
    ...     device_count(""),
    ... )
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
