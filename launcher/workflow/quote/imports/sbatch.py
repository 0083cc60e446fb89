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
WORD = re.compile(r"""\s*((?:\\.|"(?:\\.|[^"\\])*"|'[^']*'|\$\([^()]*\)|`[^`]*`|[^\s"'\\])+)""")
"""A word of a shell's line as it is written, with its quotes."""
PYXIS = {"container-image", "container-mounts", "container-name", "container-workdir", "container-env", "mpi"}
"""Options of srun with a value, beside those of sbatch."""
SRUN_LOST = {
    "container-mounts": "run.data downloads folders of S3; run.volumes mounts claims of a cluster (kind eks)",
    "container-workdir": "run.workdir is the folder of the job",
    "container-env": "run.env takes the variables of the job",
}
FLAGS = {"l", "u", "K", "k", "O", "E", "exclusive", "requeue"}
"""Options of srun without a value."""
VARIABLE = re.compile(r'"?\$\{?([A-Za-z_]\w*)(?:\[@\])?\}?"?')


def read_sbatch(text: str, catalog: Catalog) -> Imported:
    """The plan of an sbatch script."""
    imported = Imported(kind="an sbatch script")
    options = dict(_options(text))
    _resources(imported, options, catalog)
    if "time" in options and (hours := hours_of(options["time"])):
        imported.put("run.time_limit_h", round(hours, 4))
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
    nodes = options.get("nodes", "1").partition("-")[2] or options.get("nodes", "1")
    count = int(nodes) if nodes.isdecimal() else 1
    imported.put("target.nodes", count)
    gpus = options.get("gpus-per-node") or options.get("gres", "").removeprefix("gpu:") or options.get("gpus", "")
    if not gpus and options.get("gpus-per-task"):
        kind, _, number = options["gpus-per-task"].rpartition(":")
        tasks = options.get("ntasks-per-node", "1")
        each = int(number) * int(tasks) if number.isdecimal() and tasks.isdecimal() else 0
        gpus = f"{kind}:{each}"
    kind, _, number = gpus.rpartition(":")
    total = int(number) if number.isdecimal() else 0
    each = total // count if "gpus" in options and "gpus-per-node" not in options and total else total
    if kind and each:
        by_accelerator(imported, catalog, kind.split(":")[-1], each)
    elif each:
        imported.lose(f"{number_of(each, 'GPU')} a node", "the script names no kind of GPU: set target.instance_type")


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
    for line in _lines(joined):
        exported = EXPORT.fullmatch(line)
        if exported and GIVEN.fullmatch(exported[1]):
            imported.lose(
                exported[1], "Slipway sets SLIPWAY_MASTER_ADDR, SLIPWAY_MASTER_PORT, SLIPWAY_NODE_RANK, SLIPWAY_NODES"
            )
        elif exported and not re.search(r"[$`]", exported[2]):
            env[exported[1]] = next(iter(_words(exported[2].split(" #")[0])), "")
        elif not command and (SETUP.match(line) or exported):
            setup.append(line)
        else:
            command.append(_without_launcher(imported, line, joined))
    if env:
        imported.put("run.env", env)
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


def _lines(joined: str) -> Iterator[str]:
    """The lines of a script without comments."""
    for line in joined.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()


def _without_launcher(imported: Imported, line: str, script: str) -> str:
    """A line without srun and its options; what it started on each node, the command starts itself.

    The rest of the line stays as it is written: its variables and quotes are for the shell.
    """
    if not LAUNCHERS.match(line):
        return line
    words = [(found[1], found.start(1)) for found in WORD.finditer(line)][1:]
    while words:
        word = words[0][0]
        variable = VARIABLE.fullmatch(word)
        given = _options_in(variable[1], script) if variable else None
        if not word.startswith("-") and given is None:
            break
        words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        short = len(word) == 2 and name not in FLAGS  # noqa: PLR2004 - a dash and a letter; -n1 has its value
        takes = given is None and not equals and (short or name in {*SHORT.values(), *PYXIS})
        if takes and words and not words[0][0].startswith("-"):
            value = words.pop(0)[0]
        if given is not None:
            name, value = "container-image", _image_in(given)
        if name == "container-image" and value:
            _image(imported, value)
        elif name in SRUN_LOST:
            imported.lose(f"srun --{name} {value}", SRUN_LOST[name])
    launcher = line.split(None, 1)[0]
    imported.lose(launcher, "Slipway starts the command once on each node; torchrun starts a process for each GPU")
    return line[words[0][1] :] if words else line


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
