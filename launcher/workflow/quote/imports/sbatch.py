"""Reads an sbatch script: its #SBATCH options, exports, set-up lines and command."""

import re
import shlex
from collections.abc import Iterator

from launcher.catalog.load import Catalog
from launcher.model.units import number_of
from launcher.workflow.quote.imports.imported import Imported, by_accelerator, hours_of

SHORT = {
    "N": "nodes",
    "J": "job-name",
    "t": "time",
    "p": "partition",
    "n": "ntasks",
    "c": "cpus-per-task",
    "A": "account",
}
SHORT |= {"D": "chdir", "d": "dependency", "L": "licenses", "S": "core-spec", "x": "exclude"}
SHORT |= {"o": "output", "e": "error", "C": "constraint", "w": "nodelist", "q": "qos", "a": "array", "G": "gpus"}
IGNORED = {"output", "error", "open-mode", "exclusive", "ntasks-per-node", "ntasks", "cpus-per-task", "cpus-per-gpu"}
IGNORED |= {"wait-all-nodes", "gpus-per-task"}
"""Options that Slipway's own batch script has otherwise: it logs each attempt, and gives a job whole nodes."""
WHY = {
    "partition": "Slipway makes a cluster with a queue of its own; target.cluster names an existing one",
    "account": "Slipway tags the costs: tags",
    "array": "launch the plan once for each element, with --env",
    "dependency": "launch the plans one after the other",
    "constraint": "target.instance_type is the constraint",
    "mem": "a job has the whole memory of its nodes",
    "mem-per-cpu": "a job has the whole memory of its nodes",
    "mem-per-gpu": "a job has the whole memory of its nodes",
    "chdir": "run.workdir is the folder of the job",
    "comment": "tags",
    "mail-type": "guardrails.notify takes addresses",
    "mail-user": "guardrails.notify takes addresses",
    "export": "run.env takes the variables of the job",
    "qos": "no quality of service: one job has its own cluster",
}
GIVEN = re.compile(r"\b(MASTER_ADDR|MASTER_PORT|NODE_RANK|RANK|WORLD_SIZE|SLURM_\w+)\b")
EXPORT = re.compile(r"export\s+([A-Za-z_]\w*)=(.*)")
SETUP = re.compile(r"(module|source|\.|conda|mamba|spack|ulimit|set|cd)\s")
LAUNCHERS = re.compile(r"(srun|mpirun|mpiexec)(\s|$)")
WORD = re.compile(r"""\s*((?:\\.|"(?:\\.|[^"\\])*"|'[^']*'|\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|[^\s"'\\])+)""")
"""A word of a shell's line as it is written, with its quotes."""
PYXIS = {"container-image", "container-mounts", "container-name", "container-workdir", "container-env", "mpi"}
"""Options of srun with a value, beside those of sbatch."""
SRUN_LOST = {
    "container-mounts": "run.data downloads folders of S3; run.volumes mounts claims of a cluster (kind eks)",
    "container-workdir": "run.workdir is the folder of the job",
    "container-env": "run.env takes the variables of the job",
}
FLAGS = {"l", "u", "K", "k", "O", "E", "v", "Q", "s", "X", "Z", "exclusive", "requeue"}
"""Options of srun without a value."""
MPI = {"np", "host", "hostfile", "machinefile", "bind-to", "map-by", "rank-by", "ppn", "perhost"}
"""Options of mpirun with a value, written with one dash or two."""
OPENS = re.compile(r"(?:if|for|while|until|case|select)\s|function\s+\w|[\w-]+\s*\(\)")
CLOSES = re.compile(r"(?:^|[\s;])(?:fi|done|esac|\})\s*(?:$|[;|<>&)])")
"""The first and the last words of the blocks and functions of a shell."""
HERE = re.compile(r"(?<!<)<<-?\s*[\"'\\]?(\w+)")
VARIABLE = re.compile(r'"?\$\{?([A-Za-z_]\w*)(?:\[@\])?\}?"?')


def read_sbatch(text: str, catalog: Catalog) -> Imported:
    """The plan of an sbatch script."""
    imported = Imported(kind="an sbatch script")
    options = dict(_options(text))
    _resources(imported, options, catalog)
    if hours := hours_of(options.get("time", "")):
        imported.put("run.time_limit_h", round(hours, 4))
    elif options.get("time"):
        imported.lose(f"#SBATCH --time {options['time']}", "run.time_limit_h takes hours")
    if "job-name" in options:
        imported.name(options["job-name"])
    _signal(imported, options.get("signal", ""))
    if "container-image" in options:
        _image(imported, options["container-image"])
    if "requeue" in options:
        imported.assume("run.retries", "auto: Slipway requeues a job after a loss on every target")
    handled = {"nodes", "time", "job-name", "signal", "container-image", "requeue", "gres", "gpus", "gpus-per-node"}
    for name, value in options.items():
        # ALL and NONE name no variable; the job has those of run.env in both cases.
        if name not in handled | IGNORED and (name, value) not in {("export", "ALL"), ("export", "NONE")}:
            imported.lose(f"#SBATCH --{name}", WHY.get(name, "no key of a plan"))
    _body(imported, text)
    return imported


def _options(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        found = re.match(r"#SBATCH\s+(.*)", line)
        if not found:
            continue
        words = _words(found[1].split(" #")[0])
        while words:
            word = words.pop(0)
            name, equals, value = word.lstrip("-").partition("=")
            if not word.startswith("--") and len(name) > 1 and not equals:
                name, value = name[0], name[1:]
            elif not equals and words and not words[0].startswith("-"):
                value = words.pop(0)
            yield SHORT.get(name, name), value


def _words(line: str) -> list[str]:
    """The words of a line; a line with an open quote has them at its blanks."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _resources(imported: Imported, options: dict[str, str], catalog: Catalog) -> None:
    count = _nodes(imported, options)
    imported.put("target.nodes", count)
    of_job = "gpus" in options and "gpus-per-node" not in options
    gres = next((item for item in options.get("gres", "").split(",") if item.partition(":")[0] == "gpu"), "")
    if options.get("gres") and options["gres"] != gres:
        imported.lose(f"#SBATCH --gres={options['gres']}", "a plan has the accelerators of target.instance_type only")
    if gpus := options.get("gpus-per-node") or gres.removeprefix("gpu") or options.get("gpus", ""):
        kind, each = _gpus(gpus)
    elif gpus := options.get("gpus-per-task", ""):
        kind, each = _gpus(gpus)
        each *= _number(options, "ntasks-per-node") or max(1, _number(options, "ntasks") // count)
    elif gres:
        kind, each = "", 1
    else:
        return
    each = each // count if of_job and each else each
    if kind and each:
        by_accelerator(imported, catalog, kind, each)
    elif each:
        imported.lose(f"{number_of(each, 'GPU')} a node", "the script names no kind of GPU: set target.instance_type")


def _nodes(imported: Imported, options: dict[str, str]) -> int:
    """The nodes of a job: --nodes, else the tasks by the tasks of a node."""
    given = options.get("nodes", "")
    least, _, most = given.partition("-")
    nodes = most or least
    tasks, each = _number(options, "ntasks"), _number(options, "ntasks-per-node")
    if nodes.isdecimal() and int(nodes):
        if most:
            imported.assume("target.nodes", f"{most} of {given}")
        return int(nodes)
    if given:
        imported.lose(f"#SBATCH --nodes {given}", "not a number: set target.nodes")
    elif tasks and each:
        return -(-tasks // each)
    elif tasks > 1:
        imported.lose(f"the nodes of {tasks} tasks", "Slurm chooses them by the size of a node: set target.nodes")
    return 1


def _number(options: dict[str, str], name: str) -> int:
    text = options.get(name, "")
    return int(text) if text.isdecimal() else 0


def _gpus(text: str) -> tuple[str, int]:
    """The kind and the number of h100:8, 8, or h100, which is one."""
    words = [word for word in text.partition("(")[0].split(":") if word]
    kind = next((word for word in words if not word.isdecimal()), "")
    return kind, next((int(word) for word in reversed(words) if word.isdecimal()), 1)


def _signal(imported: Imported, text: str) -> None:
    """--signal=B:USR1@120 is the signal and the seconds of the save at a notice."""
    found = re.fullmatch(r"(?:[BR]+:)?(?:SIG)?(USR1|TERM)(?:@(\d+))?", text)
    if found:
        imported.put("checkpoint.signal", f"SIG{found[1]}")
        if found[2]:
            imported.put("checkpoint.grace_seconds", int(found[2]))
    elif text:
        imported.lose(f"#SBATCH --signal={text}", "Slipway sends SIGUSR1 or SIGTERM: checkpoint.signal")


def _body(imported: Imported, text: str) -> None:
    env: dict[str, str] = {}
    setup: list[str] = []
    command: list[str] = []
    joined = re.sub(r"\\\n\s*", " ", text)
    for line, alone in _lines(joined):
        exported = EXPORT.fullmatch(line) if alone else None
        if exported and GIVEN.fullmatch(exported[1]):
            imported.lose(
                exported[1], "Slipway sets SLIPWAY_MASTER_ADDR, SLIPWAY_MASTER_PORT, SLIPWAY_NODE_RANK, SLIPWAY_NODES"
            )
        elif exported and not re.search(r"[$`]", exported[2]):
            env[exported[1]] = next(iter(_words(exported[2].split(" #")[0])), "")
        elif not command and alone and (SETUP.match(line) or exported):
            setup.append(line)
        else:
            command.append(_without_launcher(imported, line, joined))
    if env:
        imported.put("run.env", {**env, **(imported.get("run.env") or {})})
    if setup:
        imported.put("run.setup", setup)
    if any(line.startswith("module ") for line in setup):
        imported.lose(
            "module load", "Slipway's images have CUDA or Neuron, and no modules: remove the line from run.setup"
        )
    if command:
        imported.put("run.command", "\n".join(command))
    used = sorted({name for line in command for name in GIVEN.findall(line)})
    if used:
        imported.assume(
            "run.command", f"it uses {', '.join(used)}; on other targets than Slurm use the SLIPWAY_ variables"
        )


def _lines(joined: str) -> Iterator[tuple[str, bool]]:
    """The lines of a script without comments, and whether a line is outside blocks, functions and here-documents."""
    depth, end = 0, ""
    for raw in joined.splitlines():
        line = raw.strip()
        if end:
            end = "" if line == end else end
            yield raw, False
            continue
        if not line or line.startswith("#"):
            continue
        depth = max(0, depth + bool(OPENS.match(line)) - bool(CLOSES.search(line)))
        here = HERE.search(line)
        end = here[1] if here else ""
        alone = not depth and not end and not CLOSES.search(line) and not raw[0].isspace()
        yield (line if alone else raw.rstrip()), alone


def _without_launcher(imported: Imported, line: str, script: str) -> str:
    """A line without srun and its options; what it started on each node, the command starts itself.

    The rest of the line stays as it is written: its variables and quotes are for the shell.
    """
    indent = line[: len(line) - len(line.lstrip())]
    if not LAUNCHERS.match(line.lstrip()):
        return line
    words = [(found[1], found.start(1)) for found in WORD.finditer(line)][1:]
    mpi = not line.lstrip().startswith("srun")
    while words:
        word = words[0][0]
        variable = VARIABLE.fullmatch(word)
        given = _options_in(variable[1], script) if variable else None
        if not word.startswith("-") and given is None:
            break
        words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        short = len(word) == 2 and name not in FLAGS  # noqa: PLR2004 - a dash and a letter; -n1 has its value
        takes = given is None and not equals and (short or name in {*SHORT.values(), *PYXIS, *MPI})
        if takes and words and not words[0][0].startswith("-"):
            value = words.pop(0)[0]
        if mpi and name == "x":
            _mpi_variable(imported, value)
        elif mpi and name in {"mca", "gmca"}:
            imported.lose(f"mpirun --{name} {' '.join(word for word, _ in words[:2])}", "no key of a plan")
            words = words[2:]
        if given is not None:
            name, value = "container-image", _image_in(given)
        if name == "container-image" and value:
            _image(imported, value)
        elif name in SRUN_LOST:
            imported.lose(f"srun --{name} {value}", SRUN_LOST[name])
    launcher = line.split(None, 1)[0]
    imported.lose(launcher, "Slipway starts the command once on each node; torchrun starts a process for each GPU")
    return indent + line[words[0][1] :] if words else line


def _mpi_variable(imported: Imported, text: str) -> None:
    """-x NAME=VALUE of mpirun: a variable of the job; one of the shell's own values is named."""
    name, equals, value = text.partition("=")
    if equals and not re.search(r"[$`]", value):
        imported.put(f"run.env.{name}", value.strip("\"'"))
    elif equals:
        imported.lose(f"mpirun -x {text}", f"write `export {text}` before the command")


def _options_in(name: str, script: str) -> str | None:
    """The options of srun that a variable or array of the script holds; None for one that holds something else."""
    found = re.search(rf"\b{name}\+?=[\"'(]?\s*(-[^\"')]*)", script)
    return found[1] if found else None


def _image_in(options: str) -> str:
    found = re.search(r"--container-image[=\s]+(\S+)", options)
    return found[1] if found else ""


def _image(imported: Imported, value: str) -> None:
    plain = value.strip("\"'")
    if "$" in plain or plain.endswith((".sqsh", ".sif")):
        imported.lose(f"container image {plain}", "run.image takes the name of an image in a registry")
    else:
        imported.put("run.image", plain.removeprefix("docker://").replace("#", "/"))
