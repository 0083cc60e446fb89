"""A plan file for a command: what `slipway run` and `slipway init --from` write."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any

from launcher import plan_file
from launcher.catalog import safe_yaml
from launcher.model.errors import UnreadableInputError
from launcher.plan_layers import Layer, joint_refusal, merge_layers, settings_layer

MAX_NAME = 40
OPEN = (None, "any")
"""Values that leave a key open."""
PROGRAMS = re.compile(r"(python[\d.]*|torchrun|accelerate|launch|deepspeed|bash|sh|uv|run|srun|env|-m)")
"""Words before the script that names a job."""


def name_of(command: Sequence[str]) -> str:
    """A name for a command: that of its script or module.

    >>> name_of(["torchrun", "--nproc-per-node=8", "src/train_gpt.py", "--lr", "1"]), name_of(["./x.sh"])
    ('train-gpt', 'x')
    """
    words = [word for line in command for word in line.split()]
    scripts = [word for word in words if word.endswith((".py", ".sh"))]
    modules = [after for before, after in pairwise(words) if before == "-m"]
    rest = [word for word in words if not word.startswith("-") and not PROGRAMS.fullmatch(word)]
    return plain_name(PurePath(next(iter([*scripts, *modules, *rest, "job"]))).stem)


def plain_name(text: str) -> str:
    """A text as the name of a plan: a-z, 0-9 and -.

    >>> plain_name("Train_Job 7"), plain_name("---")
    ('train-job-7', 'job')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:MAX_NAME].strip("-") or "job"


def command_plan(
    path: Path, name: str, command: Sequence[str], hours: float, settings: tuple[str, ...], *, region: str | None
) -> str:
    """The plan file of a command with the settings of the command line; `path` is where it will be.

    One node on demand, unless the files of defaults of that folder say otherwise.

    Raises:
        UnreadableInputError: no instance type is given, or a setting is wrong.
    """
    words = list(command)
    defaults = merge_layers(plan_file.default_layers(path), path.parent).data
    target, option = defaults.get("target") or {}, (defaults.get("purchase") or {}).get("option")
    nodes = {} if target.get("nodes") not in OPEN else {"nodes": 1}
    data: dict[str, Any] = {
        "slipway": 1,
        "name": name,
        "workload": {"train": {"hours": hours}},
        "target": {**nodes, **({"region": region} if region else {})},
        **({} if option not in OPEN else {"purchase": {"option": "on-demand"}}),
        "run": {"command": words[0] if len(words) == 1 and " " in words[0] else words},
    }
    layers = [Layer(source="run", folder=Path(), data=data)]
    given, refusals = settings_layer(settings)
    if refusals:
        raise joint_refusal("--set", refusals)
    result = merge_layers([*layers, *([] if given is None else [given])], Path()).data
    if result["target"].get("instance_type", target.get("instance_type")) in OPEN:
        raise UnreadableInputError(
            "no instance type is given",
            hint="add --type TYPE, as --type g6e.xlarge; slipway prices show lists the types",
        )
    return safe_yaml.dumps({key: value for key, value in result.items() if value != {}})


def with_comments(data: Mapping[str, Any], comments: Sequence[str]) -> str:
    """A plan file with lines of comments at its head."""
    return "".join(f"# {line}\n" if line else "#\n" for line in comments) + safe_yaml.dumps(data)
